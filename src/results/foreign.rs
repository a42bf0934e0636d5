//! Files of the lesson's own `bench.py`: a reader that asks for no key it can do without.
//!
//! What such a file does not say stays unknown (null, an empty string, 0 requests); nothing is
//! made up, and no figure is computed that its author did not write.

use serde_json::{Map, Value, json};

use super::impossible;
use super::record::ResultsFile;

/// Parses a results file that carries no `schema_version`.
///
/// # Errors
/// In words, if it is no JSON object with `meta` and `levels`, or if a value has a wrong type.
pub fn from_lesson(bytes: &[u8]) -> Result<ResultsFile, String> {
    let mut file: Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let whole = file.as_object_mut().ok_or("no JSON object")?;
    let meta = whole.get_mut("meta").and_then(Value::as_object_mut).ok_or("no object `meta`")?;
    complete_meta(meta);
    let levels =
        whole.get_mut("levels").and_then(Value::as_array_mut).ok_or("no array `levels`")?;
    for (index, level) in levels.iter_mut().enumerate() {
        complete_level(level).ok_or_else(|| format!("levels[{index}]: no object `summary`"))?;
    }
    let file = serde_path_to_error::deserialize(file).map_err(|e| e.to_string())?;
    impossible::of_file(&file)?;
    Ok(file)
}

/// Puts `value` where the key is absent or null.
fn fill(map: &mut Map<String, Value>, key: &str, value: Value) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

fn complete_meta(meta: &mut Map<String, Value>) {
    let texts = ["target", "base_url", "model", "precision", "change", "git_sha", "date"];
    for key in texts.into_iter().chain(["prompts", "client"]) {
        fill(meta, key, json!(""));
    }
    for key in ["max_tokens", "n", "warmup"] {
        fill(meta, key, json!(0));
    }
    fill(meta, "ignore_eos", json!(false));
}

fn complete_level(level: &mut Value) -> Option<()> {
    let level = level.as_object_mut()?;
    fill(level, "requests", json!([]));
    let requests = level.get_mut("requests")?.as_array_mut()?;
    requests.retain(Value::is_object);
    for (index, request) in requests.iter_mut().enumerate() {
        complete_request(request.as_object_mut()?, index);
    }
    let (n, n_ok) = (requests.len(), requests.iter().filter(|r| r["ok"] == json!(true)).count());
    let summary = level.get_mut("summary")?.as_object_mut()?;
    fill(summary, "concurrency", json!(0));
    fill(summary, "n_ok", json!(n_ok));
    let n_ok = summary["n_ok"].clone();
    fill(summary, "n", if n == 0 { n_ok } else { json!(n) });
    let failed =
        summary["n"].as_u64().unwrap_or(0).saturating_sub(summary["n_ok"].as_u64().unwrap_or(0));
    fill(summary, "n_err", json!(failed));
    fill(summary, "wall_s", json!(0.0));
    Some(())
}

fn complete_request(request: &mut Map<String, Value>, index: usize) {
    fill(request, "index", json!(index));
    fill(request, "ok", json!(false));
    fill(request, "n_chunks", json!(0));
    fill(request, "phase", json!("steady"));
    let source = if request.get("n_out").is_some_and(Value::is_u64) { "usage" } else { "unknown" };
    fill(request, "token_source", json!(source));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_a_lesson_file_holds_is_enough() {
        let text = br#"{"meta": {"target": "spark-naive", "n": 200}, "levels": [
            {"summary": {"concurrency": 1, "ttft_p50": 0.12, "n_ok": 2}, "requests": ["..."]},
            {"summary": {"concurrency": 4}, "requests": [
                {"ok": true, "ttft": 1, "e2e": 2.5, "n_out": 9, "decode_tps": null, "n_chunks": 9,
                 "max_gap": 0.1, "error": null},
                {"ok": false, "error": "ReadTimeout"}]}]}"#;
        let file = from_lesson(text).unwrap();
        assert_eq!((file.schema_version, file.meta.n), (0, 200));
        let [one, four] = file.levels.as_slice() else { panic!("two levels") };
        assert_eq!((one.summary.n, one.summary.n_ok), (2, 2));
        assert_eq!(one.summary.metric("ttft").unwrap().p50, Some(0.12));
        assert_eq!((four.summary.n, four.summary.n_ok, four.summary.n_err), (2, 1, 1));
        assert_eq!(four.requests[0].ttft, Some(1.0));
        assert_eq!(four.requests[0].token_source, "usage");
        assert_eq!(four.requests[1].error.as_deref(), Some("ReadTimeout"));
    }

    #[test]
    fn what_is_no_results_file_is_refused_in_words() {
        let check = |text: &str, expect: &str| {
            let error = from_lesson(text.as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check("[]", "no JSON object");
        check(r#"{"meta": {}}"#, "levels");
        check(r#"{"meta": {}, "levels": [{"requests": []}]}"#, "levels[0]");
        check(r#"{"meta": {"n": "many"}, "levels": []}"#, "meta.n");
        let with = |level: &str| format!(r#"{{"meta": {{}}, "levels": [{level}]}}"#);
        check(&with(r#"{"summary": {"n": 2, "n_ok": 3}}"#), "levels[0].summary: n_ok is 3");
        check(
            &with(r#"{"summary": {}, "requests": [{"ok": true, "e2e": -1}]}"#),
            "levels[0].requests[0]: e2e is -1",
        );
    }
}
