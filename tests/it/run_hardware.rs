//! What a results file says of the hardware for each kind of device, written by the real program
//! with the stub in the place of NVIDIA's library.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::support::child::{Running, output};
use crate::support::client;
use crate::support::matrix::{ANY_PORT, Bench, GOOD, text};
use crate::support::nulls::without_reason;
use crate::support::nvml_stub::NvmlStub;
use crate::support::patience::wait_until;
use crate::support::scripted::{ScriptedServer, Step, good_answer};

const BUSY: &str = "util 97
    memory_util 60
    sm_clock 1900
    sm_clock_max 2000
    memory_clock 2600
    power 100000
    temp 65
    memory_used 4000000000
    memory_total 16000000000
    throttle 4";

/// Requests of a level: it lasts for seconds, so that there are many samples of every source.
const N: usize = 60;

const WORK: &str = "[hardware]\nsample_period = \"20ms\"";

/// The hardware of a level that was measured with this library.
fn hardware(library: &Path) -> Value {
    let bench = Bench::new();
    let slow = GOOD.replace("--gap-ms 1", "--gap-ms 15");
    bench.engine("e", &slow, "60s", "");
    let work = format!("concurrency = [1]\nrequests = {N}\n{WORK}");
    let config = bench.config("e", ANY_PORT, &work);
    let output = output(bench.matrix(&[config], &[]).env("SPARK_NVML_LIB", library));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("CPU ms/token") && said.contains("PSS MB"), "{said}");
    let file = &bench.results()[0];
    assert_eq!(without_reason(&file["meta"]["host"]), [""; 0], "{}", file["meta"]["host"]);
    let hardware = file["levels"][0]["hardware"].clone();
    // What has nothing to do with the device is there in any case.
    let server = &hardware["server"];
    assert!(server["rss_bytes_max"].as_u64().unwrap() > 0, "{server}");
    // It is read as rarely as it takes long: on a busy machine perhaps never in the level.
    assert_ne!(server["pss_bytes_max"], 0, "{server}");
    assert!(server["cpu_s_per_output_token"].as_f64().is_some(), "{server}");
    assert!(hardware["host"]["mem_available_bytes_min"].as_u64().unwrap() > 0);
    assert!(hardware["harness"]["rss_bytes_max"].as_u64().unwrap() > 0);
    assert_eq!(without_reason(&hardware), [""; 0], "{hardware}");
    for metric in ["host.mem_available_bytes", "harness.cpu_s"] {
        assert_eq!(hardware["capabilities"][metric], "ok", "{metric}");
    }
    if Path::new("/proc/self/smaps_rollup").exists() {
        assert_eq!(hardware["capabilities"]["server.pss_bytes"], "ok");
    }
    assert!(hardware["capabilities"]["host.cpu_energy_j"].is_string());
    hardware
}

/// The energy above what the device took at rest is told, and is less than all of it; or this
/// machine was too busy to read the device at rest for long enough.
fn is_above_idle(hardware: &Value) {
    let all = hardware["joules_per_output_token"].as_f64().unwrap();
    match hardware["joules_per_output_token_above_idle"].as_f64() {
        Some(above) => assert!(all > above, "{hardware}"),
        None => {
            let why = hardware["reasons"]["joules_per_output_token_above_idle"].as_str().unwrap();
            assert!(why.ends_with("1s needed"), "{why}");
        }
    }
}

fn of_stub(state: &str) -> Value {
    let stub = NvmlStub::new(state);
    hardware(&stub.path())
}

#[test]
fn a_discrete_gpu_has_every_figure() {
    let hardware = of_stub(BUSY);
    let gpu = &hardware["gpus"][0];
    for (key, value) in [
        ("util_pct_mean", 97.0),
        ("memory_util_pct_mean", 60.0),
        ("power_w_mean", 100.0),
        ("sm_clock_mhz_mean", 1900.0),
        ("memory_clock_mhz_mean", 2600.0),
    ] {
        assert_eq!(gpu[key], value, "{key}");
    }
    assert_eq!(
        (&gpu["temp_c_max"], &gpu["memory_used_bytes_max"]),
        (&65.0.into(), &4_000_000_000_u64.into())
    );
    assert_eq!(
        (&hardware["memory_source"], &hardware["energy_source"]),
        (&"nvml".into(), &"counter".into())
    );
    assert!(hardware["joules_per_output_token"].as_f64().unwrap() > 0.0);
    is_above_idle(&hardware);
    assert!(hardware["samples"].as_u64().unwrap() > 10, "{hardware}");
    assert!(
        hardware["coverage"].as_f64().is_some() && hardware["period_ms_max"].as_f64().is_some()
    );
    assert_eq!(hardware["gpu_reason"], Value::Null);
}

