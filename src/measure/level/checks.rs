//! What stands beside the percentiles: whether the level settled, and MLPerf's cautious bounds.

use crate::measure::early_stopping::early_stopping_rank;
use crate::measure::metrics::Metric;
use crate::measure::mser::{Mser, mser5};
use crate::measure::sample::Sample;
use crate::measure::trace::RequestTrace;

/// Where a level's series settled (MSER-5, in completion order); a check, nothing is cut.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Settling {
    /// Of the times to first token.
    pub ttft: Option<Mser>,
    /// Of the decode speeds.
    pub decode_tps: Option<Mser>,
}

/// One-sided 99 % upper bounds of percentiles by MLPerf's early stopping (D3), in seconds; `None`
/// where there are too few requests (64 for p90, 662 for p99).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EarlyStopping {
    /// TTFT.
    pub ttft_p90: Option<f64>,
    /// TTFT.
    pub ttft_p99: Option<f64>,
    /// End-to-end latency.
    pub e2e_p90: Option<f64>,
    /// End-to-end latency.
    pub e2e_p99: Option<f64>,
}

impl Settling {
    pub(super) fn new(ok: &[&RequestTrace]) -> Self {
        let mut by_completion = ok.to_vec();
        by_completion.sort_by_key(|trace| (trace.end(), trace.index));
        let check = |metric: Metric| {
            let series: Vec<f64> =
                by_completion.iter().filter_map(|trace| metric.of(trace)).collect();
            mser5(&series)
        };
        Self { ttft: check(Metric::Ttft), decode_tps: check(Metric::DecodeTps) }
    }
}

impl EarlyStopping {
    pub(super) fn new(ttft: &Sample, e2e: &Sample) -> Self {
        let bound = |sample: &Sample, p| {
            let rank = usize::try_from(early_stopping_rank(p, sample.len() as u64)?).ok()?;
            sample.values().get(sample.len() - rank).copied()
        };
        Self {
            ttft_p90: bound(ttft, 0.9),
            ttft_p99: bound(ttft, 0.99),
            e2e_p90: bound(e2e, 0.9),
            e2e_p99: bound(e2e, 0.99),
        }
    }
}
