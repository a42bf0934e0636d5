//! The published form of a results file: what is written keeps to it, what was written long ago
//! can still be read.

use std::path::{Path, PathBuf};

use super::support::golden;
use super::support::synthetic::{Machine, Scenario};
use serde_json::Value;
use spark::results::record::{Reason, ResultsFile};
use spark::results::{schema, scoreboard, store};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn data(name: &str) -> PathBuf {
    root().join("tests/data").join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// What a file does not keep to in the published schema.
fn breaches(file: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&schema::results_schema()).unwrap();
    validator.iter_errors(file).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_committed_schema_and_key_reference_are_those_of_the_types() {
    let schema = serde_json::to_string_pretty(&schema::results_schema()).unwrap();
    golden::check("docs/results.schema.json", &format!("{schema}\n"));
    let document = std::fs::read_to_string(root().join("docs/results-schema.md")).unwrap();
    let keys = schema::key_reference();
    golden::check("docs/results-schema.md", &golden::splice(&document, "keys", &keys));
}

#[test]
fn every_kind_of_file_that_is_written_keeps_to_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let machines = [Machine::DiscreteGpu, Machine::Gb10, Machine::CpuOnly, Machine::Remote];
    let mut files: Vec<ResultsFile> = machines
        .into_iter()
        .map(|machine| Scenario { machine, failures: 0.1, ..Scenario::desk() }.results())
        .chain([Scenario::cloud().results()])
        .collect();
    let mut failed = ResultsFile::new(files[0].meta.clone());
    failed.failed = Some(Reason { reason: "not_ready".into(), text: "exited with 1".into() });
    failed.engine_log_tail = Some(vec!["out of memory".into()]);
    failed.interrupted = true;
    files.push(failed);
    for file in files {
        let path = store::write_new(dir.path(), &file).unwrap();
        assert_eq!(breaches(&json(&path)), Vec::<String>::new());
        assert_eq!(store::read(&path).unwrap(), file, "what was written reads back the same");
    }
}

#[test]
fn the_schema_refuses_a_missing_key_and_a_wrong_type() {
    let file = serde_json::to_value(Scenario::desk().results()).unwrap();
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut file = file.clone();
        change(&mut file);
        !breaches(&file).is_empty()
    };
    assert!(!broken(&|_| ()));
    assert!(broken(&|file| {
        file["meta"].as_object_mut().unwrap().remove("target");
    }));
    assert!(broken(&|file| file["levels"][0]["summary"]["ttft_p50"] = "fast".into()));
    assert!(broken(&|file| file["levels"][0]["verdict"] = "perhaps".into()));
}

#[test]
fn committed_results_keep_to_the_schema() {
    let results = root().join("results");
    let runs = if results.is_dir() {
        store::read_folder(&results, store::Part::Summaries).unwrap()
    } else {
        Vec::new()
    };
    for run in runs.iter().filter(|run| run.file.schema_version > 0) {
        assert_eq!(breaches(&json(&run.path)), Vec::<String>::new(), "{}", run.path.display());
    }
}

#[test]
fn a_file_of_this_schema_version_is_read_without_a_loss() {
    let path = data("results-v1.json");
    let file = store::read(&path).unwrap();
    assert_eq!(file.schema_version, 1);
    // Keys that later versions add may appear; none of the old ones may be lost or changed.
    let (old, new) = (json(&path), serde_json::to_value(&file).unwrap());
    assert_eq!(lost(&old, &new, "$"), Vec::<String>::new());
}

/// Places where `new` does not say what `old` said.
fn lost(old: &Value, new: &Value, place: &str) -> Vec<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old
            .iter()
            .flat_map(|(key, value)| {
                let place = format!("{place}.{key}");
                new.get(key).map_or(vec![place.clone()], |new| lost(value, new, &place))
            })
            .collect(),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.iter().zip(new).enumerate();
            pairs.flat_map(|(i, (old, new))| lost(old, new, &format!("{place}[{i}]"))).collect()
        }
        _ if old == new => Vec::new(),
        _ => vec![format!("{place}: {old} became {new}")],
    }
}

#[test]
fn a_file_of_the_lesson_gives_the_row_that_its_own_reader_printed() {
    let file = store::read(&data("results-lesson.json")).unwrap();
    let row = scoreboard::Row::of(&file).markdown();
    assert_eq!(
        row,
        "| 2026-10-20 | spark-naive | baseline: HF generate, 1 at a time | 147 / 169 | 13.2 | \
         12.9 | bf16, n=200, sha 3f2c9e1, client spark |"
    );
    assert_eq!(file.levels.len(), 3);
    let table = scoreboard::levels_table(&file);
    assert!(table.contains("n<100"), "the level with 40 requests: {table}");
}
