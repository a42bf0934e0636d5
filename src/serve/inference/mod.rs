//! Inference: one OS thread that owns the model and answers one request at a time.
//!
//! The HTTP side hands over tokens ([`Job`]) and gets back what happens to them ([`Events`]); it
//! never waits for the thread, and the thread never waits for it. Nothing in here knows HTTP or JSON.
//!
//! - [`spawn`] starts the thread; [`InferenceThread`] is its owner's end, [`InferenceHandle`] its
//!   clients'.
//! - [`Model`] and [`Tokenizer`] are what an engine has to be: llama.cpp (`llama`, behind the feature
//!   of that name) or a script ([`scripted`]), which drives the same worker in tests.
//! - `scheduler`, `slot`, `text`, `sampler` and `candidates` are pure.
//!
//! Invariants: strictly first come, first served. A request whose [`Events`] are dropped never
//! starts, or ends within one ubatch of its prompt or one token of its answer. Each request that
//! was accepted ends with exactly one [`Event::Done`] or [`Event::Failed`].

mod candidates;
mod event;
mod gauges;
pub mod gguf;
mod gguf_types;
mod handle;
mod job;
#[cfg(feature = "llama")]
pub mod llama;
mod load_error;
mod model;
mod params;
pub mod sampler;
mod scheduler;
pub mod scripted;
mod slot;
pub mod text;
mod thread;
mod worker;

pub use event::{
    Candidate, Completion, Event, Failure, FinishReason, TextChunk, Timings, TokenLogprob,
};
pub use gauges::{Occupancy, StopSignal};
pub use handle::{InferenceHandle, SubmitError};
pub use job::{Events, Job};
pub use load_error::LoadError;
pub use model::{
    AppliedSettings, GrammarError, GrammarMatcher, Model, ModelError, ModelInfo, Output, Specials,
    TokenId, Tokenizer,
};
pub use params::{GenerationParams, Grammar, Logprobs, Penalties, Sampling};
pub use thread::{InferenceThread, ShutDownError, spawn};
