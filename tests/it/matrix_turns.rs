//! `matrix --interleave`, `--max-cost`, what a resumed run takes over, what the server itself counts,
//! and the memory that it keeps.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::child::{self, Running};
use crate::support::matrix::{ANY_PORT, BENCH, Bench, GOOD, SHORT, text};
use crate::support::nvml_stub::NvmlStub;
use crate::support::patience::wait_until;
use crate::support::scripted::{ScriptedServer, Step, good_answer};

/// An engine that writes down when it runs, and fails if another one runs meanwhile.
fn alone(bench: &Bench, name: &str) -> String {
    let folder = bench.marker();
    format!(
        "mkdir {folder}/running || exit 9; echo {name} >> {folder}/order; \
         trap 'kill $pid; wait $pid; rmdir {folder}/running; exit 0' TERM; \
         {} & pid=$!; wait $pid",
        GOOD.replace("exec ", "")
    )
}

/// Two passes over two files that share prompts, on a server that runs already.
#[test]
fn a_server_that_is_not_restarted_is_never_sent_a_prompt_twice() {
    let bench = Bench::new();
    let file = |range: std::ops::Range<u32>| -> String {
        range.map(|i| format!("{{\"text\": \"prompt {i}\"}}\n")).collect()
    };
    fs::write(bench.path("one.jsonl"), file(0..4)).unwrap();
    fs::write(bench.path("two.jsonl"), file(10..14)).unwrap();
    fs::write(bench.path("shares.jsonl"), file(3..7)).unwrap();
    let server = ScriptedServer::start(vec![vec![Step::Send(good_answer(2))]]);
    let config = |prompts: &str| {
        let text = format!(
            "[target]\nname = \"r\"\nchange = \"\"\nprecision = \"none\"\nmodel = \"m\"\n\
             base_url = \"{}\"\n[workload]\nprompts = {prompts}\nwarmup = 0\nmax_tokens = 2\n\
             concurrency = [1]\nrequests = 4\nrepeats = 2\n",
            server.url()
        );
        fs::write(bench.path("r.toml"), text).unwrap();
        child::output(bench.matrix(&[bench.path("r.toml")], &[]).current_dir(bench.path("")))
    };
    let said = text(&config("[\"one.jsonl\", \"two.jsonl\"]"));
    let bodies = || -> Vec<String> {
        let requests = server.requests();
        requests
            .iter()
            .filter_map(|whole| Some(whole.split_once("\r\n\r\n")?.1.to_owned()))
            .collect()
    };
    let sent = bodies();
    assert_eq!(sent.len(), 16, "{said}");
    assert_eq!(sent.iter().collect::<HashSet<_>>().len(), 16, "{sent:?}");
    assert_eq!(sent.iter().filter(|body| body.contains("[pass 2]")).count(), 8, "{sent:?}");

    let flags = |file: &Value| file["levels"][0]["flags"].to_string();
    fs::remove_dir_all(bench.path("results")).unwrap();
    config("[\"one.jsonl\", \"shares.jsonl\"]");
    let shared: Vec<bool> =
        bench.results().iter().map(|file| flags(file).contains("duplicate_prompts")).collect();
    // The second file has one of the first one's prompts; two passes salt it alike.
    assert_eq!(shared.iter().filter(|shared| **shared).count(), 2, "{shared:?}");
}

