//! A server with no model and a known schedule: what the harness measures of it is its own error.
//!
//! Every event carries the moment of its own write, in nanoseconds of `CLOCK_MONOTONIC`, as its
//! text: a client on the same host knows exactly how late it saw the event. It answers `/health`
//! and `/v1/models` too, so that it is an engine like any other for the matrix.

pub(super) mod answer;
pub(super) mod request;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

pub(super) use answer::monotonic_ns;
use request::{Request, read_request};

/// When which event is sent, and what surrounds the text.
#[derive(Debug, Clone, PartialEq)]
pub struct NullSpec {
    /// The model id that it answers to.
    pub model: String,
    /// Request read → first text.
    pub ttft: Duration,
    /// Prompt tokens per second, on top of `ttft`; `None` is a prompt of any length at once. Each
    /// word counts as a token.
    pub prefill_tps: Option<f64>,
    /// One text → the next.
    pub gap: Duration,
    /// Tokens of an answer; `None` is as many as the request asks for.
    pub tokens: Option<u32>,
    /// Tokens in each event.
    pub bundle: u32,
    /// What stands in the stream beside the text.
    pub extras: Extras,
}

/// What stands in the stream beside the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extras {
    /// An event with nothing but the role, at once.
    pub role_event: bool,
    /// A comment before each text.
    pub comments: bool,
    /// A chunk with the usage, after the finish reason.
    pub usage: bool,
}

impl Default for NullSpec {
    fn default() -> Self {
        Self {
            model: "null".to_owned(),
            ttft: Duration::from_millis(100),
            prefill_tps: None,
            gap: Duration::from_millis(20),
            tokens: None,
            bundle: 1,
            extras: Extras { role_event: true, comments: false, usage: true },
        }
    }
}

/// Answers every connection, until it is dropped.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(listener: TcpListener, spec: NullSpec) -> std::io::Result<()> {
    /// When the process is out of file descriptors: until some connection has ended.
    const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
    let spec = Arc::new(spec);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let spec = Arc::clone(&spec);
                // A connection that fails is its client's affair.
                tokio::spawn(async move { converse(stream, &spec).await });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Answers the requests of one connection, one after the other.
async fn converse(mut stream: TcpStream, spec: &NullSpec) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut held = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut held).await? {
        answer_to(&mut stream, spec, &request).await?;
    }
    Ok(())
}

async fn answer_to(
    stream: &mut TcpStream,
    spec: &NullSpec,
    request: &Request,
) -> std::io::Result<()> {
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", path) if path.ends_with("/completions") => {
            answer::completion(stream, spec, request).await
        }
        ("GET", "/health") => answer::json(stream, 200, r#"{"status":"ok"}"#).await,
        ("GET", "/v1/models") => {
            let model = serde_json::json!({"id": spec.model, "object": "model"});
            let list = serde_json::json!({"object": "list", "data": [model]});
            answer::json(stream, 200, &list.to_string()).await
        }
        _ => answer::json(stream, 404, r#"{"error":{"message":"no such path"}}"#).await,
    }
}
