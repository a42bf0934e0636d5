//! Intervals for a proportion (D4): an error rate of 0 in 200 is not an error rate of 0.

use super::distribution::{Z_95, beta_quantile};

/// Clopper–Pearson's exact 95 % interval for `k` of `n`; exactly 0 (1) where k is 0 (n).
/// `None` if n is 0 or k > n.
pub fn clopper_pearson(k: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 || k > n {
        return None;
    }
    let (successes, failures) = (k as f64, (n - k) as f64);
    let low = if k == 0 { 0.0 } else { beta_quantile(successes, failures + 1.0, 0.025) };
    let high = if k == n { 1.0 } else { beta_quantile(successes + 1.0, failures, 0.975) };
    Some((low, high))
}

/// Wilson's 95 % score interval for `k` of `n`; exactly 0 (1) where k is 0 (n).
/// `None` if n is 0 or k > n.
pub fn wilson(k: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 || k > n {
        return None;
    }
    let (count, z2) = (n as f64, Z_95 * Z_95);
    let share = k as f64 / count;
    let scale = 1.0 + z2 / count;
    let centre = (share + z2 / (2.0 * count)) / scale;
    let spread = share * (1.0 - share) / count + z2 / (4.0 * count * count);
    let half = Z_95 * spread.sqrt() / scale;
    let low = if k == 0 { 0.0 } else { centre - half };
    let high = if k == n { 1.0 } else { centre + half };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::*;

    #[track_caller]
    fn check(got: Option<(f64, f64)>, low: f64, high: f64) {
        let got = got.unwrap();
        assert_close(got.0, low);
        assert_close(got.1, high);
    }

    #[test]
    fn exact_intervals() {
        check(clopper_pearson(0, 200), 0.0, 0.01827534035513624);
        check(clopper_pearson(3, 200), 0.00310410762155351, 0.0432082819177126);
        check(clopper_pearson(17, 1000), 0.009933512592716534, 0.027079496864851366);
        assert_eq!(clopper_pearson(5, 5).unwrap().1, 1.0);
        assert_eq!(clopper_pearson(0, 0), None);
    }

    #[test]
    fn score_intervals() {
        check(wilson(0, 200), 0.0, 0.018845326377266575);
        check(wilson(3, 200), 0.00511423779325831, 0.04316572879269026);
        check(wilson(17, 1000), 0.010640689856816328, 0.027055958840229925);
    }
}
