//! How fast this machine's memory can be read: what a decode ceiling divides by.
//!
//! Seconds of work, never during a level. Figures are in GB/s of 10⁹ bytes, the best of several
//! passes (the ceiling is what the memory can do, not what it does on average) with the median
//! beside it.

mod caches;
mod cpu;
mod gpu;

pub use cpu::{Arrays, CpuBandwidth, CpuPlan, CpuRow, plan, sweep};
pub use gpu::{GpuBandwidth, devices};

/// The best and the median of the passes' rates.
fn best_and_median(rates: &mut [f64]) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    let best = rates.last().copied().unwrap_or(0.0);
    let upper = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    let lower = rates.get(rates.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
    (best, f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_pass_counts_and_the_median_stands_beside_it() {
        assert_eq!(best_and_median(&mut [3.0, 1.0, 2.0]), (3.0, 2.0));
        assert_eq!(best_and_median(&mut [4.0, 1.0, 2.0, 3.0]), (4.0, 2.5));
        assert_eq!(best_and_median(&mut []), (0.0, 0.0));
    }
}
