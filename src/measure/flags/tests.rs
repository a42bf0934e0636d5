//! Each flag stands where its threshold is passed, and only there.

use super::*;
use crate::measure::level::{EndedBy, LevelFacts, StartMode, summarise};
use crate::measure::trace::tests::{answered, failed};
use crate::measure::trace::{ServerTimes, TokenSource};
use std::time::Duration;

fn facts() -> LevelFacts {
    LevelFacts {
        concurrency: 1,
        start_mode: StartMode::Staggered,
        ended_by: EndedBy::NOk,
        stutter: Duration::from_millis(200),
        single: None,
        slo: None,
    }
}

/// `n` requests one after the other, a second each, with nothing to complain about.
fn clean_level(n: u32) -> Vec<RequestTrace> {
    let request = |index: u32| {
        let start = f64::from(index);
        let mut trace = answered(10, start, start + 0.1, start + 1.0);
        trace.index = index;
        trace.tokens.n_prompt = Some(100);
        trace.gaps_us = vec![100_000; 9];
        trace
    };
    (0..n).map(request).collect()
}

fn judged(traces: &[RequestTrace], outside: &Outside) -> Vec<(&'static str, Severity)> {
    let summary = summarise(&facts(), traces);
    let (flags, verdict) = judge(&summary, traces, outside);
    assert_eq!(verdict, Verdict::of(&flags));
    assert!(flags.iter().all(|flag| !flag.text.is_empty()));
    flags.iter().map(|flag| (flag.name.name(), flag.severity)).collect()
}

/// Judges a clean level of 200 after `change` was made to its first `count` requests.
fn judged_after(count: usize, change: impl Fn(&mut RequestTrace)) -> Vec<(&'static str, Severity)> {
    let mut traces = clean_level(200);
    traces.iter_mut().take(count).for_each(change);
    let length = Some(AskedLength::Exactly(10));
    judged(&traces, &Outside { length, ..Outside::default() })
}

const FLAGGED: Severity = Severity::Flagged;
const INVALID: Severity = Severity::Invalid;

#[test]
fn a_clean_level_has_no_flag() {
    assert_eq!(judged_after(0, |_| ()), []);
}

#[test]
fn failures_flag_and_from_one_percent_on_invalidate() {
    let with_failures = |count: u32| {
        let mut traces = clean_level(200);
        traces.extend((0..count).map(|i| RequestTrace {
            index: 200 + i,
            ..failed(FailureClass::Http(500), 100.0, 100.1)
        }));
        judged(&traces, &Outside::default())
    };
    assert_eq!(with_failures(1), [("error_rate", FLAGGED)]);
    assert_eq!(with_failures(2)[0], ("error_rate", FLAGGED));
    assert_eq!(with_failures(3)[0], ("error_rate", INVALID));
}

#[test]
fn answers_of_another_length() {
    let shorter = |trace: &mut RequestTrace| {
        trace.tokens.n_out = Some(9);
        trace.tokens.n_chunks = 9;
    };
    assert_eq!(judged_after(10, shorter), [("length_mismatch", FLAGGED)]);
    assert_eq!(judged_after(11, shorter), [("length_mismatch", INVALID)]);
    assert!(AskedLength::AtMost(10).allows(9) && !AskedLength::AtMost(10).allows(11));
}

#[test]
fn what_the_server_said_of_tokens() {
    let estimated = |trace: &mut RequestTrace| trace.tokens.source = TokenSource::Estimated;
    assert_eq!(judged_after(1, estimated), [("usage_missing", FLAGGED)]);
    let no_text = |trace: &mut RequestTrace| trace.tokens.n_chunks = 0;
    assert_eq!(judged_after(1, no_text), [("usage_mismatch", FLAGGED)]);
    let garbled = |trace: &mut RequestTrace| trace.tokens.parse_errors = 1;
    assert_eq!(judged_after(1, garbled), [("parse_errors", FLAGGED)]);
    let bundled = |trace: &mut RequestTrace| trace.tokens.n_chunks = 9;
    assert_eq!(judged_after(200, bundled), [("coalesced", FLAGGED)]);
    assert_eq!(judged_after(20, bundled), []);
    let cached = |tokens| move |trace: &mut RequestTrace| trace.tokens.n_cached = Some(tokens);
    assert_eq!(judged_after(1, cached(64)), []);
    assert_eq!(judged_after(1, cached(65)), [("cached_prompts", FLAGGED)]);
}

#[test]
fn an_account_of_more_time_than_there_was() {
    let prefill = |us| {
        move |trace: &mut RequestTrace| {
            let prefill = Some(Duration::from_micros(us));
            let (queue, decode, source) = (None, None, "timings".to_owned());
            trace.server = Some(ServerTimes { queue, prefill, decode, source });
        }
    };
    assert_eq!(judged_after(1, prefill(100_500)), []);
    assert_eq!(judged_after(1, prefill(100_501)), [("negative_remainder", FLAGGED)]);
}

