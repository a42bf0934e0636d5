//! One level: a number of requests against one endpoint, and everything that was seen of them.
//!
//! The timed part runs on threads of its own ([`io_threads`]): each worker and its connection live
//! on one of them. What takes time and is not timed (the journal, progress) happens on the caller's
//! side, where [`run_level`] hands every finished record to the observer.

mod closed;
mod io_threads;
mod lag;
mod level;
mod open;
mod schedule;
mod tally;
mod worker;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub use lag::LoopLag;
pub use level::run_level;
pub use schedule::Schedule;

use crate::bench::budget::Purse;
use crate::measure::level::{EndedBy, StartMode};
use crate::measure::trace::RequestTrace;

/// What a level is asked to do.
#[derive(Debug, Clone)]
pub struct LevelSpec {
    /// Requests in flight (closed loop); ignored by an open one.
    pub concurrency: u32,
    /// Requests that have to end as they should.
    pub n_ok: u32,
    /// Requests before them, one at a time, in no figure.
    pub warmup: u32,
    /// Measured requests are sent at most this often.
    pub max_attempts: u32,
    /// The measured part ends then at the latest: what is in flight is cancelled.
    pub max_duration: Option<Duration>,
    /// How requests begin.
    pub start: Start,
    /// What the requests may cost, where they cost anything.
    pub purse: Option<Purse>,
}

impl LevelSpec {
    /// A closed level with the defaults of a run.
    pub fn closed(concurrency: u32, n_ok: u32) -> Self {
        Self {
            concurrency,
            n_ok,
            warmup: 3,
            max_attempts: n_ok.saturating_mul(3),
            max_duration: None,
            start: Start::Staggered,
            purse: None,
        }
    }
}

/// How requests begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// A closed loop whose workers start spread over the time of one request, so that a batching
    /// server is not locked into waves; without a warm-up request to tell that time, all at once.
    Staggered,
    /// A closed loop whose workers all start at once.
    Simultaneous,
    /// An open loop: requests are sent by the clock, whatever the server does.
    Open {
        /// Requests per second; above 0.
        rate: f64,
        /// How their times are spread.
        arrivals: Arrivals,
        /// What the times are drawn from.
        seed: u64,
    },
}

/// How the times of an open loop are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// A level, as it went.
#[derive(Debug)]
pub struct LevelRun {
    /// Every request, warm-up included, in send order.
    pub traces: Vec<RequestTrace>,
    /// How it started.
    pub start_mode: StartMode,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// The moment that every trace's `start` counts from.
    pub epoch: Instant,
    /// When the first measured request was sent, since the epoch; `None` if none was.
    pub measured_from: Option<Duration>,
    /// How late the load's own event loops were.
    pub loop_lag: LoopLag,
    /// Headers of one answer (a good one, if there was any) that say who answered, and within which
    /// limits; never a cookie.
    pub response_headers: BTreeMap<String, String>,
}

/// Hears what happens while a level runs, on the caller's side: it may take its time.
pub trait LevelObserver: Sync {
    /// Warm-up is over; the measured part begins, in this way.
    fn measuring(&self, _: StartMode) {}
    /// A request has ended. Its phase is settled only at the level's end: until then everything
    /// measured is `steady`.
    fn finished(&self, trace: &RequestTrace);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl LevelObserver for Unobserved {
    fn finished(&self, _: &RequestTrace) {}
}
