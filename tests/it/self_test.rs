//! The null engine and the self-test, as processes.

use std::process::Command;

use crate::support::child::output;

#[test]
fn the_self_test_loses_nothing_and_says_how_late_it_was() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
    command.args(["self-test", "--concurrency", "1,3", "--ttft-ms", "5", "--gap-ms", "2"]);
    let output = output(command.args(["--tokens", "5", "--rounds", "2", "--json"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, concurrency) in rows.iter().zip([1, 3]) {
        assert_eq!(row["concurrency"], concurrency);
        assert_eq!(row["lost_events"], 0);
        // What was seen was seen after it was written.
        assert!(row["ttft_error_ms_p50"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["gap_error_ms_p50"].as_f64().unwrap() >= 0.0, "{row}");
        assert!(row["cpu_us_per_event"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn a_self_test_of_nothing_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
    let output = output(command.args(["self-test", "--concurrency", "0"]));
    assert_eq!(output.status.code(), Some(2));
}
