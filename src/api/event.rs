//! The frame that both endpoints' answers have in common.

use serde::Serialize;

use super::usage::{PerfMetrics, Timings, Usage};

/// One event of a streamed answer, with an endpoint's own choices; a text completion in one has the
/// same shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerEvent<'a, C> {
    /// `chatcmpl-…` or `cmpl-…`; the same in all events of an answer.
    pub id: &'a str,
    /// `chat.completion.chunk` or `text_completion`.
    pub object: &'static str,
    /// Seconds since 1970; the same in all events.
    pub created: u64,
    /// The model that answers.
    pub model: &'a str,
    /// One; none in the event that carries only `usage`.
    pub choices: Vec<C>,
    /// In one event at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// With the finish reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// With the finish reason, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_metrics: Option<PerfMetrics>,
}
