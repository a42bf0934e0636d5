//! `POST /v1/chat/completions`: the request, the answer, the chunks of a streamed one.

use serde::Serialize;
use serde_json::Value;

use super::error::RequestError;
use super::event::AnswerEvent;
use super::fields::{self, Fields};
use super::options::Options;
use super::usage::{PerfMetrics, Timings, Usage};

/// Alternatives for each token at most (OpenAI).
const TOP_LOGPROBS_MAX: i64 = 20;
/// Messages in one conversation at most, so that no template renders for ever.
const MESSAGES_MAX: usize = 65_536;

/// A conversation, and how its next message is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// At least one.
    pub messages: Vec<Message>,
    /// Everything that text completions have too.
    pub options: Options,
    /// How many alternatives are reported for each token; `None`: no log probabilities at all.
    pub top_logprobs: Option<u32>,
}

/// One message, in the shape that chat templates read.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What was said. Absent only beside tool calls.
    pub content: Option<Content>,
    /// Who speaks, by name.
    pub name: Option<String>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<String>,
    /// Calls that the assistant made, with their arguments parsed, as templates want them.
    pub tool_calls: Option<Value>,
}

/// What was said, in the form in which it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A string.
    Text(String),
    /// The texts of text parts.
    Parts(Vec<String>),
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions; `developer` counts as this.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Message {
    /// A message of nothing but text.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        let content = Some(Content::Text(content.into()));
        Self { role, content, name: None, tool_call_id: None, tool_calls: None }
    }
}

impl Role {
    /// Its name in requests and templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl ChatRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// The first mistake: not JSON, a wrong type, a value out of range, an unsupported demand.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::parse(body)?;
        let messages = messages(&mut fields)?;
        let options = Options::read(&mut fields)?;
        for key in ["tools", "functions"] {
            if fields.list(key)?.is_some_and(|tools| !tools.is_empty()) {
                return Err(unsupported(key, "calling tools is not supported"));
            }
        }
        match fields.value("tool_choice") {
            None => {}
            Some(Value::String(choice)) if choice == "none" || choice == "auto" => {}
            Some(_) => return Err(unsupported("tool_choice", "calling tools is not supported")),
        }
        let top_logprobs = top_logprobs(&mut fields)?;
        Ok(Self { messages, options, top_logprobs })
    }
}

/// Reads `messages`: at least one, each with a known role and text.
///
/// # Errors
/// The first mistake, with the message's index.
pub fn messages(fields: &mut Fields) -> Result<Vec<Message>, RequestError> {
    let list = fields.list("messages")?.ok_or_else(|| fields.missing("messages"))?;
    if list.is_empty() || list.len() > MESSAGES_MAX {
        return Err(RequestError::field(
            "messages",
            format!(
                "Invalid value for 'messages': expected 1 to {MESSAGES_MAX} messages, but got {}.",
                list.len()
            ),
        ));
    }
    let read = |(index, value)| message(value, &format!("messages[{index}]"));
    list.into_iter().enumerate().map(read).collect()
}

fn message(value: Value, path: &str) -> Result<Message, RequestError> {
    let mut fields = Fields::of(value, path)?;
    let role = fields.text("role")?.ok_or_else(|| fields.missing("role"))?;
    let role = match role.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            return Err(RequestError::field(
                fields.path_of("role"),
                format!(
                    "Invalid value for '{path}.role': expected 'system', 'developer', 'user', \
                     'assistant' or 'tool', but got '{other}'."
                ),
            )
            .with_code("invalid_value"));
        }
    };
    let tool_calls = tool_calls(&mut fields)?;
    if tool_calls.is_some() && role != Role::Assistant {
        return Err(RequestError::field(
            fields.path_of("tool_calls"),
            format!("Invalid value for '{path}.tool_calls': only the assistant calls tools."),
        ));
    }
    let content = content(&mut fields)?;
    if content.is_none() && tool_calls.is_none() {
        return Err(fields.missing("content"));
    }
    let name = fields.text("name")?;
    let tool_call_id = fields.text("tool_call_id")?;
    Ok(Message { role, content, name, tool_call_id, tool_calls })
}

/// A string, or text parts.
fn content(fields: &mut Fields) -> Result<Option<Content>, RequestError> {
    let path = fields.path_of("content");
    let parts = match fields.value("content") {
        None => return Ok(None),
        Some(Value::Array(parts)) => parts,
        Some(text @ Value::String(_)) => {
            return Ok(Some(Content::Text(fields::text(text, &path)?)));
        }
        Some(other) => return Err(fields::wrong_type(&path, "a string or an array", &other)),
    };
    let read = |(index, part): (usize, Value)| {
        let mut part = Fields::of(part, &format!("{path}[{index}]"))?;
        let kind = part.text("type")?.ok_or_else(|| part.missing("type"))?;
        if kind != "text" {
            let place = part.path_of("type");
            return Err(RequestError::field(
                place.clone(),
                format!("Invalid value for '{place}': this model reads text, not '{kind}'."),
            )
            .with_code("invalid_value"));
        }
        part.text("text")?.ok_or_else(|| part.missing("text"))
    };
    let texts: Result<Vec<_>, _> = parts.into_iter().enumerate().map(read).collect();
    Ok(Some(Content::Parts(texts?)))
}

