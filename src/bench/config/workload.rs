//! `[workload]`: what is asked of a target, how often, and how long is waited.
//!
//! Each key is the flag of `spark-bench run` in snake case; only `n` is spelled `requests` here.

use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::{TimeLimit, TimeSpan};
use super::shape::Shape;
use super::values::{Ladder, Name, NonNegative, Positive, Requests};

/// The work, with its defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Prompts files (JSON lines); one results file each.
    pub prompts: Vec<PathBuf>,
    /// Prompts of exact lengths, instead of files: one results file for each combination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Requests in flight, level by level.
    pub concurrency: Ladder,
    /// ok requests that each level needs.
    pub requests: Requests,
    /// Most measured requests that a level sends; default: three times `requests`.
    pub max_attempts: Option<NonZeroU32>,
    /// Longest time for a level.
    pub max_duration: TimeLimit,
    /// Requests before each level that no figure uses.
    pub warmup: u32,
    /// Output tokens to ask for.
    pub max_tokens: NonZeroU32,
    /// Whether to forbid the end of an answer before `max_tokens`.
    pub ignore_eos: bool,
    /// Sampling temperature.
    pub temperature: NonNegative,
    /// How often the whole ladder runs.
    pub repeats: NonZeroU32,
    /// Time between the starts of two repeats.
    pub spacing: TimeLimit,
    /// Longest wait for a connection.
    pub connect_timeout: TimeLimit,
    /// Longest wait for the first text.
    pub first_token_timeout: TimeLimit,
    /// Longest wait between two texts.
    pub stall_timeout: TimeLimit,
    /// Longest time for a whole request.
    pub request_timeout: TimeLimit,
    /// How the workers of a closed loop start; default: staggered where there is a warm-up.
    pub start_mode: Option<StartMode>,
    /// Open loop: requests per second, whatever is still in flight.
    pub open_rate: Option<Positive>,
    /// Open loop: how arrivals are spread.
    pub arrivals: Arrivals,
    /// Open loop: seed of the arrivals.
    pub seed: u64,
    /// Shuffle the prompts with this seed; default: file order.
    pub shuffle_seed: Option<u64>,
    /// Whether a prompt may be sent twice to one server process.
    pub prompt_reuse: PromptReuse,
    /// A gap between two texts that counts as a stutter, milliseconds.
    pub stutter_ms: Positive,
    /// Merged into the body of every request; `{request_uuid}` in a string is a fresh UUID.
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// HTTP/2 instead of HTTP/1.1.
    pub http2: bool,
    /// Keep each gap in the results file.
    pub save_gaps: bool,
    /// Keep each answer's text in the results file.
    pub save_text: bool,
    /// Keep the hardware samples in a file beside the results.
    pub save_series: bool,
    /// Where the client runs, for the reader.
    pub client: Name,
}

impl Default for Workload {
    fn default() -> Self {
        const WARMUP: u32 = 3;
        const MAX_TOKENS: NonZeroU32 = NonZeroU32::new(256).expect("256 is not zero");
        const STUTTER_MS: f64 = 200.0;
        Self {
            prompts: vec![PathBuf::from("prompts/short.jsonl")],
            shape: None,
            concurrency: Ladder::try_from(vec![1, 4, 16, 64]).expect("a ladder"),
            requests: Requests::default(),
            max_attempts: None,
            max_duration: TimeLimit::NONE,
            warmup: WARMUP,
            max_tokens: MAX_TOKENS,
            ignore_eos: false,
            temperature: NonNegative::ZERO,
            repeats: NonZeroU32::MIN,
            spacing: TimeLimit::NONE,
            connect_timeout: TimeLimit::seconds(10),
            first_token_timeout: TimeLimit::NONE,
            stall_timeout: TimeLimit::seconds(120),
            request_timeout: TimeLimit::NONE,
            start_mode: None,
            open_rate: None,
            arrivals: Arrivals::default(),
            seed: 0,
            shuffle_seed: None,
            prompt_reuse: PromptReuse::default(),
            stutter_ms: Positive::try_from(STUTTER_MS).expect("a positive number"),
            extra_body: serde_json::Map::new(),
            http2: false,
            save_gaps: false,
            save_text: false,
            save_series: false,
            client: "local".parse().expect("a name"),
        }
    }
}

impl Workload {
    /// ok requests that a level needs.
    pub fn requests_at(&self, concurrency: u32) -> u32 {
        self.requests.at(concurrency)
    }

    /// Most measured requests that a level sends.
    pub fn max_attempts_at(&self, concurrency: u32) -> u32 {
        /// Enough to get over a rate limit's start, and bounded where everything fails.
        const PER_REQUEST: u32 = 3;
        let default = || self.requests_at(concurrency).saturating_mul(PER_REQUEST);
        self.max_attempts.map_or_else(default, NonZeroU32::get)
    }

    /// Time between two samples of the counters, where the config does not say.
    pub const SAMPLE_PERIOD: TimeSpan = TimeSpan(std::time::Duration::from_millis(100));
}

/// How the workers of a closed loop start.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum StartMode {
    /// Spread over the time of one request, so that a batching server is not locked into waves.
    Staggered,
    /// All at once.
    Simultaneous,
}

/// How the arrivals of an open loop are spread.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At random, independently of each other.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
}

/// Whether a prompt may be sent twice to one server process.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum PromptReuse {
    /// Never: where the file is too short, a salt makes the prompts new, and a flag says so.
    #[default]
    Forbid,
    /// The file starts again.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_is_the_defaults() {
        let workload: Workload = toml::from_str("").unwrap();
        assert_eq!(workload, Workload::default());
        assert_eq!((workload.requests_at(4), workload.max_attempts_at(4)), (200, 600));
        assert_eq!(workload.stall_timeout.to_string(), "2m");
    }
}
