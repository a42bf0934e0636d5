//! Distribution-free intervals for quantiles (D2), on the effective sample size (D5).
//!
//! The number of samples below the true p-quantile is binomial, so two order statistics enclose it
//! with a probability that is known exactly, whatever the distribution. Where the sample is too
//! small for an end to exist, there is none, and no number takes its place.

use super::sample::Sample;

/// What an equal-tailed 95 % interval leaves out on each side.
const TAIL: f64 = 0.025;

/// Ranks (1-based) of the order statistics that enclose a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankInterval {
    /// Rank of the lower end; `None`: −∞.
    pub low: Option<usize>,
    /// Rank of the upper end; `None`: +∞.
    pub high: Option<usize>,
    /// Probability that the interval holds the quantile: at least 0.95.
    pub coverage: f64,
}

/// An interval for a quantile, in the unit of the sample; an end that does not exist is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// Whether `value` is not excluded by either end.
    pub fn contains(&self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }
}

/// The 95 % interval for the `p`-quantile (0 < p < 1) of `n` independent samples, as ranks: with
/// B ~ Binomial(n, p), the largest l with P(B ≤ l − 1) ≤ 2.5 % and the smallest u with
/// P(B ≥ u) ≤ 2.5 %; coverage is P(l ≤ B ≤ u − 1).
pub fn rank_interval(n: usize, p: f64) -> RankInterval {
    let binomial = Binomial::new(n, p);
    let low = binomial.ranks_in_lower_tail();
    let high = n + 1 - binomial.ranks_in_upper_tail();
    RankInterval {
        low: (low >= 1).then_some(low),
        high: (high <= n).then_some(high),
        coverage: binomial.probability(low, high),
    }
}

/// The 95 % interval for the `p`-quantile of a sample that is worth `n_eff` independent ones: the
/// ranks for m = ⌊n_eff⌋ as fractions (rank − ½)/m, looked up in the sorted values at the plotting
/// positions (i − ½)/n. `None` if m is 0.
pub fn quantile_interval(sample: &Sample, p: f64, n_eff: f64) -> Option<Interval> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 ..= n")]
    let m = n_eff.clamp(0.0, sample.len() as f64) as usize;
    if m == 0 {
        return None;
    }
    let ranks = rank_interval(m, p);
    let value = |rank: usize| sample.at_fraction((rank as f64 - 0.5) / m as f64);
    Some(Interval { low: ranks.low.and_then(value), high: ranks.high.and_then(value) })
}

/// Binomial(n, p) as weights around its mode.
///
/// The weights follow from each other by exact ratios, so no gamma function's error enters, and
/// only the ~24 standard deviations that matter are kept.
struct Binomial {
    n: usize,
    /// Which count the first weight is for.
    first: usize,
    /// Probabilities.
    weights: Vec<f64>,
}

impl Binomial {
    /// Relative to the mode; below it a weight changes no sum.
    const NEGLIGIBLE: f64 = 1e-30;

