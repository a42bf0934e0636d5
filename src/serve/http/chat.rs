//! The form of chat answers.

use bytes::Bytes;

use crate::api::chat::{
    AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChatLogprobs, ChunkChoice, Delta,
    TokenLogprob, TopLogprob,
};
use crate::api::options::StreamUsage;
use crate::api::usage::Usage;
use crate::serve::inference::{self, TextChunk};

use super::answer::{End, Envelope, Form, Mould, frame, json, lossy};

const CHUNK: &str = "chat.completion.chunk";

/// Answers of `/v1/chat/completions`.
pub struct ChatForm {
    envelope: Envelope,
    /// A chunk of text, without log probabilities.
    mould: Mould,
}

impl ChatForm {
    /// The form of one answer.
    pub fn new(envelope: Envelope) -> Self {
        let mould = Mould::of(&envelope.event(CHUNK, vec![choice(text(Mould::GAP))]));
        Self { envelope, mould }
    }

    fn chunk<'a>(&'a self, choices: Vec<ChunkChoice<'a>>) -> ChatChunk<'a> {
        self.envelope.event(CHUNK, choices)
    }

    fn logprobs(&self, chunk: &TextChunk) -> Option<ChatLogprobs> {
        let convert = |entry: &inference::TokenLogprob| TokenLogprob {
            token: lossy(&entry.token.bytes),
            logprob: entry.token.logprob,
            bytes: entry.token.bytes.clone(),
            top_logprobs: entry.top.iter().map(top_logprob).collect(),
        };
        let content = || chunk.logprobs.iter().map(convert).collect();
        self.envelope.logprobs.then(|| ChatLogprobs { content: content() })
    }
}

fn top_logprob(candidate: &inference::Candidate) -> TopLogprob {
    TopLogprob {
        token: lossy(&candidate.bytes),
        logprob: candidate.logprob,
        bytes: candidate.bytes.clone(),
    }
}

impl Form for ChatForm {
    fn opening(&self) -> Option<Bytes> {
        let delta = Delta { role: Some("assistant"), content: Some("") };
        Some(frame(&self.chunk(vec![choice(delta)])))
    }

    fn piece(&mut self, chunk: &TextChunk) -> Bytes {
        let Some(logprobs) = self.logprobs(chunk) else { return self.mould.fill(&chunk.text) };
        let choice = ChunkChoice { logprobs: Some(logprobs), ..choice(text(&chunk.text)) };
        frame(&self.chunk(vec![choice]))
    }

    fn finish(&mut self, end: &End) -> Bytes {
        let finish_reason = Some(end.finish_reason);
        let choice = ChunkChoice { finish_reason, ..choice(Delta::default()) };
        let mut chunk = self.chunk(vec![choice]);
        if self.envelope.stream_usage == StreamUsage::OnFinish {
            chunk.usage = Some(end.usage.clone());
        }
        chunk.timings = Some(end.timings.clone());
        chunk.perf_metrics = self.envelope.perf_metrics.then(|| end.perf_metrics.clone());
        frame(&chunk)
    }

    fn usage(&self, usage: Usage) -> Bytes {
        frame(&ChatChunk { usage: Some(usage), ..self.chunk(Vec::new()) })
    }

    fn whole(&mut self, all: TextChunk, end: &End) -> String {
        let logprobs = self.logprobs(&all);
        let message = AssistantMessage { role: "assistant", content: all.text, refusal: None };
        let finish_reason = end.finish_reason;
        json(&ChatCompletion {
            id: self.envelope.id.clone(),
            object: "chat.completion",
            created: self.envelope.created,
            model: self.envelope.model.clone(),
            choices: [ChatChoice { index: 0, message, logprobs, finish_reason }],
            usage: end.usage.clone(),
            timings: end.timings.clone(),
            perf_metrics: self.envelope.perf_metrics.then(|| end.perf_metrics.clone()),
        })
    }
}

fn choice(delta: Delta<'_>) -> ChunkChoice<'_> {
    ChunkChoice { index: 0, delta, logprobs: None, finish_reason: None }
}

fn text(content: &str) -> Delta<'_> {
    Delta { role: None, content: Some(content) }
}
