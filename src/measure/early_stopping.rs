//! MLPerf LoadGen's sample sizes and early stopping (D3): a one-sided 99 % upper bound.

use super::distribution::Z_99;
use statrs::function::beta::beta_reg;

/// One minus LoadGen's confidence.
const DOUBT: f64 = 0.01;

/// LoadGen's classic number of queries for the `p`-quantile (0 < p < 1): z²·p·(1 − p)/m² with the
/// margin m = (1 − p)/20 and the two-sided z of 99 %.
pub fn classic_queries(p: f64) -> f64 {
    let margin = (1.0 - p) / 20.0;
    Z_99 * Z_99 * p * (1.0 - p) / (margin * margin)
}

/// The smallest h ≥ 1 such that at most `over` queries beyond the bound among h + `over` would be
/// an accident of less than 1 %: I_p(h, over + 1) < 1 %.
pub fn queries_within(p: f64, over: u64) -> u64 {
    let is_enough = |h: u64| beta_reg(h as f64, over as f64 + 1.0, p) < DOUBT;
    let mut high = 1;
    while !is_enough(high) {
        high *= 2;
    }
    let mut low = high / 2;
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

/// Which of the largest latencies (1: the largest) is a 99 % upper bound of the `p`-quantile of
/// `n` queries: the largest t ≥ 1 with n ≥ [`queries_within`]\(t) + t. `None` where n is too small.
pub fn early_stopping_rank(p: f64, n: u64) -> Option<u64> {
    let allows = |t: u64| queries_within(p, t) + t <= n;
    if !allows(1) {
        return None;
    }
    let (mut low, mut high) = (1, n);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if allows(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::*;

    #[test]
    fn classic_sample_sizes() {
        assert_close(classic_queries(0.9), 23885.62776367637);
        assert_close(classic_queries(0.95), 50425.21416776117);
        assert_close(classic_queries(0.99), 262741.9054004398);
    }

    #[test]
    fn queries_for_a_number_of_exceptions() {
        for (p, over, expected) in [
            (0.9, 0, 44),
            (0.9, 1, 63),
            (0.9, 5, 122),
            (0.99, 0, 459),
            (0.99, 1, 661),
            (0.99, 5, 1302),
            (0.95, 0, 90),
            (0.95, 1, 129),
            (0.95, 2, 163),
        ] {
            assert_eq!(queries_within(p, over), expected, "p={p} t={over}");
        }
    }

    #[test]
    fn the_published_latency() {
        for (n, rank) in [
            (63, None),
            (64, Some(1)),
            (100, Some(3)),
            (200, Some(10)),
            (500, Some(34)),
            (1000, Some(78)),
        ] {
            assert_eq!(early_stopping_rank(0.9, n), rank, "p90 n={n}");
        }
        for (n, rank) in [(661, None), (662, Some(1)), (1000, Some(2)), (2000, Some(9))] {
            assert_eq!(early_stopping_rank(0.99, n), rank, "p99 n={n}");
        }
    }
}
