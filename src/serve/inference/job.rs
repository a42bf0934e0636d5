//! A request on its way through the queue, and the two ends that hold it.
//!
//! The client's end is [`Events`]: dropping it cancels the request wherever it is. The inference
//! thread's end is [`QueuedJob`]: dropping that ends the request. They share a [`Ticket`], which is
//! an atomic and nothing else, so neither end ever waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::mpsc;

use super::event::{Event, Failure};
use super::gauges::Shared;
use super::model::TokenId;
use super::params::GenerationParams;

/// What the HTTP side hands over.
#[derive(Debug, Clone)]
pub struct Job {
    /// The whole prompt, BOS included.
    pub prompt: Vec<TokenId>,
    /// How the answer is to be made.
    pub params: GenerationParams,
    /// When the request was ready for its place in the queue: the queue time counts from here.
    pub arrived: Instant,
}

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const CANCELLED: u8 = 2;
const ENDED: u8 = 3;

/// Where a request stands.
pub(super) struct Ticket {
    state: AtomicU8,
    shared: Arc<Shared>,
}

impl Ticket {
    /// From the queue to the slot; `false` if the client has gone.
    fn start(&self) -> bool {
        let started = self.advance(WAITING, RUNNING);
        if started {
            self.shared.gauges.started();
        }
        started
    }

    /// The client has gone.
    fn cancel(&self) {
        if self.advance(WAITING, CANCELLED) {
            self.shared.gauges.cancelled_while_queued();
        } else {
            self.advance(RUNNING, CANCELLED);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) == CANCELLED
    }

    /// Why a request ended without a word.
    fn why_gone(&self) -> Failure {
        let drained = self.shared.stop.is_draining() && !self.shared.stop.died();
        if drained { Failure::ShuttingDown } else { Failure::Gone }
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A request in the inference thread's hands.
pub(super) struct QueuedJob {
    pub(super) job: Job,
    events: mpsc::UnboundedSender<Event>,
    ticket: Arc<Ticket>,
    started: bool,
}

impl QueuedJob {
    /// Both ends of a request that `shared` has admitted.
    pub(super) fn new(job: Job, shared: Arc<Shared>) -> (Self, Events) {
        // Unbounded so that a slow reader never stalls the device; a request produces at most one
        // event for each token of its answer, and four more.
        let (events, receiver) = mpsc::unbounded_channel();
        let ticket = Arc::new(Ticket { state: AtomicU8::new(WAITING), shared });
        let queued = Self { job, events, ticket: Arc::clone(&ticket), started: false };
        (queued, Events { receiver, ticket, over: false })
    }

    /// Takes the slot; `false` if the client has gone.
    pub(super) fn start(&mut self) -> bool {
        self.started = self.ticket.start();
        self.started
    }

    /// Whether the client has gone.
    pub(super) fn is_cancelled(&self) -> bool {
        self.ticket.is_cancelled()
    }

    /// Tells the client something; a client that has gone is told nothing.
    pub(super) fn send(&self, event: Event) {
        // An error here means that the client has gone, which `is_cancelled` says as well.
        let _ = self.events.send(event);
    }
}

impl QueuedJob {
    /// Ends the request: the slot is free before the client hears of it.
    pub(super) fn finish(mut self, last: Event) {
        self.end();
        self.send(last);
    }

    fn end(&mut self) {
        let before = self.ticket.state.swap(ENDED, Ordering::AcqRel);
        let gauges = &self.ticket.shared.gauges;
        match (before, self.started) {
            (ENDED, _) => {}
            (_, true) => gauges.ended_running(before == CANCELLED),
            // One that was cancelled while it waited has left the queue then.
            (WAITING, false) => gauges.left_the_queue(),
            (_, false) => {}
        }
    }
}

impl Drop for QueuedJob {
    fn drop(&mut self) {
        self.end();
    }
}

/// What happens to a request, as it happens. Dropping it cancels the request.
pub struct Events {
    receiver: mpsc::UnboundedReceiver<Event>,
    ticket: Arc<Ticket>,
    over: bool,
}

impl Events {
    /// The next event; `None` after [`Event::Done`] or [`Event::Failed`], one of which always comes.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// [`Self::next`] for a hand-written stream.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.over {
            return Poll::Ready(None);
        }
        self.receiver.poll_recv(context).map(|event| Some(self.seen(event)))
    }

    /// [`Self::next`] outside a runtime.
    pub fn blocking_next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let event = self.receiver.blocking_recv();
        Some(self.seen(event))
    }

    fn seen(&mut self, event: Option<Event>) -> Event {
        let event = event.unwrap_or_else(|| Event::Failed(self.ticket.why_gone()));
        self.over = matches!(event, Event::Done(_) | Event::Failed(_));
        event
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.ticket.cancel();
    }
}
