//! The commands that answer questions from results files: predict, compare, plan, cost.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use spark::analyse::explorer::{Ask, breakdown};
use spark::report::rates;
use spark::results::brief::Gaps;
use spark::results::store;

use crate::support::child::output;
use crate::support::synthetic::Scenario;

fn spark_bench(args: &[&str], dir: &Path) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_spark-bench")).args(args).current_dir(dir))
}

/// The JSON that a command answers, which must end well.
fn answered(args: &[&str], dir: &Path) -> Value {
    let output = spark_bench(args, dir);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes the scenario's results file as `name`.
fn write(dir: &Path, name: &str, scenario: &Scenario) {
    let mut file = scenario.results();
    file.meta.facts.insert("hardware".into(), json!({"bandwidth_gb_s": 273}));
    let model = json!({
        "n_params": 8_030_261_248u64,
        "weight_bytes": 16_060_522_496u64,
        "bytes_read_per_token": 15_009_857_536u64,
        "kv_bytes_per_token": 131_072,
    });
    file.meta.facts.insert("model".into(), model);
    let path = store::write_new(dir, &file).unwrap();
    std::fs::rename(path, dir.join(name)).unwrap();
}

#[test]
fn predict_gives_the_ceilings_and_littles_law() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "desk.json", &Scenario::desk());
    let all = answered(&["predict", "desk.json", "--measured-gb-s", "231", "--json"], dir.path());
    let run = &all["runs"][0];
    let tps = |index: usize| run["ceilings"][index]["tps"].as_f64().unwrap();
    assert!((tps(0) - 273e9 / 16_060_522_496.0).abs() < 1e-9);
    assert!(tps(1) > 18.1 && tps(1) < 18.188, "streamed bytes allow more: {}", tps(1));
    assert!((tps(2) / tps(1) - 231.0 / 273.0).abs() < 1e-9);
    let little = &run["littles_law"][1];
    assert_eq!(little["concurrency"], 16);
    assert!((little["serialness"].as_f64().unwrap() - 1.0).abs() < 0.03, "{little}");
    let ends = |key: &str| [0, 1].map(|end| little[key][end].as_f64().unwrap());
    let [low, high] = ends("e2e_ratio_interval_95");
    assert!(low < 1.0 && 1.0 < high && high - low < 0.2, "{little}");
    assert_eq!(little["is_serial_wait"], true);
    let [low, high] = ends("e2e_mean_interval_95_s");
    let mean = little["e2e_mean_s"].as_f64().unwrap();
    assert!(0.0 < low && low < mean && mean < high, "{little}");
    let text = spark_bench(&["predict", "desk.json"], dir.path());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("one at a time"), "{text}");
    assert!(text.contains("; consistent with Little's law: 16×)"), "{text}");
}

