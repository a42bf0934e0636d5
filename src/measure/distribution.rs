//! The few distribution functions that the statistics need, to the accuracy that they need.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// The z of a two-sided 95 % interval.
pub const Z_95: f64 = 1.959_963_984_540_054;
/// The z of a two-sided 99 % interval.
pub const Z_99: f64 = 2.575_829_303_548_901;

/// P(Z ≤ z) of the standard normal.
pub fn normal_cdf(z: f64) -> f64 {
    standard_normal().cdf(z)
}

/// The z with P(Z ≤ z) = `p`, 0 < p < 1.
pub fn normal_quantile(p: f64) -> f64 {
    let normal = standard_normal();
    bisect(-40.0, 40.0, |z| normal.cdf(z) < p)
}

fn standard_normal() -> Normal {
    Normal::new(0.0, 1.0).expect("mean 0 and deviation 1 are valid")
}

/// The t with P(T ≤ t) = `p` for Student's distribution with `degrees` > 0, 0.5 ≤ p < 1.
pub fn student_quantile(degrees: f64, p: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    let mut high = 2.0;
    while student.cdf(high) < p && high < 1e9 {
        high *= 2.0;
    }
    bisect(0.0, high, |t| student.cdf(t) < p)
}

/// The x with I_x(a, b) = `p`: the quantile of a beta distribution.
pub fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    bisect(0.0, 1.0, |x| beta_reg(a, b, x) < p)
}

/// Where `is_below` turns false, between `low` and `high`, to the last bit.
fn bisect(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if is_below(middle) { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::*;

    #[test]
    fn students_quantiles() {
        let table = [
            (4.0, 2.776445),
            (5.0, 2.570582),
            (8.0, 2.306004),
            (9.0, 2.262157),
            (10.0, 2.228139),
            (14.0, 2.144787),
            (19.0, 2.093024),
            (20.0, 2.085963),
            (29.0, 2.045230),
            (30.0, 2.042272),
            (60.0, 2.000298),
        ];
        for (degrees, expected) in table {
            let got = student_quantile(degrees, 0.975);
            assert!((got - expected).abs() < 1e-6, "df={degrees}: {got}");
        }
        assert_close(student_quantile(8.0, 0.975), 2.306004135204166);
        assert_close(student_quantile(9.0, 0.975), 2.262157162798205);
    }

    #[test]
    fn normal_quantiles() {
        assert_close(normal_quantile(0.975), Z_95);
        assert_close(normal_quantile(0.995), Z_99);
        assert!(normal_quantile(0.5).abs() < 1e-12);
    }
}
