//! A file of prompts, as JSON lines: `{"id": …, "text": …}` for one user message, or `{"id": …,
//! "messages": […]}` for a conversation.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// One prompt of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// One user message.
    Text(String),
    /// A conversation, as it will be sent.
    Messages(Vec<Value>),
}

/// A prompts file, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// In file order; never empty.
    pub prompts: Vec<Prompt>,
    /// SHA-256 (hex) of the file's bytes.
    pub sha256: String,
}

/// Why a prompts file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptsError {
    /// It cannot be read.
    #[error("read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// One of its lines is no prompt.
    #[error("read {path}:{line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It holds no prompt at all.
    #[error("read {0}: it holds no prompt")]
    Empty(PathBuf),
}

impl PromptFile {
    /// Reads a file of JSON lines; blank lines and a byte order mark are passed over.
    pub fn read(path: &Path) -> Result<Self, PromptsError> {
        let bytes = std::fs::read(path).map_err(|error| PromptsError::Read(path.into(), error))?;
        Self::parse(path, &bytes)
    }

    /// A single prompt, for a request of our own.
    pub fn of_one(prompt: Prompt) -> Self {
        Self { path: PathBuf::new(), prompts: vec![prompt], sha256: String::new() }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, PromptsError> {
        let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let mut prompts = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let prompt = parse_line(line).map_err(|reason| PromptsError::Line {
                path: path.into(),
                line: index + 1,
                reason,
            })?;
            prompts.push(prompt);
        }
        if prompts.is_empty() {
            return Err(PromptsError::Empty(path.into()));
        }
        let sha256 = hex(&Sha256::digest(bytes));
        Ok(Self { path: path.into(), prompts, sha256 })
    }
}

fn parse_line(line: &[u8]) -> Result<Prompt, String> {
    #[derive(Deserialize)]
    struct Line {
        text: Option<String>,
        messages: Option<Vec<Value>>,
    }
    let mut json = serde_json::Deserializer::from_slice(line);
    let line: Line = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // Each line is a document of its own, in which the error's own line is always 1.
        let column = error.inner().column();
        format!("column {column}: {}", error.to_string().replace(" at line 1", ""))
    })?;
    json.end().map_err(|_| "more than one JSON value on a line".to_owned())?;
    match (line.text, line.messages) {
        (Some(text), None) if !text.is_empty() => Ok(Prompt::Text(text)),
        (Some(_), None) => Err("text: empty".to_owned()),
        (None, Some(messages)) if messages.is_empty() => Err("messages: empty".to_owned()),
        (None, Some(messages)) => check_messages(messages),
        (Some(_), Some(_)) => Err("both text and messages".to_owned()),
        (None, None) => Err("neither text nor messages".to_owned()),
    }
}

fn check_messages(messages: Vec<Value>) -> Result<Prompt, String> {
    for (index, message) in messages.iter().enumerate() {
        if !message.get("role").is_some_and(Value::is_string) {
            return Err(format!("messages[{index}].role: missing or no string"));
        }
    }
    Ok(Prompt::Messages(messages))
}

impl Prompt {
    /// The conversation to send, with a salt line in front of it where one is wanted.
    pub fn messages(&self, salt: Option<&str>) -> Vec<Value> {
        let salt = salt.unwrap_or_default();
        match self {
            Self::Text(text) => vec![json!({"role": "user", "content": format!("{salt}{text}")})],
            Self::Messages(messages) => {
                let mut messages = messages.clone();
                if !salt.is_empty() {
                    put_in_front(&mut messages[0], salt);
                }
                messages
            }
        }
    }

    /// The text to send to a completions endpoint; a conversation's contents, a line each.
    pub fn text(&self, salt: Option<&str>) -> String {
        let salt = salt.unwrap_or_default();
        match self {
            Self::Text(text) => format!("{salt}{text}"),
            Self::Messages(messages) => {
                let contents = messages.iter().filter_map(|message| message["content"].as_str());
                format!("{salt}{}", contents.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// The same bytes for the same prompt, whatever its spelling in a file.
    pub(super) fn canonical(&self) -> Vec<u8> {
        Value::from(self.messages(None)).to_string().into_bytes()
    }
}

/// Prefixes differ only if the very first text does, so that is where the salt goes.
fn put_in_front(message: &mut Value, salt: &str) {
    match &mut message["content"] {
        Value::String(text) => text.insert_str(0, salt),
        Value::Array(parts) => parts.insert(0, json!({"type": "text", "text": salt})),
        other => *other = Value::String(salt.to_owned()),
    }
}

pub(in crate::bench) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PromptFile, PromptsError> {
        PromptFile::parse(Path::new("p.jsonl"), text.as_bytes())
    }

    #[test]
    fn both_shapes_are_read() {
        let file = parse(concat!(
            "\u{feff}{\"id\": 1, \"text\": \"a\"}\r\n",
            "\n",
            "{\"id\": \"x\", \"messages\": [{\"role\": \"system\", \"content\": \"s\"}]}",
        ))
        .unwrap();
        assert_eq!(file.prompts.len(), 2);
        assert_eq!(file.prompts[0], Prompt::Text("a".into()));
        let system = json!({"role": "system", "content": "s"});
        assert_eq!(file.prompts[1], Prompt::Messages(vec![system]));
        assert_eq!(file.sha256.len(), 64);
    }

    #[test]
    fn what_is_no_prompt_is_told_with_its_file_and_line() {
        for (line, reason) in [
            ("{}", "neither text nor messages"),
            ("{\"text\": \"\"}", "text: empty"),
            ("{\"text\": 7}", "column 10: text: invalid type: integer `7`"),
            ("{\"messages\": []}", "messages: empty"),
            ("{\"messages\": [{}]}", "messages[0].role: missing or no string"),
            ("{\"text\": \"a\", \"messages\": []}", "both text and messages"),
            ("{\"text\": \"a\"} {}", "more than one JSON value on a line"),
            ("{\"text\": \"a", "column 11: "),
            ("nonsense", "column 2: "),
        ] {
            let error = parse(&format!("{{\"text\":\"ok\"}}\n{line}\n")).unwrap_err().to_string();
            let expected = format!("read p.jsonl:2: {reason}");
            assert!(error.starts_with(&expected), "{line}: {error}");
        }
        assert!(PromptFile::parse(Path::new("p"), b"{\"text\": \"\xff\"}\n").is_err());
        assert!(matches!(parse("\n\n"), Err(PromptsError::Empty(_))));
        assert!(PromptFile::read(Path::new("/nonexistent.jsonl")).is_err());
    }
}