#[test]
fn compare_says_whether_anything_changed() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Scenario::desk();
    write(dir.path(), "before.json", &desk);
    write(dir.path(), "again.json", &Scenario { seed: 11, ..desk.clone() });
    let slower = Scenario { seed: 12, decode_tps: desk.decode_tps * 0.9, change: "slower", ..desk };
    write(dir.path(), "slower.json", &slower);

    let same = answered(
        &["compare", "before.json", "again.json", "--fail-if-slower", "5%", "--json"],
        dir.path(),
    );
    assert_eq!(same["slower"], json!([]));

    let output = spark_bench(
        &["compare", "before.json", "slower.json", "--fail-if-slower", "5%"],
        dir.path(),
    );
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("differs: change"), "{text}");
    assert!(text.contains("c=1 decode_tps"), "{text}");
    let allowed = spark_bench(
        &["compare", "before.json", "slower.json", "--fail-if-slower", "30%"],
        dir.path(),
    );
    assert_eq!(allowed.status.code(), Some(0));
    let all = answered(&["compare", "before.json", "slower.json", "--json"], dir.path());
    for row in all["rows"].as_array().unwrap() {
        let decided = match row["interval_99"].as_array() {
            None => "no verdict",
            Some(ends) if ends[0].as_f64() < Some(1.0) && ends[1].as_f64() > Some(1.0) => {
                "no significant change"
            }
            Some(_) => "better or worse",
        };
        let said = row["verdict"].as_str().unwrap();
        assert!(decided.contains(said), "{row}");
    }
    let missing = spark_bench(&["compare", "before.json", "nothing.json"], dir.path());
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn compare_calls_no_change_of_work_a_change_of_speed() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Scenario::desk();
    write(dir.path(), "long.json", &desk);
    write(
        dir.path(),
        "short.json",
        &Scenario { max_tokens: desk.max_tokens / 2, seed: 11, ..desk },
    );
    let compare = ["compare", "long.json", "short.json"];
    let text = String::from_utf8(spark_bench(&compare, dir.path()).stdout).unwrap();
    let first = text.lines().find(|line| line.starts_with("differs")).unwrap();
    assert!(first.contains("max_tokens") && first.contains("no verdict"), "{text}");
    let all = answered(&[&compare[..], &["--json"]].concat(), dir.path());
    for row in all["rows"].as_array().unwrap() {
        let depends = row["figure"] != "ttft" || row["concurrency"] != 1;
        assert_eq!(row["verdict"] == "no verdict", depends, "{row}");
        assert_eq!(row["why_no_verdict"] == "other max_tokens", depends, "{row}");
    }
    // Half as long an answer is half as long under way: a pass would be a lie, and so would a fail.
    let gate = spark_bench(&[&compare[..], &["--fail-if-slower", "5%"]].concat(), dir.path());
    assert_eq!(gate.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&gate.stdout).contains("Cannot be decided"));
}

#[test]
fn cost_takes_its_prices_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "desk.json", &Scenario::desk());
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/costs/spark-or-api.toml");
    let config = shipped.to_str().unwrap();
    let all = answered(&["cost", "--config", config, "desk.json", "--json"], dir.path());
    let answer = &all["answers"][0];
    assert_eq!(answer["break_even"], "never", "a serial box at 17 tokens per second: {answer}");
    assert!((answer["amortisation_per_month"].as_f64().unwrap() - 88.861).abs() < 0.001);
    assert_eq!(answer["own_per_mtok_ci_95"], Value::Null, "no part of c = 16 is a request long");

    let warnings = answer["warnings"].as_array().unwrap();
    let about = ["measured on NVIDIA H100", "drew 364 W, over"];
    assert_eq!(warnings.len(), about.len(), "its weights are those: {answer}");
    for (warning, about) in warnings.iter().zip(about) {
        assert!(warning.as_str().unwrap().contains(about), "{warning}");
    }
    write(dir.path(), "alone.json", &Scenario { levels: vec![1], ..Scenario::desk() });
    let alone = answered(&["cost", "--config", config, "alone.json", "--json"], dir.path());
    let alone = &alone["answers"][0];
    for (figure, interval) in [
        ("own_per_mtok", "own_per_mtok_ci_95"),
        ("break_even_utilisation", "break_even_utilisation_ci_95"),
    ] {
        let [low, value, high] =
            [&alone[interval][0], &alone[figure], &alone[interval][1]].map(|v| v.as_f64());
        assert!(low < value && value < high && low.is_some(), "{figure}: {alone}");
    }

    let said = spark_bench(&["cost", "--config", config, "desk.json"], dir.path());
    assert!(String::from_utf8_lossy(&said.stdout).contains("  warning: measured on"));

    let lesson = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results-lesson.json");
    let lesson = ["cost", "--config", config, lesson.to_str().unwrap(), "--json"];
    let lesson = &answered(&lesson, dir.path())["answers"][0];
    assert_eq!(lesson["api_per_mtok"], 0.2, "its requests know their output tokens: {lesson}");
    assert_eq!(lesson["own_per_mtok_ci_95"], Value::Null, "its throughput has no interval");
    let said = lesson["warnings"].to_string();
    assert!(said.contains("on which machine") && said.contains("no prompt tokens"), "{said}");

    let text = std::fs::read_to_string(&shipped).unwrap();
    std::fs::write(dir.path().join("bad.toml"), text.replace("0.25 ", "1.5 ")).unwrap();
    let refused = spark_bench(&["cost", "--config", "bad.toml", "desk.json"], dir.path());
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("bad.toml:") && said.contains("utilisation"), "{said}");
    let refused = spark_bench(&["cost", "--config", "desk.json", "desk.json"], dir.path());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("desk.json: is JSON"));
}

