//! Prompts of exact length by the server's own count, none of them sent twice.
//!
//! The server is asked once which common words are one token each and what its template adds;
//! after that a length is arithmetic, and no measured prompt has been seen by the server before.
//! At the end a prompt of the full length is counted as a check.

mod count;
mod words;

use tokio_util::sync::CancellationToken;

use self::count::{Counter, Tokenize, Trial};
use self::words::{COMMON, Measure, OPENING, conversation};
use super::budget::Budget;
use super::client::Endpoint;
use super::config::{Config, ShapePoint};
use super::http::Http;
use super::prompts::{Prompt, PromptFile};

/// The fewest words to choose from.
const WORDS_MIN: usize = 16;

/// Why there are no prompts of that shape.
#[derive(Debug, thiserror::Error)]
pub enum ExactPromptsError {
    /// The server neither tokenises nor counts prompt tokens in its usage.
    #[error("make prompts of exact length: the server has no /tokenize and reports no usage")]
    NoCount,
    /// A trial request failed.
    #[error("make prompts of exact length: a trial request failed: {0}")]
    Trial(String),
    /// The vocabulary is a strange one.
    #[error(
        "make prompts of exact length: only {0} common English words are one token each, which is \
         too few"
    )]
    NoWords(usize),
    /// The template and enough words are longer.
    #[error(
        "make prompts of {asked} tokens: with this model's template it takes at least {shortest}"
    )]
    PromptTooShort {
        /// Tokens asked for.
        asked: u64,
        /// Tokens that it takes.
        shortest: u64,
    },
    /// The template and enough words are longer.
    #[error(
        "make an earlier conversation of {asked} tokens: with this model's template it takes at \
         least {shortest}"
    )]
    DepthTooShort {
        /// Tokens asked for.
        asked: u64,
        /// Tokens that it takes.
        shortest: u64,
    },
    /// So much text is not held in memory.
    #[error("make the prompts: {tokens} tokens of text in all, and the most is {most}")]
    TooMuch {
        /// Tokens of all prompts.
        tokens: u64,
        /// The bound.
        most: u64,
    },
    /// The template does something that the arithmetic does not know.
    #[error("make prompts of {asked} tokens: the server counts {counted}")]
    Inexact {
        /// Tokens asked for.
        asked: u64,
        /// Tokens by its count.
        counted: u64,
    },
}

/// Makes prompts for one server.
#[derive(Debug)]
pub struct PromptMaker<'a> {
    counter: Counter<'a>,
    measure: Measure,
}

/// The money for trial requests at a provider that charges by the token.
#[derive(Debug, Clone, Copy)]
pub struct Spending<'a> {
    /// That of the whole run.
    pub budget: &'a Budget,
    /// Whose price it is.
    pub config: &'a Config,
}

/// The server that counts.
#[derive(Debug, Clone, Copy)]
pub struct CountingServer<'a> {
    /// Where requests go, with one token to answer.
    pub endpoint: &'a Endpoint,
    /// Its base URL.
    pub base_url: &'a str,
    /// The API key.
    pub key: Option<&'a str>,
    /// For what is not timed.
    pub http: &'a Http,
    /// What trial requests may cost.
    pub spending: Spending<'a>,
    /// Ctrl-C.
    pub cancel: &'a CancellationToken,
}

impl<'a> PromptMaker<'a> {
    /// Asks the server what its tokens are.
    ///
    /// # Errors
    /// If it cannot be made to count, or its vocabulary has too few of the words.
    pub async fn new(server: CountingServer<'a>) -> Result<Self, ExactPromptsError> {
        let counter = choose(server).await?;
        let opening = || Prompt::Text(OPENING.to_owned());
        let around_prompt = counter.count(&opening()).await?;
        let pair = conversation(OPENING, OPENING, OPENING);
        let around_earlier = counter.count(&pair).await?.saturating_sub(around_prompt);
        let words = single_tokens(&counter, around_prompt).await?;
        if words.len() < WORDS_MIN {
            return Err(ExactPromptsError::NoWords(words.len()));
        }
        Ok(Self { counter, measure: Measure { words, around_prompt, around_earlier } })
    }

    /// `n` prompts of one shape, each a different one, and other ones for each `series`.
    ///
    /// # Errors
    /// If the shape is too short for the model's template, or the count of a whole prompt is not
    /// what it should be.
    pub async fn make(
        &self,
        point: &ShapePoint,
        series: u64,
        n: usize,
    ) -> Result<PromptFile, ExactPromptsError> {
        let seed = words::seed(point, series);
        // Counted, perhaps by a request, and so never measured.
        let trial = self.measure.make(point, !seed, 1)?;
        let counted = self.counter.count(&trial.prompts[0]).await?;
        if counted != point.whole() {
            return Err(ExactPromptsError::Inexact { asked: point.whole(), counted });
        }
        self.measure.make(point, seed, n)
    }
}

/// The quickest way to a count that agrees with the usage, which is what results hold.
async fn choose(server: CountingServer<'_>) -> Result<Counter<'_>, ExactPromptsError> {
    let trial =
        Trial { endpoint: server.endpoint, spending: server.spending, cancel: server.cancel };
    let tokenize = Tokenize {
        http: server.http,
        root: server.base_url.strip_suffix("/v1").unwrap_or(server.base_url),
        key: server.key,
        model: &server.endpoint.body.model,
        kind: server.endpoint.body.kind,
    };
    let sample = conversation("Words: one two", "Words: three", "Words: four five six");
    let by_usage = match trial.count(&sample).await {
        Ok(count) => Some(count),
        Err(ExactPromptsError::NoCount) => None,
        Err(error) => return Err(error),
    };
    let agrees = |told: Option<u64>| told.is_some_and(|told| by_usage.is_none_or(|by| by == told));
    if agrees(tokenize.conversation(&sample).await) {
        return Ok(Counter::Conversations(tokenize));
    }
    if agrees(tokenize.templated(&sample).await) {
        return Ok(Counter::Texts(tokenize));
    }
    by_usage.map(|_| Counter::Trial(trial)).ok_or(ExactPromptsError::NoCount)
}

/// The common words that are one token each: all of them with one count, or else by halves.
async fn single_tokens(
    counter: &Counter<'_>,
    around: u64,
) -> Result<Vec<&'static str>, ExactPromptsError> {
    let mut unsure: Vec<&[&'static str]> = vec![&COMMON];
    let mut single = Vec::new();
    while let Some(words) = unsure.pop() {
        let text = format!("{OPENING} {}", words.join(" "));
        let counted = counter.count(&Prompt::Text(text)).await?;
        if counted == around + words.len() as u64 {
            single.extend_from_slice(words);
        } else if words.len() > 1 {
            let (first, second) = words.split_at(words.len() / 2);
            unsure.extend([second, first]);
        }
    }
    Ok(single)
}
