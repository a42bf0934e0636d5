//! All lagged products of a series at once, by fast Fourier transform.
//!
//! A textbook radix-2 transform on zero-padded data: it serves a check that runs once a level, so
//! it is short rather than fast, and it is no reason for a dependency.

/// Σ xᵢ·xᵢ₊ₗₐ₉ for each lag in 0 .. n.
pub(super) fn lagged_products(series: &[f64]) -> Vec<f64> {
    let n = series.len();
    // Twice the length, so that the wrapped-around products are zeros.
    let size = (2 * n.max(1)).next_power_of_two();
    let mut wave: Vec<Complex> = series.iter().map(|value| Complex(*value, 0.0)).collect();
    wave.resize(size, Complex(0.0, 0.0));
    transform(&mut wave);
    // A power spectrum is real and even, so a forward transform of it is the inverse one, times n.
    wave.iter_mut().for_each(|value| *value = Complex(value.0.powi(2) + value.1.powi(2), 0.0));
    transform(&mut wave);
    wave.iter().take(n).map(|value| value.0 / size as f64).collect()
}

#[derive(Clone, Copy)]
struct Complex(f64, f64);

/// In place; the length is a power of two.
fn transform(wave: &mut [Complex]) {
    let size = wave.len();
    let shift = usize::BITS - size.trailing_zeros();
    for index in 0..size {
        let mirrored = if size == 1 { 0 } else { index.reverse_bits() >> shift };
        if index < mirrored {
            wave.swap(index, mirrored);
        }
    }
    let turn = |k: usize| -std::f64::consts::TAU * k as f64 / size as f64;
    let roots: Vec<Complex> =
        (0..size / 2).map(|k| Complex(turn(k).cos(), turn(k).sin())).collect();
    let mut width = 2;
    while width <= size {
        let stride = size / width;
        for block in wave.chunks_exact_mut(width) {
            let (even, odd) = block.split_at_mut(width / 2);
            for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
                let root = roots[k * stride];
                let turned =
                    Complex(odd.0 * root.0 - odd.1 * root.1, odd.0 * root.1 + odd.1 * root.0);
                *odd = Complex(even.0 - turned.0, even.1 - turned.1);
                *even = Complex(even.0 + turned.0, even.1 + turned.1);
            }
        }
        width *= 2;
    }
}
