//! The threads that the timed part of a level runs on, apart from everything else in the process.
//!
//! Each has an event loop of its own and keeps its workers: no task moves between threads, and
//! nothing but workers runs there.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::JoinHandle;

use tokio::task::LocalSet;

use super::lag::{self, LoopLag};
use crate::bench::client::AnswerHeaders;

/// What a thread has seen beside the requests.
#[derive(Debug, Default)]
pub(super) struct ThreadReport {
    pub(super) loop_lag: LoopLag,
    /// The headers of one answer, a good one if there was any.
    pub(super) headers: Option<AnswerHeaders>,
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
        W: AsyncFnOnce() -> Option<AnswerHeaders> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("load-{}", self.threads.len());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let loop_lag = Rc::new(RefCell::new(LoopLag::default()));
            let headers = LocalSet::new().block_on(&runtime, async {
                // A task like any worker: it waits its turn behind them. Without a bell there is no
                // figure, which is no reason to stop measuring.
                let watching = tokio::task::spawn_local(lag::watch(Rc::clone(&loop_lag)));
                let headers = work().await;
                watching.abort();
                headers
            });
            // A name that is still being resolved must not hold the level up.
            runtime.shutdown_background();
            ThreadReport { loop_lag: loop_lag.take(), headers }
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
                    whole.headers = AnswerHeaders::better(whole.headers, report.headers);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        whole
    }
}
