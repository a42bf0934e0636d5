//! The request's body: a template, and what one prompt makes of it.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::bench::prompts::Draw;

/// Which of the two generating endpoints is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointKind {
    /// `/chat/completions`, with `messages`.
    #[default]
    Chat,
    /// `/completions`, with `prompt`.
    Completions,
}

impl EndpointKind {
    /// What follows the base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
        }
    }
}

/// Everything of a request's body but its prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyTemplate {
    /// Which endpoint it is for.
    pub kind: EndpointKind,
    /// The model id to ask for.
    pub model: String,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// What that key is called: `max_tokens` or `max_completion_tokens`.
    pub max_tokens_field: String,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Whether `ignore_eos: true` is asked for; never sent as `false`.
    pub ignore_eos: bool,
    /// Merged over the rest, key by key; `{request_uuid}` in any of its strings is a fresh UUID.
    pub extra_body: Map<String, Value>,
    /// Keys that are removed last.
    pub omit_body: Vec<String>,
}

impl BodyTemplate {
    /// The template of a run without any further wishes.
    pub fn new(model: impl Into<String>, max_tokens: u32) -> Self {
        Self {
            kind: EndpointKind::Chat,
            model: model.into(),
            max_tokens,
            max_tokens_field: "max_tokens".to_owned(),
            temperature: 0.0,
            ignore_eos: false,
            extra_body: Map::new(),
            omit_body: Vec::new(),
        }
    }

    /// The body of one request, serialised.
    pub fn render(&self, draw: &Draw) -> Bytes {
        let salt = draw.salt();
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        match self.kind {
            EndpointKind::Chat => {
                body.insert("messages".to_owned(), draw.prompt().messages(salt.as_deref()).into());
            }
            EndpointKind::Completions => {
                body.insert("prompt".to_owned(), draw.prompt().text(salt.as_deref()).into());
            }
        }
        body.insert(self.max_tokens_field.clone(), json!(self.max_tokens));
        body.insert("temperature".to_owned(), json!(self.temperature));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        if self.ignore_eos {
            body.insert("ignore_eos".to_owned(), json!(true));
        }
        for (key, value) in &self.extra_body {
            body.insert(key.clone(), with_uuids(value));
        }
        for key in &self.omit_body {
            body.shift_remove(key);
        }
        let bytes = serde_json::to_vec(&body).expect("a map of JSON values is always JSON");
        bytes.into()
    }
}

/// The value, with a fresh UUID wherever a string asks for one.
fn with_uuids(value: &Value) -> Value {
    const WANTED: &str = "{request_uuid}";
    match value {
        Value::String(text) if text.contains(WANTED) => {
            Value::String(text.replace(WANTED, &uuid::Uuid::new_v4().to_string()))
        }
        Value::Array(items) => items.iter().map(with_uuids).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), with_uuids(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}