#[test]
fn plan_says_what_n_can_say_and_a_pilot_adds_hours() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "pilot.json", &Scenario::desk());
    let config = "[target]\nname = \"desk\"\nchange = \"\"\nprecision = \"bf16\"\n\
                  base_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\
                  [workload]\nconcurrency = [1, 16]\nrequests = 200\n";
    std::fs::write(dir.path().join("desk.toml"), config).unwrap();
    let bare = answered(&["plan", "desk.toml", "--json"], dir.path());
    assert_eq!(bare[0]["levels"][1]["bounded_percentile"], 95.0);
    assert_eq!(bare[0]["levels"][1]["bounded_percentile_serial"], 50.0);
    assert_eq!(bare[0]["levels"][1]["forecast"], Value::Null);
    let args = ["plan", "desk.toml", "--pilot", "pilot.json", "--json"];
    let with_pilot = answered(&args, dir.path());
    let forecast = &with_pilot[0]["levels"][1]["forecast"];
    assert!(forecast["time_s"].as_f64().unwrap() > 200.0, "{forecast}");
    let p99 = &forecast["wanted"][2]["requests"];
    assert!(p99.as_f64().unwrap() >= 368.0 * 16.0, "c requests are worth one: {p99}");
    let asked = [&args[..], &["--precision", "2%", "--percentile", "90"]].concat();
    let wanted = &answered(&asked, dir.path())[0]["levels"][1]["forecast"]["wanted"];
    assert_eq!(wanted.as_array().unwrap().len(), 1);
    assert_eq!((&wanted[0]["percentile"], &wanted[0]["precision"]), (&json!(90.0), &json!(0.02)));
}

#[test]
fn a_config_says_what_results_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = store::write_new(dir.path(), &Scenario::desk().results()).unwrap();
    std::fs::rename(path, dir.path().join("desk.json")).unwrap();
    let config = |name: &str| {
        format!(
            "[target]\nname = \"{name}\"\nchange = \"\"\nprecision = \"bf16\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:8000/v1\"\n[model]\nweight_bytes = 1000000000\n\
             [hardware]\nbandwidth_gb_s = 50.0\n"
        )
    };
    std::fs::write(dir.path().join("desk.toml"), config(Scenario::desk().target)).unwrap();
    std::fs::write(dir.path().join("other.toml"), config("other")).unwrap();
    let without = answered(&["predict", "desk.json", "--json"], dir.path());
    let known = without["runs"][0]["ceilings"].as_array().unwrap().len();
    let with = ["predict", "desk.json", "--config", "desk.toml", "--json"];
    let run = &answered(&with, dir.path())["runs"][0];
    assert!(run["ceilings"].as_array().unwrap().len() > known, "{run}");
    assert!(run["from_config"][0].as_str().unwrap().contains("bandwidth_gb_s"), "{run}");
    let other = spark_bench(&["predict", "desk.json", "--config", "other.toml"], dir.path());
    let said = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(said.contains("other.toml: no run is of its target other"), "{said}");
}

