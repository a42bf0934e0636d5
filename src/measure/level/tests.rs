//! What a level must make of its requests.

use super::*;
use crate::measure::flags::{Outside, judge};
use crate::measure::sample::tests::assert_close;
use crate::measure::steady::tests::six_requests;
use crate::measure::trace::tests::{answered, failed};
use proptest::prelude::*;

fn facts(concurrency: u32) -> LevelFacts {
    LevelFacts {
        concurrency,
        start_mode: StartMode::Staggered,
        ended_by: EndedBy::NOk,
        stutter: Duration::from_millis(200),
        single: None,
        slo: None,
    }
}

/// `n` requests by `c` workers against a server that does one at a time, `service` seconds each.
fn serial_level(n: u32, c: u32, service: f64) -> Vec<RequestTrace> {
    let request = |index: u32| {
        let turn = f64::from(index);
        let sent = if index < c { 0.0 } else { (turn - f64::from(c) + 1.0) * service };
        let (begun, done) = (turn * service, (turn + 1.0) * service);
        RequestTrace { index, worker: index % c, ..answered(11, sent, begun + 0.1, done) }
    };
    (0..n).map(request).collect()
}

#[test]
fn the_figures_of_six_requests() {
    let summary = summarise(&facts(2), &six_requests());
    assert_eq!((summary.n(), summary.n_ok, summary.n_err), (6, 6, 0));
    assert_eq!(summary.wall, Duration::from_secs(13));
    assert_close(summary.throughput_tps.unwrap(), 60.0 / 13.0);
    assert_close(summary.steady_tps.unwrap(), 5.75);
    assert_close(summary.occupancy.unwrap(), 1.0);
    assert_eq!(summary.effective_source, EffectiveSource::Autocorrelation);
    assert_eq!(summary.metric(Metric::Ttft).unwrap().p99, None);
}

#[test]
fn phases_follow_the_window() {
    let mut traces = six_requests();
    traces.push(RequestTrace { phase: Phase::Warmup, index: 9, ..answered(1, 0.0, 0.1, 0.2) });
    assign_phases(2, facts(2).start_mode, EndedBy::NOk, &mut traces);
    let phases: Vec<Phase> = traces.iter().map(|trace| trace.phase).collect();
    use Phase::{Ramp, Steady, Tail, Warmup};
    assert_eq!(phases, [Ramp, Ramp, Steady, Steady, Tail, Steady, Warmup]);
}

/// Two workers whose requests of a second each overlap by halves; the harness is killed at 10.2 s.
#[test]
fn what_is_missing_of_a_killed_level_is_no_idle_time() {
    let whole: Vec<RequestTrace> = (0..24u32)
        .map(|index| {
            let start = f64::from(index) / 2.0;
            RequestTrace {
                index,
                worker: index % 2,
                ..answered(11, start, start + 0.1, start + 1.0)
            }
        })
        .collect();
    let mut left: Vec<RequestTrace> =
        whole.iter().filter(|trace| trace.end() < Duration::from_millis(10_200)).cloned().collect();
    let killed = LevelFacts { ended_by: EndedBy::Killed, ..facts(2) };
    assert_close(summarise(&facts(2), &left).occupancy.unwrap(), 1.0);
    assert_close(summarise(&killed, &left).occupancy.unwrap(), 1.0);
    // One worker's request of 8.5 s is a long one: in the journal the other one goes on alone.
    left.retain(|trace| trace.worker == 0 || trace.end() < Duration::from_secs(9));
    assert!(summarise(&facts(2), &left).occupancy.unwrap() < 0.95);
    let summary = summarise(&killed, &left);
    assert_close(summary.occupancy.unwrap(), 1.0);
    assert_eq!(summary.steady.unwrap().t1, Duration::from_millis(8500));
    let (flags, _) = judge(&summary, &left, &Outside::default());
    let names: Vec<&str> = flags.iter().map(|flag| flag.name.name()).collect();
    assert_eq!(names, ["n_too_small", "interrupted"]);
    // A worker of which nothing is known: it may have sent its first request at any moment.
    left.retain(|trace| trace.worker == 0);
    assert_eq!(summarise(&killed, &left).steady, None);
    assign_phases(2, StartMode::Staggered, EndedBy::Killed, &mut left);
    assert!(left[2..].iter().all(|trace| trace.phase == Phase::Tail));
}

