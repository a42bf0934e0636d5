//! The server: one GGUF model behind an OpenAI-compatible streaming API.

pub mod cli;
pub mod config;
mod duration;
#[cfg(feature = "llama")]
pub mod engine;
pub mod http;
pub mod inference;
mod log;
pub mod metrics;
pub mod prompt;
mod run;
mod runtime;
pub mod signals;
mod start_up;

pub use log::log_to_stderr;
pub use run::{ServeError, listen, run};
pub use runtime::{raise_file_limit, runtime};
pub use start_up::StartUp;
