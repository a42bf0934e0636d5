//! The committed configs of providers against servers that speak their formats over TLS: everything
//! that they tell is in the results, and the key is nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::child::{Running, output};
use crate::support::patience::wait_until;
use crate::support::provider::{N_PROMPT, fireworks, openai};
use crate::support::scripted::{Script, ScriptedServer, Step, good_answer};
use crate::support::tls::{TlsServer, Validity};

const BENCH: &str = env!("CARGO_BIN_EXE_spark-bench");
const KEY: &str = "sk-0123456789-very-secret";

/// A folder in which runs write, and what they said on stdout and stderr.
struct Desk {
    folder: tempfile::TempDir,
    said: Vec<String>,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prompts: String =
            (0..100).map(|i| format!("{{\"id\": {i}, \"text\": \"prompt {i}\"}}\n")).collect();
        fs::write(folder.path().join("p.jsonl"), prompts).unwrap();
        Self { folder, said: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(BENCH);
        command.arg(subcommand).arg("--no-self-test").arg("--out").arg(self.path("results"));
        for name in ["FIREWORKS_API_KEY", "OPENAI_API_KEY", "TEST_KEY"] {
            command.env(name, KEY);
        }
        command
    }

    /// Runs to the end; gives the exit code.
    fn finish(&mut self, mut command: Command) -> Option<i32> {
        let Output { status, stdout, stderr } = output(&mut command);
        self.said.extend([stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()));
        status.code()
    }

    /// Measures with a committed config, which is told where the server is and to take few requests.
    fn provider(&mut self, config: &str, url: &str, pem: &Path) -> Value {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs").join(config);
        let line = |line: &str| match line.split('=').next().unwrap().trim() {
            "base_url" => format!("base_url = \"{url}\"\nca_file = {pem:?}"),
            "prompts" => format!("prompts = [{:?}]", self.path("p.jsonl")),
            "concurrency" => "concurrency = [1, 2]\nwarmup = 1".to_owned(),
            "requests" => "requests = 3".to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = fs::read_to_string(committed).unwrap().lines().map(line).collect();
        fs::write(self.path(config), text.join("\n")).unwrap();
        let mut command = self.command("matrix");
        command.arg(self.path(config));
        self.finish(command);
        self.result()
    }

    /// One level of `run` against a URL, with few requests.
    fn run(&mut self, url: &str, more: &[&str]) -> Value {
        self.run_levels(url, "1", more)
    }

    fn run_levels(&mut self, url: &str, levels: &str, more: &[&str]) -> Value {
        let mut command = self.command_for(url, levels);
        command.args(more);
        self.finish(command);
        self.result()
    }

    fn run_command(&self, url: &str) -> Command {
        self.command_for(url, "1")
    }

    fn command_for(&self, url: &str, levels: &str) -> Command {
        let mut command = self.command("run");
        command.args(["--target", "t", "--model", "m", "--precision", "none", "--base-url", url]);
        command.args(["--key-env", "TEST_KEY", "--n", "2", "--warmup", "0"]);
        command.args(["--concurrency", levels]);
        command.args(["--save-text", "--save-gaps", "--save-series", "--prompts"]);
        command.arg(self.path("p.jsonl"));
        command
    }

    /// The newest results file, which is taken out of the folder's sight.
    fn result(&self) -> Value {
        let results =
            fs::read_dir(self.path("results")).unwrap().map(|entry| entry.unwrap().path());
        let mut json = results.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
        let path = json.next().unwrap_or_else(|| panic!("no results: {:?}", self.said));
        let value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        fs::rename(&path, path.with_extension("seen")).unwrap();
        value
    }

    /// Everything that was written, by where it stands.
    fn written(&self) -> Vec<(String, String)> {
        let said = self.said.iter().map(|said| ("stdout or stderr".to_owned(), said.clone()));
        let files = fs::read_dir(self.path("results")).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            (path.display().to_string(), text)
        });
        said.chain(files).collect()
    }
}

fn requests(file: &Value) -> Vec<&Value> {
    let levels = file["levels"].as_array().unwrap();
    levels.iter().flat_map(|level| level["requests"].as_array().unwrap()).collect()
}

/// Class and message of a file's first failed request.
fn failure(file: &Value) -> (String, String) {
    let failed = requests(file).into_iter().find(|request| request["ok"] == false);
    let failed = failed.unwrap_or_else(|| panic!("nothing failed: {file:.300}"));
    let text = |key: &str| failed[key].as_str().unwrap_or_default().to_owned();
    (text("error_class"), text("error"))
}

