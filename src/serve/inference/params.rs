//! What a request asks of the model, after the HTTP side has checked every number.
//!
//! The defaults are OpenAI's, not llama.cpp's.

use super::model::TokenId;

/// How one answer is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationParams {
    /// The most tokens that the answer may have, at least 1. The worker cuts it to what the context
    /// has room for; the answer then ends with [`super::FinishReason::Length`].
    pub max_tokens: u32,
    /// End-of-generation tokens are banned until the answer has this many tokens. Stop strings
    /// still end it.
    pub min_tokens: u32,
    /// Every end-of-generation token is banned for the whole answer.
    pub ignore_eos: bool,
    /// How the next token is drawn.
    pub sampling: Sampling,
    /// What makes tokens that were seen before less likely.
    pub penalties: Penalties,
    /// Added to the logits of these tokens. Ids outside the vocabulary are ignored by the sampler;
    /// the HTTP side refuses them.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Texts that end the answer; no part of them is ever sent. Empty strings are ignored.
    pub stop: Vec<String>,
    /// Whether log probabilities are reported, and of how many alternatives.
    pub logprobs: Option<Logprobs>,
    /// The grammar that the answer must follow, as [`super::Tokenizer::grammar`] made it.
    pub grammar: Option<Grammar>,
    /// A prefix that the KV cache still holds may be reused. It has an effect only when the server
    /// was started with its prompt cache on.
    pub cache_prompt: bool,
}

impl Default for GenerationParams {
    fn default() -> Self {
        Self {
            max_tokens: u32::MAX,
            min_tokens: 0,
            ignore_eos: false,
            sampling: Sampling::default(),
            penalties: Penalties::default(),
            logit_bias: Vec::new(),
            stop: Vec::new(),
            logprobs: None,
            grammar: None,
            cache_prompt: true,
        }
    }
}

/// How the next token is drawn from the distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 is greedy: the most likely token, the same text every time.
    pub temperature: f32,
    /// The smallest set of tokens whose probabilities reach this sum, in (0, 1]. 1 is all of them.
    pub top_p: f32,
    /// The k most likely tokens; `None` is all of them.
    pub top_k: Option<u32>,
    /// Tokens at least this likely relative to the likeliest one, in \[0, 1\]. 0 is all of them.
    pub min_p: f32,
    /// The same seed gives the same draws; `None` is a fresh one for each request.
    pub seed: Option<u64>,
}

impl Sampling {
    /// Greedy: the most likely token, always.
    pub const GREEDY: Self =
        Self { temperature: 0.0, top_p: 1.0, top_k: None, min_p: 0.0, seed: None };
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, ..Self::GREEDY }
    }
}

/// What makes tokens that were seen before less likely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// Subtracted once from the logit of each token that the answer already has (OpenAI). 0 is none.
    pub presence: f32,
    /// Subtracted for each time that the answer already has the token (OpenAI). 0 is none.
    pub frequency: f32,
    /// Divides positive logits and multiplies negative ones of tokens in the prompt or the answer
    /// (Keskar et al. 2019, section 4.1). 1 is none.
    pub repetition: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { presence: 0.0, frequency: 0.0, repetition: 1.0 }
    }
}

/// Log probabilities are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logprobs {
    /// How many of the likeliest alternatives are reported beside the token itself.
    pub top: u32,
}

/// A grammar in llama.cpp's GBNF notation that is known to compile for this model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grammar(String);

impl Grammar {
    /// Wraps a grammar that a model has accepted. Only a model's own code has a reason to call it.
    pub fn from_checked(gbnf: String) -> Self {
        Self(gbnf)
    }

    /// The grammar's text.
    pub fn gbnf(&self) -> &str {
        &self.0
    }
}