    fn new(n: usize, p: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 ..= n")]
        let mode = (((n + 1) as f64 * p) as usize).min(n);
        let odds = p / (1.0 - p);
        let mut below = Vec::new();
        let mut weight = 1.0;
        for k in (1..=mode).rev() {
            weight *= k as f64 / ((n - k + 1) as f64 * odds);
            if weight < Self::NEGLIGIBLE {
                break;
            }
            below.push(weight);
        }
        let first = mode - below.len();
        let mut weights: Vec<f64> = below.into_iter().rev().collect();
        weights.push(1.0);
        let mut weight = 1.0;
        for k in mode..n {
            weight *= (n - k) as f64 * odds / (k + 1) as f64;
            if weight < Self::NEGLIGIBLE {
                break;
            }
            weights.push(weight);
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Self { n, first, weights }
    }

    /// The largest l with P(B ≤ l − 1) ≤ 2.5 %.
    fn ranks_in_lower_tail(&self) -> usize {
        self.first + count_within_tail(self.weights.iter())
    }

    /// The largest k with P(B ≥ n + 1 − k) ≤ 2.5 %.
    fn ranks_in_upper_tail(&self) -> usize {
        let above = self.n + 1 - (self.first + self.weights.len());
        above + count_within_tail(self.weights.iter().rev())
    }

    /// P(low ≤ B < high).
    fn probability(&self, low: usize, high: usize) -> f64 {
        let within = |k: usize| (low..high).contains(&k);
        let kept = self.weights.iter().enumerate().filter(|(i, _)| within(self.first + i));
        kept.map(|(_, weight)| weight).sum()
    }
}

/// How many of `weights`, smallest first, add up to no more than [`TAIL`].
fn count_within_tail<'a>(weights: impl Iterator<Item = &'a f64>) -> usize {
    let mut sum = 0.0;
    weights
        .take_while(|weight| {
            sum += **weight;
            sum <= TAIL
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{S20, assert_close};
    use super::*;

    #[test]
    fn ranks_and_coverages_of_the_table() {
        let table: [(usize, f64, usize, Option<usize>, f64); 13] = [
            (20, 0.5, 6, Some(15), 0.9586105346679688),
            (20, 0.9, 15, None, 0.988746865835491),
            (20, 0.99, 19, None, 0.9831406623643482),
            (36, 0.9, 29, Some(36), 0.9539621052026521),
            (50, 0.9, 41, Some(50), 0.9703082890880885),
            (100, 0.9, 84, Some(96), 0.955690107191223),
            (100, 0.99, 97, None, 0.9816259635553503),
            (200, 0.5, 86, Some(115), 0.9599628083866005),
            (200, 0.9, 171, Some(189), 0.9668839008979295),
            (368, 0.99, 360, Some(368), 0.9624158204108587),
            (1000, 0.5, 469, Some(532), 0.9537088026395018),
            (1000, 0.9, 881, Some(919), 0.9549071811148259),
            (1000, 0.99, 983, Some(997), 0.976094763497977),
        ];
        for (n, p, low, high, coverage) in table {
            let got = rank_interval(n, p);
            assert_eq!((got.low, got.high), (Some(low), high), "n={n} p={p}");
            assert_close(got.coverage, coverage);
        }
        assert_eq!(rank_interval(35, 0.9).high, None);
        let almost = rank_interval(367, 0.99);
        assert_eq!((almost.low, almost.high), (Some(359), None));
    }

    #[test]
    fn upper_ends_exist_from_the_known_sample_sizes_on() {
        for (p, n) in [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)] {
            assert!(rank_interval(n, p).high.is_some(), "n={n} p={p}");
            assert!(rank_interval(n - 1, p).high.is_none(), "n={} p={p}", n - 1);
        }
    }

    #[test]
    fn an_interval_is_in_the_unit_of_the_sample() {
        let sample = Sample::new(S20.to_vec());
        let median = quantile_interval(&sample, 0.5, 20.0).unwrap();
        assert_close(median.low.unwrap(), 99.5);
        assert_close(median.high.unwrap(), 103.5);
        let p90 = quantile_interval(&sample, 0.9, 20.0).unwrap();
        assert_close(p90.low.unwrap(), 103.5);
        assert_eq!(p90.high, None);
    }

    #[test]
    fn a_small_effective_sample_widens_the_interval() {
        // n = 200 at c = 16 on a serial server: ⌊n_eff⌋ = 12, ranks (3, 10) of 12.
        let ranks = rank_interval(12, 0.5);
        assert_eq!((ranks.low, ranks.high), (Some(3), Some(10)));
        let sample = Sample::new((1..=200).map(f64::from).collect());
        let got = quantile_interval(&sample, 0.5, 200.0 / 16.0).unwrap();
        let position = |fraction: f64| fraction * 200.0 + 0.5;
        assert_close(got.low.unwrap(), position(2.5 / 12.0));
        assert_close(got.high.unwrap(), position(9.5 / 12.0));
        assert_eq!(quantile_interval(&sample, 0.5, 0.9), None);
    }

    #[test]
    fn a_million_samples_are_no_trouble() {
        let ranks = rank_interval(1_000_000, 0.5);
        // Normal approximation: 500,000 ± 1.96·500.
        assert!(ranks.low.unwrap().abs_diff(499_020) <= 2, "{ranks:?}");
        assert!(ranks.high.unwrap().abs_diff(500_981) <= 2, "{ranks:?}");
    }
}
