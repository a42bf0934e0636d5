//! What `matrix --resume` takes over.

use crate::support::matrix::{ANY_PORT, Bench, GOOD, text};

#[test]
fn an_open_loop_is_known_again_whatever_was_in_flight() {
    let bench = Bench::new();
    // Each answer takes longer than the time to the next arrival: more than one is in flight.
    bench.engine("slow", &GOOD.replace("--ttft-ms 2", "--ttft-ms 60"), "60s", "");
    let work = "concurrency = [1]\nrequests = 20\nopen_rate = 100.0\narrivals = \"constant\"";
    let configs = [bench.config("slow", ANY_PORT, work)];
    let output = bench.run(&configs, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let level = &bench.results()[0]["levels"][0];
    assert_eq!(level["concurrency_asked"], 1);
    assert!(level["summary"]["concurrency"].as_u64() > Some(1), "{}", level["summary"]);

    let again = bench.run(&configs, &["--resume"]);
    assert!(text(&again).contains("measured already"), "{}", text(&again));
    assert_eq!(bench.results().len(), 1);
}
