//! The form of text completions.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::api::completion::{Completion, CompletionChoice, CompletionLogprobs};
use crate::api::options::StreamUsage;
use crate::api::usage::Usage;
use crate::serve::inference::TextChunk;
use crate::serve::inference::text::{Pushed, TextHolder};

use super::answer::{End, Envelope, Form, Mould, frame, json};

/// Answers of `/v1/completions`.
pub struct CompletionForm {
    envelope: Envelope,
    /// A chunk of text, without log probabilities.
    mould: Mould,
    /// Characters of the tokens so far, and the beginning of one that is not whole yet.
    n_chars: usize,
    text: TextHolder,
}

const COMPLETION: &str = "text_completion";

impl CompletionForm {
    /// The form of one answer.
    pub fn new(envelope: Envelope) -> Self {
        let mould = Mould::of(&envelope.event(COMPLETION, vec![choice(Mould::GAP)]));
        Self { envelope, mould, n_chars: 0, text: TextHolder::default() }
    }

    fn event<'a>(&'a self, choices: Vec<CompletionChoice<'a>>) -> Completion<'a> {
        self.envelope.event(COMPLETION, choices)
    }

    /// With the end of the answer, and the usage if it belongs here.
    fn ending<'a>(
        &'a self,
        choice: CompletionChoice<'a>,
        end: &End,
        usage: bool,
    ) -> Completion<'a> {
        let mut event = self.event(vec![choice]);
        event.usage = usage.then(|| end.usage.clone());
        event.timings = Some(end.timings.clone());
        event.perf_metrics = self.envelope.perf_metrics.then(|| end.perf_metrics.clone());
        event
    }

    fn logprobs(&mut self, chunk: &TextChunk) -> Option<CompletionLogprobs> {
        if !self.envelope.logprobs {
            return None;
        }
        let mut lists = CompletionLogprobs::default();
        for entry in &chunk.logprobs {
            // A token that begins within a character stands where the next one will.
            lists.text_offset.push(self.n_chars + usize::from(self.text.is_within_a_character()));
            if let Pushed::Text(text) = self.text.push(&entry.text) {
                self.n_chars += text.chars().count();
            }
            lists.tokens.push(name(&entry.token.bytes));
            lists.token_logprobs.push(entry.token.logprob);
            let mut top = Map::new();
            for candidate in &entry.top {
                // Of two that are spelled alike the likelier one, which comes first.
                top.entry(name(&candidate.bytes)).or_insert(Value::from(candidate.logprob));
            }
            lists.top_logprobs.push(top);
        }
        Some(lists)
    }
}

impl Form for CompletionForm {
    fn opening(&self) -> Option<Bytes> {
        None
    }

    fn piece(&mut self, chunk: &TextChunk) -> Bytes {
        let Some(logprobs) = self.logprobs(chunk) else { return self.mould.fill(&chunk.text) };
        let choice = CompletionChoice { logprobs: Some(logprobs), ..choice(&chunk.text) };
        frame(&self.event(vec![choice]))
    }

    fn finish(&mut self, end: &End) -> Bytes {
        let choice = CompletionChoice { finish_reason: Some(end.finish_reason), ..choice("") };
        frame(&self.ending(choice, end, self.envelope.stream_usage == StreamUsage::OnFinish))
    }

    fn usage(&self, usage: Usage) -> Bytes {
        frame(&Completion { usage: Some(usage), ..self.event(Vec::new()) })
    }

    fn whole(&mut self, all: TextChunk, end: &End) -> String {
        let logprobs = self.logprobs(&all);
        let finish_reason = Some(end.finish_reason);
        let choice = CompletionChoice { logprobs, finish_reason, ..choice(&all.text) };
        json(&self.ending(choice, end, true))
    }
}

/// A token by its spelling: its text, or as OpenAI spelled those that are no whole characters,
/// `bytes:\xf0\x9f`. Tokens that differ in their bytes have different names.
fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("bytes:{}", bytes.escape_ascii()),
    }
}

fn choice(text: &str) -> CompletionChoice<'_> {
    CompletionChoice { index: 0, text, logprobs: None, finish_reason: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::inference::{Candidate, TokenLogprob};

    #[test]
    fn an_offset_counts_characters_also_where_tokens_cut_them() {
        let pieces: [&[u8]; 4] = [b"a", b"\xf0\x9f", b"\x98\x80b", "é".as_bytes()];
        let logprob = |bytes: &[u8]| TokenLogprob {
            token: Candidate { id: 0, bytes: bytes.to_vec(), logprob: -1.0 },
            text: bytes.to_vec(),
            top: Vec::new(),
        };
        let mut logprobs = pieces.map(logprob).to_vec();
        // A control token has a spelling, and adds nothing to the text.
        logprobs.insert(1, TokenLogprob { text: Vec::new(), ..logprob(b"<|im_start|>") });
        logprobs.push(logprob(b"\x80c"));
        logprobs.push(logprob(b"d"));
        let mut form = CompletionForm::new(envelope());
        let text = "a😀bé\u{fffd}cd".to_owned();
        let chunk = TextChunk { text, n_tokens: 7, logprobs };
        let lists = form.logprobs(&chunk).unwrap();
        // The third token begins the second character, the fourth one ends it.
        assert_eq!(lists.text_offset, [0, 1, 1, 2, 3, 4, 6]);
        assert_eq!(lists.tokens[1..4], ["<|im_start|>", "bytes:\\xf0\\x9f", "bytes:\\x98\\x80b"]);
    }

    #[test]
    fn alternatives_that_are_no_text_each_have_a_name() {
        let candidate = |bytes: &[u8], logprob| Candidate { id: 0, bytes: bytes.to_vec(), logprob };
        let entry = TokenLogprob {
            token: candidate(b"a", -1.0),
            text: b"a".to_vec(),
            top: vec![
                candidate(b"a", -1.0),
                candidate(b"\xf0\x9f", -2.0),
                candidate(b"\xf0\x98", -3.0),
                candidate(b"a", -4.0),
            ],
        };
        let mut form = CompletionForm::new(envelope());
        let chunk = TextChunk { text: "a".to_owned(), n_tokens: 1, logprobs: vec![entry] };
        let top = &form.logprobs(&chunk).unwrap().top_logprobs[0];
        let wanted =
            serde_json::json!({ "a": -1.0, "bytes:\\xf0\\x9f": -2.0, "bytes:\\xf0\\x98": -3.0 });
        assert_eq!(Value::from(top.clone()), wanted);
    }

    fn envelope() -> Envelope {
        Envelope {
            id: String::new(),
            created: 0,
            model: String::new(),
            stream_usage: StreamUsage::OnFinish,
            perf_metrics: false,
            logprobs: true,
        }
    }
}
