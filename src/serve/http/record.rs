//! One request's way through the server: what metrics and the log say of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::serve::inference::{Event, FinishReason};
use crate::serve::metrics::{Metrics, Outcome};

/// How a request came to the queue.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// When its body was complete: everything counts from here. How long a client takes to send is
    /// its own affair.
    pub at: Instant,
    /// From then until it was read, rendered and tokenised, and ready to queue.
    pub tokenize: Duration,
}

/// Follows one accepted request. When it is dropped before the answer's end, the client has hung up.
pub struct RequestRecord {
    metrics: Arc<Metrics>,
    id: String,
    endpoint: &'static str,
    arrival: Arrival,
    n_prompt: usize,
    n_cached: u32,
    n_generated: u32,
    queued: Option<Duration>,
    prefill: Option<Duration>,
    last_text: Option<Instant>,
    ttft: Option<Duration>,
    outcome: Outcome,
}

impl RequestRecord {
    /// A request that was just accepted.
    pub fn new(
        metrics: Arc<Metrics>,
        id: String,
        endpoint: &'static str,
        arrival: Arrival,
        n_prompt: usize,
    ) -> Self {
        Self {
            metrics,
            id,
            endpoint,
            arrival,
            n_prompt,
            n_cached: 0,
            n_generated: 0,
            queued: None,
            prefill: None,
            last_text: None,
            ttft: None,
            outcome: Outcome::Cancelled,
        }
    }

    /// How long it took to make tokens of the request.
    pub fn tokenize(&self) -> Duration {
        self.arrival.tokenize
    }

    /// Takes note of what happened.
    pub fn saw(&mut self, event: &Event) {
        match event {
            Event::Started { queued } => {
                self.queued = Some(*queued);
                self.metrics.started(*queued);
            }
            Event::PromptDone { n_prompt, n_cached, prefill } => {
                self.n_cached = *n_cached;
                self.prefill = Some(*prefill);
                self.metrics.prompt_done(*n_prompt, *n_cached);
            }
            Event::Text(chunk) => self.saw_text(chunk.n_tokens),
            Event::Done(completion) => {
                // Those that have no text: the end of the answer, a stop string.
                let n_silent = completion.n_generated.saturating_sub(self.n_generated);
                self.metrics.silent_tokens(n_silent);
                self.n_generated = completion.n_generated;
                self.outcome = match completion.reason {
                    FinishReason::Stop => Outcome::Stop,
                    FinishReason::Length => Outcome::Length,
                };
                let times = completion.timings;
                self.metrics.completed(self.arrival.at.elapsed(), times.prefill + times.decode);
            }
            Event::Failed(failure) => {
                self.outcome = Outcome::Failed;
                tracing::warn!(id = self.id, %failure, "request failed");
            }
        }
    }

    fn saw_text(&mut self, n_tokens: u32) {
        let now = Instant::now();
        self.n_generated += n_tokens;
        match self.last_text.replace(now) {
            None => {
                let ttft = now - self.arrival.at;
                self.ttft = Some(ttft);
                self.metrics.first_text(ttft, n_tokens);
            }
            Some(last) => self.metrics.more_text(now - last, n_tokens),
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.metrics.ended(self.outcome);
        let e2e = self.arrival.at.elapsed();
        let waited = self.arrival.tokenize + self.queued.unwrap_or_default();
        let decode = self.prefill.map(|prefill| e2e.saturating_sub(waited + prefill));
        tracing::info!(
            id = self.id,
            endpoint = self.endpoint,
            outcome = self.outcome.name(),
            prompt_tokens = self.n_prompt,
            cached_tokens = self.n_cached,
            output_tokens = self.n_generated,
            tokenize_ms = ms(self.arrival.tokenize),
            queue_ms = self.queued.map(ms),
            prefill_ms = self.prefill.map(ms),
            decode_ms = decode.map(ms),
            ttft_ms = self.ttft.map(ms),
            e2e_ms = ms(e2e),
            "request"
        );
    }
}

/// Milliseconds with microseconds' digits.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
