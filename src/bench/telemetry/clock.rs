//! The sampler's own clock: durations since its epoch, and the CPU time of a thread.

use std::time::{Duration, Instant};

/// The epoch from which a recording counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// The epoch itself.
    pub fn epoch(&self) -> Instant {
        self.0
    }

    /// Time since the epoch.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// An instant as time since the epoch; those before it are the epoch itself.
    pub fn since_epoch(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.0)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// CPU time that the calling thread has used; zero where the system does not say.
#[cfg(unix)]
pub fn thread_cpu() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time that the calling thread has used; zero where the system does not say.
#[cfg(not(unix))]
pub fn thread_cpu() -> Duration {
    Duration::ZERO
}