#[test]
fn compare_takes_a_folder_in_which_one_run_can_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Scenario::desk();
    for folder in ["before", "after"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    write(&dir.path().join("before"), "desk.json", &desk);
    write(&dir.path().join("before"), "cloud.json", &Scenario::cloud());
    write(&dir.path().join("after"), "desk.json", &Scenario { seed: 11, ..desk.clone() });
    let all = answered(&["compare", "before", "after", "--json"], dir.path());
    assert_eq!(all["a"]["target"], all["b"]["target"], "{all}");
    assert!(all["notes"][0].as_str().unwrap().contains("desk.json of before"), "{all}");
    write(&dir.path().join("before"), "again.json", &Scenario { seed: 12, ..desk });
    let unclear = spark_bench(&["compare", "before", "after"], dir.path());
    let said = String::from_utf8(unclear.stderr).unwrap();
    assert_eq!(unclear.status.code(), Some(2));
    assert!(said.contains("name two files") && said.contains("again.json"), "{said}");
}

#[test]
fn a_file_of_another_kind_is_told_by_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "desk.json", &Scenario::desk());
    std::fs::write(dir.path().join("mine.toml"), "[engine.e]\nstart = [\"e\"]\n").unwrap();
    std::fs::write(dir.path().join("engines.toml"), "[engine.e]\nstart = [\"e\"]\n").unwrap();
    std::fs::write(dir.path().join("target.toml"), "[target]\nname = \"\"\n").unwrap();
    for (args, expected) in [
        (&["plan", "mine.toml"][..], "mine.toml: is an engines file"),
        (&["plan", "desk.json"], "is JSON"),
        (&["plan", "."], "is a folder"),
        (&["plan", "target.toml"], "target.toml:2: target.name is empty"),
        (&["matrix", "engines.toml", "--dry-run"], "name a target's config beside it"),
        (&["matrix", "desk.toml", "--engines", "target.toml"], "wanted is an engines file"),
        (&["predict", "mine.toml"], "it is TOML"),
        (&["run", "--max-cost", "abc"], "must be a number over 0"),
    ] {
        let output = spark_bench(args, dir.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn predict_says_what_the_explorer_says() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "desk.json", &Scenario::desk());
    write(dir.path(), "cloud.json", &Scenario::cloud());
    let files = ["predict", "desk.json", "cloud.json", "--json"];
    let asked = ["--prompt", "4096", "--output", "32", "--concurrency", "16", "--rtt-ms", "45"];
    let all = answered(&[&files[..], &asked, &["--first-call"]].concat(), dir.path());
    let stored = |name: &str| store::StoredRun {
        path: name.into(),
        file: store::read_brief(&dir.path().join(name), Gaps::Drop).unwrap(),
    };
    let runs = ["desk.json", "cloud.json"].map(stored);
    let targets = rates::targets(&runs.iter().collect::<Vec<_>>());
    let ask =
        Ask { prompt: 4096.0, output: 32.0, rtt_s: 0.045, concurrency: 16.0, handshakes: 1.0 };
    assert_eq!(targets.len(), 2);
    for (said, target) in all["request"]["targets"].as_array().unwrap().iter().zip(&targets) {
        let parts = breakdown(&target.rates, &ask);
        assert_eq!(said["target"], target.name.as_str());
        for (key, expected) in [("ttft_s", parts.ttft_s()), ("total_s", parts.total_s())] {
            let shown = said[key].as_f64().unwrap();
            assert!((shown / expected - 1.0).abs() < 1e-9, "{key}: {shown} {expected}");
        }
    }
    let text = spark_bench(&["predict", "desk.json"], dir.path());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("512 prompt and 256 output tokens, 1 in flight"), "{text}");
}

/// A results file in which the server says that each text has so many tokens.
fn write_texts(dir: &Path, answers: &[(&str, u64)]) {
    let n = u32::try_from(answers.len()).unwrap();
    let mut file = Scenario { n, levels: vec![1], ..Scenario::desk() }.results();
    let measured = file.levels[0].requests.iter_mut().filter(|request| request.phase != "warmup");
    for (request, (text, tokens)) in measured.zip(answers) {
        (request.text, request.n_out) = (Some((*text).to_owned()), Some(*tokens));
        (request.ok, request.token_source) = (true, "usage".to_owned());
    }
    let path = store::write_new(dir, &file).unwrap();
    std::fs::rename(path, dir.join("texts.json")).unwrap();
}

