//! The harness's own error: a null engine in another process is measured like any server, and what
//! was seen is compared with the moments of writing that its events carry.
//!
//! Nothing here is special to the timed path: the figures come out of [`run_level`]'s own records.
//! "Seen − written" contains the server's write call and wake-up, so it is an upper bound.

mod compare;
mod usage;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::client::{BodyTemplate, Endpoint, Keep};
use super::load::{LevelSpec, Start, Unobserved, run_level};
use super::process_own::OwnChild;
use super::prompts::{Prompt, PromptCursor, PromptFile, PromptReuse};
use crate::results::record::{ClientFloor, FloorRow};

/// The schedule that is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Request read → first text.
    pub ttft: Duration,
    /// One text → the next.
    pub gap: Duration,
    /// Texts of each answer.
    pub tokens: u32,
    /// Answers for each stream.
    pub rounds: u32,
}

impl Default for Replay {
    fn default() -> Self {
        let (ttft, gap) = (Duration::from_millis(100), Duration::from_millis(20));
        Self { ttft, gap, tokens: 64, rounds: 2 }
    }
}

impl Replay {
    /// What fits in `budget`, its warm-up answer included.
    fn within(budget: Duration) -> Self {
        let (ttft, gap) = (Duration::from_millis(50), Duration::from_millis(20));
        let answers = 2; // The warm-up, and one for each stream, which begin within one answer more.
        let each = budget / (answers + 1);
        let gaps = each.saturating_sub(ttft).as_millis() / gap.as_millis();
        let tokens = u32::try_from(gaps).unwrap_or(u32::MAX).clamp(2, 64);
        Self { ttft, gap, tokens, rounds: 1 }
    }
}

/// The longest that [`client_floor`] takes, apart from starting a process.
const FLOOR_BUDGET: Duration = Duration::from_secs(5);

/// The harness's own error at the levels of a run, within five seconds; where it cannot be had, the
/// reason. `harness` is the running spark-bench.
pub async fn client_floor(harness: &Path, concurrencies: &[u32]) -> ClientFloor {
    let mut levels = concurrencies.to_vec();
    levels.sort_unstable();
    levels.dedup();
    let n = u32::try_from(levels.len()).unwrap_or(u32::MAX).max(1);
    let replay = Replay::within(FLOOR_BUDGET / n);
    let cancel = CancellationToken::new();
    match self_test(harness, &levels, replay, &cancel).await {
        Ok(rows) => ClientFloor { rows, reason: None },
        Err(error) => ClientFloor { rows: Vec::new(), reason: Some(format!("{error:#}")) },
    }
}

/// Measures the harness at each concurrency: one row for each.
///
/// # Errors
/// If the null engine does not start or a level cannot be run. Lost events are no error: they are
/// in the rows.
pub async fn self_test(
    harness: &Path,
    concurrencies: &[u32],
    replay: Replay,
    cancel: &CancellationToken,
) -> anyhow::Result<Vec<FloorRow>> {
    let mut rows = Vec::new();
    for &concurrency in concurrencies {
        if cancel.is_cancelled() {
            break;
        }
        rows.push(one_row(harness, concurrency, replay, cancel).await?);
    }
    Ok(rows)
}

async fn one_row(
    harness: &Path,
    concurrency: u32,
    replay: Replay,
    cancel: &CancellationToken,
) -> anyhow::Result<FloorRow> {
    let server = start_null_engine(harness, replay).context("failed to start the null engine")?;
    let url = server.first_line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    let mut endpoint =
        Endpoint::new(&format!("{url}/v1"), BodyTemplate::new("null", replay.tokens))?;
    endpoint.keep = Keep::Text;
    // A stream that is late by this much has lost an event.
    endpoint.timeouts.first_token = Some(Duration::from_secs(30));
    endpoint.timeouts.stall = Some(Duration::from_secs(10));

    let n_ok = concurrency.saturating_mul(replay.rounds);
    let spec = LevelSpec {
        warmup: 1,
        max_attempts: n_ok,
        start: Start::Staggered,
        ..LevelSpec::closed(concurrency, n_ok)
    };
    let memory = usage::PeakMemory::watch();
    let cpu_before = usage::cpu_time();
    let run = run_level(&endpoint, &mut prompts(), &spec, &Unobserved, cancel).await?;
    let cpu = usage::cpu_time().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let bytes = memory.growth();

    let mut row = compare::row(&run, replay);
    let events = compare::n_events(&run);
    row.concurrency = concurrency;
    row.gap_ms = replay.gap.as_secs_f64() * 1000.0;
    row.cpu_us_per_event = cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / events.max(1.0));
    row.bytes_per_stream = bytes.map(|bytes| bytes / f64::from(concurrency.max(1)));
    row.loop_lag_ms_p99 = run.loop_lag.percentile(99).map(|lag| lag.as_secs_f64() * 1000.0);
    Ok(row)
}

fn start_null_engine(harness: &Path, replay: Replay) -> std::io::Result<OwnChild> {
    let millis = |time: Duration| format!("{}", time.as_secs_f64() * 1000.0);
    let args = [
        "null-engine".to_owned(),
        "--until-stdin-closes".to_owned(),
        format!("--ttft-ms={}", millis(replay.ttft)),
        format!("--gap-ms={}", millis(replay.gap)),
    ];
    OwnChild::start(harness, &args)
}

fn prompts() -> PromptCursor {
    let file = PromptFile {
        path: "(none)".into(),
        prompts: vec![Prompt::Text("When?".to_owned())],
        sha256: String::new(),
    };
    PromptCursor::new(file, None, PromptReuse::Allow)
}
