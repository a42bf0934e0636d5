//! One request, as it stands in a results file and in a journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The record of one request. Times are seconds since it was sent, unless a name says otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RequestRecord {
    /// Position in send order within the level, warm-up included.
    #[serde(default)]
    pub index: u32,
    /// Position of the prompt in its file.
    #[serde(default)]
    pub prompt_index: u32,
    /// Whether a salt line stood in front of the prompt, since its file was used up; not there if
    /// not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_salted: bool,
    /// Whether the server had been sent the very same text before; not there if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_repeated: bool,
    /// Which worker sent it.
    #[serde(default)]
    pub worker: u32,
    /// When it was sent, since the level's start.
    #[serde(default)]
    pub start_s: f64,
    /// Open loop: how late it was sent; latencies count from the intended time.
    #[serde(default)]
    pub lateness_s: Option<f64>,
    /// `warmup`, `ramp`, `steady`, `tail`.
    #[serde(default)]
    pub phase: String,
    /// Whether the stream ended as it should.
    pub ok: bool,
    /// First generated text of any kind.
    pub ttft: Option<f64>,
    /// First generated text that is no reasoning.
    #[serde(default)]
    pub ttft_answer: Option<f64>,
    /// Last generated text.
    #[serde(default)]
    pub last_token: Option<f64>,
    /// End of the stream, or the moment of the failure.
    pub e2e: Option<f64>,
    /// Output tokens; see `token_source`.
    pub n_out: Option<u64>,
    /// Tokens per second while text flowed; null without tokens, or time, after the first event.
    pub decode_tps: Option<f64>,
    /// Its inverse, seconds per token.
    #[serde(default)]
    pub tpot: Option<f64>,
    /// Events with text.
    pub n_chunks: u64,
    /// Largest time between two events with text.
    pub max_gap: Option<f64>,
    /// What went wrong, for people.
    pub error: Option<String>,
    /// What went wrong, as a class.
    #[serde(default)]
    pub error_class: Option<String>,
    /// HTTP status, once a head was seen.
    #[serde(default)]
    pub http_status: Option<u16>,
    /// What `Retry-After` asked for.
    #[serde(default)]
    pub retry_after_s: Option<f64>,
    /// How long the worker paused after a refusal: as long as `Retry-After` asked, at most ten
    /// minutes; a second after a 429 that named no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_s: Option<f64>,
    /// Prompt tokens by the server's count.
    #[serde(default)]
    pub n_prompt: Option<u64>,
    /// Of them, cached.
    #[serde(default)]
    pub n_cached: Option<u64>,
    /// Tokens in the first event with text, where the server says so.
    #[serde(default)]
    pub n_first: Option<u64>,
    /// `usage`, `estimated` or `unknown`.
    #[serde(default)]
    pub token_source: String,
    /// The finish reason that the server gave.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// The model id that answered.
    #[serde(default)]
    pub model: Option<String>,
    /// Name resolution, of a fresh connection.
    #[serde(default)]
    pub dns_s: Option<f64>,
    /// TCP connect, name resolution included, of a fresh connection.
    #[serde(default)]
    pub connect_s: Option<f64>,
    /// TLS handshake alone, of a fresh connection.
    #[serde(default)]
    pub tls_s: Option<f64>,
    /// When the request's last byte was given to the kernel.
    #[serde(default)]
    pub written_s: Option<f64>,
    /// When the response's head was parsed.
    #[serde(default)]
    pub headers_s: Option<f64>,
    /// Whether the connection was open before the request: kept, or opened ahead of the first.
    #[serde(default)]
    pub reused_connection: bool,
    /// Whether the server had closed the kept one without a byte of an answer: it was replaced once.
    #[serde(default)]
    pub stale_connection: bool,
    /// The kernel's smallest round trip on the connection.
    #[serde(default)]
    pub rtt_s: Option<f64>,
    /// Bytes of the request.
    #[serde(default)]
    pub request_bytes: u64,
    /// The server's own account.
    #[serde(default)]
    pub server: Option<ServerTimesRecord>,
    /// Events that were not JSON.
    #[serde(default)]
    pub parse_errors: u64,
    /// Reads that held more than one event with text.
    #[serde(default)]
    pub coalesced_reads: u64,
    /// `user` or `kernel`.
    #[serde(default)]
    pub stamp_source: String,
    /// SHA-256 of the text.
    #[serde(default)]
    pub text_sha256: Option<String>,
    /// Observations that are no failure.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The text, with `--save-text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Time between successive events with text, with `--save-gaps` (and always in a journal).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps_us: Option<Vec<u32>>,
}

/// The server's own account of one request, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerTimesRecord {
    /// Waiting for a slot.
    pub queue_s: Option<f64>,
    /// Computing the prompt.
    pub prefill_s: Option<f64>,
    /// Generating.
    pub decode_s: Option<f64>,
    /// The field that said so.
    pub source: String,
}
