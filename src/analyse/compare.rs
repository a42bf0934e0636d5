//! Two runs against each other: ratios with intervals, and whether anything changed.

use super::rank_tests::{Paired, Shift, Unpaired};
use crate::measure::autocorrelation::autocorrelation_time;
use crate::measure::batch_means::MeanInterval;
use crate::measure::distribution::{Z_95, Z_99};
use std::collections::BTreeMap;

/// One metric of one level of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// (prompt, value) in send order; values that are not positive are left out.
    pub values: Vec<(u32, f64)>,
    /// Independent observations that they are worth; `None` if nobody worked it out.
    pub n_eff: Option<f64>,
}

/// How two series were set against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Prompt by prompt: Walsh averages of the log ratios.
    Paired,
    /// As two samples: Hodges–Lehmann on the logarithms.
    Unpaired,
}

/// b ÷ a of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Its 95 % interval; `None` where there are too few samples.
    pub interval_95: Option<[f64; 2]>,
    /// Its 99 % interval, by which changes are called: a table of twelve figures would call a
    /// change in every second one by accident at 95 %.
    pub interval_99: Option<[f64; 2]>,
    /// p of the test that belongs to it; that of independent observations.
    pub p: Option<f64>,
    /// How it was found.
    pub method: Method,
    /// Pairs, or the smaller of the samples.
    pub n: usize,
}

/// What a ratio means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// b is larger.
    Higher,
    /// b is smaller.
    Lower,
    /// The 99 % interval holds 1, or there is none.
    NotSignificant,
}

impl Ratio {
    /// Whether b differs from a, by the 99 % interval.
    pub fn change(&self) -> Change {
        match self.interval_99 {
            Some([low, _]) if low > 1.0 => Change::Higher,
            Some([_, high]) if high < 1.0 => Change::Lower,
            _ => Change::NotSignificant,
        }
    }
}

/// Compares two series: prompt by prompt where both have the same prompts, each once; else as two
/// samples. `None` if one is empty.
pub fn compare(a: &Series, b: &Series) -> Option<Ratio> {
    match log_ratios(a, b) {
        Some(log_ratios) => paired(log_ratios),
        None => unpaired(a, b),
    }
}

/// ln(b/a) of each prompt, in a's send order; `None` unless both have the same prompts, each once.
fn log_ratios(a: &Series, b: &Series) -> Option<Vec<f64>> {
    let of_b: BTreeMap<u32, f64> = b.values.iter().copied().collect();
    let of_a: BTreeMap<u32, f64> = a.values.iter().copied().collect();
    let once = of_a.len() == a.values.len() && of_b.len() == b.values.len();
    if !once || !of_a.keys().eq(of_b.keys()) {
        return None;
    }
    a.values.iter().map(|(prompt, value)| Some((of_b.get(prompt)? / value).ln())).collect()
}

fn paired(log_ratios: Vec<f64>) -> Option<Ratio> {
    let n = log_ratios.len();
    let time = autocorrelation_time(&log_ratios).unwrap_or(1.0);
    let paired = Paired::with_correlation_time(log_ratios, time);
    Ratio::of(paired.shift(Z_95)?, paired.shift(Z_99)?, paired.wilcoxon_p(), Method::Paired, n)
}

fn unpaired(a: &Series, b: &Series) -> Option<Ratio> {
    let logs = |series: &Series| -> Vec<f64> {
        let values = series.values.iter().map(|(_, value)| *value);
        values.filter(|value| *value > 0.0).map(f64::ln).collect()
    };
    let effective = |series: &Series, logs: &[f64]| {
        let worked_out = || logs.len() as f64 / autocorrelation_time(logs).unwrap_or(1.0).max(1.0);
        series.n_eff.unwrap_or_else(worked_out).clamp(1.0, logs.len().max(1) as f64)
    };
    let (log_a, log_b) = (logs(a), logs(b));
    let (effective_a, effective_b) = (effective(a, &log_a), effective(b, &log_b));
    let n = log_a.len().min(log_b.len());
    let samples = Unpaired::with_effective_sizes(log_a, log_b, effective_a, effective_b);
    let p = samples.mann_whitney().map(|(_, p)| p);
    Ratio::of(samples.shift(Z_95)?, samples.shift(Z_99)?, p, Method::Unpaired, n)
}

impl Ratio {
    /// From shifts of logarithms.
    fn of(at_95: Shift, at_99: Shift, p: Option<f64>, method: Method, n: usize) -> Option<Self> {
        let ratios = |shift: Shift| shift.interval.map(|ends| ends.map(f64::exp));
        let ratio = at_95.value.exp();
        let interval_95 = ratios(at_95);
        ratio.is_finite().then(|| Self {
            ratio,
            interval_95,
            interval_99: ratios(at_99),
            p,
            method,
            n,
        })
    }
}

/// The ratio of two rates with intervals by batch means: its 95 % interval, from the relative
/// standard errors of both.
pub fn ratio_of_rates(a: &MeanInterval, b: &MeanInterval) -> (f64, [f64; 2]) {
    let relative_half = |rate: &MeanInterval| (rate.high - rate.low) / 2.0 / rate.mean;
    let half = relative_half(a).hypot(relative_half(b));
    let ratio = b.mean / a.mean;
    (ratio, [ratio * (-half).exp(), ratio * half.exp()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    fn series(values: impl IntoIterator<Item = (u32, f64)>) -> Series {
        Series { values: values.into_iter().collect(), n_eff: None }
    }

    fn noise(i: u32) -> f64 {
        f64::from(i * 7919 % 1009) / 1009.0 - 0.5
    }

    #[test]
    fn the_same_prompts_are_compared_one_by_one() {
        // Prompts differ by a factor of five; targets by 3 %.
        let base = |i: u32| 1.0 + f64::from(i * 31 % 80) / 20.0;
        let a = series((0..80).map(|i| (i, base(i) * (1.0 + 0.01 * noise(i)))));
        let b = series((0..80).rev().map(|i| (i, 1.03 * base(i) * (1.0 + 0.01 * noise(i + 500)))));
        let got = compare(&a, &b).unwrap();
        assert_eq!((got.method, got.n, got.change()), (Method::Paired, 80, Change::Higher));
        assert!((got.ratio - 1.03).abs() < 0.003, "{got:?}");
        // As two samples, the prompts' differences drown it.
        let others = series(b.values.iter().map(|(i, value)| (i + 1000, *value)));
        let got = compare(&a, &others).unwrap();
        assert_eq!((got.method, got.change()), (Method::Unpaired, Change::NotSignificant));
    }

    #[test]
    fn no_sample_no_ratio() {
        assert_eq!(compare(&series([]), &series([(1, 1.0)])), None);
        let alone = compare(&series([(1, 1.0)]), &series([(1, 2.0)])).unwrap();
        assert_eq!((alone.change(), alone.interval_95), (Change::NotSignificant, None));
        assert_close(alone.ratio, 2.0);
    }

    #[test]
    fn rates() {
        let rate = |mean: f64, half: f64| MeanInterval {
            mean,
            std_dev: 0.0,
            low: mean - half,
            high: mean + half,
        };
        let (ratio, [low, high]) = ratio_of_rates(&rate(100.0, 3.0), &rate(110.0, 4.4));
        assert_close(ratio, 1.1);
        assert_close(low, 1.1 * (-0.05f64).exp());
        assert_close(high, 1.1 * 0.05f64.exp());
    }
}