#[test]
fn the_shape_of_the_level() {
    let few = clean_level(99);
    assert_eq!(judged(&few, &Outside::default()), [("n_too_small", FLAGGED)]);

    let mut drifting = clean_level(200);
    for trace in &mut drifting[100..] {
        trace.stamps.first_text = Some(Duration::from_millis(110));
    }
    assert_eq!(judged(&drifting, &Outside::default()), [("drift", FLAGGED)]);
    for trace in &mut drifting[100..] {
        trace.tokens.n_prompt = Some(120);
    }
    assert_eq!(judged(&drifting, &Outside::default()), []);

    let mut idle = clean_level(200);
    for trace in &mut idle[100..] {
        trace.start += Duration::from_secs(2);
    }
    assert_eq!(judged(&idle, &Outside::default()), [("low_occupancy", FLAGGED)]);

    let mut straggling = clean_level(200);
    let two = LevelFacts { concurrency: 2, ..facts() };
    straggling[0].stamps.end = Duration::from_secs(300);
    straggling[0].stamps.last_text = Some(Duration::from_secs(300));
    let summary = summarise(&two, &straggling);
    let (flags, _) = judge(&summary, &straggling, &Outside::default());
    assert_eq!(flags[0].name, FlagName::TailHeavy);

    let cut = LevelFacts { ended_by: EndedBy::Interrupted, ..facts() };
    let traces = clean_level(200);
    let (flags, _) = judge(&summarise(&cut, &traces), &traces, &Outside::default());
    assert_eq!(flags[0].name, FlagName::Interrupted);
}

#[test]
fn what_others_found_out() {
    let traces = clean_level(200);
    let check = |outside: Outside, expected: &[(&str, Severity)]| {
        assert_eq!(judged(&traces, &outside), expected);
    };
    let client = |client| Outside { client, ..Outside::default() };
    let ms = |ms| Some(Duration::from_millis(ms));
    let quiet = ClientFacts { gap_error_p99: ms(5), cpu_share: Some(0.7), loop_lag_p99: ms(2) };
    check(client(quiet), &[]);
    for busy in [
        ClientFacts { gap_error_p99: ms(6), ..quiet },
        ClientFacts { cpu_share: Some(0.71), ..quiet },
        ClientFacts { loop_lag_p99: ms(3), ..quiet },
    ] {
        check(client(busy), &[("client_limited", FLAGGED)]);
    }
    let late = |late: u64, n: u32| {
        let mut traces = clean_level(n);
        traces.iter_mut().for_each(|trace| trace.lateness = Some(Duration::from_micros(late)));
        let open = LevelFacts { start_mode: StartMode::OpenConstant, ..facts() };
        let (flags, _) = judge(&summarise(&open, &traces), &traces, &Outside::default());
        flags.iter().map(|flag| (flag.name.name(), flag.severity)).collect::<Vec<_>>()
    };
    // Of a median TTFT of 0.1 s, which counts from the intended send.
    assert_eq!(late(1000, 200), []);
    assert_eq!(late(1020, 200), [("client_limited", FLAGGED)]);
    // Under 100 requests there is no p99, and being late counts all the same.
    let limited = ("client_limited", FLAGGED);
    assert!(!late(1000, 50).contains(&limited) && late(1020, 50).contains(&limited));
    let tokenizer = Some(TokenizerCheck { checked: 200, differing: 1, largest_difference: 1 });
    check(Outside { tokenizer, ..Outside::default() }, &[("prompt_mismatch", FLAGGED)]);
    let wrong_model = Some(ModelMismatch { asked: "a".into(), answered: "b".into() });
    check(Outside { wrong_model, ..Outside::default() }, &[("wrong_model", INVALID)]);
    let settings_not_applied = vec!["-c: asked 4096, runs with 2048".into()];
    check(
        Outside { settings_not_applied, ..Outside::default() },
        &[("settings_not_applied", INVALID)],
    );
    check(Outside { ceiling_tps: Some(9.81), ..Outside::default() }, &[]);
    check(Outside { ceiling_tps: Some(9.8), ..Outside::default() }, &[("over_roofline", FLAGGED)]);
    const SLACK: u64 = 256_000_000;
    assert_eq!(memory_not_released(SLACK, Memory::Devices), None);
    let flag = memory_not_released(SLACK + 1, Memory::Devices).unwrap();
    assert_eq!((flag.name, flag.severity), (FlagName::MemoryNotReleased, FLAGGED));
    assert!(flag.text.contains("256 MB of device memory"), "{}", flag.text);
}

#[test]
fn the_device() {
    let traces = clean_level(200);
    let check = |gpu: GpuFacts, expected: &[(&str, Severity)]| {
        let outside = Outside { gpus: vec![gpu], measures_power: true, ..Outside::default() };
        assert_eq!(judged(&traces, &outside), expected);
    };
    let healthy = GpuFacts {
        sm_clock_mhz_mean: Some(1500.0),
        sm_clock_mhz_limit: Some(2500.0),
        throttle_share: BTreeMap::from([
            ("sw_power_cap".into(), 1.0),
            ("hw_slowdown".into(), 0.05),
        ]),
        ..GpuFacts::default()
    };
    check(healthy.clone(), &[]);
    check(
        GpuFacts { foreign_processes: vec!["Xorg (7, graphics)".into()], ..healthy.clone() },
        &[("foreign_gpu_process", FLAGGED)],
    );
    let slow = GpuFacts { sm_clock_mhz_mean: Some(999.0), ..healthy.clone() };
    check(slow.clone(), &[("low_clock", FLAGGED)]);
    check(GpuFacts { name: Some("NVIDIA GB10".into()), ..slow }, &[("low_clock", INVALID)]);
    let hot = BTreeMap::from([("hw_thermal_slowdown".into(), 0.06)]);
    check(GpuFacts { throttle_share: hot, ..healthy }, &[("throttled", FLAGGED)]);
    let short = clean_level(2);
    let power = Outside { measures_power: true, ..Outside::default() };
    let flags = judged(&short, &power);
    assert!(flags.contains(&("n_too_small", FLAGGED)));
    assert!(!flags.contains(&("level_shorter_than_power_window", FLAGGED)), "2 s are enough");
    let flags = judged(&clean_level(1), &power);
    assert!(flags.contains(&("level_shorter_than_power_window", FLAGGED)));
}