/// Calls that the assistant made earlier: templates write them out, with arguments as objects.
fn tool_calls(fields: &mut Fields) -> Result<Option<Value>, RequestError> {
    let path = fields.path_of("tool_calls");
    let Some(calls) = fields.list("tool_calls")?.filter(|calls| !calls.is_empty()) else {
        return Ok(None);
    };
    let read = |(index, call): (usize, Value)| {
        let mut call = Fields::of(call, &format!("{path}[{index}]"))?;
        let id = call.text("id")?;
        let mut function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
        let name = function.text("name")?.ok_or_else(|| function.missing("name"))?;
        let arguments = function.text("arguments")?.ok_or_else(|| function.missing("arguments"))?;
        let arguments = match serde_json::from_str(&arguments) {
            Ok(parsed @ Value::Object(_)) => parsed,
            _ => Value::String(arguments),
        };
        let function = serde_json::json!({ "name": name, "arguments": arguments });
        Ok(serde_json::json!({ "id": id, "type": "function", "function": function }))
    };
    calls.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>().map(|v| Some(v.into()))
}

fn top_logprobs(fields: &mut Fields) -> Result<Option<u32>, RequestError> {
    let asked = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=TOP_LOGPROBS_MAX)?;
    match (asked, top) {
        (true, top) => Ok(Some(top.map_or(0, |top| u32::try_from(top).expect("0 to 20")))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(RequestError::field(
            "top_logprobs",
            "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
        )),
    }
}

fn unsupported(key: &str, why: &str) -> RequestError {
    RequestError::field(key, format!("Unsupported parameter: '{key}': {why}."))
        .with_code("unsupported_parameter")
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatCompletion {
    /// `chatcmpl-…`.
    pub id: String,
    /// `chat.completion`.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// Always one.
    pub choices: [ChatChoice; 1],
    /// What it took.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// The same under Fireworks' names, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_metrics: Option<PerfMetrics>,
}

/// The one answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatChoice {
    /// 0.
    pub index: u32,
    /// What the assistant says.
    pub message: AssistantMessage,
    /// If asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended: `stop` or `length`.
    pub finish_reason: &'static str,
}

/// What the assistant says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: &'static str,
    /// The text.
    pub content: String,
    /// Always null: OpenAI's clients expect the field.
    pub refusal: Option<String>,
}

/// Log probabilities of the tokens of an answer, or of a piece of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatLogprobs {
    /// One for each token.
    pub content: Vec<TokenLogprob>,
}

/// How likely a token was, and which others were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenLogprob {
    /// Its text; bytes that are no whole characters become U+FFFD.
    pub token: String,
    /// ln p.
    pub logprob: f32,
    /// Its exact bytes.
    pub bytes: Vec<u8>,
    /// The likeliest tokens, most likely first.
    pub top_logprobs: Vec<TopLogprob>,
}

/// One of the likeliest tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopLogprob {
    /// As in [`TokenLogprob`].
    pub token: String,
    /// ln p.
    pub logprob: f32,
    /// Its exact bytes.
    pub bytes: Vec<u8>,
}

/// One event of a streamed answer.
pub type ChatChunk<'a> = AnswerEvent<'a, ChunkChoice<'a>>;

/// What a chunk adds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkChoice<'a> {
    /// 0.
    pub index: u32,
    /// The addition.
    pub delta: Delta<'a>,
    /// If asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Null until the finish chunk.
    pub finish_reason: Option<&'static str>,
}

/// The addition: a role in the first chunk, text in the others, nothing in the finish chunk.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Delta<'a> {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<ChatRequest, RequestError> {
        ChatRequest::parse(body.as_bytes())
    }

    fn contents(messages: &str) -> Vec<Option<Content>> {
        let request = parse(&format!(r#"{{"messages": {messages}}}"#)).unwrap();
        request.messages.into_iter().map(|message| message.content).collect()
    }

    #[test]
    fn text_parts_stay_apart() {
        let parts = r#"[{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]"#;
        let wanted = Content::Parts(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(contents(parts), [Some(wanted)]);
        let none = r#"[{"role": "user", "content": []}]"#;
        assert_eq!(contents(none), [Some(Content::Parts(Vec::new()))]);
    }

    #[test]
    fn a_developer_is_the_system() {
        let request = parse(r#"{"messages": [{"role": "developer", "content": "x"}]}"#).unwrap();
        assert_eq!(request.messages[0].role, Role::System);
    }

    #[test]
    fn content_is_absent_only_beside_tool_calls() {
        let calls = r#"[{"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]"#;
        assert_eq!(contents(calls), [None]);
        for role in ["user", "assistant"] {
            let body = format!(r#"{{"messages": [{{"role": "{role}", "content": null}}]}}"#);
            assert_eq!(parse(&body).unwrap_err().param.as_deref(), Some("messages[0].content"));
        }
    }

    #[test]
    fn tools_are_refused_but_their_absence_is_not() {
        let body = |tools: &str| {
            format!(r#"{{"messages": [{{"role": "user", "content": "x"}}], {tools}}}"#)
        };
        assert!(parse(&body(r#""tools": [], "tool_choice": "auto""#)).is_ok());
        assert!(parse(&body(r#""tools": null, "tool_choice": null"#)).is_ok());
        assert!(parse(&body(r#""tools": [{"type": "function"}]"#)).is_err());
        assert!(parse(&body(r#""tool_choice": "required""#)).is_err());
    }
}
