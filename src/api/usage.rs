//! What a server says of the work that it did: token counts and its own timings.

use serde::{Deserialize, Serialize};

/// OpenAI's `usage` object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the rendered prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens generated, the one that ended the answer included, as other servers count them.
    pub completion_tokens: u64,
    /// The sum of the two.
    pub total_tokens: u64,
    /// How many of the prompt's tokens were not computed again.
    pub prompt_tokens_details: PromptTokensDetails,
}

impl Usage {
    /// The usage of one request.
    pub fn new(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
        }
    }
}

/// OpenAI's `usage.prompt_tokens_details`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokensDetails {
    /// Prompt tokens that came from a cache; 0 unless a prompt cache was asked for.
    pub cached_tokens: u64,
}

/// A server's own account of one request, under llama-server's names, with `tokenize_ms` and
/// `queue_ms` added. `tokenize_ms + queue_ms + prompt_ms + predicted_ms` is all of it, from the
/// request's last byte to the answer's last token.
///
/// Durations are milliseconds of a monotonic clock; rates are tokens per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Prompt tokens taken from the cache.
    pub cache_n: u64,
    /// Prompt tokens computed.
    pub prompt_n: u64,
    /// Time for them, up to the logits that the first output token is drawn from.
    pub prompt_ms: f64,
    /// `prompt_ms / prompt_n`.
    pub prompt_per_token_ms: f64,
    /// `prompt_n` per second.
    pub prompt_per_second: f64,
    /// Tokens generated.
    pub predicted_n: u64,
    /// Time from then to the last output token, the first one's sampling included.
    pub predicted_ms: f64,
    /// `predicted_ms / predicted_n`.
    pub predicted_per_token_ms: f64,
    /// `predicted_n` per second.
    pub predicted_per_second: f64,
    /// Time from the request's last byte until it was read, rendered and tokenised.
    pub tokenize_ms: f64,
    /// Time between the request's arrival in the queue, its tokens known, and its start in the slot.
    pub queue_ms: f64,
}

/// A server's own account of one request, under the names of Fireworks' `perf_metrics`.
///
/// Every value is text, as in Fireworks' headers; durations are decimal seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PerfMetrics {
    /// Tokens of the rendered prompt, cached ones included.
    pub prompt_tokens: String,
    /// Those of them that were cached.
    pub cached_prompt_tokens: String,
    /// From the request's last byte to the logits of its first token.
    pub server_time_to_first_token: String,
    /// From the request's last byte to its last token.
    pub server_processing_time: String,
    /// Time until the request was read, rendered and tokenised.
    pub tokenizer_duration: String,
    /// Time in the queue, from then on.
    pub prefill_queue_duration: String,
    /// Time for the prompt.
    pub prefill_duration: String,
    /// Time for the answer, from then to its last token.
    pub generation_duration: String,
}
