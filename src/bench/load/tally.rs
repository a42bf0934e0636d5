//! Who may send, and when it is enough: the one thing that all workers of a level share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bench::prompts::{Draw, PromptCursor};
use crate::measure::trace::{Outcome, Phase};

/// The level's counts.
pub(super) struct Tally {
    prompts: PromptCursor,
    n_ok_wanted: u32,
    max_attempts: u32,
    counts: Mutex<Counts>,
}

/// What has been sent, and what came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Requests sent, warm-up included.
    sent: u32,
    /// Measured requests sent.
    pub(super) attempts: u32,
    pub(super) ok: u32,
    in_flight: u32,
    pub(super) salted: u32,
}

/// Why a request may not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// With those in flight there are enough, unless one of them fails: whoever sent that one
    /// replaces it.
    Enough,
    /// `max_attempts` is used up.
    Attempts,
}

/// A request that may be sent: its place in the order, and its prompt.
pub(super) struct Admitted {
    pub(super) index: u32,
    pub(super) phase: Phase,
    pub(super) draw: Draw,
}

impl Tally {
    pub(super) fn new(prompts: &PromptCursor, n_ok_wanted: u32, max_attempts: u32) -> Self {
        Self { prompts: prompts.clone(), n_ok_wanted, max_attempts, counts: Mutex::default() }
    }

    /// The next warm-up request.
    pub(super) fn warmup(&self) -> Admitted {
        self.deal(Phase::Warmup, &mut self.lock())
    }

    /// The next measured request: ok + in flight < n, and attempts are left.
    pub(super) fn admit(&self) -> Result<Admitted, Refused> {
        let mut counts = self.lock();
        if counts.ok + counts.in_flight >= self.n_ok_wanted {
            return Err(Refused::Enough);
        }
        if counts.attempts >= self.max_attempts {
            return Err(Refused::Attempts);
        }
        counts.attempts += 1;
        counts.in_flight += 1;
        Ok(self.deal(Phase::Steady, &mut counts))
    }

    /// A measured request has ended.
    pub(super) fn ended(&self, outcome: &Outcome) {
        let mut counts = self.lock();
        counts.in_flight -= 1;
        counts.ok += u32::from(outcome.is_ok());
    }

    /// Whether another measured request may have to be sent.
    pub(super) fn wants_more(&self) -> bool {
        let counts = self.lock();
        counts.ok + counts.in_flight < self.n_ok_wanted && counts.attempts < self.max_attempts
    }

    /// Whether as many are ok as were wanted.
    pub(super) fn is_reached(&self) -> bool {
        self.lock().ok >= self.n_ok_wanted
    }

    pub(super) fn counts(&self) -> Counts {
        *self.lock()
    }

    /// The index and the prompt are dealt under one lock, so that both follow the send order.
    fn deal(&self, phase: Phase, counts: &mut Counts) -> Admitted {
        let index = counts.sent;
        counts.sent += 1;
        let draw = self.prompts.draw();
        counts.salted += u32::from(draw.salt().is_some());
        Admitted { index, phase, draw }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole after each statement above: a panic elsewhere leaves them usable.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
