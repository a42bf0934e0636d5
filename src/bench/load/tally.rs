//! Who may send, and when it is enough: the one thing that all workers of a level share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LevelSpec;
use crate::bench::budget::Purse;
use crate::bench::prompts::{Draw, PromptCursor};
use crate::measure::trace::{FailureClass, Phase, RequestTrace};

/// So many measured requests that all end in the same refusal, and none that is ok, are enough to
/// know that the others would: a server that does not want us is not asked hundreds of times.
const REFUSALS_MAX: u32 = 10;

/// The level's counts.
pub(super) struct Tally {
    prompts: PromptCursor,
    n_ok_wanted: u32,
    max_attempts: u32,
    purse: Option<Purse>,
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
    /// Measured requests that failed.
    failed: u32,
    /// What the first of them failed of.
    first_failure: Option<FailureClass>,
    /// Whether another one failed of something else.
    has_mixed_failures: bool,
    /// A request was refused for its price: none is sent after it.
    too_expensive: bool,
}

/// Why a request may not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// With those in flight there are enough, unless one of them fails: whoever sent that one
    /// replaces it.
    Enough,
    /// `max_attempts` is used up.
    Attempts,
    /// It may cost more than is left.
    Cost,
    /// All so far were refused, in a way that more of them do not change.
    ForGood,
}

/// A request that may be sent: its place in the order, and its prompt.
pub(super) struct Admitted {
    pub(super) index: u32,
    pub(super) phase: Phase,
    pub(super) draw: Draw,
}

impl Counts {
    fn are_refusals(&self) -> bool {
        let for_good = |class| FailureClass::FOR_GOOD.contains(&class);
        self.ok == 0
            && self.failed >= REFUSALS_MAX
            && !self.has_mixed_failures
            && self.first_failure.is_some_and(for_good)
    }
}

impl Tally {
    pub(super) fn new(prompts: &PromptCursor, spec: &LevelSpec) -> Self {
        Self {
            prompts: prompts.clone(),
            n_ok_wanted: spec.n_ok,
            max_attempts: spec.max_attempts,
            purse: spec.purse.clone(),
            counts: Mutex::default(),
        }
    }

    /// The next warm-up request, if it can be paid for.
    pub(super) fn warmup(&self) -> Result<Admitted, Refused> {
        let mut counts = self.lock();
        self.pay(&mut counts)?;
        Ok(self.deal(Phase::Warmup, &mut counts))
    }

    /// The next measured request: ok + in flight < n, attempts are left, and money.
    pub(super) fn admit(&self) -> Result<Admitted, Refused> {
        let mut counts = self.lock();
        if counts.ok + counts.in_flight >= self.n_ok_wanted {
            return Err(Refused::Enough);
        }
        if counts.attempts >= self.max_attempts {
            return Err(Refused::Attempts);
        }
        if counts.are_refusals() {
            return Err(Refused::ForGood);
        }
        self.pay(&mut counts)?;
        counts.attempts += 1;
        counts.in_flight += 1;
        Ok(self.deal(Phase::Steady, &mut counts))
    }

    /// Sets aside what a request may cost. Once that was refused it stays so: a level that goes on
    /// with fewer in flight is not the level that was asked for.
    fn pay(&self, counts: &mut Counts) -> Result<(), Refused> {
        if let Some(purse) = &self.purse
            && (counts.too_expensive || !purse.set_aside())
        {
            counts.too_expensive = true;
            return Err(Refused::Cost);
        }
        Ok(())
    }

    /// A request has ended.
    pub(super) fn ended(&self, trace: &RequestTrace) {
        if let Some(purse) = &self.purse {
            purse.settle(trace);
        }
        if trace.is_measured() {
            let mut counts = self.lock();
            counts.in_flight -= 1;
            match trace.outcome.failure() {
                None => counts.ok += 1,
                Some(class) => {
                    counts.failed += 1;
                    let first = *counts.first_failure.get_or_insert(class);
                    counts.has_mixed_failures |= first != class;
                }
            }
        }
    }

    /// Whether a request was refused for its price.
    pub(super) fn is_too_expensive(&self) -> bool {
        self.lock().too_expensive
    }

    /// Whether nothing but refusals came, that more requests do not change.
    pub(super) fn is_refused(&self) -> bool {
        self.lock().are_refusals()
    }

    /// Whether another measured request may have to be sent.
    pub(super) fn wants_more(&self) -> bool {
        let counts = self.lock();
        let wanted = counts.ok + counts.in_flight < self.n_ok_wanted;
        let may = counts.attempts < self.max_attempts && !counts.too_expensive;
        wanted && may && !counts.are_refusals()
    }

    /// Whether as many are ok as were wanted.
    pub(super) fn is_reached(&self) -> bool {
        self.lock().ok >= self.n_ok_wanted
    }

    /// The index and the prompt are dealt under one lock, so that both follow the send order.
    fn deal(&self, phase: Phase, counts: &mut Counts) -> Admitted {
        let index = counts.sent;
        counts.sent += 1;
        Admitted { index, phase, draw: self.prompts.draw() }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole after each statement above: a panic elsewhere leaves them usable.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
