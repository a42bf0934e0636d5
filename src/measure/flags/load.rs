//! Flags that the shape of the level raises.

use super::{Flag, FlagName, percent};
use crate::measure::level::{EffectiveRule, EndedBy, LevelSummary};
use crate::measure::metrics::Metric;
use crate::measure::order_statistics::{Interval, quantile_interval};
use crate::measure::sample::{P99_MIN_SAMPLES, Sample};
use crate::measure::steady::edges;
use crate::measure::trace::RequestTrace;

/// Share of the wall time with fewer than c in flight, above which the wall figure misleads.
const TAIL_SHARE: f64 = 0.2;
/// Below this, workers idled while they should have been waiting for the server.
const OCCUPANCY: f64 = 0.995;
/// Halves that differ by less than this are the same for any purpose here.
const DRIFT_SHARE: f64 = 0.05;
/// Halves' prompts may differ by this share and still count as equally long.
const PROMPT_SHARE: f64 = 0.01;

pub(super) fn flags(summary: &LevelSummary, measured: &[&RequestTrace]) -> Vec<Flag> {
    let found = [
        n_too_small(summary),
        tail_heavy(summary, measured),
        drift(summary, measured),
        low_occupancy(summary),
        interrupted(summary),
    ];
    found.into_iter().flatten().collect()
}

fn n_too_small(summary: &LevelSummary) -> Option<Flag> {
    let n_ok = summary.n_ok;
    (n_ok < P99_MIN_SAMPLES as u64).then(|| {
        let text = format!(
            "{n_ok} ok requests: a p99 would be the slowest one under another name, so there is \
             none (it takes {P99_MIN_SAMPLES}, and 1,000 to have ten beyond it){}",
            if summary.start_mode.is_closed_loop() && n_ok < u64::from(summary.concurrency) {
                "; and so few never kept all workers busy, so its throughput is that of fewer"
            } else {
                ""
            }
        );
        Flag::flagged(FlagName::NTooSmall, text).number("n_ok", n_ok as f64)
    })
}

fn tail_heavy(summary: &LevelSummary, measured: &[&RequestTrace]) -> Option<Flag> {
    // Where the last requests are missing, so is a tail.
    if !summary.start_mode.is_closed_loop() || summary.ended_by == EndedBy::Killed {
        return None;
    }
    let tail_start = edges(measured, summary.concurrency as usize).tail_start?;
    let end = measured.iter().map(|trace| trace.end()).max()?;
    let tail = end.saturating_sub(tail_start).as_secs_f64();
    let share = tail / summary.wall.as_secs_f64();
    (share > TAIL_SHARE).then(|| {
        let text = format!(
            "for {tail:.1} s of {:.1} s ({}) fewer than {} requests were in flight after the last \
             was sent: throughput over the wall time is too low, see steady_tps",
            summary.wall.as_secs_f64(),
            percent(share),
            summary.concurrency
        );
        Flag::flagged(FlagName::TailHeavy, text).number("tail_s", tail).number("share", share)
    })
}

fn low_occupancy(summary: &LevelSummary) -> Option<Flag> {
    let occupancy = summary.occupancy.filter(|occupancy| *occupancy < OCCUPANCY)?;
    let text = format!(
        "on average {:.2} of {} requests were in flight in the steady window: something between \
         the requests (refusals, connects, the harness) took {} of the time",
        occupancy * f64::from(summary.concurrency),
        summary.concurrency,
        percent(1.0 - occupancy)
    );
    Some(Flag::flagged(FlagName::LowOccupancy, text).number("occupancy", occupancy))
}

fn interrupted(summary: &LevelSummary) -> Option<Flag> {
    let lost = match summary.ended_by {
        EndedBy::Interrupted => "",
        EndedBy::Killed => {
            ", with the harness itself: what was in flight, the counters of hardware and server, \
             and the harness's own load are not known"
        }
        EndedBy::NOk
        | EndedBy::MaxAttempts
        | EndedBy::Refused
        | EndedBy::MaxDuration
        | EndedBy::MaxCost => return None,
    };
    let text = format!("cut short after {} ok requests{lost}", summary.n_ok);
    Some(Flag::flagged(FlagName::Interrupted, text).number("n_ok", summary.n_ok as f64))
}

/// First half against second half, in send order, of the requests in the steady window (of all,
/// where there is none).
fn drift(summary: &LevelSummary, measured: &[&RequestTrace]) -> Option<Flag> {
    let in_window = |trace: &&RequestTrace| {
        summary.steady.is_none_or(|window| window.t0 < trace.end() && trace.end() <= window.t1)
    };
    let ok = measured.iter().copied().filter(|trace| trace.outcome.is_ok());
    let kept: Vec<&RequestTrace> = ok.filter(in_window).collect();
    let (first, second) = kept.split_at(kept.len() / 2);
    let metrics: &[Metric] = if have_equal_prompts(first, second) {
        &[Metric::DecodeTps, Metric::Ttft]
    } else {
        &[Metric::DecodeTps]
    };
    let rule = EffectiveRule::new(summary.concurrency, summary.serialness);
    let half = |metric, traces| Half::new(metric, traces, rule);
    let drifted = metrics.iter().find_map(|metric| {
        let (first, second) = (half(*metric, first)?, half(*metric, second)?);
        first.differs_from(&second).then_some((metric.name(), first.median, second.median))
    });
    let (metric, first, second) = drifted?;
    let change = second / first - 1.0;
    let text = format!(
        "the median {metric} went from {first:.4} in the first half to {second:.4} in the second \
         ({}{}), outside each other's 95 % interval",
        if change > 0.0 { "+" } else { "" },
        percent(change)
    );
    let flag = Flag::flagged(FlagName::Drift, text);
    Some(flag.number("first_half", first).number("second_half", second).number("change", change))
}

/// Whether the halves had prompts of the same length, so that their TTFTs may be compared.
fn have_equal_prompts(first: &[&RequestTrace], second: &[&RequestTrace]) -> bool {
    let median = |traces: &[&RequestTrace]| {
        let lengths = traces.iter().filter_map(|trace| trace.tokens.n_prompt);
        Sample::new(lengths.map(|length| length as f64).collect()).median()
    };
    match (median(first), median(second)) {
        (Some(first), Some(second)) => (first - second).abs() <= PROMPT_SHARE * first,
        _ => false,
    }
}

struct Half {
    median: f64,
    interval: Interval,
}

impl Half {
    fn new(metric: Metric, traces: &[&RequestTrace], rule: EffectiveRule) -> Option<Self> {
        let series: Vec<f64> = traces.iter().filter_map(|trace| metric.of(trace)).collect();
        let n_eff = rule.sample_size(metric, &series)?;
        let sample = Sample::new(series);
        let interval = quantile_interval(&sample, 0.5, n_eff)?;
        Some(Self { median: sample.median()?, interval })
    }

    fn differs_from(&self, other: &Self) -> bool {
        let apart = (other.median - self.median).abs() > DRIFT_SHARE * self.median;
        apart && !self.interval.contains(other.median) && !other.interval.contains(self.median)
    }
}
