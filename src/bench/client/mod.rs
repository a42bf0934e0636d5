//! The timed path: one request, from before its connect to the end of its stream.
//!
//! Every worker owns one connection ([`connection`]), opened by us ([`connect`]) over a socket that
//! we hold ([`wire`]), so every step has its own stamp. [`exchange`] sends one request and turns
//! the answer into a record; [`reading`] makes sense of the bytes; [`wait`] bounds every wait.
//! Nothing is retried, except that a kept connection which the server closes at once and without one
//! byte of an answer is replaced once, and counted: some servers close after a stream without
//! announcing it, and the close may cross the next request on its way.

mod answer;
mod body;
mod connect;
mod connection;
mod endpoint;
mod exchange;
mod failure;
mod reading;
mod retry_after;
mod side_tasks;
mod trace;
mod wait;
mod wire;

pub use body::{BodyTemplate, EndpointKind};
pub(super) use connect::client_config;
pub(super) use endpoint::certificates;
pub use endpoint::{Endpoint, EndpointError, HttpVersion, Keep, STALE_SLACK, Timeouts};
pub(super) use exchange::{AnswerHeaders, Client, Route};
pub(super) use trace::Ticket;
