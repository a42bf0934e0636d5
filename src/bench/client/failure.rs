//! What went wrong with a request, as a class and in words.

use std::error::Error as _;
use std::io;

use super::wire::{Wire, WireEnd};
use crate::measure::trace::FailureClass;

/// Why a request is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) class: FailureClass,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(class: FailureClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into() }
    }

    pub(super) fn protocol(text: impl Into<String>) -> Self {
        Self::new(FailureClass::Protocol, text)
    }

    /// Of an error that hyper reports while a request is on the wire. What the socket itself saw
    /// decides; hyper's own kinds tell the rest.
    pub(super) fn of_exchange(error: &hyper::Error, wire: &Wire) -> Self {
        let text = chain(error);
        let io_kind = io_kind_of(error);
        let class = match (wire.end.get(), io_kind) {
            (None, None) if is_stream_reset(error) => FailureClass::ConnectionReset,
            (Some(WireEnd::Failed(kind)), _) if is_reset(kind) => FailureClass::ConnectionReset,
            (None, Some(kind)) if is_reset(kind) => FailureClass::ConnectionReset,
            _ if error.is_parse() => FailureClass::Protocol,
            (_, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) => {
                FailureClass::Protocol
            }
            (Some(_), _) => FailureClass::IncompleteBody,
            (None, Some(io::ErrorKind::UnexpectedEof)) => FailureClass::IncompleteBody,
            (None, _) if error.is_incomplete_message() => FailureClass::IncompleteBody,
            (None, _) => FailureClass::Protocol,
        };
        Self::new(class, text)
    }
}

/// Whether the peer has given one HTTP/2 stream up: what a reset is for a connection of its own.
fn is_stream_reset(error: &hyper::Error) -> bool {
    let h2 = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    h2.is_some_and(|error| error.is_reset() && error.is_remote())
}

fn is_reset(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(kind, ConnectionReset | ConnectionAborted | BrokenPipe)
}

fn io_kind_of(error: &hyper::Error) -> Option<io::ErrorKind> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        source = cause.source();
    }
    None
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
