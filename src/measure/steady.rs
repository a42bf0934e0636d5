//! The steady window of a closed loop (D7), and what was delivered in it.
//!
//! n/wall is biased low: the last requests run with fewer than c in flight (−22 % for 200 requests
//! at c = 64 on a server with a constant pace). Between the c-th completion and the first
//! completion after the last send, c requests are in flight.

use super::metrics::tokens_in_first_event;
use super::trace::RequestTrace;
use std::collections::BTreeMap;
use std::time::Duration;

/// Under so many ok requests for each worker there is no steady window to speak of.
const MIN_REQUESTS_PER_WORKER: usize = 3;

/// The time during which c requests were in flight, since the level's start: t₀ is outside, t₁
/// inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The c-th smallest end of an ok request.
    pub t0: Duration,
    /// The first end of any request after the last one was sent.
    pub t1: Duration,
}

impl Window {
    /// Its length.
    pub fn length(&self) -> Duration {
        self.t1.saturating_sub(self.t0)
    }

    /// Cuts it into `parts` of equal length.
    pub fn parts(&self, parts: u32) -> impl Iterator<Item = Window> {
        let (start, length) = (self.t0, self.length());
        (0..parts).map(move |part| Window {
            t0: start + length * part / parts,
            t1: start + length * (part + 1) / parts,
        })
    }
}

/// Where the ramp ends and where the tail begins, whether or not there is room between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edges {
    /// t₀; `None` if fewer than c requests ended well.
    pub ramp_end: Option<Duration>,
    /// t₁; `None` if nothing was measured.
    pub tail_start: Option<Duration>,
}

/// The edges of a level's `measured` requests (failed and cancelled ones count as in flight).
pub fn edges(measured: &[&RequestTrace], concurrency: usize) -> Edges {
    let mut ok_ends: Vec<Duration> =
        measured.iter().filter(|trace| trace.outcome.is_ok()).map(|trace| trace.end()).collect();
    let ramp_end = concurrency.checked_sub(1).filter(|rank| *rank < ok_ends.len()).map(|rank| {
        let (_, end, _) = ok_ends.select_nth_unstable(rank);
        *end
    });
    let last_send = measured.iter().map(|trace| trace.start).max();
    let tail_start = last_send
        .and_then(|sent| measured.iter().map(|trace| trace.end()).filter(|end| *end > sent).min());
    Edges { ramp_end, tail_start }
}

/// The same for a level whose last requests are missing, those that were in flight when the harness
/// was killed: from the moment on when the first worker has none any more, nobody knows how many
/// were in flight.
pub fn edges_when_killed(measured: &[&RequestTrace], concurrency: usize) -> Edges {
    let mut last_ends = BTreeMap::<u32, Duration>::new();
    for trace in measured {
        let last = last_ends.entry(trace.worker).or_default();
        *last = trace.end().max(*last);
    }
    let all_known = last_ends.len() >= concurrency;
    let known_until = last_ends.values().min().filter(|_| all_known);
    let edges = edges(measured, concurrency);
    let tail_start =
        edges.tail_start.map(|start| start.min(known_until.copied().unwrap_or_default()));
    Edges { tail_start, ..edges }
}

/// The steady window; `None` with fewer than 3c ok requests, or where the edges leave no room.
pub fn steady_window(measured: &[&RequestTrace], concurrency: usize) -> Option<Window> {
    window_between(edges(measured, concurrency), measured, concurrency)
}

/// The same between edges that are known.
pub fn window_between(
    edges: Edges,
    measured: &[&RequestTrace],
    concurrency: usize,
) -> Option<Window> {
    let n_ok = measured.iter().filter(|trace| trace.outcome.is_ok()).count();
    if n_ok < MIN_REQUESTS_PER_WORKER.saturating_mul(concurrency) {
        return None;
    }
    let window = Window { t0: edges.ramp_end?, t1: edges.tail_start? };
    (window.t0 < window.t1).then_some(window)
}

/// Tokens delivered in (t₀, t₁]: those of the first event at its instant, the others as a fluid at
/// a uniform rate over (t_first, t_last]. Failed requests deliver none.
pub fn tokens_within(measured: &[&RequestTrace], window: Window) -> f64 {
    measured.iter().map(|trace| tokens_of(trace, window)).sum()
}

fn tokens_of(trace: &RequestTrace, window: Window) -> f64 {
    let stamps = (trace.stamps.first_text, trace.stamps.last_text, trace.tokens.n_out);
    let (true, (Some(first), Some(last), Some(n_out))) = (trace.outcome.is_ok(), stamps) else {
        return 0.0;
    };
    let (first, last) = (trace.start + first, trace.start + last);
    // An instant delivers everything at once.
    let at_once = if last > first { tokens_in_first_event(trace).min(n_out) } else { n_out };
    let instant = if window.t0 < first && first <= window.t1 { at_once as f64 } else { 0.0 };
    let flow = (n_out - at_once) as f64;
    let overlap = overlap(first, last, window).as_secs_f64();
    let share = if overlap > 0.0 { overlap / (last - first).as_secs_f64() } else { 0.0 };
    instant + flow * share
}

