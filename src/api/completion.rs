//! `POST /v1/completions`: the request, the answer, the chunks of a streamed one.

use serde::Serialize;
use serde_json::Value;

use super::error::RequestError;
use super::event::AnswerEvent;
use super::fields::{self, Fields};
use super::options::{self, Options};

/// Alternatives for each token at most.
const LOGPROBS_MAX: i64 = 20;

/// A text, and how it is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    /// What is continued.
    pub prompt: Prompt,
    /// Everything that chat completions have too.
    pub options: Options,
    /// How many alternatives are reported for each token; `None`: no log probabilities at all.
    pub logprobs: Option<u32>,
}

/// What is continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A text. The spellings of special tokens in it are special tokens: nobody else could write
    /// them.
    Text(String),
    /// Token ids; none is negative. Whether the vocabulary has them is for the server to say.
    Tokens(Vec<i32>),
}

impl CompletionRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// The first mistake: not JSON, a wrong type, a value out of range, an unsupported demand.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::parse(body)?;
        let prompt = prompt(&mut fields)?;
        let options = Options::read(&mut fields)?;
        options::refuse_others_than_one(&mut fields, "best_of")?;
        if fields.flag("echo")? == Some(true) {
            return Err(unsupported("echo"));
        }
        if fields.text("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
            return Err(unsupported("suffix"));
        }
        let logprobs = fields.integer("logprobs", 0..=LOGPROBS_MAX)?;
        let logprobs = logprobs.map(|top| u32::try_from(top).expect("0 to 20"));
        Ok(Self { prompt, options, logprobs })
    }
}

/// A string, an array with one string, or an array of token ids.
fn prompt(fields: &mut Fields) -> Result<Prompt, RequestError> {
    let value = fields.value("prompt").ok_or_else(|| fields.missing("prompt"))?;
    let mut items = match value {
        Value::Array(items) => items,
        text @ Value::String(_) => return fields::text(text, "prompt").map(Prompt::Text),
        other => return Err(fields::wrong_type("prompt", "a string or an array", &other)),
    };
    let first_is_text = matches!(items.first(), Some(Value::String(_)));
    match items.len() {
        0 => Err(RequestError::field("prompt", "Invalid value for 'prompt': it is empty.")),
        1 if first_is_text => fields::text(items.remove(0), "prompt[0]").map(Prompt::Text),
        1 if matches!(items[0], Value::Array(_)) => {
            let Value::Array(ids) = items.remove(0) else { unreachable!("just matched") };
            token_ids(&ids, "prompt[0]").map(Prompt::Tokens)
        }
        count if first_is_text || matches!(items[0], Value::Array(_)) => Err(RequestError::field(
            "prompt",
            format!("Invalid value for 'prompt': one prompt at a time, but got {count}."),
        )),
        _ => token_ids(&items, "prompt").map(Prompt::Tokens),
    }
}

/// Token ids, none of them negative.
///
/// # Errors
/// When one of them is something else.
pub fn token_ids(items: &[Value], path: &str) -> Result<Vec<i32>, RequestError> {
    let read = |(index, value): (usize, &Value)| {
        let id = value.as_i64().and_then(|id| i32::try_from(id).ok()).filter(|&id| id >= 0);
        id.ok_or_else(|| {
            let path = format!("{path}[{index}]");
            match value {
                Value::Number(number) if !number.is_f64() => RequestError::field(
                    &path,
                    format!("Invalid value for '{path}': {number} is not a token id."),
                ),
                other => fields::wrong_type(&path, "a token id", other),
            }
        })
    };
    items.iter().enumerate().map(read).collect()
}

fn unsupported(key: &str) -> RequestError {
    RequestError::field(key, format!("Unsupported parameter: '{key}'."))
        .with_code("unsupported_parameter")
}

/// An answer, whole or one event of a streamed one: this endpoint has one shape for both.
pub type Completion<'a> = AnswerEvent<'a, CompletionChoice<'a>>;

/// The text, or a piece of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompletionChoice<'a> {
    /// 0.
    pub index: u32,
    /// The addition.
    pub text: &'a str,
    /// If asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Null until the finish chunk: `stop` or `length`.
    pub finish_reason: Option<&'static str>,
}

/// Log probabilities in the form of OpenAI's older endpoint: lists of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    /// The tokens' texts; `bytes:\xf0\x9f` for bytes that are no whole characters.
    pub tokens: Vec<String>,
    /// ln p of each.
    pub token_logprobs: Vec<f32>,
    /// For each, the likeliest tokens with their ln p, most likely first.
    pub top_logprobs: Vec<serde_json::Map<String, Value>>,
    /// Where each begins in the answer's text, in characters; control tokens take no room there.
    pub text_offset: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt_of(prompt: &str) -> Result<Prompt, RequestError> {
        let body = format!(r#"{{"prompt": {prompt}}}"#);
        CompletionRequest::parse(body.as_bytes()).map(|request| request.prompt)
    }

    #[test]
    fn one_prompt_in_any_of_its_forms() {
        assert_eq!(prompt_of(r#""a""#), Ok(Prompt::Text("a".to_owned())));
        assert_eq!(prompt_of(r#"["a"]"#), Ok(Prompt::Text("a".to_owned())));
        assert_eq!(prompt_of("[1, 2]"), Ok(Prompt::Tokens(vec![1, 2])));
        assert_eq!(prompt_of("[[1, 2]]"), Ok(Prompt::Tokens(vec![1, 2])));
    }

    #[test]
    fn what_is_no_prompt_or_more_than_one() {
        let bad = [
            "[]",
            r#"["a", "b"]"#,
            "[[1], [2]]",
            "[1, \"a\"]",
            "[-1]",
            "[1.5]",
            "1",
            "{}",
            "[4294967296]",
            "null",
            "\"a\\u0000\"",
        ];
        for prompt in bad {
            let param = prompt_of(prompt).unwrap_err().param.unwrap();
            assert!(param.starts_with("prompt"), "{prompt}: {param}");
        }
    }
}
