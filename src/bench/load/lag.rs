//! How late an event loop is: a task that sleeps for 10 ms and notes how much longer it took.

use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(10);
/// The resolution of the percentiles; the runtime's own timers tick at 1 ms.
const BUCKET: Duration = Duration::from_micros(50);
/// Up to one second; what is later than that counts there, and in the maximum exactly.
const N_BUCKETS: usize = 20_000;

/// How late the sleeps of one or more event loops woke up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopLag {
    buckets: Vec<u32>,
    n: u64,
    max: Duration,
}

impl Default for LoopLag {
    fn default() -> Self {
        Self { buckets: vec![0; N_BUCKETS], n: 0, max: Duration::ZERO }
    }
}

impl LoopLag {
    /// Watches the event loop that this is awaited on, until it is dropped.
    pub(super) async fn watch(&mut self) {
        loop {
            let due = Instant::now() + PERIOD;
            tokio::time::sleep_until(due.into()).await;
            self.add(due.elapsed());
        }
    }

    fn add(&mut self, lag: Duration) {
        let bucket = usize::try_from(lag.as_nanos() / BUCKET.as_nanos()).unwrap_or(usize::MAX);
        self.buckets[bucket.min(N_BUCKETS - 1)] += 1;
        self.n += 1;
        self.max = self.max.max(lag);
    }

    /// Takes in what another loop has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.n += other.n;
        self.max = self.max.max(other.max);
    }

    /// Sleeps that were watched.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The latest wake-up.
    pub fn max(&self) -> Option<Duration> {
        (self.n > 0).then_some(self.max)
    }

    /// The lag that `percent` (0 to 100) of the sleeps did not exceed, to 50 µs.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.n * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        })?;
        let upper = BUCKET * u32::try_from(bucket + 1).expect("there are fewer buckets");
        Some(upper.min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_seen() {
        let mut lag = LoopLag::default();
        assert_eq!((lag.percentile(99), lag.max()), (None, None));
        for ms in 1..=100 {
            lag.add(Duration::from_millis(ms));
        }
        let mut late = LoopLag::default();
        late.add(Duration::from_secs(5));
        lag.merge(&late);
        assert_eq!(lag.percentile(50), Some(Duration::from_micros(51_050)));
        assert_eq!(lag.percentile(100), Some(Duration::from_secs(1)));
        assert_eq!((lag.n(), lag.max()), (101, Some(Duration::from_secs(5))));
    }
}
