//! A server that answers with another model than the one it was asked for: it is said with the
//! first answer, not after the level.

use std::process::Command;

use crate::support::child;
use crate::support::matrix::{ANY_PORT, BENCH, Bench, GOOD, SHORT, text};
use crate::support::scripted::{LAST_CHUNK, STREAM_HEAD, ScriptedServer, Step, chunk};

const OTHER: &str = "asked for the model \"m\", answered by \"other\"";

/// A whole answer of one token by the model "other".
fn answer_of_another() -> Vec<u8> {
    let event = "data: {\"model\": \"other\", \"choices\": [{\"delta\": {\"content\": \"x\"}, \
                 \"finish_reason\": \"length\"}], \"usage\": {\"prompt_tokens\": 1, \
                 \"completion_tokens\": 1}}\n\n";
    let (event, done) = (chunk(event), chunk("data: [DONE]\n\n"));
    format!("{STREAM_HEAD}{event}{done}{LAST_CHUNK}").into_bytes()
}

#[test]
fn a_running_server_is_warned_of_at_once_and_flagged_at_each_level() {
    let bench = Bench::new();
    let server = ScriptedServer::start(vec![vec![Step::Send(answer_of_another())]]);
    let run = |more: &[&str]| {
        let mut command = Command::new(BENCH);
        command.args(["run", "--target", "t", "--model", "m", "--precision", "none"]);
        command.args(["--base-url", &server.url(), "--no-self-test", "--concurrency", "1,2"]);
        command.args(["--n", "3", "--warmup", "1", "--max-tokens", "1"]).args(more);
        command.arg("--prompts").arg(bench.path("p.jsonl")).arg("--out").arg(bench.path("results"));
        child::output(&mut command)
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches(OTHER).count(), 1, "{said}");
    let (warned, measured) = (said.find(OTHER), said.find("t c=1 3/3"));
    assert!(warned.unwrap() < measured.unwrap(), "{said}");
    assert!(said.contains("--accept-model"), "{said}");
    let last = said.lines().find(|line| line.contains("t c=2 3/3")).unwrap();
    assert!(last.contains("INVALID: ") && last.contains("wrong_model"), "{said}");

    let accepted = run(&["--accept-model", "other"]);
    assert_eq!(accepted.status.code(), Some(0), "{}", text(&accepted));
    assert!(!text(&accepted).contains("answered by"), "{}", text(&accepted));
}

#[test]
fn a_server_of_ours_is_not_measured_at_all() {
    let bench = Bench::new();
    // Its engine's entry names no list of models, so that only the answers tell.
    let config = bench.target("other", &GOOD.replace("--model m", "--model other"), "60s");
    let output = bench.run(std::slice::from_ref(&config), &[]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    let file = &bench.results()[0];
    assert_eq!(file["failed"]["reason"], "wrong_model");
    assert!(file["failed"]["text"].as_str().unwrap().contains(OTHER), "{}", file["failed"]);
    assert_eq!(file["levels"].as_array().unwrap().len(), 0);
    assert_eq!(bench.left_over(), Vec::<String>::new());

    let check = child::output(Command::new(BENCH).arg("check").arg(&config));
    assert_eq!(check.status.code(), Some(4), "{}", text(&check));
    assert!(text(&check).contains("other: failed: "), "{}", text(&check));

    let dated = bench.config("dated", ANY_PORT, SHORT);
    let script = GOOD.replace("--model m", "--model m-2026");
    bench.engine("dated", &script, "60s", "");
    let accepting = std::fs::read_to_string(&dated)
        .unwrap()
        .replace("model = \"m\"\n", "model = \"m\"\naccept_models = [\"m-2026\"]\n");
    std::fs::write(&dated, accepting).unwrap();
    let output = bench.run(&[dated], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}
