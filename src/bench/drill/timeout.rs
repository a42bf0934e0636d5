//! Drill: a timeout is a decision about which requests not to measure.

use std::path::Path;
use std::time::Duration;

use super::server::Kind;
use super::{Server, percentile, row, seconds, table, ttft};
use crate::bench::load::LevelSpec;
use crate::measure::trace::RequestTrace;

const CONCURRENCY: u32 = 16;
const TOKENS: u32 = 16;
const N: u32 = 100;
/// Requests of the second run, whose failures never make the sample full.
const ATTEMPTS_MAX: u32 = 200;
/// Between the typical wait (15 requests of 0.17 s) and nothing.
const TIMEOUT: Duration = Duration::from_millis(2_000);

/// Runs it and gives its text.
pub(super) async fn run(harness: &Path) -> anyhow::Result<String> {
    let server = Server::start(harness, Kind::Serial)?;
    let patient = server.endpoint(TOKENS)?;
    let spec = LevelSpec { warmup: 1, ..LevelSpec::closed(CONCURRENCY, N) };
    let all = server.level(&patient, &spec).await?;
    let mut hasty = patient;
    hasty.timeouts.first_token = Some(TIMEOUT);
    let spec = LevelSpec { max_attempts: ATTEMPTS_MAX, ..spec };
    let cut = server.level(&hasty, &spec).await?;
    let head = row(["", "sent", "failed", "TTFT p50", "p90", "p99"]);
    let rows = [
        head,
        line("no timeout", &all, Failures::Dropped),
        line("2 s timeout, errors dropped", &cut, Failures::Dropped),
        line("2 s timeout, errors counted", &cut, Failures::Infinite),
    ];
    Ok(format!(
        "A server that does one request at a time, {CONCURRENCY} requests in flight, the same \
         work three ways.\n\n{}\n\
         The second line is what a harness prints that has a default timeout and drops errors: the \
         tail looks better\nthan in the first, because the slowest requests are no longer in it. \
         The third counts each failure as\ninfinitely slow. A timeout is a decision about which \
         requests not to measure: make it on purpose,\nand count what it cut off.\n",
        table(&rows)
    ))
}

/// What becomes of failures in a percentile.
#[derive(Clone, Copy)]
enum Failures {
    Dropped,
    Infinite,
}

fn line(name: &str, traces: &[RequestTrace], failures: Failures) -> Vec<String> {
    let failed = traces.iter().filter(|trace| !trace.outcome.is_ok()).count();
    let ok = traces.len() - failed;
    let at = |percent: f64| match failures {
        Failures::Dropped if percent > 90.0 && ok < 100 => "n<100".to_owned(),
        Failures::Dropped => seconds(percentile(traces, percent, ttft)),
        // Failures stand at the end: is this rank still among the ok ones?
        Failures::Infinite => {
            let rank = percent / 100.0 * traces.len().saturating_sub(1) as f64;
            if rank > ok as f64 - 1.0 {
                "never".to_owned()
            } else {
                seconds(percentile(traces, 100.0 * rank / (ok as f64 - 1.0).max(1.0), ttft))
            }
        }
    };
    vec![name.into(), traces.len().to_string(), failed.to_string(), at(50.0), at(90.0), at(99.0)]
}
