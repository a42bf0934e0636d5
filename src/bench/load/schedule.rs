//! When an open loop sends: a sequence of times that a seed fixes for ever.

use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::Arrivals;

/// The intended send times of an open loop, since its start; endless.
#[derive(Debug, Clone)]
pub struct Schedule {
    rate: f64,
    arrivals: Arrivals,
    random: ChaCha20Rng,
    next_s: f64,
}

impl Schedule {
    /// `rate` requests per second, above 0.
    pub fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Self { rate, arrivals, random: ChaCha20Rng::seed_from_u64(seed), next_s: 0.0 }
    }

    /// The gap that a uniform `u` in [0, 1) stands for: −ln(1 − u) / λ.
    fn exponential_s(u: f64, rate: f64) -> f64 {
        -(-u).ln_1p() / rate
    }

    /// Uniform in [0, 1): the upper 53 bits, which an f64 holds exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Duration::try_from_secs_f64(self.next_s).ok()?;
        self.next_s += match self.arrivals {
            Arrivals::Constant => 1.0 / self.rate,
            Arrivals::Poisson => Self::exponential_s(self.uniform(), self.rate),
        };
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_follow_the_formula() {
        for (u, gap) in [
            (0.1, 0.210_721_031_315_652_56),
            (0.5, 1.386_294_361_119_890_6),
            (0.9, 4.605_170_185_988_092),
        ] {
            let got = Schedule::exponential_s(u, 0.5);
            assert!((got - gap).abs() < 1e-12, "{u}: {got}");
        }
    }

    #[test]
    fn a_seed_gives_one_schedule_and_the_rate_holds() {
        let times = |seed| Schedule::new(10.0, Arrivals::Poisson, seed).take(10_000);
        assert!(times(1).eq(times(1)));
        assert!(times(1).ne(times(2)));
        let last = times(1).last().unwrap().as_secs_f64();
        assert!((last / 1000.0 - 1.0).abs() < 0.05, "{last}");
        let constant: Vec<_> = Schedule::new(4.0, Arrivals::Constant, 0).take(3).collect();
        assert_eq!(constant, [0, 250, 500].map(Duration::from_millis));
    }
}