/// Every word of "a b c" is a token, and anything else one unknown one.
const WORDS: &str = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
    "decoder": null, "model": {"type": "WordLevel", "unk_token": "?",
    "vocab": {"?": 0, "a": 1, "b": 2, "c": 3}}}"#;

#[test]
fn verify_tokens_counts_again() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "desk.json", &Scenario::desk());
    std::fs::write(dir.path().join("words.json"), WORDS).unwrap();
    let verify = ["verify-tokens", "--tokenizer", "words.json", "--json"];
    let no_texts = spark_bench(&[&verify[..], &["desk.json"]].concat(), dir.path());
    assert_eq!(no_texts.status.code(), Some(2));
    let no_file = ["verify-tokens", "--tokenizer", "nothing.json", "desk.json"];
    assert_eq!(spark_bench(&no_file, dir.path()).status.code(), Some(2));

    write_texts(dir.path(), &[("a b c", 3), ("a b", 3), ("c", 1)]);
    let right = answered(&[&verify[..], &["texts.json"]].concat(), dir.path());
    let expected = json!({"answers": 3, "checked": 3, "equal": 2, "not_explained": 0,
        "largest_difference": 1});
    for (key, expected) in expected.as_object().unwrap() {
        assert_eq!(&right[key], expected, "{key}: the second has an end-of-text token");
        assert_eq!(&right["files"][0][key], expected, "{key}");
    }
    // One event is not one token.
    write_texts(dir.path(), &[("a b c a b c", 2), ("a", 1)]);
    let wrong = spark_bench(&[&verify[..], &["texts.json"]].concat(), dir.path());
    assert_eq!(wrong.status.code(), Some(4));
}

/// The model's own tokenizer, read by two programs: llama.cpp counts, the `tokenizers` crate
/// checks; and the server's `/tokenize`.
#[cfg(feature = "llama")]
#[test]
fn verify_tokens_agrees_with_the_real_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some((_server, address)) = crate::support::binary::Binary::serve(&["--ctx", "512"]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{address}/v1");
    let target = ["run", "--target", "t", "--base-url", &url, "--precision", "bf16"];
    let prompts = root.join("prompts/short.jsonl");
    let work = ["--model", "m", "--n", "4", "--concurrency", "1", "--max-tokens", "24"];
    let rest = ["--warmup", "0", "--save-text", "--no-self-test", "--prompts"];
    let args = [&target[..], &work, &rest, &[prompts.to_str().unwrap()]].concat();
    let ran = spark_bench(&args, dir.path());
    assert!(dir.path().join("results").is_dir(), "{}", String::from_utf8_lossy(&ran.stderr));
    let by_server = answered(&["verify-tokens", "--server", &url, "results", "--json"], dir.path());
    assert_eq!(by_server["checked"], 4);
    assert_eq!(by_server["not_explained"], 0, "{by_server}");
    let tokenizer = root.join("models/smollm2-135m-instruct-hf/tokenizer.json");
    if !tokenizer.is_file() {
        eprintln!("SKIPPED: no {}, so only the server counted again", tokenizer.display());
        return;
    }
    let tokenizer = tokenizer.to_str().unwrap();
    let args = ["verify-tokens", "--tokenizer", tokenizer, "results", "--json"];
    assert_eq!(answered(&args, dir.path()), by_server, "two tokenizers of one model");
}