#[test]
fn one_value_says_nothing_of_how_far_it_may_be_off() {
    for (n, worth) in [(1, None), (2, Some(2.0))] {
        let summary = summarise(&facts(1), &serial_level(n, 1, 1.0));
        for metric in [Metric::Ttft, Metric::E2e, Metric::DecodeTps] {
            let stats = summary.metric(metric).unwrap();
            assert_eq!((stats.n, stats.n_eff), (u64::from(n), worth));
            assert_eq!(stats.p50_interval.is_some(), worth.is_some());
        }
    }
}

#[test]
fn one_at_a_time_says_the_same_later() {
    let traces = serial_level(5, 1, 1.0);
    let summary = summarise(&facts(1), &traces);
    assert_eq!(single_stream(&traces), summary.as_single_stream());
    assert!(single_stream(&traces).is_some());
    assert_eq!(single_stream(&[]), None);
}

#[test]
fn failures_are_counted_and_enter_no_latency() {
    let mut traces = six_requests();
    traces.push(RequestTrace { index: 6, ..failed(FailureClass::Http(503), 9.0, 9.1) });
    traces.push(RequestTrace { index: 7, ..failed(FailureClass::Cancelled, 9.0, 12.0) });
    let summary = summarise(&facts(2), &traces);
    assert_eq!((summary.n(), summary.n_err, summary.n_cancelled), (7, 1, 1));
    assert_eq!(summary.errors, BTreeMap::from([(FailureClass::Http(503), 1)]));
    assert_eq!(summary.metric(Metric::E2e).unwrap().n, 6);
    let all = summary.ttft_all.unwrap();
    assert_close(all.infinite_from_percent.unwrap(), 100.0 * 5.0 / 6.0);
}

#[test]
fn a_serial_server_is_recognised_and_its_sample_shrinks() {
    let single = summarise(&facts(1), &serial_level(40, 1, 2.0)).as_single_stream().unwrap();
    assert_eq!(single.e2e_mean, Duration::from_secs(2));
    let with_single = LevelFacts { single: Some(single), ..facts(16) };
    let summary = summarise(&with_single, &serial_level(200, 16, 2.0));
    assert_close(summary.serialness.unwrap(), 1.0);
    assert_eq!(summary.effective_source, EffectiveSource::Serialness);
    assert!(summary.metric(Metric::Ttft).unwrap().n_eff.unwrap() <= 12.5);
    assert_close(summary.steady_tps.unwrap(), 5.5);
}

#[test]
fn a_wait_for_the_server_leaves_no_steady_rate() {
    let mut traces = serial_level(60, 2, 1.0);
    assert!(summarise(&facts(2), &traces).steady_tps.is_some());
    let second = Some(Duration::from_secs(1));
    let none = Some(Duration::ZERO);
    for (retry_after, pause, is_steady) in [
        (second, second, false),
        (None, second, false), // The harness's own pause after a 429.
        (second, None, false), // A file that knows no pauses.
        (None, None, true),
        (none, None, true),
        (none, none, true),
    ] {
        let refused = failed(FailureClass::Http(429), 30.0, 30.01);
        traces.truncate(60);
        traces.push(RequestTrace { index: 60, retry_after, pause, ..refused });
        let summary = summarise(&facts(2), &traces);
        assert!(summary.steady.is_some());
        assert_eq!(summary.steady_tps.is_some(), is_steady, "{retry_after:?} {pause:?}");
    }
}

#[test]
fn replaced_connections_and_late_sends_are_counted() {
    let mut traces = six_requests();
    traces.iter_mut().take(2).for_each(|trace| trace.connection.stale = true);
    assert_eq!(summarise(&facts(1), &traces).n_stale, 2);
    assert_eq!(summarise(&facts(1), &traces).lateness, None);
    let late = |index: u32| {
        let mut trace =
            answered(10, f64::from(index), f64::from(index) + 0.1, f64::from(index) + 1.0);
        (trace.index, trace.lateness) = (index, Some(Duration::from_millis(index.into())));
        trace
    };
    let open = LevelFacts { start_mode: StartMode::OpenConstant, ..facts(0) };
    let traces: Vec<RequestTrace> = (1..=101).map(late).collect();
    let lateness = summarise(&open, &traces).lateness.unwrap();
    assert_close(lateness.p50, 0.051);
    assert_close(lateness.p99.unwrap(), 0.1);
    let lateness = summarise(&open, &traces[..99]).lateness.unwrap();
    assert_eq!(lateness.p99, None, "n<100");
    assert_close(lateness.max, 0.099);
}

