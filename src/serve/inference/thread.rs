//! The life of the inference thread: it loads the model, serves, and ends.
//!
//! One OS thread owns the model from the first byte to the last, so the engine's own worker threads
//! belong to it alone. It ends when it is told to, when its owner goes away, or when nobody can send
//! it anything.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::gauges::{Gauges, Shared, StopSignal};
use super::handle::{InferenceHandle, Message};
use super::load_error::LoadError;
use super::model::{Model, Tokenizer};
use super::worker::{Worker, panic_message};

/// The engine's C++ code is written for the 8 MiB that a main thread has; Rust's default is 2.
const STACK_BYTES: usize = 16 << 20;

/// How long a stopped thread may take to notice: one ubatch that can't be aborted (on a GPU), or one
/// file's worth of loading between two calls of the progress callback.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// Starts the inference thread. `load` runs on it; it should give up when the stop signal says so.
///
/// At most `max_queue` requests wait beside the one that runs.
///
/// # Errors
/// When the system can't start a thread.
pub fn spawn<M, F>(load: F, max_queue: usize) -> io::Result<InferenceThread>
where
    M: Model + 'static,
    F: FnOnce(&Arc<StopSignal>) -> Result<M, LoadError> + Send + 'static,
{
    // Room for every request that may wait, the one that runs, and a wake-up.
    let (sender, messages) = mpsc::sync_channel(max_queue.saturating_add(2));
    let stop = Arc::new(StopSignal::default());
    let shared = Arc::new(Shared { stop, gauges: Gauges::default(), max_queue });
    let (loaded, ready) = oneshot::channel();
    let ended = CancellationToken::new();
    let on_thread = (Arc::clone(&shared), ended.clone());
    let join = std::thread::Builder::new()
        .name("inference".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let (shared, ended) = on_thread;
            let _says_so_when_it_ends = ended.drop_guard();
            let life = AssertUnwindSafe(|| live(load, loaded, messages, &shared));
            if let Err(panic) = catch_unwind(life) {
                tracing::error!(
                    message = panic_message(panic.as_ref()),
                    "the inference thread died"
                );
                shared.stop.set_died();
            }
            shared.stop.ended();
        })?;
    let ready = Some(ready);
    Ok(InferenceThread { join: Some(join), sender, shared, ready, ended })
}

fn live<M: Model>(
    load: impl FnOnce(&Arc<StopSignal>) -> Result<M, LoadError>,
    loaded: oneshot::Sender<Result<Arc<dyn Tokenizer>, LoadError>>,
    messages: mpsc::Receiver<Message>,
    shared: &Arc<Shared>,
) {
    match load(&shared.stop) {
        Ok(model) => {
            // If nobody waits for it any more, the thread's owner is gone and the stop signal set.
            let _ = loaded.send(Ok(model.tokenizer()));
            Worker::new(model, messages, Arc::clone(shared)).run();
        }
        Err(error) => {
            let _ = loaded.send(Err(error));
        }
    }
}

/// The owner's end of the inference thread. Dropping it stops the thread.
pub struct InferenceThread {
    join: Option<JoinHandle<()>>,
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    ready: Option<oneshot::Receiver<Result<Arc<dyn Tokenizer>, LoadError>>>,
    ended: CancellationToken,
}

impl InferenceThread {
    /// Waits until the model is loaded. To be called once.
    ///
    /// # Errors
    /// Why it could not be loaded.
    pub async fn ready(&mut self) -> Result<InferenceHandle, LoadError> {
        let ready = self.ready.take().expect("ready is called once");
        let died = |_| Err(LoadError::Engine("the inference thread died while loading".to_owned()));
        let tokenizer = ready.await.unwrap_or_else(died)?;
        Ok(InferenceHandle {
            sender: self.sender.clone(),
            shared: Arc::clone(&self.shared),
            tokenizer,
        })
    }

    /// No new work from now on; what waits is refused, what runs may finish. Also stops a load.
    pub fn drain(&self) {
        self.shared.stop.drain();
        self.wake();
    }

    /// What runs is cut off as well, within one ubatch.
    pub fn stop(&self) {
        self.shared.stop.stop();
        self.wake();
    }

    /// Returns when the thread has ended, for whatever reason.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// A token that is cancelled when the thread has ended, for somebody who does not own it.
    pub fn watch(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Drains; after `grace` stops; returns when the thread has ended and its memory is free.
    ///
    /// # Errors
    /// When the thread died of a bug, or does not end although it was told to.
    pub async fn shut_down(mut self, grace: Duration) -> Result<(), ShutDownError> {
        self.drain();
        if tokio::time::timeout(grace, self.ended()).await.is_err() {
            self.stop();
            let patience = tokio::time::timeout(STOP_PATIENCE, self.ended()).await;
            patience.map_err(|_| ShutDownError::Stuck(STOP_PATIENCE))?;
        }
        if let Some(join) = self.join.take() {
            // It has said that it ends, so this takes no time.
            join.join().map_err(|_| ShutDownError::Died)?;
        }
        if self.shared.stop.died() { Err(ShutDownError::Died) } else { Ok(()) }
    }

    fn wake(&self) {
        // A full channel has something to wake the thread with; a closed one has no thread.
        let _ = self.sender.try_send(Message::Wake);
    }
}

impl Drop for InferenceThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a shutdown was not clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShutDownError {
    /// The thread panicked.
    #[error("the inference thread died")]
    Died,
    /// It was told to stop and did not.
    #[error("the inference thread did not stop within {0:?}")]
    Stuck(Duration),
}