/// Mean number of requests in flight in the window.
pub fn mean_in_flight(measured: &[&RequestTrace], window: Window) -> f64 {
    let busy: Duration =
        measured.iter().map(|trace| overlap(trace.start, trace.end(), window)).sum();
    busy.as_secs_f64() / window.length().as_secs_f64()
}

fn overlap(from: Duration, to: Duration, window: Window) -> Duration {
    to.min(window.t1).saturating_sub(from.max(window.t0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::sample::tests::assert_close;
    use super::super::trace::tests::{answered, failed};
    use super::*;
    use crate::measure::trace::FailureClass;
    use proptest::prelude::*;

    /// Six answers of ten tokens by two workers, in send order.
    pub(crate) fn six_requests() -> Vec<RequestTrace> {
        let times = [
            (0.0, 1.0, 4.0),
            (0.0, 1.0, 5.0),
            (4.0, 5.0, 8.0),
            (5.0, 6.0, 9.0),
            (8.0, 9.0, 13.0),
            (9.0, 10.0, 11.0),
        ];
        let indexed = times.into_iter().zip(0..);
        let trace = |((start, first, last), index)| RequestTrace {
            index,
            prompt_index: index,
            ..answered(10, start, first, last)
        };
        indexed.map(trace).collect()
    }

    #[test]
    fn the_window_of_six_requests() {
        let traces = six_requests();
        let measured: Vec<&RequestTrace> = traces.iter().collect();
        let window = steady_window(&measured, 2).unwrap();
        assert_eq!((window.t0, window.t1), (Duration::from_secs(5), Duration::from_secs(11)));
        let tokens = tokens_within(&measured, window);
        assert_close(tokens, 34.5);
        assert_close(tokens / window.length().as_secs_f64(), 5.75);
        assert_close(mean_in_flight(&measured, window), 2.0);
    }

    #[test]
    fn littles_law_holds_by_arithmetic() {
        let traces = six_requests();
        let measured: Vec<&RequestTrace> = traces.iter().collect();
        let whole = Window { t0: Duration::ZERO, t1: Duration::from_secs(13) };
        let mean_wait: f64 =
            traces.iter().map(|trace| trace.stamps.end.as_secs_f64()).sum::<f64>() / 6.0;
        let in_flight = mean_in_flight(&measured, whole);
        assert_close(in_flight, 24.0 / 13.0);
        assert_close(mean_wait, 4.0);
        assert_close(in_flight, 6.0 / 13.0 * mean_wait);
    }

    #[test]
    fn failures_are_in_flight_and_deliver_nothing() {
        let mut traces = six_requests();
        traces[4] = RequestTrace { index: 4, ..failed(FailureClass::StallTimeout, 8.0, 13.0) };
        let measured: Vec<&RequestTrace> = traces.iter().collect();
        assert_eq!(steady_window(&measured, 2), None, "five ok requests are fewer than 3c");
        let window = Window { t0: Duration::from_secs(5), t1: Duration::from_secs(11) };
        assert_close(tokens_within(&measured, window), 34.5 - 5.5);
        assert_close(mean_in_flight(&measured, window), 2.0);
    }

    #[test]
    fn parts_cover_the_window() {
        let window = Window { t0: Duration::from_secs(1), t1: Duration::from_secs(4) };
        let parts: Vec<Window> = window.parts(10).collect();
        assert_eq!((parts[0].t0, parts[9].t1), (window.t0, window.t1));
        assert!(parts.windows(2).all(|pair| pair[0].t1 == pair[1].t0));
    }

    proptest! {
        #[test]
        fn in_flight_integrates_to_the_sum_of_the_waits(
            requests in prop::collection::vec((0u32..1000, 1u32..1000), 1..40),
        ) {
            let ms = |ms: u32| f64::from(ms) / 1000.0;
            let trace = |(start, length): &(u32, u32)| {
                answered(5, ms(*start), ms(start + length), ms(start + length))
            };
            let traces: Vec<RequestTrace> = requests.iter().map(trace).collect();
            let measured: Vec<&RequestTrace> = traces.iter().collect();
            let whole = Window { t0: Duration::ZERO, t1: Duration::from_secs(2) };
            let waits: f64 = traces.iter().map(|trace| trace.stamps.end.as_secs_f64()).sum();
            let integral = mean_in_flight(&measured, whole) * whole.length().as_secs_f64();
            prop_assert!((integral - waits).abs() <= 1e-9 * waits);
        }

        #[test]
        fn a_straggler_adds_its_own_tokens_only(start in 0.0f64..4.9, end in 11.1f64..30.0) {
            let traces = six_requests();
            let mut measured: Vec<&RequestTrace> = traces.iter().collect();
            let window = steady_window(&measured, 2).unwrap();
            let before = tokens_within(&measured, window);
            let straggler = answered(100, start, start + 0.05, end);
            let own = tokens_of(&straggler, window);
            measured.push(&straggler);
            prop_assert!((tokens_within(&measured, window) - before - own).abs() < 1e-9);
            prop_assert_eq!(steady_window(&measured, 2), Some(window));
        }
    }
}
