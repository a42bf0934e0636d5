//! What was seen against what was written.

use std::time::{Duration, Instant};

use super::Replay;
use crate::bench::load::LevelRun;
use crate::bench::null_engine::monotonic_ns;
use crate::measure::sample::Sample;
use crate::measure::trace::RequestTrace;
use crate::results::record::FloorRow;

/// The errors of a level's measured requests.
pub(super) fn row(run: &LevelRun, replay: Replay) -> FloorRow {
    let epoch_ns = as_monotonic_ns(run.epoch);
    let mut first_errors = Vec::new();
    let mut gap_errors = Vec::new();
    let mut lost = 0;
    for trace in run.traces.iter().filter(|trace| trace.is_measured()) {
        let written = written_ns(trace);
        lost += u64::from(replay.tokens).saturating_sub(written.len() as u64);
        if let (Some(first), Some(seen)) = (written.first(), trace.stamps.first_text) {
            let seen = epoch_ns + nanos(trace.start + seen);
            first_errors.push((seen - *first as f64) / 1e6);
        }
        for (pair, gap_us) in written.windows(2).zip(&trace.gaps_us) {
            let written_us = (pair[1] - pair[0]) as f64 / 1e3;
            gap_errors.push((f64::from(*gap_us) - written_us).abs() / 1e3);
        }
    }
    let (ttft, gap) = (Spread::of(first_errors), Spread::of(gap_errors));
    let window = run.traces.iter().map(RequestTrace::end).max().unwrap_or_default();
    FloorRow {
        ttft_error_ms_p50: ttft.p50,
        ttft_error_ms_p99: ttft.p99,
        ttft_error_ms_max: ttft.max,
        gap_error_ms_p50: gap.p50,
        gap_error_ms_p99: gap.p99,
        gap_error_ms_max: gap.max,
        events_per_s: Some(n_events(run) / window.as_secs_f64().max(1e-9)),
        lost_events: lost,
        ..FloorRow::default()
    }
}

/// Events with text in the whole level, warm-up included.
pub(super) fn n_events(run: &LevelRun) -> f64 {
    run.traces.iter().map(|trace| trace.tokens.n_chunks as f64).sum()
}

/// The moments of writing that the text carries.
fn written_ns(trace: &RequestTrace) -> Vec<u64> {
    let text = trace.text.as_deref().unwrap_or_default();
    text.split(';').filter_map(|stamp| stamp.parse().ok()).collect()
}

/// An `Instant` on the clock that the stamps are from: on Linux both are `CLOCK_MONOTONIC`.
fn as_monotonic_ns(instant: Instant) -> f64 {
    let (now, now_ns) = (Instant::now(), monotonic_ns());
    now_ns as f64 - nanos(now.saturating_duration_since(instant))
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Percentiles of an error, in milliseconds.
struct Spread {
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Spread {
    fn of(errors_ms: Vec<f64>) -> Self {
        let errors = Sample::new(errors_ms);
        Self { p50: errors.median(), p99: errors.percentile(99.0), max: errors.max() }
    }
}
