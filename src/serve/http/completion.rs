//! The form of text completions.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::api::completion::{Completion, CompletionChoice, CompletionLogprobs};
use crate::api::options::StreamUsage;
use crate::api::usage::Usage;
use crate::serve::inference::TextChunk;

use super::answer::{End, Envelope, Form, Mould, frame, json, lossy};

/// Answers of `/v1/completions`.
pub struct CompletionForm {
    envelope: Envelope,
    /// A chunk of text, without log probabilities.
    mould: Mould,
    /// Characters of the answer so far: where the next token begins.
    n_chars: usize,
}

const COMPLETION: &str = "text_completion";

impl CompletionForm {
    /// The form of one answer.
    pub fn new(envelope: Envelope) -> Self {
        let mould = Mould::of(&envelope.event(COMPLETION, vec![choice(Mould::GAP)]));
        Self { envelope, mould, n_chars: 0 }
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
            let token = lossy(&entry.token.bytes);
            lists.text_offset.push(self.n_chars);
            self.n_chars +=
                entry.token.bytes.iter().filter(|byte| begins_a_character(**byte)).count();
            lists.tokens.push(token);
            lists.token_logprobs.push(entry.token.logprob);
            let top = entry.top.iter();
            let top = top.map(|c| (lossy(&c.bytes), Value::from(c.logprob)));
            lists.top_logprobs.push(top.collect::<Map<_, _>>());
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

/// Tokens may hold parts of characters; a character counts where its first byte is.
fn begins_a_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
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
            top: Vec::new(),
        };
        let logprobs = pieces.map(logprob).to_vec();
        let envelope = Envelope {
            id: String::new(),
            created: 0,
            model: String::new(),
            stream_usage: StreamUsage::OnFinish,
            perf_metrics: false,
            logprobs: true,
        };
        let mut form = CompletionForm::new(envelope);
        let chunk = TextChunk { text: "a😀bé".to_owned(), n_tokens: 4, logprobs };
        // The second token begins the second character, the third one ends it.
        assert_eq!(form.logprobs(&chunk).unwrap().text_offset, [0, 1, 2, 3]);
    }
}
