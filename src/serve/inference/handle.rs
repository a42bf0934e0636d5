//! The HTTP side's way to the inference thread.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use super::event::Failure;
use super::gauges::{Occupancy, Shared};
use super::job::{Events, Job, QueuedJob};
use super::model::{TokenId, Tokenizer};

/// What goes through the channel to the inference thread.
pub(super) enum Message {
    Job(Box<QueuedJob>),
    /// Look at the stop signal.
    Wake,
}

/// Hands requests over. Cheap to clone; no call waits for the inference thread.
#[derive(Clone)]
pub struct InferenceHandle {
    pub(super) sender: SyncSender<Message>,
    pub(super) shared: Arc<Shared>,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
}

impl InferenceHandle {
    /// What would keep a request from being taken now, if anything does.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn check(&self, job: &Job) -> Result<(), SubmitError> {
        self.check_prompt(&job.prompt)?;
        if self.shared.stop.is_draining() {
            return Err(self.refusal());
        }
        if !self.shared.gauges.has_room(self.shared.max_queue) {
            return Err(self.is_full());
        }
        Ok(())
    }

    /// Puts a request at the end of the queue. Dropping the events cancels it.
    ///
    /// # Errors
    /// When the queue is full, the server is going away, or the prompt can't be served.
    pub fn submit(&self, job: Job) -> Result<Events, SubmitError> {
        self.check(&job)?;
        if !self.shared.gauges.admit(self.shared.max_queue) {
            return Err(self.is_full());
        }
        let (queued, events) = QueuedJob::new(job, Arc::clone(&self.shared));
        match self.sender.try_send(Message::Job(Box::new(queued))) {
            Ok(()) => Ok(events),
            // Requests whose clients have gone fill the channel until the thread next looks.
            Err(TrySendError::Full(_)) => Err(self.is_full()),
            Err(TrySendError::Disconnected(_)) => Err(self.refusal()),
        }
    }

    /// Text to tokens and back, and what is known of the model.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// What the inference thread is doing.
    pub fn occupancy(&self) -> Occupancy {
        self.shared.gauges.read()
    }

    /// Whether new requests are taken.
    pub fn is_serving(&self) -> bool {
        !self.shared.stop.is_draining()
    }

    fn refusal(&self) -> SubmitError {
        let died = self.shared.stop.died();
        SubmitError::NotServing(if died { Failure::Gone } else { Failure::ShuttingDown })
    }

    fn is_full(&self) -> SubmitError {
        SubmitError::QueueFull { max_queue: self.shared.max_queue }
    }

    fn check_prompt(&self, prompt: &[TokenId]) -> Result<(), SubmitError> {
        let n_ctx = self.tokenizer.settings().n_ctx as usize;
        let n_vocab = self.tokenizer.info().n_vocab;
        if prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        if prompt.len() >= n_ctx {
            return Err(SubmitError::PromptTooLong { n_prompt: prompt.len(), n_ctx });
        }
        let known = |id: TokenId| u32::try_from(id).is_ok_and(|id| id < n_vocab);
        match prompt.iter().find(|&&id| !known(id)) {
            Some(&id) => Err(SubmitError::UnknownToken { id, n_vocab }),
            None => Ok(()),
        }
    }
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests wait as may. Later there may be room.
    #[error("the queue is full ({max_queue} requests wait)")]
    QueueFull {
        /// The bound.
        max_queue: usize,
    },
    /// The server is going away, or its inference thread has died.
    #[error("{0}")]
    NotServing(Failure),
    /// There is nothing to continue.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for a single token of an answer.
    #[error("the prompt has {n_prompt} tokens, the context {n_ctx}")]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt: usize,
        /// Tokens of context.
        n_ctx: usize,
    },
    /// The prompt has a token that the vocabulary lacks.
    #[error("token {id} is not in the vocabulary of {n_vocab} tokens")]
    UnknownToken {
        /// The first such token.
        id: TokenId,
        /// Size of the vocabulary.
        n_vocab: u32,
    },
}
