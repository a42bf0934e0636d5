//! Prompts of exact length: by `/tokenize` where there is one, by usage where there is none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::child::output;

const BENCH: &str = env!("CARGO_BIN_EXE_spark-bench");

/// Runs a matrix of one target against an engine that is started as `start` (a TOML list).
fn matrix(folder: &Path, start: &str, shape: &str) -> (Output, Vec<Value>) {
    let engines = format!(
        "[engine.e]\nversion = [\"echo\", \"e 1\"]\nstart = {start}\n\
         ready = {{ url = \"http://127.0.0.1:{{port}}/health\", deadline = \"300s\" }}\n"
    );
    fs::write(folder.join("engines.toml"), engines).unwrap();
    let config = format!(
        "[target]\nname = \"e\"\nchange = \"\"\nprecision = \"none\"\nmodel = \"m\"\n\
         accept_models = [\"smollm2-135m-instruct-bf16\"]\n\
         base_url = \"http://127.0.0.1:{{port}}/v1\"\n[engine]\nuse = \"e\"\n[workload]\n\
         concurrency = [1, 2]\nrequests = 4\nwarmup = 1\nignore_eos = true\n{shape}\n"
    );
    fs::write(folder.join("e.toml"), config).unwrap();
    let mut command = Command::new(BENCH);
    command.args(["matrix", "e.toml", "--no-self-test", "--out", "results"]);
    let output = output(command.current_dir(folder));
    let mut paths: Vec<_> =
        fs::read_dir(folder.join("results")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    (output, paths.into_iter().map(read).collect())
}

/// The prompt tokens of every request of a file, and its output tokens.
fn tokens(file: &Value) -> Vec<(u64, u64)> {
    let levels = file["levels"].as_array().unwrap();
    let requests = levels.iter().flat_map(|level| level["requests"].as_array().unwrap());
    let of = |request: &Value, key: &str| request[key].as_u64().unwrap();
    requests.map(|request| (of(request, "n_prompt"), of(request, "n_out"))).collect()
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn check(files: &[Value], expected: &[(&str, u64, u64)]) {
    assert_eq!(files.len(), expected.len());
    for &(name, prompt, output) in expected {
        let file = files.iter().find(|file| file["meta"]["prompts"] == name).unwrap();
        assert_eq!(file["levels"].as_array().unwrap().len(), 2, "every level of the ladder");
        let tokens = tokens(file);
        assert_eq!(tokens.len(), 2 * (4 + 1), "{name}");
        assert!(tokens.iter().all(|&pair| pair == (prompt, output)), "{name}: {tokens:?}");
        let flags: Vec<&Value> = file["levels"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|level| level["flags"].as_array().unwrap())
            .map(|flag| &flag["name"])
            .collect();
        for repeated in ["duplicate_prompts", "salted_prompts", "cached_prompts"] {
            assert!(!flags.iter().any(|flag| *flag == repeated), "{name}: {flags:?}");
        }
    }
}

#[test]
fn a_server_without_tokenize_counts_by_the_usage_of_trial_requests() {
    let folder = tempfile::tempdir().unwrap();
    let start = format!(
        "[{BENCH:?}, \"null-engine\", \"--port\", \"{{port}}\", \"--model\", \"m\", \
         \"--ttft-ms\", \"5\", \"--gap-ms\", \"1\", \"--prefill-tps\", \"20000\"]"
    );
    let shape = "shape = { prompt_tokens = [64, 300], output_tokens = [2, 3], depth = [0, 50] }";
    let (output, files) = matrix(folder.path(), &start, shape);
    let expected = [
        ("pp64-tg2-d0", 64, 2),
        ("pp300-tg2-d0", 300, 2),
        ("pp64-tg3-d0", 64, 3),
        ("pp300-tg3-d0", 300, 3),
        ("pp64-tg2-d50", 114, 2),
        ("pp300-tg2-d50", 350, 2),
        ("pp64-tg3-d50", 114, 3),
        ("pp300-tg3-d50", 350, 3),
    ];
    check(&files, &expected);
    let said = said(&output);
    assert!(said.contains("prefill tok/s (TTFT − network − queue)"), "{said}");
}

#[test]
fn a_shape_that_the_template_does_not_leave_room_for_is_a_row_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let start =
        format!("[{BENCH:?}, \"null-engine\", \"--port\", \"{{port}}\", \"--model\", \"m\"]");
    let shape = "shape = { prompt_tokens = [3], output_tokens = [2] }";
    let (output, files) = matrix(folder.path(), &start, shape);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(files[0]["failed"]["text"].as_str().unwrap().contains("at least 5"), "{}", files[0]);
}

#[test]
fn a_shape_beside_prompts_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let work = "prompts = [\"p.jsonl\"]\nshape = { prompt_tokens = [8], output_tokens = [2] }";
    fs::create_dir(folder.path().join("results")).unwrap();
    let (output, files) = matrix(folder.path(), "[\"false\"]", work);
    assert_eq!((output.status.code(), files.len()), (Some(2), 0));
    assert!(said(&output).contains("e.toml:15: "), "{}", said(&output));
}

#[cfg(feature = "llama")]
#[test]
fn the_real_server_counts_by_tokenize_and_its_usage_agrees() {
    let Some(model) = crate::support::model::small_model() else { return };
    let _turn = crate::support::cores::turn();
    let folder = tempfile::tempdir().unwrap();
    let serve = env!("CARGO_BIN_EXE_spark-serve");
    let start = format!(
        "[{serve:?}, \"--gguf\", {model:?}, \"--port\", \"{{port}}\", \"--ctx\", \"512\", \
         \"--threads\", \"1\", \"--threads-batch\", \"1\"]"
    );
    let shape = "shape = { prompt_tokens = [48], output_tokens = [2], depth = [0, 64] }";
    let (_, files) = matrix(folder.path(), &start, shape);
    check(&files, &[("pp48-tg2-d0", 48, 2), ("pp48-tg2-d64", 112, 2)]);
}
