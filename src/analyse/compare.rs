//! Two runs against each other: ratios with intervals, and whether anything changed.

use super::rank_tests::{Paired, Shift, Unpaired};
use crate::measure::autocorrelation::autocorrelation_time;
use crate::measure::batch_means::{MeanInterval, PARTS};
use crate::measure::distribution::{Z_95, Z_99, student_quantile};
use std::collections::BTreeMap;

/// One metric of one level of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// (prompt, value) in send order; values that are not positive are left out.
    pub values: Vec<(u32, f64)>,
    /// Independent observations that they are worth; `None` if nobody worked it out.
    pub n_eff: Option<f64>,
    /// Values that are worth one by what is known of the server, whatever the series shows: c for
    /// waits in the queue of a serial one. At most 1 says nothing.
    pub correlation_time_min: f64,
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
    /// p of the test that belongs to it, of as many observations as the intervals count.
    pub p: Option<f64>,
    /// How it was found.
    pub method: Method,
    /// Pairs, or the smaller of the samples.
    pub n: usize,
    /// Independent observations that they are worth.
    pub n_eff: f64,
}

/// What a ratio means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// b is larger.
    Higher,
    /// b is smaller.
    Lower,
    /// The 99 % interval holds 1.
    NotSignificant,
    /// There is no 99 % interval: too few independent observations.
    Undecided,
}

impl Change {
    /// Whether b differs from a, by a 99 % interval of their ratio.
    pub fn by(interval_99: Option<[f64; 2]>) -> Self {
        match interval_99 {
            Some([low, _]) if low > 1.0 => Self::Higher,
            Some([_, high]) if high < 1.0 => Self::Lower,
            Some(_) => Self::NotSignificant,
            None => Self::Undecided,
        }
    }
}

impl Ratio {
    /// Whether b differs from a, by the 99 % interval.
    pub fn change(&self) -> Change {
        Change::by(self.interval_99)
    }
}

/// Compares two series of the same work: prompt by prompt where most of the prompts are in both,
/// each once; else as two samples. `None` if one is empty.
pub fn compare(a: &Series, b: &Series) -> Option<Ratio> {
    match log_ratios(a, b) {
        Some(log_ratios) => paired(log_ratios, a.correlation_time_min.max(b.correlation_time_min)),
        None => unpaired(a, b),
    }
}

/// Compares two series whose prompts are not the same, whatever their numbers.
pub fn compare_unpaired(a: &Series, b: &Series) -> Option<Ratio> {
    unpaired(a, b)
}

/// Pairs are worth it from this share of each run's values on: a request that failed in one of the
/// runs leaves its prompt without a partner.
const PAIRED_FROM: f64 = 0.8;

/// ln(b/a) of each prompt that both have, in a's send order; `None` if a prompt occurs twice in a
/// run, or too few are in both.
fn log_ratios(a: &Series, b: &Series) -> Option<Vec<f64>> {
    let of_b: BTreeMap<u32, f64> = b.values.iter().copied().collect();
    let of_a: BTreeMap<u32, f64> = a.values.iter().copied().collect();
    if of_a.len() != a.values.len() || of_b.len() != b.values.len() {
        return None;
    }
    let ratio = |(prompt, value): &(u32, f64)| Some((of_b.get(prompt)? / value).ln());
    let ratios: Vec<f64> = a.values.iter().filter_map(ratio).collect();
    let enough = PAIRED_FROM * of_a.len().max(of_b.len()) as f64;
    (!ratios.is_empty() && ratios.len() as f64 >= enough).then_some(ratios)
}

fn paired(log_ratios: Vec<f64>, time_min: f64) -> Option<Ratio> {
    let n = log_ratios.len();
    let time = autocorrelation_time(&log_ratios).unwrap_or(1.0).max(time_min).max(1.0);
    let paired = Paired::with_correlation_time(log_ratios, time);
    let found = Found { p: paired.wilcoxon_p(), method: Method::Paired, n, n_eff: n as f64 / time };
    found.ratio(paired.shift(Z_95)?, paired.shift(Z_99)?)
}

fn unpaired(a: &Series, b: &Series) -> Option<Ratio> {
    let logs = |series: &Series| -> Vec<f64> {
        let values = series.values.iter().map(|(_, value)| *value);
        values.filter(|value| *value > 0.0).map(f64::ln).collect()
    };
    let effective = |series: &Series, logs: &[f64]| {
        let shown = || autocorrelation_time(logs).unwrap_or(1.0);
        let worked_out = || logs.len() as f64 / shown().max(series.correlation_time_min).max(1.0);
        series.n_eff.unwrap_or_else(worked_out).clamp(1.0, logs.len().max(1) as f64)
    };
    let (log_a, log_b) = (logs(a), logs(b));
    let (effective_a, effective_b) = (effective(a, &log_a), effective(b, &log_b));
    let (n, n_eff) = (log_a.len().min(log_b.len()), effective_a.min(effective_b));
    let samples = Unpaired::with_effective_sizes(log_a, log_b, effective_a, effective_b);
    let p = samples.mann_whitney().map(|(_, p)| p);
    let found = Found { p, method: Method::Unpaired, n, n_eff };
    found.ratio(samples.shift(Z_95)?, samples.shift(Z_99)?)
}

