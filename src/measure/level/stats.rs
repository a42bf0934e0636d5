//! What is said of each metric of a level.

use super::effective::Rule;
use crate::measure::metrics::Metric;
use crate::measure::order_statistics::{Interval, quantile_interval};
use crate::measure::sample::{P99_MIN_SAMPLES, Sample};
use crate::measure::trace::RequestTrace;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// One metric over the ok requests of a level, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SampleSummary {
    /// Percentiles (D1).
    pub p50: Option<f64>,
    /// See `p50`.
    pub p90: Option<f64>,
    /// See `p50`.
    pub p95: Option<f64>,
    /// See `p50`; `None` under [`P99_MIN_SAMPLES`] samples.
    pub p99: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Samples.
    pub n: u64,
    /// Independent samples that they are worth (D5).
    pub n_eff: Option<f64>,
    /// 95 % interval of the median (D2).
    pub p50_interval: Option<Interval>,
    /// The same for p90.
    pub p90_interval: Option<Interval>,
    /// The same for p99; `None` where p99 is.
    pub p99_interval: Option<Interval>,
}

impl SampleSummary {
    /// What is said of `sample`, which is worth `n_eff` independent observations.
    pub fn new(sample: &Sample, n_eff: Option<f64>) -> Self {
        let interval = |p| quantile_interval(sample, p, n_eff?);
        let has_p99 = sample.len() >= P99_MIN_SAMPLES;
        Self {
            p50: sample.percentile(50.0),
            p90: sample.percentile(90.0),
            p95: sample.percentile(95.0),
            p99: sample.percentile(99.0).filter(|_| has_p99),
            mean: sample.mean(),
            min: sample.min(),
            max: sample.max(),
            n: sample.len() as u64,
            n_eff,
            p50_interval: interval(0.5),
            p90_interval: interval(0.9),
            p99_interval: if has_p99 { interval(0.99) } else { None },
        }
    }
}

/// Every metric of the ok requests, which are in send order. A metric without a value is there,
/// with `n` 0. They know nothing of each other, so each core takes some: the bits are the same.
pub(super) fn summarise_metrics(
    ok: &[&RequestTrace],
    rule: Rule,
) -> BTreeMap<Metric, SampleSummary> {
    let mut table: BTreeMap<Metric, SampleSummary> = Metric::ALL
        .into_par_iter()
        .filter(|metric| *metric != Metric::Gap)
        .map(|metric| {
            let series: Vec<f64> = ok.iter().filter_map(|trace| metric.of(trace)).collect();
            let n_eff = rule.sample_size(metric, &series);
            (metric, SampleSummary::new(&Sample::new(series), n_eff))
        })
        .collect();
    table.insert(Metric::Gap, pooled_gaps(ok, table[&Metric::Tpot].n_eff));
    table
}

/// The gaps of all requests together. Those of one request are no independent observations, so
/// they are worth as many as the requests' mean gaps are.
fn pooled_gaps(ok: &[&RequestTrace], n_eff_of_requests: Option<f64>) -> SampleSummary {
    let mut gaps_us = Vec::with_capacity(ok.iter().map(|trace| trace.gaps_us.len()).sum());
    for trace in ok {
        gaps_us.extend_from_slice(&trace.gaps_us);
    }
    gaps_us.par_sort_unstable();
    let seconds = gaps_us.into_par_iter().map(|gap| f64::from(gap) / 1e6).collect();
    let sample = Sample::from_sorted(seconds);
    let n_eff = n_eff_of_requests.filter(|_| !sample.is_empty());
    SampleSummary::new(&sample, n_eff)
}
