//! The loop of the inference thread: one request at a time, in the order of their arrival.
//!
//! Between any two steps (a piece of the prompt, a token) it looks at its messages: whose client has
//! gone, and whether the server is to stop. Nothing here waits for a client: events go into
//! unbounded channels, messages come from a channel that is only ever polled while there is work.

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::event::{Completion, Event, Failure, FinishReason, Timings};
use super::gauges::Shared;
use super::handle::Message;
use super::job::{Job, QueuedJob};
use super::model::{Model, ModelError, Output, TokenId, Tokenizer};
use super::sampler::Sampler;
use super::scheduler::{Scheduler, Waiting};
use super::slot::{Slot, Took};

impl Waiting for Box<QueuedJob> {
    fn is_cancelled(&self) -> bool {
        QueuedJob::is_cancelled(self)
    }
}

/// Everything that the inference thread owns.
pub(super) struct Worker<M> {
    model: M,
    tokenizer: Arc<dyn Tokenizer>,
    messages: Receiver<Message>,
    shared: Arc<Shared>,
    scheduler: Scheduler<Box<QueuedJob>>,
    /// How many cancelled requests the scheduler has been rid of.
    n_forgotten: u64,
    /// The tokens in the KV cache, as far as they are known.
    cached: Vec<TokenId>,
}

/// Why an answer was left unfinished.
enum Interrupted {
    /// Its client has gone.
    Cancelled,
    /// The server stops now.
    Stopping,
    /// The engine failed.
    Failed(ModelError),
}

impl From<ModelError> for Interrupted {
    fn from(error: ModelError) -> Self {
        Self::Failed(error)
    }
}

impl<M: Model> Worker<M> {
    pub(super) fn new(model: M, messages: Receiver<Message>, shared: Arc<Shared>) -> Self {
        let tokenizer = model.tokenizer();
        Self {
            model,
            tokenizer,
            messages,
            shared,
            scheduler: Scheduler::default(),
            n_forgotten: 0,
            cached: Vec::new(),
        }
    }

    /// Serves until the server drains, or until nobody can send a request any more.
    pub(super) fn run(mut self) {
        loop {
            self.look();
            if self.shared.stop.is_draining() {
                return;
            }
            match self.scheduler.next() {
                Some(job) => self.serve(job),
                None => match self.messages.recv() {
                    Ok(message) => self.take(message),
                    Err(_) => return,
                },
            }
        }
    }

    /// Takes the messages that have come, and forgets requests whose clients have gone.
    fn look(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        let n_cancelled = self.shared.gauges.n_cancelled_while_queued();
        if n_cancelled != self.n_forgotten {
            self.n_forgotten = n_cancelled;
            self.scheduler.forget_cancelled();
        }
        if self.shared.stop.is_draining() {
            for job in self.scheduler.drain() {
                job.send(Event::Failed(Failure::ShuttingDown));
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Job(job) => self.scheduler.push(job),
            Message::Wake => {}
        }
    }

    /// Serves one request to its end, whatever that is. A panic of the engine ends this request only.
    fn serve(&mut self, mut job: Box<QueuedJob>) {
        if !job.start() {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| self.answer(&job)));
        let outcome = outcome.unwrap_or_else(|panic| {
            let message = format!("a bug: {}", panic_message(panic.as_ref()));
            Err(Interrupted::Failed(ModelError::Engine(message)))
        });
        if let Err(error) = self.release(&outcome) {
            tracing::error!(%error, "the KV cache could not be emptied");
        }
        match outcome {
            Ok(completion) => {
                let (n_generated, own_work) = (completion.n_generated, completion.timings.own_work);
                tracing::debug!(n_generated, own_work_us = own_work.as_micros(), "answered");
                job.finish(Event::Done(completion));
            }
            // Nobody listens any more.
            Err(Interrupted::Cancelled) => drop(job),
            Err(Interrupted::Stopping) => job.finish(Event::Failed(Failure::ShuttingDown)),
            Err(Interrupted::Failed(error)) => {
                tracing::error!(%error, "the inference engine failed");
                job.finish(Event::Failed(Failure::Engine(error.to_string())));
            }
        }
    }

    /// Frees the slot. Only a prompt cache has a use for what the KV cache holds, and only as long
    /// as that is known.
    fn release(&mut self, outcome: &Result<Completion, Interrupted>) -> Result<(), ModelError> {
        let failed = matches!(outcome, Err(Interrupted::Failed(_)));
        if self.tokenizer.settings().prompt_cache && !failed {
            return Ok(());
        }
        self.cached.clear();
        self.shared.gauges.set_kv_tokens(0);
        self.model.rewind(0).map(drop)
    }

    /// Between two steps: whether this request is to go on.
    fn check(&self, job: &QueuedJob) -> Result<(), Interrupted> {
        if job.is_cancelled() {
            return Err(Interrupted::Cancelled);
        }
        if self.shared.stop.is_stopping() {
            return Err(Interrupted::Stopping);
        }
        Ok(())
    }

