//! What the HTTP side may read of the inference thread at any moment without asking it.
//!
//! Atomics only: `/health` and `/metrics` never wait for the thread, nor the thread for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What both sides see.
pub(super) struct Shared {
    pub(super) stop: Arc<StopSignal>,
    pub(super) gauges: Gauges,
    /// The most requests that may wait.
    pub(super) max_queue: usize,
}

/// How far the end of the inference thread has come. It only ever moves forward.
#[derive(Debug, Default)]
pub struct StopSignal(AtomicU8);

impl StopSignal {
    const DRAINING: u8 = 1;
    const STOPPING: u8 = 2;
    const ENDED: u8 = 3;
    const DIED: u8 = 4;

    /// No new work is taken, what waits is refused; the running request may finish.
    pub fn is_draining(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::DRAINING
    }

    /// The running request is cut off too.
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::STOPPING
    }

    /// The thread has ended.
    pub fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Self::ENDED
    }

    /// The thread has ended on its own, through a bug: nothing will succeed any more.
    pub fn died(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::DIED
    }

    pub(super) fn drain(&self) {
        self.0.fetch_max(Self::DRAINING, Ordering::AcqRel);
    }

    pub(super) fn stop(&self) {
        self.0.fetch_max(Self::STOPPING, Ordering::AcqRel);
    }

    pub(super) fn ended(&self) {
        self.0.fetch_max(Self::ENDED, Ordering::AcqRel);
    }

    pub(super) fn set_died(&self) {
        self.0.fetch_max(Self::DIED, Ordering::AcqRel);
    }
}

/// Counts that change as requests move.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    /// Waiting and running together: what admission counts.
    outstanding: AtomicUsize,
    running: AtomicUsize,
    cancelled_while_queued: AtomicU64,
    cancelled_while_running: AtomicU64,
    kv_tokens: AtomicUsize,
}

impl Gauges {
    /// Takes a place for a new request, if at most `max_queue` wait beside the one that runs.
    pub(super) fn admit(&self, max_queue: usize) -> bool {
        let room = |n: usize| (n <= max_queue).then_some(n + 1);
        self.outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_ok()
    }

    /// Whether [`Self::admit`] would take one now.
    pub(super) fn has_room(&self, max_queue: usize) -> bool {
        self.outstanding.load(Ordering::Acquire) <= max_queue
    }

    pub(super) fn started(&self) {
        self.running.store(1, Ordering::Release);
    }

    pub(super) fn ended_running(&self, cancelled: bool) {
        if cancelled {
            self.cancelled_while_running.fetch_add(1, Ordering::AcqRel);
        }
        self.running.store(0, Ordering::Release);
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn left_the_queue(&self) {
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn cancelled_while_queued(&self) {
        self.left_the_queue();
        self.cancelled_while_queued.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn set_kv_tokens(&self, n: usize) {
        self.kv_tokens.store(n, Ordering::Release);
    }

    /// How many requests were ever cancelled while they waited.
    pub(super) fn n_cancelled_while_queued(&self) -> u64 {
        self.cancelled_while_queued.load(Ordering::Acquire)
    }

    pub(super) fn read(&self) -> Occupancy {
        let running = self.running.load(Ordering::Acquire);
        let outstanding = self.outstanding.load(Ordering::Acquire);
        Occupancy {
            queued: outstanding.saturating_sub(running),
            running,
            cancelled_while_queued: self.cancelled_while_queued.load(Ordering::Acquire),
            cancelled_while_running: self.cancelled_while_running.load(Ordering::Acquire),
            kv_tokens: self.kv_tokens.load(Ordering::Acquire),
        }
    }
}

/// What the inference thread is doing, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Requests that wait.
    pub queued: usize,
    /// Requests that have the device: 0 or 1.
    pub running: usize,
    /// Requests whose client went away while they waited, since the start.
    pub cancelled_while_queued: u64,
    /// Requests whose client went away while they ran, since the start.
    pub cancelled_while_running: u64,
    /// Tokens in the KV cache.
    pub kv_tokens: usize,
}