#[test]
fn everything_that_fireworks_tells_is_in_the_results() {
    let mut desk = Desk::new();
    let model = "accounts/fireworks/models/llama-v3p1-8b-instruct";
    let scripts = vec![
        fireworks::good(model, 256),
        fireworks::good(model, 256),
        fireworks::throttled(Some("0")),
        fireworks::good(model, 256),
    ];
    let server = TlsServer::start(desk.folder.path(), "localhost", Validity::Now, scripts);
    let file = desk.provider("fireworks.toml", &server.url(), &server.pem);

    let ok: Vec<&Value> = requests(&file).into_iter().filter(|r| r["ok"] == true).collect();
    assert_eq!(ok.len(), 8, "{:?}", desk.said);
    for request in &ok {
        let counts = ["n_prompt", "n_out", "n_cached"].map(|key| request[key].as_u64().unwrap());
        assert_eq!(counts, [N_PROMPT, 256, 7]);
        assert_eq!(
            (&request["token_source"], &request["finish_reason"]),
            (&"usage".into(), &"length".into())
        );
        assert_eq!(request["server"]["source"], "perf_metrics");
        assert_eq!(request["server"]["prefill_s"], 2e-6);
    }
    let (class, message) = failure(&file);
    assert_eq!(class, "http_429");
    assert!(message.contains("over the adaptive limit"), "{message}");
    let headers = &file["meta"]["server"]["headers"];
    assert_eq!(headers["x-ratelimit-limit-tokens-generated"], "600");
    assert_eq!(headers["x-ratelimit-over-limit"], "no", "of a good answer where there is one");
    assert_eq!(headers["fireworks-deployment"], "accounts/fireworks/deployments/3a9b");

    let bodies: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect();
    let keys: BTreeSet<&str> =
        bodies.iter().map(|body| body["prompt_cache_isolation_key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), bodies.len(), "each request has a key of its own");
    assert!(keys.iter().all(|key| uuid::Uuid::parse_str(key).is_ok()), "{keys:?}");
    assert!(bodies.iter().all(|body| body["perf_metrics_in_response"] == true));
    assert!(server.requests()[0].contains(&format!("Bearer {KEY}")));
    for (place, text) in desk.written() {
        assert!(!text.contains(KEY), "the key stands in {place}");
    }
}

#[test]
fn everything_that_openai_tells_is_in_the_results() {
    let mut desk = Desk::new();
    let dated = "gpt-4.1-nano-2025-04-14";
    let scripts = vec![openai::good(dated, 256), openai::throttled("0"), openai::good(dated, 256)];
    let server = TlsServer::start(desk.folder.path(), "localhost", Validity::Now, scripts);
    let file = desk.provider("openai.toml", &server.url(), &server.pem);

    let ok: Vec<&Value> = requests(&file).into_iter().filter(|r| r["ok"] == true).collect();
    assert_eq!(ok.len(), 8, "{:?}", desk.said);
    assert!(
        ok.iter().all(|r| r["n_out"] == 256 && r["n_prompt"] == N_PROMPT && r["n_cached"] == 0)
    );
    assert_eq!(failure(&file).0, "http_429");
    let flags = file["levels"].to_string();
    assert!(!flags.contains("wrong_model"), "the dated name is accepted");
    let headers = &file["meta"]["server"]["headers"];
    assert_eq!(headers["x-ratelimit-limit-tokens"], "200000");
    assert_eq!(headers["openai-processing-ms"], "211");
    let request = &server.requests()[0];
    assert!(request.contains("\"max_completion_tokens\":256"), "{request}");
    assert!(!request.contains("\"max_tokens\""), "{request}");
}

#[test]
fn each_way_to_be_refused_has_its_class_and_its_message_and_no_key_is_written() {
    let mut desk = Desk::new();
    let one = |script: Script| ScriptedServer::start(vec![script]);

    for (server, message) in [
        (one(fireworks::unauthorized(KEY)), "The API key [redacted] is invalid"),
        (one(openai::unauthorized(KEY)), "Incorrect API key provided: [redacted]"),
    ] {
        let file = desk.run(&server.url(), &["--max-attempts", "2"]);
        let (class, said) = failure(&file);
        assert_eq!(class, "http_401");
        assert!(said.contains(message), "{said}");
        assert_eq!(file["levels"][0]["verdict"], "invalid");
    }

    let expired = TlsServer::start(
        desk.folder.path(),
        "localhost",
        Validity::Past,
        vec![vec![Step::Send(good_answer(2))]],
    );
    let pem = expired.pem.to_str().unwrap().to_owned();
    let file = desk.run(&expired.url(), &["--max-attempts", "2", "--ca-file", &pem]);
    let (class, said) = failure(&file);
    assert_eq!(class, "tls");
    assert!(said.to_lowercase().contains("expired"), "{said}");

    // No part of a name is as long, so that no server is asked for it.
    let nowhere = "n".repeat(64);
    let file = desk.run(&format!("http://{nowhere}/v1"), &["--max-attempts", "2"]);
    let (class, said) = failure(&file);
    assert_eq!(class, "connect");
    assert!(said.contains(&format!("resolve {nowhere}")), "{said}");

    // A text that says the key back, and a model that is called like it.
    let echo = one(fireworks::good(KEY, 4));
    let file = desk.run(&echo.url(), &[]);
    assert!(file["levels"][0]["flags"].to_string().contains("answered by \\\"[redacted]\\\""));

    // A harness that is killed leaves its journal.
    let hang = ScriptedServer::start(vec![fireworks::unauthorized(KEY), vec![Step::Hang]]);
    let mut killed = Running::start(&mut desk.run_command(&hang.url())).unwrap();
    wait_until("the second request is under way", || hang.n_requests() >= 2);
    killed.kill();
    desk.said.extend(killed.said().map(|said| String::from_utf8_lossy(&said).into_owned()));

    let written = desk.written();
    assert!(
        written.iter().any(|(place, text)| {
            place.ends_with(".journal.jsonl") && text.contains("[redacted]")
        })
    );
    for (place, text) in written {
        assert!(!text.contains(KEY), "the key stands in {place}");
    }
}

#[test]
fn a_refusal_that_more_requests_do_not_change_ends_the_ladder() {
    let mut desk = Desk::new();
    let n_levels = |file: &Value| file["levels"].as_array().unwrap().len();
    let wrong_key = ScriptedServer::start(vec![fireworks::unauthorized(KEY)]);
    let file = desk.run_levels(&wrong_key.url(), "1,2,4", &["--max-attempts", "2"]);
    assert_eq!((n_levels(&file), wrong_key.n_requests()), (1, 2));
    assert_eq!(file["skipped"]["reason"], "refused", "why there are no others");
    let said = desk.said.concat();
    assert!(said.contains("every request of a level ended as http_401"), "{said}");
    assert!(said.contains("hint: ") && said.contains("another one than it got"), "{said}");
    // One that passes by itself does not.
    let busy = ScriptedServer::start(vec![fireworks::throttled(Some("0"))]);
    let file = desk.run_levels(&busy.url(), "1,2", &["--max-attempts", "2"]);
    assert_eq!((n_levels(&file), file.get("skipped")), (2, None));
}

#[test]
fn a_proxy_in_the_environment_is_ignored() {
    let mut desk = Desk::new();
    let server = ScriptedServer::start(vec![vec![Step::Send(good_answer(2))]]);
    let proxy = ScriptedServer::start(vec![vec![Step::Close]]);
    let mut command = desk.run_command(&server.url());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    {
        command.env(name, format!("http://{}", proxy.address));
    }
    assert_eq!(desk.finish(command), Some(0), "{:?}", desk.said);
    assert_eq!(desk.result()["levels"][0]["summary"]["n_ok"], 2);
    assert_eq!(proxy.n_connections(), 0);
}

#[test]
fn a_storm_of_429s_ends_at_the_cap_and_keeps_the_limits() {
    let mut desk = Desk::new();
    for (retry_after, pauses) in [(Some("0"), false), (None, true)] {
        let server = ScriptedServer::start(vec![fireworks::throttled(retry_after)]);
        let file = desk.run(&server.url(), &["--max-attempts", "3"]);
        let level = &file["levels"][0];
        assert_eq!(level["summary"]["ended_by"], "max_attempts");
        assert_eq!(level["summary"]["errors"], serde_json::json!({"http_429": 3}));
        assert_eq!(level["summary"]["n_ok"], 0);
        assert_eq!(level["summary"]["throughput_tps"], 0.0);
        assert_eq!(level["summary"]["ttft_p50"], Value::Null);
        assert_eq!(level["verdict"], "invalid");
        assert_eq!(file["meta"]["server"]["headers"]["x-ratelimit-over-limit"], "yes");
        let first = requests(&file)[0];
        let notes = first["notes"].to_string();
        assert_eq!(notes.contains("paused for 1s: no Retry-After"), pauses, "{notes}");
        let waited = if pauses { Value::Null } else { 0.0.into() };
        assert_eq!(first["retry_after_s"], waited);
        assert_eq!(first["pause_s"], f64::from(u8::from(pauses)));
    }
}
