//! What happens to a request, for as long as its client is there to hear it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::serve::inference::{Event, Events};

use super::peer::Peer;

/// The events of a request and the client that waits for them. Dropping it cancels the request.
pub struct Heard {
    events: Events,
    /// Unknown where a router is called without a connection.
    peer: Option<Peer>,
}

/// The client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has hung up")]
pub struct HungUp;

impl Heard {
    /// Events for this client.
    pub fn new(events: Events, peer: Option<Peer>) -> Self {
        Self { events, peer }
    }

    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Event, HungUp>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// [`Self::next`] for a hand-written stream.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event, HungUp>>> {
        if let Poll::Ready(event) = self.events.poll_next(context) {
            return Poll::Ready(event.map(Ok));
        }
        match &self.peer {
            Some(peer) => peer.poll_gone(context).map(|()| Some(Err(HungUp))),
            None => Poll::Pending,
        }
    }
}
