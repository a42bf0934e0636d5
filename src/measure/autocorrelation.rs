//! How many independent observations a series is worth (D5).
//!
//! In a closed loop on a server that does one request at a time, each latency is the sum of the
//! last c service times, so 200 requests at c = 16 are worth 12.5. Intervals that ignore this cover
//! less than half as often as they claim.

mod fourier;

/// Up to this lag the products are summed directly, which is exact and fast where correlation
/// dies out soon; beyond it (drift) all lags are had at once by Fourier transform, in n·log n.
const DIRECT_LAGS: usize = 256;

/// The integrated autocorrelation time τ̂ = 1 + 2·Σρ̂ₖ of a series in send order, summed up to the
/// last lag before the first ρ̂ₖ ≤ 0; the autocovariance is the biased one (divided by n).
///
/// 1 for a constant series; `None` under two values.
pub fn autocorrelation_time(series: &[f64]) -> Option<f64> {
    let [first, rest @ ..] = series else { return None };
    if rest.is_empty() {
        return None;
    }
    if rest.iter().all(|value| value == first) {
        return Some(1.0);
    }
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let variance = lagged_product(&centred, 0);
    let positive_sum = |products: &mut dyn Iterator<Item = f64>| {
        let mut ended = false;
        let rho = products.map(|product| product / variance).take_while(|rho| {
            ended = *rho <= 0.0;
            !ended
        });
        (rho.sum::<f64>(), ended)
    };
    let last = series.len() - 1;
    let mut direct = (1..=last.min(DIRECT_LAGS)).map(|lag| lagged_product(&centred, lag));
    let (mut sum, ended) = positive_sum(&mut direct);
    if !ended && last > DIRECT_LAGS {
        sum = positive_sum(&mut fourier::lagged_products(&centred).into_iter().skip(1)).0;
    }
    Some(1.0 + 2.0 * sum)
}

/// The autocorrelations ρ̂₁ … of a series, as far as `lags`.
pub fn autocorrelations(series: &[f64], lags: usize) -> Vec<f64> {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let variance = lagged_product(&centred, 0);
    (1..=lags).map(|lag| lagged_product(&centred, lag) / variance).collect()
}

/// Σ xᵢ·xᵢ₊ₗₐ₉, in four sums that do not wait for each other.
fn lagged_product(centred: &[f64], lag: usize) -> f64 {
    let (left, right) = (&centred[..centred.len() - lag], &centred[lag..]);
    let mut sums = [0.0; 4];
    let (left_blocks, left_rest) = left.as_chunks::<4>();
    let (right_blocks, right_rest) = right.as_chunks::<4>();
    for (left, right) in left_blocks.iter().zip(right_blocks) {
        for lane in 0..4 {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest: f64 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::*;

    const WAVE: [f64; 16] =
        [10., 11., 13., 12., 14., 15., 14., 13., 12., 11., 10., 9., 8., 9., 10., 11.];

    #[test]
    fn a_short_wave() {
        let expected =
            [0.8135121457489879, 0.5460526315789473, 0.2684716599190283, -0.0860323886639676];
        for (got, expected) in autocorrelations(&WAVE, 4).into_iter().zip(expected) {
            assert_close(got, expected);
        }
        let time = autocorrelation_time(&WAVE).unwrap();
        assert_close(time, 4.256072874493927);
        assert_close(WAVE.len() as f64 / time, 3.7593341260404283);
    }

    #[test]
    fn what_has_no_correlation() {
        assert_eq!(autocorrelation_time(&[]), None);
        assert_eq!(autocorrelation_time(&[1.0]), None);
        assert_eq!(autocorrelation_time(&[0.1; 50]), Some(1.0));
        let alternating: Vec<f64> = (0..50).map(|i| f64::from(i % 2)).collect();
        assert_eq!(autocorrelation_time(&alternating), Some(1.0));
    }

    #[test]
    fn a_drift_costs_n_log_n_and_gives_what_direct_sums_give() {
        let drift: Vec<f64> = (0..3000).map(|i| f64::from(i) + f64::from(i * 37 % 11)).collect();
        let direct: f64 =
            autocorrelations(&drift, 2999).into_iter().take_while(|rho| *rho > 0.0).sum();
        assert_close(autocorrelation_time(&drift).unwrap(), 1.0 + 2.0 * direct);
    }
}
