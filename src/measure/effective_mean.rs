//! An interval for the mean of observations that are not independent (D5): a mean of n values that
//! are worth n_eff.

use super::batch_means::MeanInterval;
use super::distribution::student_quantile;
use super::sample::Sample;

/// mean ± t₍ₙ_eff − 1₎·s/√(n_eff − 1), s² being the mean squared deviation: as if there were n_eff
/// values of that spread, of which the mean takes one degree of freedom. What goes together within
/// a sample shows less spread in it than it has, by the factor 1 − 1/n_eff, which this gives back.
///
/// `None` under two values, or where they are worth less than two.
pub fn effective_mean(values: &[f64], n_eff: f64) -> Option<MeanInterval> {
    if n_eff.is_nan() || n_eff < 2.0 {
        return None;
    }
    let sample = Sample::new(values.to_vec());
    let (mean, std_dev) = (sample.mean()?, sample.std_dev()?);
    let n = sample.len() as f64;
    let n_eff = n_eff.min(n);
    let spread = std_dev * ((n - 1.0) / n).sqrt();
    let half = student_quantile(n_eff - 1.0, 0.975) * spread / (n_eff - 1.0).sqrt();
    Some(MeanInterval { mean, std_dev, low: mean - half, high: mean + half })
}

#[cfg(test)]
mod tests {
    use super::super::batch_means::batch_means;
    use super::super::sample::tests::assert_close;
    use super::*;

    const VALUES: [f64; 10] =
        [16.71, 16.80, 16.77, 16.69, 16.82, 16.75, 16.73, 16.79, 16.70, 16.78];

    #[test]
    fn independent_values_have_the_textbooks_interval() {
        let (got, textbook) =
            (effective_mean(&VALUES, 10.0).unwrap(), batch_means(&VALUES).unwrap());
        assert_close(got.mean, textbook.mean);
        assert_close(got.low, textbook.low);
        assert_close(got.high, textbook.high);
        assert_eq!(effective_mean(&VALUES, 40.0), Some(got), "nothing is worth more than itself");
    }

    #[test]
    fn fewer_are_worth_a_wider_one_and_less_than_two_none() {
        let width = |n_eff| effective_mean(&VALUES, n_eff).map(|mean| mean.high - mean.low);
        // t of 4 and of 9 degrees of freedom, and the roots of these.
        let factor = 2.7764451051977987 / 2.0 / (2.2621571627409915 / 3.0);
        assert_close(width(5.0).unwrap() / width(10.0).unwrap(), factor);
        assert_eq!((width(1.9), width(f64::NAN)), (None, None));
        assert_eq!(effective_mean(&[1.0], 5.0), None);
    }
}
