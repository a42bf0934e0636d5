//! How many requests a wanted precision takes, and what the number that was asked for can say.

use crate::measure::distribution::{Z_95, normal_quantile};
use std::time::Duration;

/// Independent samples until the 95 % interval of the `p`-quantile is within ±`precision`
/// (relative) for a roughly lognormal metric with the log-deviation `sigma`: (z·σ·k_p/ε)², with
/// k_p = √(p(1 − p))/φ(z_p); and never fewer than make the interval exist at all.
pub fn samples_for_precision(p: f64, sigma: f64, precision: f64) -> f64 {
    let wanted = (Z_95 * sigma * quantile_factor(p) / precision).powi(2);
    wanted.ceil().max(samples_for_upper_end(p))
}

/// The precision (relative, ±) that `n_eff` independent samples give; `None` where they are too
/// few for the interval to have both ends.
pub fn precision_of_samples(p: f64, sigma: f64, n_eff: f64) -> Option<f64> {
    (n_eff >= samples_for_upper_end(p)).then(|| Z_95 * sigma * quantile_factor(p) / n_eff.sqrt())
}

/// How much wider the standard error of a quantile is than σ/√n.
fn quantile_factor(p: f64) -> f64 {
    let z = normal_quantile(p);
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (p * (1.0 - p)).sqrt() / density
}

/// The smallest sample whose two-sided 95 % interval for the `p`-quantile (p ≥ ½) has an upper
/// end: pⁿ ≤ 2.5 %.
pub fn samples_for_upper_end(p: f64) -> f64 {
    (0.025f64.ln() / p.ln()).ceil()
}

/// What a pilot says of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pilot {
    /// Standard deviation of the metric's logarithm.
    pub sigma: f64,
    /// Requests that one independent sample takes: τ (c for the waits of a serial server).
    pub requests_per_sample: f64,
    /// Requests per second that the level gets through.
    pub requests_per_s: f64,
}

/// One row of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanRow {
    /// The quantile, 0 … 1.
    pub p: f64,
    /// Relative precision (±).
    pub precision: f64,
    /// Requests.
    pub requests: f64,
    /// Time that they take.
    pub time: Duration,
}

impl Pilot {
    /// What the `p`-quantile within ±`precision` takes.
    pub fn plan(&self, p: f64, precision: f64) -> PlanRow {
        let samples = samples_for_precision(p, self.sigma, precision);
        let requests = (samples * self.requests_per_sample).ceil();
        PlanRow { p, precision, requests, time: self.time(requests) }
    }

    /// How precisely `n` requests give the `p`-quantile; `None` where its interval has no upper
    /// end.
    pub fn precision(&self, p: f64, n: f64) -> Option<f64> {
        precision_of_samples(p, self.sigma, n / self.requests_per_sample)
    }

    /// How long `n` requests take.
    pub fn time(&self, n: f64) -> Duration {
        let seconds = n / self.requests_per_s;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// Standard deviation of the logarithms of positive values; `None` under two.
pub fn log_deviation(values: &[f64]) -> Option<f64> {
    let logs = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    crate::measure::sample::Sample::new(logs).std_dev()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_precisions() {
        let table = [
            (0.05, 7.0, 12.0, 54.0, 14.0),
            (0.2, 97.0, 180.0, 857.0, 215.0),
            (0.5, 604.0, 1123.0, 5354.0, 1339.0),
        ];
        for (sigma, p50, p90, p99, p99_rough) in table {
            let expected =
                [(0.5, 0.05, p50), (0.9, 0.05, p90), (0.99, 0.05, p99), (0.99, 0.1, p99_rough)];
            for (p, precision, samples) in expected {
                let exists: f64 = samples_for_upper_end(p);
                let got = samples_for_precision(p, sigma, precision);
                assert_eq!(got, exists.max(samples), "σ={sigma} p={p} ±{precision}");
            }
        }
    }

    #[test]
    fn intervals_exist_from_here_on() {
        for (p, n) in [(0.5, 6.0), (0.9, 36.0), (0.95, 72.0), (0.99, 368.0), (0.999, 3688.0)] {
            assert_eq!(samples_for_upper_end(p), n);
        }
    }

    #[test]
    fn a_serial_server_needs_c_requests_for_a_sample() {
        let pilot = Pilot { sigma: 0.05, requests_per_sample: 16.0, requests_per_s: 1.0 / 15.2 };
        let row = pilot.plan(0.99, 0.05);
        assert_eq!(row.requests, 368.0 * 16.0);
        assert_eq!(row.time, Duration::from_secs_f64(368.0 * 16.0 * 15.2));
        assert_eq!(pilot.precision(0.99, 1000.0), None);
        assert!(pilot.precision(0.5, 1000.0).unwrap() < 0.02);
    }
}