#[test]
fn two_targets_take_turns_and_only_one_server_lives_at_a_time() {
    let bench = Bench::new();
    let a = bench.target("a", &alone(&bench, "a"), "60s");
    let b = bench.target("b", &alone(&bench, "b"), "60s");
    let configs = [a.clone(), b.clone()];
    let output = bench.run(&configs, &["--interleave"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let order = fs::read_to_string(bench.path("order")).unwrap();
    assert_eq!(order.split_whitespace().collect::<String>(), "abba");
    let files = bench.results();
    assert_eq!(files.len(), 2);
    for (file, other) in files.iter().zip(["b", "a"]) {
        assert_eq!(file["meta"]["interleaved_with"], other);
        let levels = file["levels"].as_array().unwrap();
        let concurrency: Vec<u64> =
            levels.iter().map(|level| level["summary"]["concurrency"].as_u64().unwrap()).collect();
        assert_eq!(concurrency, [1, 2]);
        let prompts = |level: &Value| level["requests"][0]["prompt_index"].as_u64().unwrap();
        assert_eq!((prompts(&levels[0]), prompts(&levels[1])), (0, 5), "prompts go on");
    }
    assert_eq!(bench.left_over(), Vec::<String>::new());

    // Nothing of it is measured, or started, again.
    let again = bench.run(&configs, &["--interleave", "--resume"]);
    assert!(text(&again).contains("measured already"), "{}", text(&again));
    assert_eq!(fs::read_to_string(bench.path("order")).unwrap(), order);

    let one = bench.run(std::slice::from_ref(&a), &["--interleave"]);
    assert_eq!(one.status.code(), Some(2), "{}", text(&one));
    let other = fs::read_to_string(&b).unwrap().replace("[1, 2]", "[1, 4]");
    fs::write(&b, other).unwrap();
    let unequal = bench.run(&configs, &["--interleave"]);
    assert!(text(&unequal).contains("their levels differ"), "{}", text(&unequal));
}

#[test]
fn a_target_that_fails_in_its_turn_does_not_keep_the_other_from_its_own() {
    let bench = Bench::new();
    let folder = bench.marker();
    // Its second server does not start.
    let once = format!("mkdir {folder}/once || exit 7; {GOOD}");
    let (a, b) = (bench.target("a", &once, "60s"), bench.target("b", GOOD, "60s"));
    let output = bench.run(&[a, b], &["--interleave"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let files = bench.results();
    let levels = |index: usize| files[index]["levels"].as_array().unwrap().len();
    assert_eq!((levels(0), levels(1)), (1, 2));
    assert_eq!(files[0]["failed"]["reason"], "exited");
    assert_eq!(files[1]["failed"], Value::Null);
}

#[test]
fn the_cost_is_said_before_and_never_passed() {
    let bench = Bench::new();
    let config = bench.target("good", GOOD, "60s");
    // Four output tokens are 4 USD; the prompt's one token is next to nothing, and the 256 and more
    // that it might have had are too.
    let price = "price = { input_per_mtok = 0.001, output_per_mtok = 1000000.0 }\n[engine]";
    let priced = fs::read_to_string(&config).unwrap().replace("[engine]", price);
    fs::write(&config, priced).unwrap();
    let configs = std::slice::from_ref(&config);
    let output = bench.run(configs, &["--max-cost", "22"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("stops before 22.00 USD"), "{said}");
    assert!(said.contains("up to 40 output tokens, 40.00 USD"), "{said}");
    let file = &bench.results()[0];
    assert_eq!(file["skipped"]["reason"], "max_cost");
    let sent = |level: &Value| level["requests"].as_array().unwrap().len();
    let levels = file["levels"].as_array().unwrap();
    assert_eq!((sent(&levels[0]), sent(&levels[1])), (5, 0), "a sixth would make it 24 USD");
    assert_eq!(levels[1]["summary"]["ended_by"], "max_cost");

    // With more money the rest is measured, and only that.
    let output = bench.run(configs, &["--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let files = bench.results();
    let whole = files.iter().find(|file| file["skipped"].is_null()).unwrap();
    assert_eq!(whole["levels"][0]["requests"], levels[0]["requests"]);
    assert_eq!(whole["levels"][1]["summary"]["n_ok"], 4);
}

#[test]
fn a_resumed_run_is_one_row_and_a_second_interruption_loses_nothing() {
    let bench = Bench::new();
    // A warm-up and so many requests a level. The first time the server answers one request of the
    // second level, the second time one of the third; then it says nothing to any worker.
    let answered = |n: usize| vec![vec![Step::Send(good_answer(4))]; n];
    let unanswered = |n: usize| vec![vec![Step::Hang]; n];
    let (first, second) = ((1 + 4) + (1 + 1), (1 + 10) + (1 + 1));
    let scripts =
        [answered(first), unanswered(2), answered(second), unanswered(3), answered(1)].concat();
    let server = ScriptedServer::start(scripts);
    let work = "concurrency = [1, 2, 3]\nrequests = { default = 4, \"2\" = 10, \"3\" = 10 }";
    let config = bench.remote("good", &server.url(), work);
    let configs = std::slice::from_ref(&config);
    let sent = [first + 2, first + 2 + second + 3];
    for (flags, sent) in [&[][..], &["--resume"]].into_iter().zip(sent) {
        let mut harness = Running::start(&mut bench.matrix(configs, flags)).unwrap();
        wait_until("every worker waits", || server.n_requests() >= sent);
        harness.kill();
    }
    // Somebody recovers it by hand first, and keeps notes beside it.
    let results = bench.path("results");
    let journals = fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
    let journal = journals.into_iter().find(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let recovered = child::output(Command::new(BENCH).arg("recover").arg(journal.unwrap()));
    assert!(recovered.status.success(), "{}", text(&recovered));
    fs::write(results.join("notes.json"), "[1]").unwrap();
    let output = bench.run(configs, &["--resume"]);
    fs::remove_file(results.join("notes.json")).unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("taken over from one file") && said.contains("notes.json"), "{said}");
    for place in ["[1/3] good c=1: measured already (", "[2/3] good c=2: ", "[3/3] good c=3 10/10"]
    {
        assert!(said.contains(place), "{place}: {said}");
    }
    let files = bench.results();
    assert_eq!(files.len(), 3);
    let whole = files.iter().find(|file| file["interrupted"].is_null()).unwrap();
    assert_eq!(whole["levels"].as_array().unwrap().len(), 3);
    let second = files
        .iter()
        .find(|file| file["interrupted"] == true && file["meta"]["resumed_from"].is_array());
    let second = second.unwrap();
    assert_eq!(second["levels"][0]["requests"], whole["levels"][0]["requests"]);
    assert_eq!(second["levels"][1]["requests"], whole["levels"][1]["requests"]);
    let board = bench.path("SCOREBOARD.md");
    let mut command = Command::new(BENCH);
    let scoreboard =
        child::output(command.arg("scoreboard").arg("--update").arg(&board).arg(&results));
    assert!(scoreboard.status.success(), "{}", text(&scoreboard));
    let rows = fs::read_to_string(board).unwrap();
    assert_eq!(rows.matches("| good |").count(), 1, "{rows}");
}

#[test]
fn the_servers_own_counters_are_told_apart_over_each_level() {
    let bench = Bench::new();
    let page = |tokens: u32| {
        let body = format!(
            "# TYPE tokens_total counter\ntokens_total {tokens}\n# TYPE slots gauge\nslots 1\n"
        );
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        vec![Step::Send(format!("{head}{body}connection: close\r\n\r\n").into_bytes()), Step::Close]
    };
    // Before and after the first level, then the second, whose server counts anew.
    let pages = ScriptedServer::start(vec![page(100), page(120), page(120), page(3)]);
    let metrics = format!("metrics = \"http://{}/metrics\"", pages.address);
    bench.engine("counts", GOOD, "60s", &metrics);
    bench.engine("silent", GOOD, "60s", "");
    let configs = ["counts", "silent"].map(|name| bench.config(name, ANY_PORT, SHORT));
    let output = bench.run(&configs, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let files = bench.results();
    let metrics = |file: usize, level: usize| &files[file]["levels"][level]["server_metrics"];
    assert_eq!(metrics(0, 0)["counters"], serde_json::json!({"tokens_total": 20.0}));
    assert_eq!(metrics(0, 1)["counters"], Value::Null);
    assert!(metrics(0, 1)["reason"].as_str().unwrap().contains("tokens_total went back"));
    assert_eq!(metrics(1, 0)["counters"], Value::Null);
    assert!(metrics(1, 0)["reason"].as_str().unwrap().contains("names no page of metrics"));
}

#[test]
fn device_memory_that_is_not_given_back_is_flagged() {
    let stub = NvmlStub::new("memory_used 1000000000");
    let bench = Bench::new();
    // It leaves 300 MB more behind than there were.
    let state = stub.path().with_file_name("state");
    let keeps = format!("echo memory_used 1300000000 > {}; {GOOD}", state.display());
    let config = bench.target("keeps", &keeps, "60s");
    let run = |configs: &[std::path::PathBuf]| {
        let mut command = bench.matrix(configs, &[]);
        let output = child::output(command.env("SPARK_NVML_LIB", stub.path()));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    };
    run(&[config]);
    let file = &bench.results()[0];
    for level in file["levels"].as_array().unwrap() {
        let flags = level["flags"].as_array().unwrap();
        let flag = flags.iter().find(|flag| flag["name"] == "memory_not_released").unwrap();
        assert_eq!(flag["numbers"]["bytes"], 300_000_000.0);
        assert_eq!(level["verdict"], "flagged");
    }
    let memory = &file["meta"]["server"]["memory"];
    assert_eq!(memory["before_bytes"], 1_000_000_000);
    assert_eq!(
        (&memory["after_bytes"], &memory["source"]),
        (&1_300_000_000.into(), &"nvml".into())
    );

    let gives = bench.target("gives", GOOD, "60s");
    run(&[gives]);
    let files = bench.results();
    let file = files.iter().find(|file| file["meta"]["target"] == "gives").unwrap();
    assert!(!file["levels"].to_string().contains("memory_not_released"));
}

/// A tokenizer to which each word is a token, or (without a pre-tokenizer) each text.
fn tokenizer(pre_tokenizer: &str) -> String {
    format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": {pre_tokenizer}, "post_processor": null,
            "decoder": null, "model": {{"type": "WordLevel", "vocab": {{"[UNK]": 0}},
            "unk_token": "[UNK]"}}}}"#
    )
}

#[test]
fn prompts_are_compared_with_the_tokenizers_count_and_repetitions_counted_by_level() {
    let bench = Bench::new();
    // Warm-up and first level: different ones, of 1 to 5 words; then two that stood there already.
    let words = |n: usize| vec!["word"; n].join(" ");
    let texts: Vec<String> = [1, 2, 3, 4, 5, 6, 2, 7, 3, 8].map(words).to_vec();
    let lines: String =
        texts.iter().map(|text| serde_json::json!({"text": text}).to_string() + "\n").collect();
    fs::write(bench.path("p.jsonl"), lines).unwrap();
    fs::write(bench.path("right.json"), tokenizer(r#"{"type": "WhitespaceSplit"}"#)).unwrap();
    fs::write(bench.path("wrong.json"), tokenizer("null")).unwrap();
    let mut configs = Vec::new();
    for name in ["right", "wrong"] {
        let config = bench.target(name, GOOD, "60s");
        let path = bench.path(&format!("{name}.json"));
        let text = fs::read_to_string(&config).unwrap();
        let text = text.replace("[engine]", &format!("tokenizer = {path:?}\n[engine]"));
        fs::write(&config, text).unwrap();
        configs.push(config);
    }
    let output = bench.run(&configs, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let files = bench.results();
    let flag = |file: usize, level: usize, name: &str| {
        let flags = files[file]["levels"][level]["flags"].as_array().unwrap();
        flags.iter().find(|flag| flag["name"] == name).map(|flag| flag["numbers"].clone())
    };
    assert_eq!(flag(0, 0, "prompt_mismatch"), None);
    assert!(flag(1, 0, "prompt_mismatch").is_some(), "{}", text(&output));
    assert_eq!(flag(0, 0, "duplicate_prompts"), None);
    assert_eq!(flag(0, 1, "duplicate_prompts").unwrap()["n_requests"], 2.0);
}
