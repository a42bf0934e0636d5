//! Shifts between two samples, by ranks (D10): no distribution is assumed, and a tail moves
//! nothing.

use crate::measure::distribution::normal_cdf;

/// A shift and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The estimate.
    pub value: f64,
    /// Its interval; `None` where the samples are too small for one.
    pub interval: Option<[f64; 2]>,
}

/// Two independent samples, each with the number of independent observations that it is worth.
#[derive(Debug, Clone)]
pub struct Unpaired {
    a: Vec<f64>,
    b: Vec<f64>,
    effective_a: f64,
    effective_b: f64,
}

impl Unpaired {
    /// Samples of independent observations.
    pub fn new(a: Vec<f64>, b: Vec<f64>) -> Self {
        let (effective_a, effective_b) = (a.len() as f64, b.len() as f64);
        Self::with_effective_sizes(a, b, effective_a, effective_b)
    }

    /// Samples that are worth fewer observations than they hold: the variance of the rank
    /// statistic is that of samples of the effective sizes.
    pub fn with_effective_sizes(
        mut a: Vec<f64>,
        mut b: Vec<f64>,
        effective_a: f64,
        effective_b: f64,
    ) -> Self {
        a.sort_unstable_by(f64::total_cmp);
        b.sort_unstable_by(f64::total_cmp);
        Self { a, b, effective_a, effective_b }
    }

    /// Hodges–Lehmann: the median of all bⱼ − aᵢ, and the interval between their K-th smallest
    /// and K-th largest, K = ⌊mn/2 − z·√(mn(m + n + 1)/12)⌋. `None` if a sample is empty.
    pub fn shift(&self, z: f64) -> Option<Shift> {
        let pairs = self.pairs();
        if pairs == 0 {
            return None;
        }
        let rank = rank_from_middle(pairs, z * self.deviation());
        let ranked = |rank| self.ranked_difference(rank);
        let value = middle_of(pairs, &ranked);
        let interval = rank.map(|rank| [ranked(rank), ranked(pairs + 1 - rank)]);
        Some(Shift { value, interval })
    }

    /// Mann–Whitney's U of b (pairs in which b is larger, ties as a half), and its two-sided p by
    /// the normal approximation with corrections for ties and continuity; its variance is that of
    /// the effective sizes, as the interval's is.
    pub fn mann_whitney(&self) -> Option<(f64, f64)> {
        if self.pairs() == 0 {
            return None;
        }
        let (m, n) = (self.a.len() as f64, self.b.len() as f64);
        let below = |value: f64| self.a.partition_point(|a| *a < value) as f64;
        let not_above = |value: f64| self.a.partition_point(|a| *a <= value) as f64;
        let u: f64 = self.b.iter().map(|b| (below(*b) + not_above(*b)) / 2.0).sum();
        let mut all: Vec<f64> = self.a.iter().chain(&self.b).copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        let ties: f64 = all
            .chunk_by(|one, other| one == other)
            .map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64)
            .sum();
        let total = m + n;
        let tied = ties / (total.powi(3) - total);
        let variance = self.deviation().powi(2) * (1.0 - tied);
        Some((u, two_sided(((u - m * n / 2.0).abs() - 0.5).max(0.0), variance)))
    }

    fn pairs(&self) -> u64 {
        self.a.len() as u64 * self.b.len() as u64
    }

    /// Standard deviation of U, from the effective sizes.
    fn deviation(&self) -> f64 {
        let (m, n) = (self.effective_a, self.effective_b);
        self.pairs() as f64 * ((m + n + 1.0) / (12.0 * m * n)).sqrt()
    }

    /// The `rank`-th smallest bⱼ − aᵢ (1-based), without making all of them.
    fn ranked_difference(&self, rank: u64) -> f64 {
        let (Some(a), Some(b)) = (ends(&self.a), ends(&self.b)) else { return f64::NAN };
        // For each b in ascending order, the a with b − a ≤ shift are those from a point on that
        // only moves up.
        let count = |shift: f64| {
            let mut from = 0;
            let mut count = 0u64;
            for b in &self.b {
                while from < self.a.len() && b - self.a[from] > shift {
                    from += 1;
                }
                count += (self.a.len() - from) as u64;
            }
            count
        };
        smallest_with(b.0 - a.1, b.1 - a.0, |shift| count(shift) >= rank)
    }
}

/// Differences of pairs, each with the same prompt on both sides.
#[derive(Debug, Clone)]
pub struct Paired {
    sorted: Vec<f64>,
    /// Observations for one independent one.
    time: f64,
}

/// Up to so many pairs Wilcoxon's p is exact; beyond it the normal approximation is as good.
const EXACT_PAIRS: usize = 100;

impl Paired {
    /// Differences that are independent of each other.
    pub fn new(differences: Vec<f64>) -> Self {
        Self::with_correlation_time(differences, 1.0)
    }

