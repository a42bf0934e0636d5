//! Batch means (D14): an interval for a rate, from the rates of equal parts of the window.

use super::distribution::student_quantile;
use super::sample::Sample;

/// Parts that a steady window is cut into.
pub const PARTS: usize = 10;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanInterval {
    /// Mean of the parts.
    pub mean: f64,
    /// Standard deviation of the parts (n − 1).
    pub std_dev: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// mean ± t₍B₋₁₎·s/√B over the parts' rates; `None` under two parts.
pub fn batch_means(rates: &[f64]) -> Option<MeanInterval> {
    let parts = Sample::new(rates.to_vec());
    let (mean, std_dev) = (parts.mean()?, parts.std_dev()?);
    let count = parts.len() as f64;
    let half = student_quantile(count - 1.0, 0.975) * std_dev / count.sqrt();
    Some(MeanInterval { mean, std_dev, low: mean - half, high: mean + half })
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::*;

    #[test]
    fn ten_rates() {
        let rates = [16.71, 16.80, 16.77, 16.69, 16.82, 16.75, 16.73, 16.79, 16.70, 16.78];
        let got = batch_means(&rates).unwrap();
        assert_close(got.mean, 16.754);
        assert_close(got.std_dev, 0.045018514709690906);
        assert_close(got.low, 16.721795694605877);
        assert_close(got.high, 16.78620430539412);
        assert_eq!(batch_means(&[1.0]), None);
    }
}
