//! The HTTP contract that both programs share: requests, chunks, usage, timings, error bodies and
//! the server-sent-events framing. Pure data: no I/O, no clock, nothing of ours is imported.

pub mod account;
pub mod chat;
pub mod chunk;
pub mod completion;
pub mod error;
pub mod event;
pub mod fields;
mod lenient;
pub mod mended;
pub mod models;
pub mod options;
pub mod sse;
pub mod stream_error;
pub mod usage;
mod weight;