    /// Differences of which `time` (≥ 1) are worth one.
    pub fn with_correlation_time(mut differences: Vec<f64>, time: f64) -> Self {
        differences.sort_unstable_by(f64::total_cmp);
        Self { sorted: differences, time: time.max(1.0) }
    }

    /// The median of the Walsh averages (dᵢ + dⱼ)/2, i ≤ j, and the interval between their K-th
    /// smallest and K-th largest, K = ⌊M/2 − z·√(τ·n(n + 1)(2n + 1)/24)⌋. `None` without pairs.
    pub fn shift(&self, z: f64) -> Option<Shift> {
        let n = self.sorted.len() as u64;
        let averages = n * (n + 1) / 2;
        if n == 0 {
            return None;
        }
        let count = n as f64;
        let variance = self.time * count * (count + 1.0) * (2.0 * count + 1.0) / 24.0;
        let rank = rank_from_middle(averages, z * variance.sqrt());
        let ranked = |rank| self.ranked_average(rank);
        let value = middle_of(averages, &ranked);
        let interval = rank.map(|rank| [ranked(rank), ranked(averages + 1 - rank)]);
        Some(Shift { value, interval })
    }

    /// Wilcoxon's signed-rank p, two-sided: exact for up to 100 independent pairs, else by the
    /// normal approximation, its variance τ times as large for pairs of which τ are worth one.
    /// Pairs without a difference are left out. `None` if none is left.
    pub fn wilcoxon_p(&self) -> Option<f64> {
        let mut by_size: Vec<f64> =
            self.sorted.iter().copied().filter(|difference| *difference != 0.0).collect();
        by_size.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
        if by_size.is_empty() {
            return None;
        }
        // Twice the ranks, so that the middle rank of ties is whole.
        let mut ranks = Vec::with_capacity(by_size.len());
        for tied in by_size.chunk_by(|one, other| one.abs() == other.abs()) {
            let doubled = 2 * ranks.len() + tied.len() + 1;
            ranks.extend(std::iter::repeat_n(doubled, tied.len()));
        }
        let total: usize = ranks.iter().sum();
        let signed = ranks.iter().zip(&by_size);
        let positive: usize = signed.filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
        let smaller = positive.min(total - positive);
        if ranks.len() <= EXACT_PAIRS && self.time <= 1.0 {
            return Some((2.0 * share_at_most(&ranks, total, smaller)).min(1.0));
        }
        let squares: f64 = ranks.iter().map(|rank| (*rank as f64 / 2.0).powi(2)).sum();
        let distance = (total as f64 / 2.0 - smaller as f64) / 2.0;
        Some(two_sided((distance - 0.5).max(0.0), self.time * squares / 4.0))
    }

    /// The `rank`-th smallest Walsh average (1-based).
    fn ranked_average(&self, rank: u64) -> f64 {
        let Some((low, high)) = ends(&self.sorted) else { return f64::NAN };
        let count = |average: f64| {
            let mut to = self.sorted.len();
            let mut count = 0u64;
            for (from, value) in self.sorted.iter().enumerate() {
                while to > from && (value + self.sorted[to - 1]) / 2.0 > average {
                    to -= 1;
                }
                if to <= from {
                    break;
                }
                count += (to - from) as u64;
            }
            count
        };
        smallest_with(low, high, |average| count(average) >= rank)
    }
}

/// Share of the sign patterns whose positive (doubled) ranks add up to at most `limit`.
fn share_at_most(ranks: &[usize], total: usize, limit: usize) -> f64 {
    let mut ways = vec![0.0; total + 1];
    ways[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (*rank..=reached).rev() {
            ways[sum] += ways[sum - rank];
        }
        // Halved at each step, so that 2ⁿ never overflows.
        ways.iter_mut().for_each(|way| *way /= 2.0);
    }
    ways[..=limit].iter().sum()
}

/// ⌊count/2 − half⌋, if there is such a rank.
fn rank_from_middle(count: u64, half: f64) -> Option<u64> {
    let rank = (count as f64 / 2.0 - half).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or more")]
    let rank = (rank >= 1.0).then_some(rank as u64);
    rank
}

/// The median of `count` ranked values.
fn middle_of(count: u64, ranked: &impl Fn(u64) -> f64) -> f64 {
    let upper = ranked(count / 2 + 1);
    if count % 2 == 1 { upper } else { (ranked(count / 2) + upper) / 2.0 }
}

fn ends(sorted: &[f64]) -> Option<(f64, f64)> {
    Some((*sorted.first()?, *sorted.last()?))
}

/// The smallest value between `low` and `high` for which `holds`, which is true at `high`.
fn smallest_with(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(low) {
        return low;
    }
    // Finer than any difference of two values is exact; without it a zero would take a thousand
    // steps to be reached.
    let exact = (high - low) * 1e-17;
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high || high - low <= exact {
            return high;
        }
        if holds(middle) { high = middle } else { low = middle }
    }
}

