//! The threads of the HTTP side, and where its log lines go.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use super::cli::LogFormat;

/// The HTTP side has little to do; more threads would take cores from the engine.
const WORKERS: usize = 2;
/// Long prompts that are tokenised at the same time, at most.
const BLOCKING_THREADS: usize = 4;
/// llama.cpp's tokenisers recurse over their input. Only what is touched costs memory.
const STACK_BYTES: usize = 64 << 20;

/// The runtime that the server lives in.
///
/// # Errors
/// When the system refuses a thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
}

/// Sends log lines to stderr. `RUST_LOG` chooses which; by default those of level info and above.
pub fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