#[test]
fn an_open_loop_has_no_steady_window() {
    let open = LevelFacts { start_mode: StartMode::OpenPoisson, ..facts(0) };
    let mut traces = six_requests();
    let summary = summarise(&open, &traces);
    assert_eq!((summary.concurrency, summary.steady, summary.occupancy), (2, None, None));
    assign_phases(0, open.start_mode, EndedBy::NOk, &mut traces);
    assert!(traces.iter().all(|trace| trace.phase == Phase::Steady));
}

#[test]
fn nothing_measured_is_no_figure() {
    let summary = summarise(&facts(4), &[]);
    assert_eq!((summary.n(), summary.throughput_tps, summary.stutter_share), (0, None, None));
    assert_eq!(summary.metric(Metric::Ttft).unwrap().p50, None);
}

#[test]
fn stutters_are_requests_with_a_long_gap() {
    let mut traces = serial_level(4, 1, 1.0);
    traces[0].gaps_us = vec![1000, 200_000];
    traces[1].gaps_us = vec![1000, 200_001];
    let summary = summarise(&facts(1), &traces);
    assert_eq!(summary.stutter_share, Some(0.25));
    let gap = summary.metric(Metric::Gap).unwrap();
    assert_eq!((gap.n, gap.max), (4, Some(0.200001)));
}

fn arbitrary_level() -> impl Strategy<Value = Vec<RequestTrace>> {
    let request = (0u32..50_000, 1u32..500, 1u32..5_000, 1u64..300, prop::bool::weighted(0.9));
    prop::collection::vec(request, 1..60).prop_map(|requests| {
        let seconds = |ms: u32| f64::from(ms) / 1000.0;
        let numbered = requests.into_iter().zip(0..);
        let trace = |((start, first, rest, n_out, ok), index)| {
            let (first, last) = (start + first, start + first + rest);
            let trace = if ok {
                answered(n_out, seconds(start), seconds(first), seconds(last))
            } else {
                failed(FailureClass::Http(500), seconds(start), seconds(last))
            };
            RequestTrace { index, ..trace }
        };
        numbered.map(trace).collect()
    })
}

proptest! {
    #[test]
    fn the_order_of_finishing_changes_no_bit(
        (level, shuffled) in arbitrary_level()
            .prop_flat_map(|level| (Just(level.clone()), Just(level).prop_shuffle())),
        concurrency in 1u32..6,
    ) {
        let facts = facts(concurrency);
        let (one, other) = (summarise(&facts, &level), summarise(&facts, &shuffled));
        // Through Debug, since equality would hold for 0.0 and −0.0.
        prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }

    #[test]
    fn a_slower_clock_scales_every_figure(level in arbitrary_level(), concurrency in 1u32..6) {
        let slower: Vec<RequestTrace> = level.iter().cloned().map(|mut trace| {
            trace.start *= 4;
            trace.stamps.end *= 4;
            for stamp in [
                &mut trace.stamps.first_text,
                &mut trace.stamps.first_answer,
                &mut trace.stamps.last_text,
            ] {
                *stamp = stamp.map(|time| time * 4);
            }
            trace
        }).collect();
        let facts = facts(concurrency);
        let (one, other) = (summarise(&facts, &level), summarise(&facts, &slower));
        let same = |one: Option<f64>, other: Option<f64>, factor: f64| match (one, other) {
            (Some(one), Some(other)) => (one * factor - other).abs() <= 1e-6 * other.abs(),
            (one, other) => one.is_none() && other.is_none(),
        };
        for metric in [Metric::Ttft, Metric::E2e, Metric::Tpot] {
            let p50 = |summary: &LevelSummary| summary.metric(metric).unwrap().p50;
            prop_assert!(same(p50(&one), p50(&other), 4.0));
        }
        prop_assert!(same(one.throughput_tps, other.throughput_tps, 0.25));
        prop_assert!(same(one.steady_tps, other.steady_tps, 0.25));
        prop_assert!(same(one.occupancy, other.occupancy, 1.0));
    }
}
