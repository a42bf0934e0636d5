//! `spark-bench matrix` over engines that behave and engines that do not: every row is accounted
//! for, and nothing is left over.

use std::fs;
use std::net::TcpListener;

use crate::support::child::{Running, output};
use crate::support::matrix::{ANY_PORT, Bench, GOOD, SHORT, text, wait_for_journal};
use crate::support::patience::wait_until;
use crate::support::scripted::{ScriptedServer, Step};
use nix::sys::signal::Signal;
use serde_json::Value;

fn reason(file: &Value, kind: &str) -> String {
    file[kind]["reason"].as_str().unwrap_or_else(|| panic!("no {kind}: {file:.300}")).to_owned()
}

#[test]
fn a_good_engine_is_measured_and_stopped() {
    let bench = Bench::new();
    let config = bench.target("good", GOOD, "60s");
    let mut matrix = bench.matrix(&[config], &[]);
    // A proxy of the environment's is none of ours: nobody listens at this one.
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        matrix.env(name, "http://127.0.0.1:1");
    }
    // Plain HTTP wants no certificates.
    matrix.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    let output = output(&mut matrix);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let files = bench.results();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0]["meta"]["protocol"], "http/1.1");
    let levels = files[0]["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2);
    assert_eq!(levels[0]["summary"]["n_ok"], 4);
    assert_eq!(levels[1]["requests"][1]["n_out"], 4);
    let server = &files[0]["meta"]["server"];
    assert_eq!(server["version"], "good 1");
    assert!(server["stopped"].as_str().unwrap().contains("SIGTERM"), "{server}");
    assert!(files[0]["meta"]["host"]["kernel"].is_string());
    let said = text(&output);
    assert!(said.contains("SCOREBOARD rows:") && said.contains("good"), "{said}");
    let names = fs::read_dir(bench.path("results")).unwrap();
    assert_eq!(names.count(), 1, "the journal is gone once the results stand");
}

#[test]
fn the_time_is_estimated_by_earlier_results_whatever_else_lies_beside_them() {
    let bench = Bench::new();
    let config = bench.target("good", GOOD, "60s");
    let run = || text(&bench.run(std::slice::from_ref(&config), &[]));
    let first = run();
    assert!(first.contains("no earlier results of this work"), "{first}");
    fs::write(bench.path("results/torn.json"), "{\"schema_version\": 1, \"me").unwrap();
    let second = run();
    assert!(second.contains("of load, by 2"), "{second}");
    assert!(second.contains("nothing is estimated by one file"), "{second}");
    assert!(second.contains("torn.json"), "{second}");
}