#[test]
fn crossover_finds_where_far_and_fast_begins_to_win() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [256, 1024, 2048, 4096, 8192];
    let sweep = |side: &str, base: &Scenario| -> Vec<String> {
        let run = |n_prompt: u32| {
            let name = format!("{side}-{n_prompt}.json");
            let scenario = Scenario {
                n_prompt,
                n: 12,
                levels: vec![1],
                seed: u64::from(n_prompt),
                ..base.clone()
            };
            write(dir.path(), &name, &scenario);
            name
        };
        lengths.into_iter().map(run).collect()
    };
    let near = sweep("near", &Scenario::desk());
    let far = sweep("far", &Scenario { failures: 0.0, ..Scenario::cloud() });
    let mut args = vec!["crossover", "--json", "--a"];
    args.extend(near.iter().map(String::as_str));
    args.push("--b");
    args.extend(far.iter().map(String::as_str));
    let all = answered(&args, dir.path());
    let found = &all["crossover"];
    assert_eq!(found["answer"], "crosses", "{all:#}");
    assert_eq!(found["winner_below"], "desk-serial");
    // 0.042 + 0.24 + n/32,000 = 0.11 + n/3,900, apart from the noise of both.
    let expected = (0.282 - 0.11) / (1.0 / 3_900.0 - 1.0 / 32_000.0);
    let tokens = found["tokens"].as_f64().unwrap();
    assert!((tokens / expected - 1.0).abs() < 0.2, "{tokens} against {expected}");
    let one_length = ["crossover", "--a", &near[0], "--b", &far[0]];
    assert_eq!(spark_bench(&one_length, dir.path()).status.code(), Some(2));
}

#[test]
fn crossover_measures_two_configs_and_finds_where_the_far_one_begins_to_win() {
    let dir = tempfile::tempdir().unwrap();
    let bench = env!("CARGO_BIN_EXE_spark-bench");
    let engine = |name: &str, fixed_ms: &str, prefill_tps: &str| {
        format!(
            "[engine.{name}]\nversion = [\"echo\", \"1\"]\nstart = [{bench:?}, \"null-engine\", \
             \"--port\", \"{{port}}\", \"--model\", \"m\", \"--gap-ms\", \"1\", \"--ttft-ms\", \
             \"{fixed_ms}\", \"--prefill-tps\", \"{prefill_tps}\"]\nready = {{ url = \
             \"http://127.0.0.1:{{port}}/health\", deadline = \"60s\" }}\n"
        )
    };
    // 20 ms + n/10,000 s against 220 ms (an artificial round trip) + n/100,000 s.
    let engines = engine("near", "20", "10000") + &engine("far", "220", "100000");
    std::fs::write(dir.path().join("engines.toml"), &engines).unwrap();
    for name in ["near", "far"] {
        let config = format!(
            "[target]\nname = \"{name}\"\nchange = \"\"\nprecision = \"none\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:{{port}}/v1\"\n[engine]\nuse = \"{name}\"\n\
             [workload]\nwarmup = 1\n"
        );
        std::fs::write(dir.path().join(format!("{name}.toml")), config).unwrap();
    }
    let args = ["crossover", "--a", "near.toml", "--b", "far.toml", "--lengths", "512,2048,6144"];
    let more =
        ["--n", "6", "--output-tokens", "2", "--svg", "plot.svg", "--no-self-test", "--json"];
    let output = spark_bench(&[&args[..], &more].concat(), dir.path());
    let all: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(all["a"]["requests"], 18, "six of each length, in two turns: {all:#}");
    let found = &all["crossover"];
    assert_eq!((&found["winner_below"], &found["winner_above"]), (&json!("near"), &json!("far")));
    let (tokens, truth) = (found["tokens"].as_f64().unwrap(), 0.2 / (1e-4 - 1e-5));
    assert!((tokens / truth - 1.0).abs() < 0.1, "{tokens} against {truth}");
    assert!(std::fs::read_to_string(dir.path().join("plot.svg")).unwrap().starts_with("<svg"));
    let far_away = engines.replace(&format!("{bench:?}"), "\"no-such-program\"");
    std::fs::write(dir.path().join("engines.toml"), far_away).unwrap();
    let output = spark_bench(&[&args[..], &more].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is no program \"no-such-program\" here"), "{said}");
    let two_kinds = ["crossover", "--a", "near.toml", "--b", "results"];
    assert_eq!(spark_bench(&two_kinds, dir.path()).status.code(), Some(2));
}

