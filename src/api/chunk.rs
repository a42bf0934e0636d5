//! One event of anybody's stream, as far as a client has to understand it.
//!
//! Borrowed from the event's bytes: what carries text is read in place, what is rarely there
//! (usage, timings, errors) stays raw until somebody asks. Tolerant: a field of an unexpected type
//! is as good as absent, so that one odd field does not cost the text beside it; for JSON that no
//! strict reader takes there is [`mended`].

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::lenient::{self, Lenient, Number, OneOrMore, Text};
use super::mended;
use super::stream_error::{error_text, stray_error};

/// The longest error text that is kept, in bytes.
pub const ERROR_BYTES_MAX: usize = 2048;

/// One chunk of a chat or text completion, or what stands in its place.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Chunk<'a> {
    #[serde(borrow)]
    choices: OneOrMore<Choice<'a>>,
    /// The model that answers.
    #[serde(borrow)]
    pub model: Text<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<&'a RawValue>,
    /// llama-server's account of the time (and ours).
    #[serde(borrow)]
    pub timings: Option<&'a RawValue>,
    /// Fireworks' account of the time.
    #[serde(borrow)]
    pub perf_metrics: Option<&'a RawValue>,
    /// vLLM's account of the time.
    #[serde(borrow)]
    pub metrics: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// The whole of it.
    #[serde(skip)]
    data: &'a [u8],
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Lenient<Delta<'a>>,
    #[serde(borrow)]
    message: Lenient<Delta<'a>>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    token_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    #[serde(borrow)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    tool_calls: OneOrMore<ToolCall<'a>>,
    #[serde(borrow)]
    function_call: Lenient<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    function: Lenient<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A piece of generated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The model's thinking, under either of its two spellings.
    Reasoning(Cow<'a, str>),
    /// What the user is meant to read.
    Answer(Cow<'a, str>),
    /// Arguments of a tool call.
    Arguments(Cow<'a, str>),
}

/// Token counts, wherever in a chunk they stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Prompt tokens, cached ones included.
    pub prompt: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Cached prompt tokens.
    pub cached: Option<u64>,
}

impl<'a> Chunk<'a> {
    /// Reads one event's data.
    ///
    /// # Errors
    /// If it is no JSON that a strict reader takes, or no object.
    pub fn parse(data: &'a [u8]) -> Result<Self, serde_json::Error> {
        // Of a list a struct would be read as well, field by field.
        if data.trim_ascii_start().first() == Some(&b'[') {
            return Err(serde::de::Error::custom("a list in an object's place"));
        }
        let mut chunk: Self = serde_json::from_slice(data)?;
        chunk.data = data;
        Ok(chunk)
    }

    /// Hands every piece of generated text in this chunk to `take`; empty ones are none.
    pub fn each_piece(&self, mut take: impl FnMut(Piece<'_>)) {
        for choice in self.choices.iter() {
            for delta in choice.delta.0.iter().chain(&choice.message.0) {
                // Servers that send both spellings send the same text twice.
                let reasoning = delta.reasoning_content.get().or(delta.reasoning.get());
                if let Some(text) = reasoning {
                    take(Piece::Reasoning(Cow::Borrowed(text)));
                }
                for text in [&delta.content, &delta.refusal].into_iter().filter_map(Text::get) {
                    take(Piece::Answer(Cow::Borrowed(text)));
                }
                let called = delta.tool_calls.iter().filter_map(|call| call.function.0.as_ref());
                for function in called.chain(&delta.function_call.0) {
                    if let Some(text) = function.arguments.and_then(arguments_text) {
                        take(Piece::Arguments(text));
                    }
                }
            }
            if let Some(text) = choice.text.get() {
                take(Piece::Answer(Cow::Borrowed(text)));
            }
        }
    }

    /// Why the model stopped, where this chunk says so.
    pub fn finish_reason(&self) -> Option<&str> {
        self.choices.iter().find_map(|choice| choice.finish_reason.get())
    }

    /// The usage that this chunk carries, at whichever place.
    pub fn counts(&self) -> Option<Counts> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Wrapped<'a> {
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        let wrapped = || lenient::object::<Wrapped<'_>>(self.x_groq?.get())?.usage;
        let in_choice = || self.choices.iter().find_map(|choice| choice.usage);
        Counts::parse(self.usage.or_else(in_choice).or_else(wrapped)?.get())
    }

    /// How many tokens this chunk holds, where the server names or scores each of them.
    pub fn n_tokens(&self) -> Option<u64> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Scored<'a> {
            #[serde(borrow)]
            content: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            tokens: Option<Vec<&'a RawValue>>,
        }
        let choice = self.choices.first()?;
        let named = choice
            .token_ids
            .and_then(|raw| serde_json::from_str::<Vec<IgnoredAny>>(raw.get()).ok())
            .map(|ids| ids.len());
        let scored = || {
            let scored = lenient::object::<Scored<'_>>(choice.logprobs?.get())?;
            Some(scored.content.or(scored.tokens)?.len())
        };
        named.or_else(scored).filter(|n| *n > 0).map(|n| n as u64)
    }

    /// The error that this event is, in whichever form: an `error` field (of the chunk or of a
    /// choice), a finish reason `error`, or an error in the chunk's place.
    pub fn error(&self) -> Option<String> {
        if self.choices.first().is_none() {
            return stray_error(self.data);
        }
        let in_choice = || self.choices.iter().find_map(|choice| choice.error);
        let said = |raw: &RawValue| error_text(&mended::value(raw.get())?);
        let finished = || {
            let is_error = self.finish_reason() == Some("error");
            is_error.then(|| "the finish reason is \"error\"".to_owned())
        };
        self.error.and_then(said).or_else(|| in_choice().and_then(said)).or_else(finished)
    }
}

