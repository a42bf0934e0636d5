//! Prompts: a file of them, and the cursor that deals them out.
//!
//! A file is JSON lines: `{"id": …, "text": …}` for one user message, or `{"id": …, "messages":
//! […]}` for a conversation. One cursor lives as long as the server that it feeds, through warm-up
//! and levels, so that no prompt meets a cache that an earlier one has filled.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
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

    fn canonical(&self) -> Vec<u8> {
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

/// Whether one server may see the same prompt twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptReuse {
    /// It may not: from the second pass on, a salt line makes each prompt a new one.
    #[default]
    Forbid,
    /// It may: what a prompt cache does is what is measured.
    Allow,
}

/// Deals out the prompts of a file, in order, for the life of one server. Clones share a position.
#[derive(Debug, Clone)]
pub struct PromptCursor {
    deck: Arc<Deck>,
}

#[derive(Debug)]
struct Deck {
    file: PromptFile,
    order: Vec<u32>,
    /// Whether the prompt at that place of the order is equal to an earlier one.
    repeats: Vec<bool>,
    reuse: PromptReuse,
    dealt: AtomicU64,
}

/// One prompt that was dealt out.
#[derive(Debug, Clone)]
pub struct Draw {
    deck: Arc<Deck>,
    /// Its position in the file.
    pub prompt_index: u32,
    /// How often the file has been gone through, this time included: from 1.
    pub pass: u64,
    /// Whether the very same text was dealt out before.
    pub is_repeated: bool,
}

impl PromptCursor {
    /// A cursor at the start of a file, in file order or in the order that a seed gives.
    pub fn new(file: PromptFile, shuffle_seed: Option<u64>, reuse: PromptReuse) -> Self {
        let n = u32::try_from(file.prompts.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..n).collect();
        if let Some(seed) = shuffle_seed {
            shuffle(&mut order, seed);
        }
        let repeats = repeats(&file.prompts, &order);
        Self { deck: Arc::new(Deck { file, order, repeats, reuse, dealt: AtomicU64::new(0) }) }
    }

    /// The file that it deals from.
    pub fn file(&self) -> &PromptFile {
        &self.deck.file
    }

    /// Prompts dealt out so far.
    pub fn n_dealt(&self) -> u64 {
        self.deck.dealt.load(Ordering::Relaxed)
    }

    /// The next prompt; after the last one the first again.
    pub fn draw(&self) -> Draw {
        let dealt = self.deck.dealt.fetch_add(1, Ordering::Relaxed);
        let n = self.deck.order.len() as u64;
        let place = usize::try_from(dealt % n).expect("less than a length");
        let pass = dealt / n + 1;
        let starts_again = pass > 1 && self.deck.reuse == PromptReuse::Allow;
        Draw {
            deck: Arc::clone(&self.deck),
            prompt_index: self.deck.order[place],
            pass,
            is_repeated: starts_again || self.deck.repeats[place],
        }
    }
}

/// For each place of an order, whether an equal prompt stands before it.
fn repeats(prompts: &[Prompt], order: &[u32]) -> Vec<bool> {
    let mut seen = HashSet::new();
    let digest = |index: &u32| Sha256::digest(prompts[*index as usize].canonical());
    order.iter().map(|index| !seen.insert(digest(index))).collect()
}

impl Draw {
    /// The prompt itself.
    pub fn prompt(&self) -> &Prompt {
        &self.deck.file.prompts[self.prompt_index as usize]
    }

    /// The salt line that goes in front of it: the same for everybody, different in each pass.
    pub fn salt(&self) -> Option<String> {
        let salted = self.pass > 1 && self.deck.reuse == PromptReuse::Forbid;
        salted.then(|| format!("[pass {}]\n", self.pass))
    }
}

/// Fisher–Yates over a generator whose stream is specified: the same seed gives the same order
/// for ever. The modulo's bias is under n / 2⁶⁴.
fn shuffle(order: &mut [u32], seed: u64) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    for last in (1..order.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        order.swap(last, usize::try_from(other).expect("not above an index"));
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
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

    fn cursor(n: usize, seed: Option<u64>, reuse: PromptReuse) -> PromptCursor {
        let lines: String = (0..n).map(|i| format!("{{\"text\":\"p{i}\"}}\n")).collect();
        PromptCursor::new(parse(&lines).unwrap(), seed, reuse)
    }

    #[test]
    fn both_shapes_are_read_and_repetitions_known() {
        let file = parse(concat!(
            "\u{feff}{\"id\": 1, \"text\": \"a\"}\r\n",
            "\n",
            "{\"id\": \"x\", \"messages\": [{\"role\": \"system\", \"content\": \"s\"}]}\n",
            "{\"text\": \"a\"}\n",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
        ))
        .unwrap();
        assert_eq!(file.prompts.len(), 4);
        assert_eq!(file.prompts[0], Prompt::Text("a".into()));
        assert_eq!(file.sha256.len(), 64);
        let repeated = |reuse| {
            let prompts = PromptCursor::new(file.clone(), None, reuse);
            (0..6).map(|_| prompts.draw().is_repeated).collect::<Vec<_>>()
        };
        let once = [false, false, true, true];
        assert_eq!(
            repeated(PromptReuse::Forbid),
            [&once[..], &once[..2]].concat(),
            "the same conversation in another shape is the same, and a salt makes it new"
        );
        assert_eq!(repeated(PromptReuse::Allow), [&once[..], &[true, true]].concat());
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

    #[test]
    fn a_second_pass_is_salted_in_front_of_everything() {
        let prompts = cursor(2, None, PromptReuse::Forbid);
        let draws: Vec<_> = (0..5).map(|_| prompts.draw()).collect();
        let salts: Vec<_> = draws.iter().map(Draw::salt).collect();
        let passes: Vec<_> = salts.iter().map(Option::as_deref).collect();
        let (two, three) = (Some("[pass 2]\n"), Some("[pass 3]\n"));
        assert_eq!(passes, [None, None, two, two, three]);
        assert_eq!(draws[2].prompt().text(two), "[pass 2]\np0");
        let conversation = Prompt::Messages(vec![
            json!({"role": "system", "content": [{"type": "text", "text": "s"}]}),
            json!({"role": "user", "content": "u"}),
        ]);
        let salted = conversation.messages(two);
        assert_eq!(salted[0]["content"][0]["text"], "[pass 2]\n");
        assert_eq!(salted[1]["content"], "u");
        let reused = cursor(1, None, PromptReuse::Allow);
        assert_eq!((reused.draw().salt(), reused.draw().salt()), (None, None));
    }

    #[test]
    fn a_seed_gives_one_order_for_ever() {
        let order = |seed| {
            let prompts = cursor(8, seed, PromptReuse::Forbid);
            (0..8).map(|_| prompts.draw().prompt_index).collect::<Vec<_>>()
        };
        assert_eq!(order(None), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(Some(1)), order(Some(1)));
        assert_ne!(order(Some(1)), order(Some(2)));
        let mut sorted = order(Some(1));
        sorted.sort_unstable();
        assert_eq!(sorted, order(None));
    }
}
