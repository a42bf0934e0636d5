//! How many tokens the server counts in a prompt: by its `/tokenize`, or by the usage of a trial
//! request.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{ExactPromptsError, Spending};
use crate::bench::client::{Endpoint, EndpointKind};
use crate::bench::http::Http;
use crate::bench::load::{LevelSpec, Unobserved, run_level};
use crate::bench::prompts::{Prompt, PromptCursor, PromptFile, PromptReuse};
use crate::measure::level::EndedBy;
use crate::measure::trace::{Outcome, RequestTrace};

/// A server under load answers late; one that never answers is not waited for.
const DEADLINE: Duration = Duration::from_secs(60);

/// Somebody who counts tokens as the server does.
#[derive(Debug)]
pub(super) enum Counter<'a> {
    /// `/tokenize` takes whole conversations.
    Conversations(Tokenize<'a>),
    /// `/tokenize` takes text; `/apply-template` makes text of conversations.
    Texts(Tokenize<'a>),
    /// A request of one token, and its usage.
    Trial(Trial<'a>),
}

/// Where a server tokenises.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokenize<'a> {
    pub(super) http: &'a Http,
    /// The base URL without `/v1`.
    pub(super) root: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) model: &'a str,
    pub(super) kind: EndpointKind,
}

/// How a trial request is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) spending: Spending<'a>,
    pub(super) cancel: &'a CancellationToken,
}

impl Counter<'_> {
    /// Tokens of a prompt by the server's own count, template included.
    pub(super) async fn count(&self, prompt: &Prompt) -> Result<u64, ExactPromptsError> {
        let told = match self {
            Self::Conversations(tokenize) => tokenize.conversation(prompt).await,
            Self::Texts(tokenize) => tokenize.templated(prompt).await,
            Self::Trial(trial) => return trial.count(prompt).await,
        };
        told.ok_or(ExactPromptsError::NoCount)
    }
}

impl Tokenize<'_> {
    /// As spark-serve and its like count: a conversation, or a text with what a prompt begins with.
    pub(super) async fn conversation(&self, prompt: &Prompt) -> Option<u64> {
        let body = match self.kind {
            EndpointKind::Chat => json!({"model": self.model, "messages": prompt.messages(None)}),
            EndpointKind::Completions => self.text_body(&prompt.text(None)),
        };
        count_of(&self.post("/tokenize", &body).await?)
    }

    /// Template first, then text.
    pub(super) async fn templated(&self, prompt: &Prompt) -> Option<u64> {
        let text = match self.kind {
            EndpointKind::Chat => {
                let body = json!({"messages": prompt.messages(None)});
                self.post("/apply-template", &body).await?.get("prompt")?.as_str()?.to_owned()
            }
            EndpointKind::Completions => prompt.text(None),
        };
        count_of(&self.post("/tokenize", &self.text_body(&text)).await?)
    }

    /// One text under the names of several servers: each takes its own.
    fn text_body(&self, text: &str) -> Value {
        json!({"model": self.model, "content": text, "prompt": text,
            "add_special": true, "parse_special": true})
    }

    async fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let url = format!("{}{path}", self.root);
        let reply = self.http.post_json(&url, body, self.key, DEADLINE).await.ok()?;
        if reply.status != 200 {
            return None;
        }
        serde_json::from_str(&reply.body).ok()
    }
}

/// `count` where the server says it, else the length of its list.
fn count_of(answer: &Value) -> Option<u64> {
    let listed = || Some(answer.get("tokens")?.as_array()?.len() as u64);
    answer.get("count").and_then(Value::as_u64).or_else(listed).filter(|count| *count > 0)
}

impl Trial<'_> {
    /// The usage of one request.
    pub(super) async fn count(&self, prompt: &Prompt) -> Result<u64, ExactPromptsError> {
        let trace = self.send(prompt).await?;
        if let Outcome::Failed(class, message) = &trace.outcome {
            return Err(ExactPromptsError::Trial(format!("{class}: {message}")));
        }
        trace.tokens.n_prompt.ok_or(ExactPromptsError::NoCount)
    }

    async fn send(&self, prompt: &Prompt) -> Result<RequestTrace, ExactPromptsError> {
        let file = PromptFile::of_one(prompt.clone());
        let mut cursor = PromptCursor::new(file, None, PromptReuse::Allow);
        let purse = self.spending.budget.purse(self.spending.config, cursor.file());
        let spec = LevelSpec { warmup: 0, max_attempts: 1, purse, ..LevelSpec::closed(1, 1) };
        let run = run_level(self.endpoint, &mut cursor, &spec, &Unobserved, self.cancel)
            .await
            .map_err(|error| ExactPromptsError::Trial(error.to_string()))?;
        let trace = run.traces.into_iter().next();
        trace.ok_or_else(|| {
            let why = match run.ended_by {
                EndedBy::MaxCost => "it could cost more than --max-cost leaves",
                _ => "no request was sent",
            };
            ExactPromptsError::Trial(why.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_a_count_or_list_the_tokens() {
        assert_eq!(count_of(&json!({"count": 3, "tokens": [1, 2, 3]})), Some(3));
        assert_eq!(count_of(&json!({"tokens": [1, 2]})), Some(2));
        assert_eq!(count_of(&json!({"tokens": []})), None, "it took none of our keys");
        assert_eq!(count_of(&json!({"error": {}})), None);
    }
}