fn two_sided(distance: f64, variance: f64) -> f64 {
    if variance <= 0.0 { 1.0 } else { (2.0 * normal_cdf(-distance / variance.sqrt())).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::distribution::Z_95;
    use crate::measure::sample::Sample;
    use crate::measure::sample::tests::{S20, assert_close};

    const B: [f64; 8] = [92.1, 95.4, 90.8, 97.7, 93.3, 96.0, 91.5, 99.9];

    #[track_caller]
    fn check(shift: Shift, value: f64, interval: [f64; 2]) {
        assert_close(shift.value, value);
        assert_close(shift.interval.unwrap()[0], interval[0]);
        assert_close(shift.interval.unwrap()[1], interval[1]);
    }

    #[test]
    fn two_samples_of_eight() {
        let unpaired = Unpaired::new(S20[..8].to_vec(), B.to_vec());
        check(unpaired.shift(Z_95).unwrap(), -6.85, [-10.8, -3.0]);
        let (u, p) = unpaired.mann_whitney().unwrap();
        assert_eq!(u, 4.0);
        assert_close(p, 0.00387604144899475);
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
        let on_logs = Unpaired::new(logs(&S20[..8]), logs(&B));
        assert_close(on_logs.shift(Z_95).unwrap().value.exp(), 0.9321530586558634);
        let median = |values: &[f64]| Sample::new(values.to_vec()).median().unwrap();
        assert_close(median(&B) / median(&S20[..8]), 0.9374068554396422);
    }

    #[test]
    fn pairs_of_eight() {
        let differences = S20[..8].iter().zip(B).map(|(a, b)| b - a).collect();
        let paired = Paired::new(differences);
        assert_close(paired.shift(Z_95).unwrap().value, -6.875);
        assert_close(paired.wilcoxon_p().unwrap(), 0.0078125);
    }

    #[test]
    fn too_few_have_no_interval() {
        let shift = Unpaired::new(vec![1.0, 2.0], vec![3.0]).shift(Z_95).unwrap();
        assert_eq!(shift, Shift { value: 1.5, interval: None });
        assert_eq!(Unpaired::new(vec![], vec![1.0]).shift(Z_95), None);
        assert_eq!(Paired::new(vec![0.0, 0.0]).wilcoxon_p(), None);
    }

    #[test]
    fn ranked_differences_are_those_of_the_full_table() {
        let unpaired = Unpaired::new(S20[..8].to_vec(), B.to_vec());
        let mut all: Vec<f64> =
            B.iter().flat_map(|b| S20[..8].iter().map(move |a| b - a)).collect();
        all.sort_unstable_by(f64::total_cmp);
        for (rank, expected) in (1..).zip(all) {
            assert_close(unpaired.ranked_difference(rank), expected);
        }
    }

    #[test]
    fn the_exact_and_the_approximate_p_meet() {
        let difference = |i: i32| f64::from(i * 37 % 101 - 45) + f64::from(i) / 1000.0;
        let exact = Paired::new((0..100).map(difference).collect()).wilcoxon_p().unwrap();
        let approximate = Paired::new((0..101).map(difference).collect()).wilcoxon_p().unwrap();
        assert!((exact - approximate).abs() < 0.02, "{exact} {approximate}");
    }

    #[test]
    fn correlation_widens() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i * 37 % 101)).collect();
        let width = |time| {
            let paired = Paired::with_correlation_time(values.clone(), time);
            let [low, high] = paired.shift(Z_95).unwrap().interval.unwrap();
            high - low
        };
        assert!(width(4.0) > 1.8 * width(1.0));
    }

    /// An interval that holds 0 beside a p of a millionth would be two answers to one question.
    #[test]
    fn p_and_interval_count_the_same_number_of_observations() {
        let differences: Vec<f64> = (0..80).map(|i| f64::from(i * 37 % 80) - 25.0).collect();
        let independent = Paired::new(differences.clone());
        assert!(independent.wilcoxon_p().unwrap() < 1e-4);
        let correlated = Paired::with_correlation_time(differences, 8.0);
        let [low, high] = correlated.shift(Z_95).unwrap().interval.unwrap();
        assert!(low < 0.0 && 0.0 < high && correlated.wilcoxon_p().unwrap() > 0.05);

        let run = |offset: i32| -> Vec<f64> {
            (0..80).map(|i| f64::from(i * 37 % 80 + offset)).collect()
        };
        assert!(Unpaired::new(run(0), run(14)).mann_whitney().unwrap().1 < 0.001);
        let correlated = Unpaired::with_effective_sizes(run(0), run(14), 5.0, 5.0);
        let [low, high] = correlated.shift(Z_95).unwrap().interval.unwrap();
        assert!(low < 0.0 && 0.0 < high && correlated.mann_whitney().unwrap().1 > 0.05);
    }
}
