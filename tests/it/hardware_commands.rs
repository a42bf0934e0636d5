//! `doctor`, `bandwidth` and `watch`, as somebody runs them.

#[cfg(target_os = "linux")]
use std::process::Stdio;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::c_stub::shared_library;
use crate::support::child::{Running, output};
use crate::support::nulls::without_reason;
use crate::support::nvml_stub::NvmlStub;
#[cfg(target_os = "linux")]
use crate::support::patience::wait_until;

/// Runs spark-bench with these library files, to its end.
fn spark_bench(args: &[&str], nvml: &str, cuda: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
    command.args(args).env("SPARK_NVML_LIB", nvml).env("SPARK_CUDA_LIB", cuda);
    let output = output(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_gpus_bandwidth_is_labelled_as_a_copy_and_everything_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    std::fs::copy(shared_library("cuda_stub"), &library).unwrap();
    let args = ["bandwidth", "--no-cpu", "--json"];
    let output = spark_bench(&args, "/none", library.to_str().unwrap());
    let answer = json(&output);
    let gpu = &answer["gpus"][0];
    assert_eq!(gpu["name"], "Stub CUDA device");
    assert!(gpu["method"].as_str().unwrap().contains("copy"), "{gpu}");
    // The stub moves 100 GB/s: as much is read as is written.
    assert!((gpu["best_gb_s"].as_f64().unwrap() - 200.0).abs() < 0.01, "{gpu}");
    assert_eq!(answer["cpu"], Value::Null);
    let left = std::fs::read_to_string(folder.path().join("counts")).unwrap();
    assert_eq!(left, "0 0 0", "buffers, events, contexts");
}

#[test]
fn without_a_cuda_driver_the_cpu_is_measured_and_the_gpu_says_why_not() {
    let output = spark_bench(&["bandwidth", "--threads", "1", "--json"], "/none", "/none/libcuda");
    let answer = json(&output);
    assert_eq!(answer["gpus"], Value::Null);
    assert!(answer["cpu"]["best_gb_s"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["cpu"]["rows"][0]["threads"], 1);
    assert!(answer["cpu"]["rows"][0]["array_bytes"].as_u64().unwrap() > 0);
    assert!(answer["gpu_reason"].as_str().unwrap().contains("/none/libcuda"));
}

#[test]
fn watch_prints_a_line_each_interval_with_what_the_devices_tell() {
    let stub = NvmlStub::new("power 41500\nmemory_rc 3");
    let own = std::process::id().to_string();
    let args = ["watch", "--interval", "50ms", "--lines", "3", "--pid", &own, "--json"];
    let output = spark_bench(&args, stub.path().to_str().unwrap(), "/none");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let last = lines.last().unwrap();
    assert_eq!(last["gpus"][0]["power_w"], 41.5);
    assert_eq!(last["gpus"][0]["memory_used_bytes"], Value::Null);
    assert!(last["server"]["rss_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn the_doctor_names_what_works_what_does_not_and_no_key() {
    let stub = NvmlStub::new("name NVIDIA GB10\nmemory_rc 3");
    let configs = tempfile::tempdir().unwrap();
    let target = "[target]\nname = \"t\"\nchange = \"c\"\nprecision = \"p\"\nmodel = \"m\"\n\
                  base_url = \"http://127.0.0.1:1/v1\"\nkey_env = \"SPARK_NVML_LIB\"\n";
    std::fs::write(configs.path().join("t.toml"), target).unwrap();
    let path = stub.path();
    let args = ["doctor", "--json", "--configs", configs.path().to_str().unwrap()];
    let output = spark_bench(&args, path.to_str().unwrap(), "/none");
    let answer = json(&output);
    assert_eq!(answer["host"]["gpus"][0]["name"], "NVIDIA GB10");
    assert_eq!(answer["host"]["reasons"]["gpus.0.memory_total_bytes"], "not_supported");
    assert_eq!(without_reason(&answer["host"]), [""; 0], "{}", answer["host"]);
    assert_eq!(answer["capabilities"]["gpus.0.memory_used_bytes"], "not_supported");
    assert_eq!(answer["capabilities"]["gpus.0.power_w"], "ok");
    assert_eq!(answer["keys"]["SPARK_NVML_LIB"], "set");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains(path.to_str().unwrap()), "the variable's value is in the answer");
    let lacking = answer["lacking"].as_array().unwrap();
    let lacks = |part: &str| lacking.iter().any(|l| l["what"].as_str().unwrap().contains(part));
    assert!(lacks("memory of NVIDIA GB10") && lacks("engines"), "{lacking:?}");
    assert_eq!(answer["engines"], Value::Array(Vec::new()));
}

#[cfg(target_os = "linux")]
#[test]
fn watching_ends_with_the_process_and_does_not_begin_without_one() {
    let mut ended = Running::start(&mut Command::new("true")).unwrap();
    let gone = ended.id().to_string();
    ended.wait();
    let watch = |pid: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
        command.args(["watch", "--interval", "50ms", "--pid", pid]).env("SPARK_NVML_LIB", "/none");
        command
    };
    let output = output(&mut watch(&gone));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("--pid {gone}: no such process")), "{said}");

    // It ends when its stdin does, and stays a zombie: nobody asks how it ended.
    let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = process.id().to_string();
    let watching = Running::start(&mut watch(&pid)).unwrap();
    wait_until("the header", || {
        String::from_utf8_lossy(&watching.said()[0]).contains("server_cpu_%")
    });
    drop(process.stdin.take());
    let output = watching.output();
    process.wait().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("process {pid} has ended")), "{said}");
}
