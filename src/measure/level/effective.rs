//! How many independent observations each metric of a level is worth (D5).

use super::EffectiveSource;
use crate::measure::autocorrelation::autocorrelation_time;
use crate::measure::metrics::Metric;

/// Above this a server does one request at a time for our purposes: each wait is then the sum of
/// the last c service times, whose autocorrelation time is exactly c.
const SERIAL: f64 = 0.8;

/// How effective sample sizes are worked out in one level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    concurrency: u32,
    serialness: Option<f64>,
}

impl Rule {
    pub(crate) fn new(concurrency: u32, serialness: Option<f64>) -> Self {
        Self { concurrency, serialness }
    }

    pub(crate) fn source(self) -> EffectiveSource {
        match self.serialness {
            Some(_) => EffectiveSource::Serialness,
            None => EffectiveSource::Autocorrelation,
        }
    }

    /// n ÷ max(1, τ̂), with τ̂ at least c for the latencies of a serial server; `None` under two
    /// values.
    pub(crate) fn sample_size(self, metric: Metric, in_send_order: &[f64]) -> Option<f64> {
        let time = autocorrelation_time(in_send_order)?;
        Some(in_send_order.len() as f64 / time.max(self.time_min(metric)))
    }

    /// Values that are worth one whatever the series shows: c for the latencies of a serial
    /// server, else 1.
    pub(crate) fn time_min(self, metric: Metric) -> f64 {
        let serial = self.serialness.is_some_and(|share| share > SERIAL);
        if metric.contains_the_queue() && serial { f64::from(self.concurrency) } else { 1.0 }
    }
}