#[test]
fn a_matrix_says_how_far_behind_each_target_is_per_dollar_too() {
    let dir = tempfile::tempdir().unwrap();
    let bench = env!("CARGO_BIN_EXE_spark-bench");
    let engines = format!(
        "[engine.null]\nversion = [\"echo\", \"1\"]\nstart = [{bench:?}, \"null-engine\", \
         \"--port\", \"{{port}}\", \"--model\", \"m\", \"--ttft-ms\", \"5\", \"--gap-ms\", \
         \"1\"]\nready = {{ url = \"http://127.0.0.1:{{port}}/health\", deadline = \"60s\" }}\n"
    );
    std::fs::write(dir.path().join("engines.toml"), engines).unwrap();
    let prompts: String = (0..8)
        .map(|i| format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{i}\"}}]}}\n"))
        .collect();
    std::fs::write(dir.path().join("p.jsonl"), prompts).unwrap();
    for (name, change, price) in [
        ("desk", "mine", ""),
        (
            "api",
            "reference",
            "price = { input_per_mtok = 0.2, output_per_mtok = 0.2, date = \"2026-11-01\" }",
        ),
    ] {
        let config = format!(
            "[target]\nname = \"{name}\"\nchange = \"{change}\"\nprecision = \"none\"\nmodel = \
             \"m\"\nbase_url = \"http://127.0.0.1:{{port}}/v1\"\n{price}\n[engine]\nuse = \"null\"\n\
             [workload]\nprompts = [\"p.jsonl\"]\nconcurrency = [1]\nrequests = 5\nmax_tokens = 4\n\
             warmup = 0\n"
        );
        std::fs::write(dir.path().join(format!("{name}.toml")), config).unwrap();
    }
    let headlines = |more: &[&str]| {
        let args = ["matrix", "desk.toml", "api.toml", "--no-self-test", "--quiet", "--json"];
        let output = spark_bench(&[&args[..], more].concat(), dir.path());
        let all: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        all["headlines"].to_string()
    };
    let said = headlines(&[]);
    assert!(said.contains("desk against api: first token"), "{said}");
    assert!(said.contains("not known: tokens per dollar"), "{said}");
    assert!(said.contains("a price of desk: [target] price"), "{said}");
    let costs = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/costs/spark-or-api.toml");
    let said = headlines(&["--costs", costs.to_str().unwrap()]);
    assert!(said.contains(", tokens per dollar ") && !said.contains("not known"), "{said}");
    assert!(said.contains("warning: desk: measured on"), "{said}");
}

#[test]
fn goodput_of_existing_results_is_what_counting_their_requests_gives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = std::fs::read_dir(root.join("results")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().path().display().to_string());
    let file = names.find(|name| name.ends_with("Z-llama-server-16-short.json")).unwrap();
    let promise = ["--slo-ttft", "300ms", "--slo-tpot", "40ms"];
    let said = answered(&[&["goodput", "--json", &file][..], &promise].concat(), root);
    let results: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let levels = results["levels"].as_array().unwrap();
    assert_eq!(said[0]["levels"].as_array().unwrap().len(), levels.len());
    let mut shares = Vec::new();
    for (level, got) in levels.iter().zip(said[0]["levels"].as_array().unwrap()) {
        let measured = level["requests"].as_array().unwrap().iter();
        let measured: Vec<&Value> = measured.filter(|one| one["phase"] != "warmup").collect();
        let within = |key: &str, one: &Value, most| one[key].as_f64().unwrap() <= most;
        let good =
            measured.iter().filter(|one| within("ttft", one, 0.3) && within("tpot", one, 0.04));
        assert_eq!(got["good"], good.count());
        assert_eq!(got["issued"], measured.len());
        let [low, high] = [0, 1].map(|end| got["attainment_95"][end].as_f64().unwrap());
        let share = got["attainment"].as_f64().unwrap();
        assert!(low <= share + 0.02 && share - 0.02 <= high, "{got}");
        shares.push(share);
    }
    assert!(shares[0] == 1.0 && shares[2] < 0.2, "{shares:?}");
    let output = spark_bench(&["goodput", &file], root);
    assert_eq!(output.status.code(), Some(2), "no promise anywhere");
}