    fn answer(&mut self, queued: &QueuedJob) -> Result<Completion, Interrupted> {
        let job = &queued.job;
        let started = Instant::now();
        let waited = started.saturating_duration_since(job.arrived);
        queued.send(Event::Started { queued: waited });
        let n_cached = self.prefill(queued)?;
        let prefilled = Instant::now();
        let (n_prompt, n_cached) = (count(job.prompt.len()), count(n_cached));
        let prefill = prefilled - started;
        queued.send(Event::PromptDone { n_prompt, n_cached, prefill });
        let decoded = self.decode(queued)?;
        Ok(Completion {
            reason: decoded.reason,
            stopped_by: decoded.stopped_by,
            n_prompt,
            n_cached,
            n_generated: decoded.n_generated,
            timings: Timings {
                queued: waited,
                prefill,
                decode: prefilled.elapsed(),
                own_work: decoded.own_work,
            },
        })
    }

    /// Computes the prompt in pieces of one ubatch. Returns how many tokens the cache still had.
    fn prefill(&mut self, queued: &QueuedJob) -> Result<usize, Interrupted> {
        let prompt = &queued.job.prompt;
        let n_cached = self.rewind(prompt, queued.job.params.cache_prompt)?;
        let n_ubatch = self.tokenizer.settings().n_ubatch.max(1) as usize;
        let mut pieces = prompt[n_cached..].chunks(n_ubatch).peekable();
        while let Some(piece) = pieces.next() {
            self.look();
            self.check(queued)?;
            let output = if pieces.peek().is_some() { Output::None } else { Output::Logits };
            self.eval(queued, piece, output)?;
        }
        Ok(n_cached)
    }

    /// Empties the KV cache, but for the beginning that it shares with the prompt where that is
    /// wanted. At least the prompt's last token is computed again, since its logits are needed.
    fn rewind(&mut self, prompt: &[TokenId], cache_prompt: bool) -> Result<usize, Interrupted> {
        let reuse = self.tokenizer.settings().prompt_cache && cache_prompt;
        let shared = self.cached.iter().zip(prompt).take_while(|(had, want)| had == want).count();
        let n_keep = if reuse { shared.min(prompt.len() - 1) } else { 0 };
        // Should the rewind fail or panic, nothing is known to be cached.
        let mut cached = std::mem::take(&mut self.cached);
        let n_kept = self.model.rewind(n_keep)?;
        cached.truncate(n_kept);
        self.cached = cached;
        self.shared.gauges.set_kv_tokens(n_kept);
        Ok(n_kept)
    }

    fn eval(
        &mut self,
        queued: &QueuedJob,
        tokens: &[TokenId],
        output: Output,
    ) -> Result<(), Interrupted> {
        let stop = &self.shared.stop;
        let cancelled = || queued.is_cancelled() || stop.is_stopping();
        match self.model.eval(tokens, output, &cancelled) {
            Ok(()) => {}
            // It gave up because it was told to: say who did.
            Err(ModelError::Cancelled) => {
                self.check(queued)?;
                return Err(Interrupted::Failed(ModelError::Cancelled));
            }
            Err(error) => return Err(error.into()),
        }
        self.cached.extend_from_slice(tokens);
        self.shared.gauges.set_kv_tokens(self.cached.len());
        Ok(())
    }

    /// Draws and computes token by token. The prompt is in the cache and its logits are there.
    fn decode(&mut self, queued: &QueuedJob) -> Result<Decoded, Interrupted> {
        let job = &queued.job;
        let room = self.tokenizer.settings().n_ctx as usize - job.prompt.len();
        let mut slot = Slot::new(&job.params, count(room));
        let decoded = self.decode_into(&mut slot, queued);
        if decoded.is_err()
            && let Some(rest) = slot.flush()
        {
            queued.send(Event::Text(rest));
        }
        decoded
    }

    fn decode_into(&mut self, slot: &mut Slot, queued: &QueuedJob) -> Result<Decoded, Interrupted> {
        let mut own_work = Duration::ZERO;
        let mut began = thread_cpu_time();
        let mut sampler = self.sampler(&queued.job)?;
        loop {
            let drawn = sampler.draw(self.model.logits(), slot.may_end())?;
            let (chunk, took) = slot.take(drawn, self.tokenizer.as_ref());
            if let Some(chunk) = chunk {
                queued.send(Event::Text(chunk));
            }
            let token = match took {
                Took::GoOn(token) => token,
                Took::End { reason, stopped_by } => {
                    let own_work = own_work + thread_cpu_time().saturating_sub(began);
                    let n_generated = slot.n_generated();
                    return Ok(Decoded { reason, stopped_by, n_generated, own_work });
                }
            };
            self.look();
            self.check(queued)?;
            own_work += thread_cpu_time().saturating_sub(began);
            self.eval(queued, &[token], Output::Logits)?;
            began = thread_cpu_time();
        }
    }

    fn sampler(&self, job: &Job) -> Result<Sampler, ModelError> {
        let grammar = job.params.grammar.as_ref();
        let matcher = grammar.map(|grammar| self.model.matcher(grammar)).transpose()?;
        let ends = &self.tokenizer.info().eog;
        Ok(Sampler::new(&job.params, &job.prompt, ends, matcher, fresh_seed()))
    }
}

/// What the decode of one answer came to.
struct Decoded {
    reason: FinishReason,
    stopped_by: Option<String>,
    n_generated: u32,
    own_work: Duration,
}

/// The standard library seeds its hash maps from the system's generator, which is all it takes.
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// CPU time of the calling thread. By the clock on the wall, whoever takes the core meanwhile (the
/// thread that writes to the client, the client itself) would be counted as our own work.
fn thread_cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// A number of tokens; a context has fewer than 2³².
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