/// What is known of a ratio besides its shifts.
struct Found {
    p: Option<f64>,
    method: Method,
    n: usize,
    n_eff: f64,
}

impl Found {
    /// From shifts of logarithms.
    fn ratio(self, at_95: Shift, at_99: Shift) -> Option<Ratio> {
        let Self { p, method, n, n_eff } = self;
        let ratios = |shift: Shift| shift.interval.map(|ends| ends.map(f64::exp));
        let ratio = at_95.value.exp();
        let (interval_95, interval_99) = (ratios(at_95), ratios(at_99));
        ratio.is_finite().then_some(Ratio { ratio, interval_95, interval_99, p, method, n, n_eff })
    }
}

/// The ratio of two rates with intervals by batch means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateRatio {
    /// b ÷ a.
    pub ratio: f64,
    /// Its 95 % interval, from the relative errors of both.
    pub interval_95: [f64; 2],
    /// Its 99 % interval.
    pub interval_99: [f64; 2],
}

/// b ÷ a of two rates, each with a 95 % interval over [`PARTS`] batch means. Student's t of one
/// run's degrees of freedom serves for both, which errs on the wide side.
pub fn ratio_of_rates(a: &MeanInterval, b: &MeanInterval) -> RateRatio {
    let relative_half = |rate: &MeanInterval| (rate.high - rate.low) / 2.0 / rate.mean;
    let half_95 = relative_half(a).hypot(relative_half(b));
    let degrees = PARTS as f64 - 1.0;
    let wider = student_quantile(degrees, 0.995) / student_quantile(degrees, 0.975);
    let ratio = b.mean / a.mean;
    let around = |half: f64| [ratio * (-half).exp(), ratio * half.exp()];
    RateRatio { ratio, interval_95: around(half_95), interval_99: around(half_95 * wider) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::tests::assert_close;

    fn series(values: impl IntoIterator<Item = (u32, f64)>) -> Series {
        Series { values: values.into_iter().collect(), ..Series::default() }
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

    /// On a serial server c requests are worth one, as far as waits are concerned.
    #[test]
    fn pairs_are_worth_what_the_server_makes_of_them() {
        let a = series((0..64).map(|i| (i, 1.0 + 0.1 * noise(i))));
        let mut b = series((0..64).map(|i| (i, 1.2 + 0.1 * noise(i + 500))));
        let independent = compare(&a, &b).unwrap();
        assert_eq!(independent.change(), Change::Higher);
        b.correlation_time_min = 16.0;
        let got = compare(&a, &b).unwrap();
        assert_eq!((got.n, got.n_eff, got.change()), (64, 4.0, Change::Undecided));
        assert!(got.p.unwrap() > 1e3 * independent.p.unwrap(), "{got:?}");
    }

    #[test]
    fn a_failure_leaves_one_prompt_without_a_partner() {
        let a = series((0..50).map(|i| (i, 1.0 + 0.1 * noise(i))));
        // Prompt 7 failed, so that prompt 50 took its place.
        let b = series((0..51).filter(|i| *i != 7).map(|i| (i, 1.0 + 0.1 * noise(i))));
        let got = compare(&a, &b).unwrap();
        assert_eq!((got.method, got.n, got.ratio), (Method::Paired, 49, 1.0));
        assert_eq!(compare_unpaired(&a, &b).unwrap().method, Method::Unpaired);
    }

    #[test]
    fn no_sample_no_ratio() {
        assert_eq!(compare(&series([]), &series([(1, 1.0)])), None);
        let alone = compare(&series([(1, 1.0)]), &series([(1, 2.0)])).unwrap();
        assert_eq!((alone.change(), alone.interval_95), (Change::Undecided, None));
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
        let got = ratio_of_rates(&rate(100.0, 3.0), &rate(110.0, 4.4));
        assert_close(got.ratio, 1.1);
        let [low, high] = got.interval_95;
        assert_close(low, 1.1 * (-0.05f64).exp());
        assert_close(high, 1.1 * 0.05f64.exp());
        // t₉ is 2.2622 at 95 % and 3.2498 at 99 %.
        assert!(((got.interval_99[1] / 1.1).ln() / 0.05 - 3.2498 / 2.2622).abs() < 1e-4, "{got:?}");
        assert_eq!(Change::by(Some(got.interval_95)), Change::Higher);
        assert_eq!(Change::by(Some(got.interval_99)), Change::Higher);
    }
}
