//! A worker: one connection, and the requests that it is told to send on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::tally::{Admitted, Tally};
use crate::bench::client::{Client, Route, Ticket};
use crate::measure::trace::{FailureClass, Outcome, PromptUse, RequestTrace};

/// How long a worker pauses after a 429 that names no time: without a pause it would use up its
/// attempts within a few round trips.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);
/// The longest `Retry-After` that is obeyed in full; a server that asks for more is not there today,
/// and a record says that it was asked again before.
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// What all workers of a level share.
pub(super) struct Shared {
    pub(super) route: Arc<Route>,
    pub(super) tally: Arc<Tally>,
    pub(super) epoch: Instant,
    pub(super) cancel: CancellationToken,
    /// Finished records, on their way to the caller's side.
    pub(super) records: mpsc::Sender<Finished>,
}

/// A finished record on its way to the caller's side.
pub(super) struct Finished {
    pub(super) trace: RequestTrace,
    /// Dropped once the observer has it.
    pub(super) kept: oneshot::Sender<()>,
}

/// What a worker is told to do. The answer comes when it is done.
pub(super) enum Order {
    /// Open the connection, without a request.
    Open(oneshot::Sender<()>),
    /// Send one warm-up request; the answer is its duration if it was ok.
    Warmup(oneshot::Sender<Option<Duration>>),
    /// Send requests one after the other, from that moment on, until it is enough.
    Loop(Instant),
}

/// One worker of a closed loop, or one slot of an open one.
pub(super) struct Worker {
    shared: Arc<Shared>,
    number: u32,
    pub(super) client: Client,
}

impl Worker {
    pub(super) fn new(shared: &Arc<Shared>, number: u32) -> Self {
        let client = Client::new(&shared.route);
        Self { shared: Arc::clone(shared), number, client }
    }

    /// Follows orders until there are no more.
    pub(super) async fn obey(&mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            // Whoever gave an order may have gone: then nobody waits for the answer.
            match order {
                Order::Open(done) => {
                    self.client.open(&self.shared.cancel).await;
                    let _ = done.send(());
                }
                Order::Warmup(done) => {
                    let _ = done.send(self.warm_up().await);
                }
                Order::Loop(start) => self.send_until_enough(start).await,
            }
        }
    }

    /// Sends one warm-up request, if it can be paid for; its duration, if it was ok.
    pub(super) async fn warm_up(&mut self) -> Option<Duration> {
        let trace = self.send(self.shared.tally.warmup().ok()?, None).await;
        self.shared.tally.ended(&trace);
        let took = trace.outcome.is_ok().then_some(trace.stamps.end);
        let pause = pause_after(&trace);
        self.report(trace).await;
        self.pause(pause).await;
        took
    }

    async fn send_until_enough(&mut self, start: Instant) {
        self.pause(Some(start.saturating_duration_since(Instant::now()))).await;
        while !self.shared.cancel.is_cancelled()
            && let Ok(admitted) = self.shared.tally.admit()
        {
            self.send_measured(admitted, None).await;
        }
    }

    /// Sends one measured request, and does what its answer asks for. `intended_at` is when an
    /// open loop meant it to be sent.
    pub(super) async fn send_measured(&mut self, admitted: Admitted, intended_at: Option<Instant>) {
        let mut trace = self.send(admitted, intended_at).await;
        self.shared.tally.ended(&trace);
        // An open loop sends by the clock; and nobody waits for nothing.
        let pauses = intended_at.is_none() && self.shared.tally.wants_more();
        let pause = pause_after(&trace).filter(|_| pauses);
        trace.pause = pause;
        trace.notes.extend(pause.and_then(|pause| note_of_pause(pause, trace.retry_after)));
        self.report(trace).await;
        self.pause(pause).await;
    }

    async fn send(&mut self, admitted: Admitted, intended_at: Option<Instant>) -> RequestTrace {
        let ticket = Ticket {
            index: admitted.index,
            prompt_index: admitted.draw.prompt_index,
            prompt: PromptUse {
                is_salted: admitted.draw.salt().is_some(),
                is_repeated: admitted.draw.is_repeated,
            },
            worker: self.number,
            phase: admitted.phase,
            epoch: self.shared.epoch,
            intended_at,
        };
        let body = self.shared.route.endpoint.body.render(&admitted.draw);
        self.client.send(ticket, body, &self.shared.cancel).await
    }

    /// Hands a record over, and waits until the observer has it: a worker that sends its next
    /// request has its last one in the journal, so that a harness which is killed loses none. It
    /// takes a wake-up or two between requests, which occupancy would tell if it mattered.
    async fn report(&self, trace: RequestTrace) {
        let (kept, noted) = oneshot::channel();
        // The caller's side goes away only with the level itself.
        if self.shared.records.send(Finished { trace, kept }).await.is_ok() {
            let _ = noted.await;
        }
    }

    async fn pause(&self, pause: Option<Duration>) {
        let Some(pause) = pause.filter(|pause| !pause.is_zero()) else { return };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.shared.cancel.cancelled() => {}
        }
    }
}

/// What is to be said of a pause that is not what the server asked for.
fn note_of_pause(pause: Duration, asked: Option<Duration>) -> Option<String> {
    match asked {
        None => Some(format!("the worker paused for {pause:?}: no Retry-After")),
        Some(asked) if asked > pause => {
            Some(format!("the worker paused for {pause:?}: Retry-After asked for {asked:?}"))
        }
        Some(_) => None,
    }
}

/// The think time that an answer asks for: its `Retry-After`, and after a 429 in any case some.
fn pause_after(trace: &RequestTrace) -> Option<Duration> {
    let refused = match trace.outcome {
        Outcome::Failed(FailureClass::Http(429), _) => Some(PAUSE_DEFAULT),
        _ => None,
    };
    trace.retry_after.filter(|_| !trace.outcome.is_ok()).or(refused).map(|t| t.min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::trace::tests::failed;

    #[test]
    fn a_pause_that_is_not_what_was_asked_for_is_noted() {
        let after = |class, retry_after: Option<u64>| {
            let retry_after = retry_after.map(Duration::from_secs);
            let pause = pause_after(&RequestTrace { retry_after, ..failed(class, 0.0, 1.0) })?;
            Some((pause.as_secs(), note_of_pause(pause, retry_after)))
        };
        let busy = FailureClass::Http(429);
        assert_eq!(after(busy, Some(7)), Some((7, None)));
        assert_eq!(after(busy, Some(600)), Some((600, None)));
        let cut = "the worker paused for 600s: Retry-After asked for 3600s";
        assert_eq!(after(busy, Some(3600)), Some((600, Some(cut.to_owned()))));
        assert_eq!(after(FailureClass::Http(503), Some(3600)).unwrap().0, 600);
        let unasked = "the worker paused for 1s: no Retry-After";
        assert_eq!(after(busy, None), Some((1, Some(unasked.to_owned()))));
        assert_eq!(after(FailureClass::Http(503), None), None);
    }
}
