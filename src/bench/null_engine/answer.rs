//! The null engine's answers: a stream on schedule, or a piece of JSON.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::NullSpec;
use super::request::Request;
use crate::api::sse::DONE;

/// Tokens of an answer to a request that does not say.
const TOKENS_DEFAULT: u32 = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    stream: bool,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    messages: Vec<Message>,
    prompt: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    content: serde_json::Value,
}

impl Asked {
    /// Its words: each is a token here.
    fn prompt_tokens(&self) -> u32 {
        let contents = self.messages.iter().filter_map(|message| message.content.as_str());
        let words = contents.chain([self.prompt.as_str()]).flat_map(str::split_ascii_whitespace);
        u32::try_from(words.count()).unwrap_or(u32::MAX).max(1)
    }
}

/// An answer that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    begun: Instant,
    /// Request read → first text.
    ttft: Duration,
    prompt_tokens: u32,
    tokens: u32,
}

/// `CLOCK_MONOTONIC` in nanoseconds: the same clock for every process of a host.
pub(in crate::bench) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(std::time::Duration::ZERO, Into::into);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Answers a completion request, streamed or not.
pub(super) async fn completion(
    stream: &mut TcpStream,
    spec: &NullSpec,
    request: &Request,
) -> io::Result<()> {
    let begun = Instant::now();
    let Ok(asked) = serde_json::from_slice::<Asked>(&request.body) else {
        return json(stream, 400, r#"{"error":{"message":"the body is no JSON"}}"#).await;
    };
    let asked_tokens = asked.max_tokens.or(asked.max_completion_tokens).unwrap_or(TOKENS_DEFAULT);
    let tokens = spec.tokens.unwrap_or(asked_tokens).max(1);
    let prompt_tokens = asked.prompt_tokens();
    let prefill = spec.prefill_tps.map_or(0.0, |tps| f64::from(prompt_tokens) / tps);
    let prefill = Duration::try_from_secs_f64(prefill).unwrap_or(Duration::MAX);
    let due = Due { begun, ttft: spec.ttft.saturating_add(prefill), prompt_tokens, tokens };
    if asked.stream {
        return stream_events(stream, spec, due).await;
    }
    let gaps = tokens.div_ceil(spec.bundle.max(1)) - 1;
    tokio::time::sleep_until((begun + due.ttft + spec.gap * gaps).into()).await;
    let message = json!({"role": "assistant", "content": format!("{};", monotonic_ns())});
    let choice = json!({"index": 0, "message": message, "finish_reason": "length"});
    let whole = json!({"object": "chat.completion", "model": spec.model, "choices": [choice],
        "usage": usage(due)});
    json(stream, 200, &whole.to_string()).await
}

async fn stream_events(stream: &mut TcpStream, spec: &NullSpec, due: Due) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut frames = Frames { model: json!(spec.model).to_string(), bytes: Vec::new() };
    if spec.extras.role_event {
        frames.choice(r#"{"role":"assistant","content":""}"#, "null");
        frames.send(stream).await?;
    }
    let n_events = due.tokens.div_ceil(spec.bundle.max(1));
    for event in 0..n_events {
        tokio::time::sleep_until((due.begun + due.ttft + spec.gap * event).into()).await;
        if spec.extras.comments {
            frames.chunk(format_args!(": not yet\n\n"));
        }
        // Nothing but the formatting lies between the stamp and the write.
        frames.choice(format_args!("{{\"content\":\"{};\"}}", monotonic_ns()), "null");
        frames.send(stream).await?;
    }
    frames.choice("{}", "\"length\"");
    if spec.extras.usage {
        let chunk = json!({"choices": [], "model": spec.model, "usage": usage(due)});
        frames.chunk(format_args!("data: {chunk}\n\n"));
    }
    frames.chunk(format_args!("data: {DONE}\n\n"));
    frames.bytes.extend_from_slice(b"0\r\n\r\n");
    frames.send(stream).await
}

fn usage(due: Due) -> serde_json::Value {
    let (prompt, tokens) = (due.prompt_tokens, due.tokens);
    let total = prompt.saturating_add(tokens);
    json!({"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": total})
}

/// Frames on their way out: one chunk for each.
struct Frames {
    /// As JSON.
    model: String,
    bytes: Vec<u8>,
}

impl Frames {
    fn choice(&mut self, delta: impl std::fmt::Display, finish_reason: &str) {
        let model = std::mem::take(&mut self.model);
        self.chunk(format_args!(
            "data: {{\"object\":\"chat.completion.chunk\",\"model\":{model},\"choices\":[\
             {{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish_reason}}}]}}\n\n"
        ));
        self.model = model;
    }

    fn chunk(&mut self, frame: std::fmt::Arguments<'_>) {
        let frame = frame.to_string();
        write!(self.bytes, "{:x}\r\n{frame}\r\n", frame.len()).expect("a Vec takes every write");
    }

    async fn send(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.bytes).await?;
        self.bytes.clear();
        Ok(())
    }
}

/// Answers with JSON.
pub(in crate::bench) async fn json(
    stream: &mut TcpStream,
    status: u16,
    body: &str,
) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await
}
