//! The timed path: one request, from before its connect to the end of its stream.
//!
//! Every worker owns one connection ([`connection`]), opened by us ([`connect`]) over a socket that
//! we hold ([`wire`]), so every step has its own stamp. [`exchange`] sends one request and turns
//! the answer into a record; [`reading`] makes sense of the bytes; [`wait`] bounds every wait.
//! Nothing is retried, except that a kept connection which turns out to be dead before the server
//! took any of the request is replaced once, and counted.

mod answer;
mod body;
mod connect;
mod connection;
mod endpoint;
mod exchange;
mod failure;
mod reading;
mod retry_after;
mod trace;
mod wait;
mod wire;

pub use body::{BodyTemplate, EndpointKind};
pub use endpoint::{Endpoint, EndpointError, HttpVersion, Keep, Timeouts};
pub(super) use exchange::{Client, Route};
pub(super) use trace::Ticket;
