//! What an answer looks like, in each endpoint's form: its text, its counts, its times.

use std::time::Duration;

use bytes::Bytes;

use crate::api::event::AnswerEvent;
use crate::api::options::StreamUsage;
use crate::api::sse;
use crate::api::usage::{PerfMetrics, Timings, Usage};
use crate::serve::inference::{Completion, FinishReason, TextChunk};

/// What all forms need to know of one answer.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// `chatcmpl-…` or `cmpl-…`.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The id of the model that answers.
    pub model: String,
    /// Where a stream says what it used.
    pub stream_usage: StreamUsage,
    /// Whether Fireworks' names are sent too.
    pub perf_metrics: bool,
    /// Whether log probabilities were asked for.
    pub logprobs: bool,
}

impl Envelope {
    /// An event of this answer with nothing but these choices.
    pub fn event<C>(&self, object: &'static str, choices: Vec<C>) -> AnswerEvent<'_, C> {
        AnswerEvent {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            choices,
            usage: None,
            timings: None,
            perf_metrics: None,
        }
    }
}

/// The form of an endpoint's answers. Each method writes the frame of one event, or the whole.
pub trait Form: Send + Unpin + 'static {
    /// The event that is sent as soon as the request is accepted, if there is one.
    fn opening(&self) -> Option<Bytes>;

    /// A piece of the answer.
    fn piece(&mut self, chunk: &TextChunk) -> Bytes;

    /// The answer's end.
    fn finish(&mut self, end: &End) -> Bytes;

    /// The event that carries only the usage.
    fn usage(&self, usage: Usage) -> Bytes;

    /// The JSON of the whole answer in one.
    fn whole(&mut self, all: TextChunk, end: &End) -> String;
}

/// How an answer ended, in the words of the API.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// `stop` or `length`.
    pub finish_reason: &'static str,
    /// What it took.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// The same under Fireworks' names.
    pub perf_metrics: PerfMetrics,
}

impl End {
    /// The end of an answer to a request that took `tokenize` from its last byte to its tokens.
    pub fn of(completion: &Completion, tokenize: Duration) -> Self {
        let [n_prompt, n_cached, n_generated] =
            [completion.n_prompt, completion.n_cached, completion.n_generated].map(u64::from);
        let times = completion.timings;
        Self {
            finish_reason: match completion.reason {
                FinishReason::Stop => "stop",
                FinishReason::Length => "length",
            },
            usage: Usage::new(n_prompt, n_cached, n_generated),
            timings: Timings {
                cache_n: n_cached,
                prompt_n: n_prompt - n_cached,
                prompt_ms: ms(times.prefill),
                prompt_per_token_ms: ratio(ms(times.prefill), n_prompt - n_cached),
                prompt_per_second: per_second(n_prompt - n_cached, times.prefill),
                predicted_n: n_generated,
                predicted_ms: ms(times.decode),
                predicted_per_token_ms: ratio(ms(times.decode), n_generated),
                predicted_per_second: per_second(n_generated, times.decode),
                tokenize_ms: ms(tokenize),
                queue_ms: ms(times.queued),
            },
            perf_metrics: PerfMetrics {
                prompt_tokens: n_prompt.to_string(),
                cached_prompt_tokens: n_cached.to_string(),
                server_time_to_first_token: seconds(tokenize + times.queued + times.prefill),
                server_processing_time: seconds(
                    tokenize + times.queued + times.prefill + times.decode,
                ),
                tokenizer_duration: seconds(tokenize),
                prefill_queue_duration: seconds(times.queued),
                prefill_duration: seconds(times.prefill),
                generation_duration: seconds(times.decode),
            },
        }
    }
}

/// The JSON of an event or an answer.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("an answer has string keys only")
}

/// The frame of an event.
pub fn frame(event: &impl serde::Serialize) -> Bytes {
    Bytes::from(sse::frame(&json(event)))
}

/// The frame of an event of which only a text changes from token to token: the rest is written once.
pub struct Mould {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Mould {
    /// Where the text will be. No later field of an event has it.
    pub const GAP: &str = "\u{10FFFD}";

    /// From an event whose text is [`Self::GAP`].
    pub fn of(event: &impl serde::Serialize) -> Self {
        let whole = sse::frame(&json(event));
        let gap = format!("\"{}\"", Self::GAP);
        let (before, after) = whole.rsplit_once(&gap).expect("the event has the gap for its text");
        Self { before: before.as_bytes().to_vec(), after: after.as_bytes().to_vec() }
    }

    /// The frame of the event with this text.
    pub fn fill(&self, text: &str) -> Bytes {
        let mut frame = Vec::with_capacity(self.before.len() + self.after.len() + text.len() + 16);
        frame.extend_from_slice(&self.before);
        serde_json::to_writer(&mut frame, text).expect("a Vec takes any text");
        frame.extend_from_slice(&self.after);
        Bytes::from(frame)
    }
}

/// The text of bytes that are not necessarily whole characters.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ms(duration: Duration) -> f64 {
    // Whole nanoseconds in, so that no digits are sent that a clock never had.
    (duration.as_secs_f64() * 1e9).round() / 1e6
}

fn seconds(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn ratio(numerator: f64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator / denominator as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn per_second(count: u64, duration: Duration) -> f64 {
    if duration.is_zero() { 0.0 } else { count as f64 / duration.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::inference::Timings as Times;

    #[test]
    fn the_times_are_llama_servers_and_fireworks() {
        let completion = Completion {
            reason: FinishReason::Length,
            stopped_by: None,
            n_prompt: 12,
            n_cached: 2,
            n_generated: 4,
            timings: Times {
                queued: Duration::from_millis(1500),
                prefill: Duration::from_millis(50),
                decode: Duration::from_millis(200),
                own_work: Duration::ZERO,
            },
        };
        let end = End::of(&completion, Duration::from_millis(7));
        assert_eq!(end.finish_reason, "length");
        assert_eq!(end.usage, Usage::new(12, 2, 4));
        let times = &end.timings;
        assert_eq!((times.cache_n, times.prompt_n, times.predicted_n), (2, 10, 4));
        // 50 ms / 10, 10 / 0.05 s, 200 ms / 4, 4 / 0.2 s.
        assert_eq!((times.prompt_per_token_ms, times.prompt_per_second), (5.0, 200.0));
        assert_eq!((times.predicted_per_token_ms, times.predicted_per_second), (50.0, 20.0));
        assert_eq!((times.tokenize_ms, times.queue_ms), (7.0, 1500.0));
        assert_eq!(end.perf_metrics.server_time_to_first_token, "1.557000");
        assert_eq!(end.perf_metrics.server_processing_time, "1.757000");
    }

    #[test]
    fn a_filled_mould_is_the_frame_of_the_event() {
        let event = |text: &str| vec![("\u{10FFFD}", text.to_owned()), ("b", String::new())];
        let mould = Mould::of(&event(Mould::GAP));
        for text in ["", "a", "\"\n\u{0}é😀\u{10FFFD}"] {
            assert_eq!(mould.fill(text), frame(&event(text)));
        }
    }

    #[test]
    fn no_rate_is_infinite() {
        assert_eq!(per_second(1, Duration::ZERO), 0.0);
        assert_eq!(ratio(1.0, 0), 0.0);
    }
}
