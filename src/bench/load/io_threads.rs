//! The threads that the timed part of a level runs on, apart from everything else in the process.
//!
//! Each has an event loop of its own and keeps its workers: no task moves between threads, and
//! nothing but workers runs there.

use std::thread::JoinHandle;

use hyper::header::HeaderMap;
use tokio::task::LocalSet;

use super::lag::LoopLag;

/// What a thread has seen beside the requests.
#[derive(Debug, Default)]
pub(super) struct ThreadReport {
    pub(super) loop_lag: LoopLag,
    /// The headers of one good answer.
    pub(super) headers: Option<HeaderMap>,
}

/// Threads at work; each ends when its work does.
#[derive(Default)]
pub(super) struct IoThreads {
    threads: Vec<JoinHandle<ThreadReport>>,
}

impl IoThreads {
    /// Starts one more thread. Its work is begun there, since it cannot move.
    pub(super) fn start<W>(&mut self, work: W) -> std::io::Result<()>
    where
        W: AsyncFnOnce() -> Option<HeaderMap> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("load-{}", self.threads.len());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let mut loop_lag = LoopLag::default();
            let headers = LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    headers = work() => headers,
                    () = loop_lag.watch() => None,
                }
            });
            // A name that is still being resolved must not hold the level up.
            runtime.shutdown_background();
            ThreadReport { loop_lag, headers }
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits for all of them. To be called when their work has ended: it blocks.
    pub(super) fn join(self) -> ThreadReport {
        let mut whole = ThreadReport::default();
        for thread in self.threads {
            match thread.join() {
                Ok(report) => {
                    whole.loop_lag.merge(&report.loop_lag);
                    whole.headers = whole.headers.or(report.headers);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        whole
    }
}
