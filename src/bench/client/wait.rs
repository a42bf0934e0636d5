//! Every wait of a request has an end: the four timeouts, and the harness's own cancellation.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::endpoint::Timeouts;
use super::failure::Failure;
use crate::measure::trace::FailureClass;

/// How far a request has come, as far as its deadlines depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A connect began then.
    Connecting(Instant),
    /// Sent; no text yet.
    Waiting,
    /// The last text came then.
    Streaming(Instant),
}

/// The deadlines of one request.
pub(super) struct Wait<'a> {
    timeouts: Timeouts,
    sent_at: Instant,
    cancel: &'a CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFuture<'a>>>,
    timer: Pin<Box<Sleep>>,
}

struct Deadline {
    at: Instant,
    class: FailureClass,
    after: Duration,
}

/// A timer that nobody waits for: a day is longer than any wait between two checks of it.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

impl<'a> Wait<'a> {
    pub(super) fn new(timeouts: Timeouts, sent_at: Instant, cancel: &'a CancellationToken) -> Self {
        let timer = Box::pin(tokio::time::sleep(IDLE));
        let cancelled = Box::pin(cancel.cancelled());
        Self { timeouts, sent_at, cancel, cancelled, timer }
    }

    /// The future's value, or the failure that came before it.
    ///
    /// The clock is looked at before each poll, and not only when the timer wakes: a server that
    /// floods us with bytes keeps the future ready for ever, and uses up the task's budget, without
    /// which no timer fires. The timer is set anew only if it is late: at most once for each wait
    /// that it guards, not for each event.
    pub(super) async fn until<T>(
        &mut self,
        stage: Stage,
        future: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let deadline = self.deadline(stage);
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            if let Some(failure) = self.over(deadline.as_ref()) {
                return Poll::Ready(Err(failure));
            }
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            if self.cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(cancelled()));
            }
            let Some(deadline) = &deadline else { return Poll::Pending };
            if self.timer.deadline().into_std() > deadline.at {
                self.timer.as_mut().reset(deadline.at.into());
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                if let Some(failure) = self.over(Some(deadline)) {
                    return Poll::Ready(Err(failure));
                }
                self.timer.as_mut().reset(deadline.at.into());
            }
            Poll::Pending
        })
        .await
    }

    /// What has ended the wait, if anything has.
    fn over(&self, deadline: Option<&Deadline>) -> Option<Failure> {
        if self.cancel.is_cancelled() {
            return Some(cancelled());
        }
        deadline.filter(|deadline| Instant::now() >= deadline.at).map(Deadline::failure)
    }

    /// The first of the deadlines that apply.
    fn deadline(&self, stage: Stage) -> Option<Deadline> {
        let sent = self.sent_at;
        let Timeouts { connect, first_token, stall, request } = self.timeouts;
        let (connect, first_token, stall) = match stage {
            Stage::Connecting(since) => (connect.map(|d| (since, d)), first_token, None),
            Stage::Waiting => (None, first_token, None),
            Stage::Streaming(last) => (None, None, stall.map(|d| (last, d))),
        };
        let from_sent = |limit: Option<Duration>| limit.map(|after| (sent, after));
        let all = [
            (FailureClass::Connect, connect),
            (FailureClass::FirstTokenTimeout, from_sent(first_token)),
            (FailureClass::StallTimeout, stall),
            (FailureClass::RequestTimeout, from_sent(request)),
        ];
        all.into_iter()
            .filter_map(|(class, limit)| {
                let (since, after) = limit?;
                // A limit beyond what the clock can express is none.
                Some(Deadline { at: since.checked_add(after)?, class, after })
            })
            .min_by_key(|deadline| deadline.at)
    }
}

impl Deadline {
    fn failure(&self) -> Failure {
        let what = match self.class {
            FailureClass::Connect => "no connection",
            FailureClass::FirstTokenTimeout => "no text",
            FailureClass::StallTimeout => "no further text",
            _ => "not finished",
        };
        Failure::new(self.class, format!("{what} within {:?}", self.after))
    }
}

fn cancelled() -> Failure {
    Failure::new(FailureClass::Cancelled, "stopped by the harness")
}
