//! MSER-5 (D6): where a series has settled, if it has. A check, never a reason to cut outliers.

/// Observations in a batch.
const BATCH: usize = 5;

/// Where the transient of a series ends, by the marginal standard error rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mser {
    /// Leading observations that belong to the transient.
    pub cut: usize,
    /// The statistic at its minimum: Σ(Yᵢ − Ȳ)²/(k − d)².
    pub statistic: f64,
    /// Whether the minimum lies at the largest cut allowed: no steady state was found.
    pub at_bound: bool,
}

/// MSER-5 of a series in completion order: batches of 5 (a remainder is dropped), the d ≤ k/2 with
/// the smallest statistic, the smallest d among equals. `None` under two batches.
pub fn mser5(series: &[f64]) -> Option<Mser> {
    let (batches, _) = series.as_chunks::<BATCH>();
    let means: Vec<f64> =
        batches.iter().map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if means.len() < 2 {
        return None;
    }
    let bound = means.len() / 2;
    let statistics = statistics(&means);
    let mut best = 0;
    for d in 1..=bound {
        if statistics[d] < statistics[best] {
            best = d;
        }
    }
    Some(Mser { cut: best * BATCH, statistic: statistics[best], at_bound: best == bound })
}

/// The statistic for each d, from the back: Welford's update makes it one pass.
fn statistics(means: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; means.len()];
    let (mut mean, mut squares) = (0.0, 0.0);
    for (d, value) in means.iter().enumerate().rev() {
        let count = (means.len() - d) as f64;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
        result[d] = squares / (count * count);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settling_series_has_no_steady_state_yet() {
        let series = [
            52.0, 41.0, 33.0, 27.0, 22.0, 19.0, 17.0, 15.5, 14.0, 13.2, 12.6, 12.1, 11.8, 11.4,
            11.2, 10.9, 10.7, 10.6, 10.4, 10.3, 10.2, 10.1, 10.3, 9.9, 10.0, 10.2, 9.8, 10.1, 9.9,
            10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 10.1, 9.9, 10.0, 10.1,
        ];
        let found = mser5(&series).unwrap();
        assert_eq!((found.cut, found.at_bound), (20, true));
        assert!((found.statistic - 0.000425).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_level_series_is_not_cut() {
        let series: Vec<f64> = (0..43).map(|i| f64::from(i % 5)).collect();
        assert_eq!(mser5(&series), Some(Mser { cut: 0, statistic: 0.0, at_bound: false }));
        assert_eq!(mser5(&series[..9]), None);
    }
}
