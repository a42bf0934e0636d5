//! The load that a level was under: how many requests were in flight, when, and what it brought.

use super::{LevelFacts, SingleStream, edges_of, per_second};
use crate::measure::batch_means::{MeanInterval, PARTS, batch_means};
use crate::measure::metrics::Metric;
use crate::measure::sample::Sample;
use crate::measure::steady::{Edges, Window, mean_in_flight, tokens_within, window_between};
use crate::measure::trace::RequestTrace;
use rayon::prelude::*;
use std::time::Duration;

/// The load of one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests that were kept in flight, or the most that were.
    pub(super) concurrency: u32,
    /// When all of them were.
    pub(super) steady: Option<Window>,
    /// W(c).
    pub(super) e2e_mean: Option<Duration>,
    /// Whether they were done one at a time (1) or all at once (0).
    pub(super) serialness: Option<f64>,
}

impl Load {
    /// `measured` and the `ok` ones among them.
    pub(super) fn new(
        facts: &LevelFacts,
        measured: &[&RequestTrace],
        ok: &[&RequestTrace],
    ) -> Self {
        if !facts.start_mode.is_closed_loop() {
            let concurrency = most_in_flight(measured);
            let e2e_mean = steady_mean(ok, Edges::default());
            return Self { concurrency, steady: None, e2e_mean, serialness: None };
        }
        let workers = facts.concurrency as usize;
        let edges = edges_of(measured, facts.concurrency, facts.ended_by);
        let e2e_mean = steady_mean(ok, edges);
        Self {
            concurrency: facts.concurrency,
            steady: window_between(edges, measured, workers),
            e2e_mean,
            serialness: serialness(facts.concurrency, e2e_mean, facts.single),
        }
    }

    /// Mean in flight in the steady window ÷ c.
    pub(super) fn occupancy(&self, measured: &[&RequestTrace]) -> Option<f64> {
        Some(mean_in_flight(measured, self.steady?) / f64::from(self.concurrency))
    }

    /// Tokens delivered in the steady window ÷ its length.
    pub(super) fn steady_tps(&self, measured: &[&RequestTrace]) -> Option<f64> {
        let window = self.undisturbed(measured)?;
        per_second(tokens_within(measured, window), window.length())
    }

    /// The same by batch means, where each part is at least as long as a request.
    pub(super) fn steady_interval(&self, measured: &[&RequestTrace]) -> Option<MeanInterval> {
        let window = self.undisturbed(measured)?;
        let parts = u32::try_from(PARTS).ok()?;
        if window.length() / parts < self.e2e_mean? {
            return None;
        }
        let rate = |part: Window| per_second(tokens_within(measured, part), part.length());
        // Each part is a pass over all requests; a core takes some of them.
        let windows: Vec<Window> = window.parts(parts).collect();
        let rates: Vec<f64> = windows.into_par_iter().filter_map(rate).collect();
        batch_means(&rates)
    }

    /// The steady window, unless a refusal made a worker idle: then c requests were not in flight.
    /// Records without pauses (they were not always kept) tell it by what the server asked for.
    fn undisturbed(&self, measured: &[&RequestTrace]) -> Option<Window> {
        let waited = |trace: &&RequestTrace| {
            let asked = trace.retry_after.filter(|_| !trace.outcome.is_ok());
            trace.pause.or(asked).is_some_and(|wait| !wait.is_zero())
        };
        self.steady.filter(|_| !measured.iter().any(waited))
    }
}

/// Mean end-to-end latency of the requests between ramp and tail; where there is none (few
/// requests for the concurrency), of all after the ramp.
pub(super) fn steady_mean(ok: &[&RequestTrace], edges: Edges) -> Option<Duration> {
    let after_ramp =
        |trace: &RequestTrace| edges.ramp_end.is_none_or(|ramp_end| trace.end() > ramp_end);
    let before_tail = |trace: &RequestTrace| edges.tail_start.is_none_or(|t1| trace.end() <= t1);
    let mean = |keep: &dyn Fn(&RequestTrace) -> bool| {
        let kept: Vec<f64> = ok
            .iter()
            .filter(|trace| keep(trace))
            .filter_map(|trace| Metric::E2e.of(trace))
            .collect();
        Sample::new(kept).mean().map(Duration::from_secs_f64)
    };
    mean(&|trace| after_ramp(trace) && before_tail(trace)).or_else(|| mean(&after_ramp))
}

/// (W(c) − W(1)) / ((c − 1)·W(1)): 1 for a server that does one request at a time, 0 for one that
/// does all at once.
fn serialness(
    concurrency: u32,
    mean: Option<Duration>,
    single: Option<SingleStream>,
) -> Option<f64> {
    let (mean, single) = (mean?.as_secs_f64(), single?.e2e_mean.as_secs_f64());
    let others = concurrency.checked_sub(1).filter(|others| *others > 0)?;
    (single > 0.0).then(|| (mean - single) / (f64::from(others) * single))
}

/// The most requests that were in flight at one moment; one that ends as another starts does not
/// overlap it.
fn most_in_flight(measured: &[&RequestTrace]) -> u32 {
    let starts = measured.iter().map(|trace| (trace.start, 1));
    let ends = measured.iter().map(|trace| (trace.end(), -1));
    let mut events: Vec<(Duration, i32)> = starts.chain(ends).collect();
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in events {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}
