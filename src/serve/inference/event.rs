//! What the inference thread tells about one request, in the order in which it happens.
//!
//! `Started`, then `PromptDone`, then any number of `Text`, then exactly one of `Done` and `Failed`.
//! `Failed` may come at any point, also as the first and only event.

use std::time::Duration;

use super::model::TokenId;

/// One step of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request has left the queue and has the device for itself.
    Started {
        /// From [`Job::arrived`](super::Job::arrived) until now.
        queued: Duration,
    },
    /// The prompt is in the KV cache; the first token is about to be drawn.
    PromptDone {
        /// Tokens of the prompt, cached ones included.
        n_prompt: u32,
        /// Those of them that did not have to be computed.
        n_cached: u32,
        /// From `Started` until now.
        prefill: Duration,
    },
    /// Text to send on.
    Text(TextChunk),
    /// The answer is complete.
    Done(Completion),
    /// The answer will not be completed. Text that was already sent stands.
    Failed(Failure),
}

/// Text in whole characters, without any part of a stop string.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextChunk {
    /// Never empty, except where log probabilities of tokens without text are reported.
    pub text: String,
    /// How many generated tokens this text closes: 1, or more where a character or a possible stop
    /// string spanned several.
    pub n_tokens: u32,
    /// One for each of these tokens, if they were asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// How likely the model held a token to be: natural logarithms of the probabilities of the model
/// itself, before temperature, penalties, bias and bans.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token that was drawn.
    pub token: Candidate,
    /// What it adds to the answer: its bytes, or nothing for a control token.
    pub text: Vec<u8>,
    /// The likeliest tokens, most likely first, as many as were asked for.
    pub top: Vec<Candidate>,
}

/// A token and its log probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub id: TokenId,
    /// Its spelling, a control token's too; not necessarily whole characters.
    pub bytes: Vec<u8>,
    /// ln p, at most 0.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string came up.
    Stop,
    /// `max_tokens` was reached, or the context is full.
    Length,
}

/// What a complete answer was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Why it ended.
    pub reason: FinishReason,
    /// The stop string that ended it, if one did.
    pub stopped_by: Option<String>,
    /// Tokens of the prompt, cached ones included.
    pub n_prompt: u32,
    /// Those of them that did not have to be computed.
    pub n_cached: u32,
    /// Tokens that were drawn, the one that ended the answer included.
    pub n_generated: u32,
    /// Where the time went.
    pub timings: Timings,
}

/// Where a request's time went on the inference thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From [`Job::arrived`](super::Job::arrived) until it had the device.
    pub queued: Duration,
    /// From then until the prompt was computed.
    pub prefill: Duration,
    /// From then until the last token was drawn.
    pub decode: Duration,
    /// CPU time of the part of `decode` that was not llama.cpp's: sampling, text, channel.
    pub own_work: Duration,
}

/// Why an answer was not completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server is going away.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The engine failed at this request; later ones may succeed.
    #[error("the inference engine failed: {0}")]
    Engine(String),
    /// The inference thread is gone: nothing will succeed any more.
    #[error("the inference thread has ended")]
    Gone,
}
