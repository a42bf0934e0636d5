//! The form of chat answers.

use crate::api::chat::{
    AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChatLogprobs, ChunkChoice, Delta,
    TokenLogprob, TopLogprob,
};
use crate::api::options::StreamUsage;
use crate::api::usage::Usage;
use crate::serve::inference::{self, TextChunk};

use super::answer::{End, Envelope, Form, json, lossy};

/// Answers of `/v1/chat/completions`.
pub struct ChatForm {
    /// What is the same in all chunks.
    pub envelope: Envelope,
}

impl ChatForm {
    fn chunk<'a>(&'a self, choices: Vec<ChunkChoice<'a>>) -> ChatChunk<'a> {
        self.envelope.event("chat.completion.chunk", choices)
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
    fn opening(&self) -> Option<String> {
        let delta = Delta { role: Some("assistant"), content: Some("") };
        Some(json(&self.chunk(vec![choice(delta)])))
    }

    fn piece(&mut self, chunk: &TextChunk) -> String {
        let delta = Delta { role: None, content: Some(&chunk.text) };
        let choice = ChunkChoice { logprobs: self.logprobs(chunk), ..choice(delta) };
        json(&self.chunk(vec![choice]))
    }

    fn finish(&mut self, end: &End) -> String {
        let finish_reason = Some(end.finish_reason);
        let choice = ChunkChoice { finish_reason, ..choice(Delta::default()) };
        let mut chunk = self.chunk(vec![choice]);
        if self.envelope.stream_usage == StreamUsage::OnFinish {
            chunk.usage = Some(end.usage.clone());
        }
        chunk.timings = Some(end.timings.clone());
        chunk.perf_metrics = self.envelope.perf_metrics.then(|| end.perf_metrics.clone());
        json(&chunk)
    }

    fn usage(&self, usage: Usage) -> String {
        json(&ChatChunk { usage: Some(usage), ..self.chunk(Vec::new()) })
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
