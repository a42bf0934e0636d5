//! How late an event loop is: a bell rings on a thread of its own, and a task on the loop notes how
//! long after the ringing it ran.
//!
//! No timer of the loop's own is asked. A runtime's timers tick at 1 ms and wake up to 2 ms late on
//! a loop that does nothing at all, and that is as much as is to be told from it. The bell takes its
//! own time when it rings, so its own lateness does not count either.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Between two rings: a hundred samples a second, at about 10 µs of CPU each.
const PERIOD: Duration = Duration::from_millis(10);
/// Rings that may wait for a loop that is held up: a second's worth, each with a lag of its own.
/// What rings on top of them is lost, but the first one tells the whole of it.
const RINGS_WAITING_MAX: usize = 100;
/// The resolution of the percentiles.
const BUCKET: Duration = Duration::from_micros(50);
/// Up to one second; what is later than that counts there, and in the maximum exactly.
const N_BUCKETS: usize = 20_000;

/// How late one or more event loops ran what was to be run.
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

    /// Rings that were heard.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The longest lag.
    pub fn max(&self) -> Option<Duration> {
        (self.n > 0).then_some(self.max)
    }

    /// The lag that `percent` (0 to 100) of the rings did not exceed, to 50 µs.
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

/// Watches the event loop that this task runs on, for as long as it runs.
///
/// # Errors
/// If the system gives no thread for the bell.
pub(super) async fn watch(lag: Rc<RefCell<LoopLag>>) -> std::io::Result<()> {
    let (bell, mut rings) = mpsc::channel(RINGS_WAITING_MAX);
    // The thread ends within a period of this task.
    std::thread::Builder::new().name("bell".to_owned()).spawn(move || ring(&bell))?;
    while let Some(rung_at) = rings.recv().await {
        lag.borrow_mut().add(rung_at.elapsed());
    }
    Ok(())
}

/// Rings until nobody listens.
fn ring(bell: &mpsc::Sender<Instant>) {
    loop {
        std::thread::sleep(PERIOD);
        if let Err(TrySendError::Closed(_)) = bell.try_send(Instant::now()) {
            return;
        }
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

    /// Does `turn` again and again on a loop that is watched, until so many rings were heard.
    fn watched(n: u64, mut turn: impl AsyncFnMut()) -> LoopLag {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lag = Rc::new(RefCell::new(LoopLag::default()));
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let watching = tokio::task::spawn_local(watch(Rc::clone(&lag)));
            let enough = async {
                while lag.borrow().n() == 0 {
                    tokio::time::sleep(PERIOD).await; // Now the bell rings.
                }
                while lag.borrow().n() < n {
                    turn().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), enough).await.unwrap();
            watching.abort();
        });
        lag.take()
    }

    #[test]
    fn a_loop_that_is_held_up_is_late_by_as_much_and_an_idle_one_is_not() {
        let held_up = Duration::from_millis(100);
        let lag = watched(40, async || {
            std::thread::sleep(held_up);
            tokio::task::yield_now().await;
        });
        // The bell rings at least once within each, and at the latest one period after its start.
        assert!(lag.percentile(99).unwrap() >= held_up - PERIOD, "{:?}", lag.percentile(99));
        let idle = watched(40, async || tokio::time::sleep(held_up).await);
        // On a machine that is busy with something else both may be late; not in this order.
        let (idle, held_up) = (idle.percentile(25), lag.percentile(75));
        assert!(idle < held_up, "{idle:?} {held_up:?}");
    }

    #[test]
    fn one_long_hold_up_is_told_in_full() {
        let held_up = Duration::from_millis(1500);
        let mut still_to_hold = Some(held_up);
        let lag = watched(10, async || {
            if let Some(time) = still_to_hold.take() {
                std::thread::sleep(time);
            }
            tokio::task::yield_now().await;
        });
        assert!(lag.max().unwrap() >= Duration::from_secs(1), "{:?}", lag.max());
    }
}