#[test]
fn gb10_has_all_but_memory_and_says_so() {
    let hardware = of_stub(&format!(
        "{BUSY}\nname NVIDIA GB10\nmemory_rc 3\nmemory_clock_rc 3\nmemory_util 0"
    ));
    let gpu = &hardware["gpus"][0];
    assert_eq!(
        (&gpu["memory_used_bytes_max"], &gpu["memory_util_pct_mean"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(hardware["reasons"]["gpus.0.memory_used_bytes_max"], "not_supported");
    assert_eq!(hardware["memory_source"], "meminfo");
    assert!(hardware["host"]["mem_used_bytes_max"].as_u64().unwrap() > 0);
    assert_eq!(gpu["power_w_mean"], 100.0);
    assert!(hardware["joules_per_output_token"].as_f64().unwrap() > 0.0);
    is_above_idle(&hardware);
}

#[test]
fn a_jetson_has_a_name_and_reasons() {
    let hardware = of_stub("all_rc 3\nname Orin");
    let gpu = &hardware["gpus"][0];
    assert_eq!(gpu["name"], "Orin");
    for key in ["util_pct_mean", "power_w_mean", "sm_clock_mhz_mean", "temp_c_max", "energy_j"] {
        assert_eq!(gpu[key], Value::Null, "{key}");
        assert!(hardware["reasons"][format!("gpus.0.{key}")].is_string(), "{key}");
    }
    assert_eq!(hardware["joules_per_output_token"], Value::Null);
    assert_eq!(hardware["capabilities"]["gpus.0.power_w"], "not_supported");
    assert_eq!(
        hardware["reasons"]["gpus.0.energy_j"],
        "energy counter: not_supported; power: not_supported"
    );
}

#[test]
fn a_gpu_that_is_lost_in_mid_level_keeps_what_it_told() {
    let stub = NvmlStub::new(BUSY);
    let bench = Bench::new();
    // A warm-up and twenty requests; the next one waits until the test itself has sent one.
    let answer = || vec![Step::Pause(Duration::from_millis(20)), Step::Send(good_answer(4))];
    let mut scripts = vec![answer(); 21];
    scripts.extend([vec![Step::AwaitRequests(23), Step::Send(good_answer(4))], answer()]);
    let server = ScriptedServer::start(scripts);
    let work = format!("concurrency = [1]\nrequests = {N}\n{WORK}");
    let config = bench.remote("e", &server.url(), &work);
    let mut command = bench.matrix(&[config], &[]);
    let running = Running::start(command.env("SPARK_NVML_LIB", stub.path())).unwrap();
    wait_until("a third of the level", || server.n_requests() >= 22);
    let read = stub.calls();
    stub.set("all_rc 15\nhandle_rc 15");
    wait_until("the device is asked again", || stub.calls() > read + 20);
    assert_eq!(client::get(server.address, "/").status, 200);
    let output = running.output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let hardware = bench.results()[0]["levels"][0]["hardware"].clone();
    assert_eq!(without_reason(&hardware), [""; 0], "{hardware}");
    let gpu = &hardware["gpus"][0];
    assert_eq!(gpu["power_w_mean"], 100.0);
    let why = hardware["reasons"]["gpus.0.power_w_mean"].as_str().unwrap();
    assert!(why.contains("fell off the bus"), "{why}");
    assert_eq!(
        (&gpu["energy_j"], &hardware["joules_per_output_token"]),
        (&Value::Null, &Value::Null)
    );
    assert!(hardware["reasons"]["gpus.0.energy_j"].is_string());
}

#[test]
fn without_a_library_the_gpu_block_says_why_it_is_empty() {
    let nowhere = PathBuf::from("/nonexistent/libnvidia-ml.so");
    let hardware = hardware(&nowhere);
    assert_eq!(hardware["gpus"], serde_json::json!([]));
    assert!(hardware["gpu_reason"].as_str().unwrap().contains("/nonexistent"));
    assert_eq!(hardware["memory_source"], Value::Null);
    assert!(hardware["reasons"]["memory_source"].as_str().unwrap().starts_with("no GPU"));
}
