//! The threads of the HTTP side, and its limit of open files.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

/// The HTTP side has little to do, and a token is cheapest with one thread: whenever one of several
/// finds work, tokio wakes another to look for more, so each token would wake two of them.
const WORKERS: usize = 1;
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

/// Lets the process have as many open files as the system allows it. Each waiting client is one, and
/// the usual 1,024 are fewer than the queue's default length: the rest would wait unheard instead of
/// being told that the queue is full.
///
/// # Errors
/// When the system refuses; the server then works with what it has.
pub fn raise_file_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_may_be_as_many_open_files_as_the_system_allows() {
        let allowed = raise_file_limit().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (allowed, allowed));
    }
}