impl Counts {
    /// Reads a `usage` object; `None` if it holds no count at all.
    fn parse(json: &str) -> Option<Self> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Usage {
            prompt_tokens: Number,
            input_tokens: Number,
            completion_tokens: Number,
            output_tokens: Number,
            prompt_cache_hit_tokens: Number,
            prompt_tokens_details: Lenient<Details>,
            input_tokens_details: Lenient<Details>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Details {
            cached_tokens: Number,
        }
        let usage: Usage = lenient::object_mended(json)?;
        let details = usage.prompt_tokens_details.0.or(usage.input_tokens_details.0);
        let counts = Self {
            prompt: usage.prompt_tokens.count().or(usage.input_tokens.count()),
            output: usage.completion_tokens.count().or(usage.output_tokens.count()),
            cached: details
                .and_then(|details| details.cached_tokens.count())
                .or(usage.prompt_cache_hit_tokens.count()),
        };
        (counts != Self::default()).then_some(counts)
    }

    /// Cumulative counts grow; whichever of two says more is the later one.
    pub fn merge(&mut self, other: Self) {
        self.prompt = self.prompt.max(other.prompt);
        self.output = self.output.max(other.output);
        self.cached = self.cached.max(other.cached);
    }
}

/// The first `bytes` bytes of a text, less the character that they would cut.
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Arguments come as a string of JSON, or from some servers as the JSON itself.
fn arguments_text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    if json.starts_with(['{', '[']) {
        return Some(Cow::Borrowed(json));
    }
    let text: Text<'_> = serde_json::from_str(json).ok()?;
    text.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(json: &str) -> Vec<String> {
        let mut found = Vec::new();
        Chunk::parse(json.as_bytes()).unwrap().each_piece(|piece| {
            found.push(match piece {
                Piece::Reasoning(text) => format!("r:{text}"),
                Piece::Answer(text) => format!("a:{text}"),
                Piece::Arguments(text) => format!("t:{text}"),
            });
        });
        found
    }

    fn delta(fields: &str) -> String {
        format!(r#"{{"choices":[{{"index":0,"delta":{{{fields}}},"finish_reason":null}}]}}"#)
    }

    #[test]
    fn text_is_found_in_all_its_places() {
        assert_eq!(pieces(&delta(r#""content":"hi""#)), ["a:hi"]);
        assert_eq!(pieces(&delta(r#""content":"a\n\u00e9""#)), ["a:a\n\u{e9}"]);
        assert_eq!(pieces(&delta(r#""content":[{"type":"text","text":"x"},"y"]"#)), ["a:xy"]);
        assert_eq!(pieces(&delta(r#""reasoning_content":"x","reasoning":"x""#)), ["r:x"]);
        assert_eq!(pieces(&delta(r#""reasoning_content":"","reasoning":"x""#)), ["r:x"]);
        assert_eq!(pieces(&delta(r#""reasoning":"x","content":"y""#)), ["r:x", "a:y"]);
        assert_eq!(pieces(&delta(r#""refusal":"no""#)), ["a:no"]);
        assert_eq!(pieces(r#"{"choices":[{"text":"z","logprobs":null}]}"#), ["a:z"]);
        assert_eq!(pieces(r#"{"choices":[{"message":{"content":"m"}}]}"#), ["a:m"]);
        let calls = delta(r#""tool_calls":[{"function":{"name":"f","arguments":"{\"a\""}}]"#);
        assert_eq!(pieces(&calls), [r#"t:{"a""#]);
        let whole = delta(r#""tool_calls":[{"function":{"arguments":{"a":1}}}]"#);
        assert_eq!(pieces(&whole), [r#"t:{"a":1}"#]);
    }

    #[test]
    fn what_is_no_text_is_none() {
        for fields in [
            r#""role":"assistant","content":"""#,
            r#""role":"assistant","content":null"#,
            r#""content":7"#,
            r#""content":{"odd":true}"#,
            r#""tool_calls":null"#,
            r#""tool_calls":[{"function":{"name":"f","arguments":""}}]"#,
            "",
        ] {
            assert_eq!(pieces(&delta(fields)), [""; 0], "{fields}");
        }
        for json in ["{}", r#"{"choices":[]}"#, r#"{"choices":null}"#, r#"{"choices":[{}]}"#] {
            assert_eq!(pieces(json), [""; 0], "{json}");
        }
        assert!(Chunk::parse(b"not json").is_err());
        assert!(Chunk::parse(b"{\"choices\":[").is_err());
    }

    #[test]
    fn usage_is_found_wherever_it_stands() {
        let full = r#"{"prompt_tokens":9,"completion_tokens":"4","prompt_tokens_details":{"cached_tokens":2}}"#;
        let expected = Some(Counts { prompt: Some(9), output: Some(4), cached: Some(2) });
        for json in [
            format!(r#"{{"choices":[],"usage":{full}}}"#),
            format!(r#"{{"choices":[{{"usage":{full}}}]}}"#),
            format!(r#"{{"x_groq":{{"usage":{full}}}}}"#),
        ] {
            assert_eq!(Chunk::parse(json.as_bytes()).unwrap().counts(), expected, "{json}");
        }
        for json in ["{}", r#"{"usage":null}"#, r#"{"usage":{}}"#, r#"{"usage":{"x":-1}}"#] {
            assert_eq!(Chunk::parse(json.as_bytes()).unwrap().counts(), None, "{json}");
        }
    }

    #[test]
    fn tokens_of_one_chunk_are_counted_where_they_are_named() {
        let n = |json: &str| Chunk::parse(json.as_bytes()).unwrap().n_tokens();
        assert_eq!(n(r#"{"choices":[{"token_ids":[1,2,3]}]}"#), Some(3));
        assert_eq!(n(r#"{"choices":[{"logprobs":{"content":[{},{}]}}]}"#), Some(2));
        assert_eq!(n(r#"{"choices":[{"logprobs":{"tokens":["a"]}}]}"#), Some(1));
        assert_eq!(n(r#"{"choices":[{"logprobs":null}]}"#), None);
    }

    #[test]
    fn errors_are_known_in_all_their_forms() {
        let error = |json: &str| Chunk::parse(json.as_bytes()).unwrap().error();
        for (json, text) in [
            (r#"{"error":{"message":"full","code":503}}"#, "full"),
            (r#"{"error":"full"}"#, "full"),
            (r#"{"object":"error","message":"full","code":400}"#, "full"),
            (r#"{"detail":"full"}"#, "full"),
            (r#"{"error":{"message":"full"},"choices":[{"text":"a"}]}"#, "full"),
            (r#"{"choices":[{"error":{"message":"full"},"finish_reason":"error"}]}"#, "full"),
            (r#"{"choices":[{"finish_reason":"error"}]}"#, "the finish reason is \"error\""),
        ] {
            assert_eq!(error(json).as_deref(), Some(text), "{json}");
        }
        for json in ["{}", r#"{"error":null}"#, r#"{"error":{},"choices":[{"text":"a"}]}"#] {
            assert_eq!(error(json), None, "{json}");
        }
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        let long = "\u{e9}".repeat(ERROR_BYTES_MAX);
        let json = format!(r#"{{"error":"a{long}"}}"#);
        let text = Chunk::parse(json.as_bytes()).unwrap().error().unwrap();
        assert_eq!(text.len(), ERROR_BYTES_MAX - 1);
    }
}