#[test]
fn every_misbehaving_engine_is_a_row_and_nothing_is_left() {
    let bench = Bench::new();
    let marker = bench.marker();
    let mark = |script: &str| format!("MARK={marker}; export MARK; {script}");
    let other_model = GOOD.replace("--model m", "--model other");
    let stubborn = format!("trap '' TERM; $({GOOD})").replace("exec ", "");
    let cases = [
        ("dies", mark("echo no weights >&2; exit 7"), "60s", "failed", "exited"),
        ("too-big", mark("exit 3"), "60s", "skipped", "cannot_run"),
        ("never-ready", mark("sleep 1000"), "300ms", "failed", "not_ready"),
        ("floods", mark("yes"), "300ms", "failed", "not_ready"),
        ("hangs", mark(&GOOD.replace("--ttft-ms 2", "--ttft-ms 1e9")), "60s", "failed", "check"),
        ("other-model", mark(&other_model), "60s", "failed", "wrong_model"),
        (
            "grandchild",
            mark(&format!("({}) & exit 5", GOOD.replace("exec ", ""))),
            "60s",
            "failed",
            // Whether it was ready before its own process was gone is a race.
            "exited|server_died",
        ),
    ];
    let mut configs = Vec::new();
    for (name, script, deadline, ..) in &cases {
        let check =
            "model_check = { url = \"http://127.0.0.1:{port}/v1/models\", id = \"data.0.id\" }";
        bench.engine(name, script, deadline, check);
        // Only where nothing comes does it matter.
        let impatient = format!("{SHORT}\nfirst_token_timeout = \"2s\"");
        configs.push(bench.config(name, ANY_PORT, &impatient));
    }
    let impatient = "stop = { signal = \"TERM\", grace = \"300ms\" }";
    bench.engine("stubborn", &mark(&stubborn), "60s", impatient);
    configs.push(bench.config("stubborn", ANY_PORT, SHORT));
    configs.push(bench.target("good", &mark(GOOD), "60s"));

    // An engine that is not there.
    let engines = fs::read_to_string(bench.path("engines.toml")).unwrap();
    let missing = engines.split("[engine.good]").nth(1).unwrap();
    let missing = format!("\n[engine.missing]{}", missing.replace("\"sh\"", "\"no-such-program\""));
    fs::write(bench.path("engines.toml"), engines + &missing).unwrap();
    configs.push(bench.config("missing", ANY_PORT, SHORT));

    let output = bench.run(&configs, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let files = bench.results();
    assert_eq!(files.len(), configs.len(), "{said}");
    let by_name = |name: &str| files.iter().find(|file| file["meta"]["target"] == name).unwrap();
    for (name, _, _, kind, expected) in &cases {
        let reason = reason(by_name(name), kind);
        assert!(expected.split('|').any(|expected| reason == expected), "{name}: {reason}");
    }
    assert_eq!(reason(by_name("missing"), "skipped"), "no_program");
    assert_eq!(by_name("dies")["engine_log_tail"][0], "no weights");
    assert!(by_name("dies")["failed"]["text"].as_str().unwrap().contains("exit code 7"));
    for name in ["good", "stubborn"] {
        assert_eq!(by_name(name)["levels"].as_array().unwrap().len(), 2, "{name}");
    }
    let stopped = by_name("stubborn")["meta"]["server"]["stopped"].as_str().unwrap();
    assert!(stopped.contains("killed"), "{stopped}");
    assert_eq!(bench.left_over(), Vec::<String>::new());
}

#[test]
fn somebody_elses_server_is_not_measured() {
    let bench = Bench::new();
    // Its port is taken before.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("http://{}/v1", listener.local_addr().unwrap());
    bench.engine("taken", GOOD, "60s", "");
    let taken = bench.config("taken", &taken, SHORT);
    // Our server never listens, and somebody else answers where readiness is asked for.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok".to_vec();
    let foreign = ScriptedServer::start(vec![vec![Step::Send(answer), Step::Close]]);
    bench.engine("foreign", "sleep 1000", "60s", "");
    let engines = fs::read_to_string(bench.path("engines.toml")).unwrap();
    let (first, second) = engines.split_at(engines.find("[engine.foreign]").unwrap());
    let second = second.replace("127.0.0.1:{port}/health", &format!("{}/health", foreign.address));
    fs::write(bench.path("engines.toml"), format!("{first}{second}")).unwrap();
    let foreign = bench.config("foreign", ANY_PORT, SHORT);

    let output = bench.run(&[taken, foreign], &[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let reasons: Vec<String> = bench.results().iter().map(|file| reason(file, "failed")).collect();
    assert!(reasons.contains(&"port_in_use".to_owned()), "{reasons:?}");
    assert!(reasons.contains(&"foreign_server".to_owned()), "{reasons:?}");
}

#[test]
fn a_port_that_somebody_takes_first_is_no_failure_where_any_will_do() {
    let bench = Bench::new();
    let folder = bench.marker();
    // The first server binds only after the test has taken its port.
    let late = format!(
        "if mkdir {folder}/once; then echo $PORT > {folder}/new; mv {folder}/new {folder}/port; \
         until [ -e {folder}/taken ]; do sleep 0.01; done; fi; {GOOD}"
    );
    let config = bench.target("late", &late, "60s");
    let harness = Running::start(&mut bench.matrix(&[config], &[])).unwrap();
    let port = bench.path("port");
    wait_until("its port is known", || port.exists());
    let taken: u16 = fs::read_to_string(port).unwrap().trim().parse().unwrap();
    let _listener = TcpListener::bind(("127.0.0.1", taken)).unwrap();
    fs::write(bench.path("taken"), "").unwrap();
    let output = harness.output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_setting_that_is_ignored_makes_the_levels_invalid() {
    let bench = Bench::new();
    let body = r#"{"n_ctx": 512}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let props = ScriptedServer::start(vec![vec![Step::Send(answer.into_bytes()), Step::Close]]);
    let more = format!(
        "props = {{ url = \"http://{}/props\", equals = {{ \"n_ctx\" = \"-c\" }} }}",
        props.address
    );
    bench.engine("ignores", GOOD, "60s", &more);
    let config = bench.config("ignores", ANY_PORT, SHORT);
    let asked = fs::read_to_string(&config)
        .unwrap()
        .replace("use = \"ignores\"\n", "use = \"ignores\"\nargs = [\"-c\", \"4096\"]\n");
    fs::write(&config, asked).unwrap();
    let output = bench.run(&[config], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    let file = &bench.results()[0];
    assert_eq!(file["meta"]["server"]["applied_settings"]["n_ctx"], 512);
    let flags = file["levels"][0]["flags"].to_string();
    assert!(flags.contains("settings_not_applied") && flags.contains("4096"), "{flags}");
    assert_eq!(file["levels"][0]["verdict"], "invalid");
}

#[test]
fn a_bad_config_is_a_row_with_its_error_and_the_others_run() {
    let bench = Bench::new();
    let good = bench.target("good", GOOD, "60s");
    let bad = bench.path("bad.toml");
    fs::write(&bad, "[target]\nnmae = \"x\"\n").unwrap();
    let output = bench.run(&[bad, good], &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let why = "bad.toml:2: unknown key \"nmae\"; did you mean \"name\"?";
    assert!(said.contains(why), "{said}");
    let files = bench.results();
    assert_eq!(files.len(), 2);
    let row = files.iter().find(|file| file["meta"]["target"] == "bad").unwrap();
    assert_eq!(row["failed"]["reason"], "bad_config");
    assert!(row["failed"]["text"].as_str().unwrap().contains(why), "{row}");
    let rows = said.lines().filter(|line| line.contains("| bad |")).count();
    assert_eq!(rows, 1, "{said}");
}

#[test]
fn a_killed_harness_leaves_no_server_and_resumes_without_measuring_twice() {
    let bench = Bench::new();
    let marker = bench.marker();
    // Slow, so that its second level takes many times as long as to kill the harness in it; but the
    // second time it is not.
    let gap = format!("--gap-ms $(mkdir {marker}/once && echo 100 || echo 1)");
    let good = format!("MARK={marker}; export MARK; {}", GOOD.replace("--gap-ms 1", &gap));
    bench.engine("good", &good, "60s", "");
    let work = "concurrency = [1, 2]\nrequests = { default = 4, \"2\" = 150 }";
    let config = bench.config("good", ANY_PORT, work);
    let mut command = bench.matrix(std::slice::from_ref(&config), &[]);
    let mut harness = Running::start(&mut command).unwrap();
    // Head; level, warm-up, its end, four requests, headers, level's end; level, warm-up, its end, a
    // request.
    wait_for_journal(&bench.path("results"), 14);
    harness.kill();
    wait_until("the server is gone", || {
        !bench.left_over().iter().any(|words| words.contains("null-engine"))
    });

    let output = bench.run(std::slice::from_ref(&config), &["--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let files = bench.results();
    assert_eq!(files.len(), 2, "what was interrupted, and the whole");
    let (interrupted, whole): (Vec<&Value>, Vec<&Value>) =
        files.iter().partition(|file| file["interrupted"] == true);
    assert_eq!((interrupted.len(), whole.len()), (1, 1));
    let level = |file: &Value, index: usize| file["levels"][index].clone();
    assert_eq!(level(interrupted[0], 0)["requests"], level(whole[0], 0)["requests"]);
    assert!(!level(interrupted[0], 1)["requests"].as_array().unwrap().is_empty());
    assert_eq!(level(whole[0], 1)["summary"]["n_ok"], 150);

    let again = bench.run(&[config], &["--resume"]);
    assert!(text(&again).contains("measured already"), "{}", text(&again));
    assert_eq!(bench.results().len(), 2);
}

/// A harness whose only level has begun and lasts for a minute.
fn in_a_long_level(bench: &Bench) -> Running {
    let slow = GOOD.replace("--gap-ms 1", "--gap-ms 100");
    bench.engine("slow", &format!("MARK={}; export MARK; {slow}", bench.marker()), "60s", "");
    let config = bench.config("slow", ANY_PORT, "concurrency = [1]\nrequests = 190");
    let harness = Running::start(&mut bench.matrix(&[config], &[])).unwrap();
    wait_for_journal(&bench.path("results"), 5);
    harness
}

#[test]
fn a_server_outlives_neither_harness_nor_supervisor_even_if_both_are_killed_at_once() {
    let bench = Bench::new();
    let mut harness = in_a_long_level(&bench);
    let supervisors: Vec<u32> = spark::bench::process::tree::descendants(harness.id())
        .into_iter()
        .map(|process| process.pid)
        .filter(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains("supervise")
        })
        .collect();
    assert_eq!(supervisors.len(), 1);
    // The harness cannot help while it is stopped, and is killed as it is.
    harness.signal(Signal::SIGSTOP);
    let supervisor = nix::unistd::Pid::from_raw(i32::try_from(supervisors[0]).unwrap());
    nix::sys::signal::kill(supervisor, Signal::SIGKILL).unwrap();
    harness.kill();
    wait_until("the server is gone", || {
        !bench.left_over().iter().any(|words| words.contains("null-engine"))
    });
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let bench = Bench::new();
    let harness = in_a_long_level(&bench);
    harness.signal(Signal::SIGINT);
    let output = harness.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let file = &bench.results()[0];
    assert_eq!(file["interrupted"], true);
    assert!(file["levels"][0]["summary"]["n_ok"].as_u64().unwrap() >= 1);
    assert_eq!(bench.left_over(), Vec::<String>::new());
}
