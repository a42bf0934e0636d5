//! The drills' servers: no model, but a device that one request at a time may use, a step a token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::bench::null_engine::answer;
use crate::bench::null_engine::request::{Request, read_request};

/// Time of one step of the device.
pub const STEP: Duration = Duration::from_millis(10);
/// Tokens in successive events of [`Kind::Words`]: words are often more than one token.
const WORD_TOKENS: [u32; 5] = [1, 2, 1, 3, 1];

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// One request at a time, an event a token; stops when its client leaves.
    Serial,
    /// Computes on its event loop: nothing else runs and nothing is sent until it is done.
    EventLoop,
    /// An event a word, which may be several tokens.
    Words,
    /// Never looks whether its client is still there.
    Deaf,
}

impl Kind {
    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::EventLoop => "event-loop",
            Self::Words => "words",
            Self::Deaf => "deaf",
        }
    }
}

/// What computes: one request holds it at a time.
#[derive(Debug, Default)]
struct Device {
    turn: Mutex<()>,
    /// Steps it ever did.
    steps: AtomicU64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    max_tokens: u32,
}

/// Answers every connection, until it is dropped. Runs on one thread, as such servers do.
pub async fn serve(listener: TcpListener, kind: Kind) {
    let device = Arc::new(Device::default());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(STEP).await;
            continue;
        };
        let device = Arc::clone(&device);
        // A connection that fails is its client's affair.
        tokio::spawn(async move { converse(stream, kind, &device).await });
    }
}

async fn converse(mut stream: TcpStream, kind: Kind, device: &Device) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut held = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut held).await? {
        match request.path.as_str() {
            "/health" => answer::json(&mut stream, 200, r#"{"status":"ok"}"#).await?,
            "/device" => {
                let steps = device.steps.load(Ordering::Relaxed);
                answer::json(&mut stream, 200, &steps.to_string()).await?;
            }
            _ => complete(&mut stream, kind, device, &request).await?,
        }
    }
    Ok(())
}

async fn complete(
    stream: &mut TcpStream,
    kind: Kind,
    device: &Device,
    request: &Request,
) -> std::io::Result<()> {
    let asked: Asked = serde_json::from_slice(&request.body).unwrap_or_default();
    let _turn = device.turn.lock().await;
    let mut pending = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    let mut sent: u32 = 0;
    for event in 0.. {
        if sent >= asked.max_tokens {
            break;
        }
        let word = if kind == Kind::Words { WORD_TOKENS[event % WORD_TOKENS.len()] } else { 1 };
        let tokens = word.min(asked.max_tokens - sent);
        for _ in 0..tokens {
            match kind {
                // The mistake on show: the thread sleeps, and with it all of the server.
                Kind::EventLoop => std::thread::sleep(STEP),
                _ => tokio::time::sleep(STEP).await,
            }
            device.steps.fetch_add(1, Ordering::Relaxed);
        }
        sent += tokens;
        push(&mut pending, &json!({"content": "word "}), None);
        if kind != Kind::EventLoop {
            let written = stream.write_all(&pending).await;
            pending.clear();
            if kind != Kind::Deaf {
                written?;
            }
        }
    }
    push(&mut pending, &json!({}), Some("length"));
    let usage = json!({"prompt_tokens": 5, "completion_tokens": sent, "total_tokens": sent + 5});
    chunk(&mut pending, &format!("data: {}\n\n", json!({"choices": [], "usage": usage})));
    chunk(&mut pending, "data: [DONE]\n\n");
    pending.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&pending).await
}

fn push(bytes: &mut Vec<u8>, delta: &serde_json::Value, finish_reason: Option<&str>) {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    let event = json!({"object": "chat.completion.chunk", "model": "drill", "choices": [choice]});
    chunk(bytes, &format!("data: {event}\n\n"));
}

fn chunk(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}
