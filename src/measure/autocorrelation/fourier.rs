//! All lagged products of a series at once, by fast Fourier transform.

use realfft::RealFftPlanner;

/// Σ xᵢ·xᵢ₊ₗₐ₉ for each lag in 0 .. n (Wiener–Khinchin: the power spectrum, transformed back).
pub(super) fn lagged_products(series: &[f64]) -> Vec<f64> {
    let n = series.len();
    // Twice the length, so that the wrapped-around products are zeros.
    let size = (2 * n.max(1)).next_power_of_two();
    let mut planner = RealFftPlanner::new();
    let (forward, backward) = (planner.plan_fft_forward(size), planner.plan_fft_inverse(size));

    let mut wave = series.to_vec();
    wave.resize(size, 0.0);
    let mut spectrum = forward.make_output_vec();
    forward.process(&mut wave, &mut spectrum).expect("both buffers have the plan's lengths");
    for value in &mut spectrum {
        (value.re, value.im) = (value.norm_sqr(), 0.0);
    }
    backward.process(&mut spectrum, &mut wave).expect("a power spectrum is real at both ends");
    wave.truncate(n);
    wave.iter_mut().for_each(|product| *product /= size as f64);
    wave
}
