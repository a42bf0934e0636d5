//! What was seen of one request: the record from which every figure is computed.
//!
//! All stamps are durations since the request was sent (`t_send`, taken before any connect that the
//! request needs), in nanoseconds of a monotonic clock. A failed request keeps what was seen before
//! it failed. Serialisable twins of these types live in `results::record`.

use std::time::Duration;

/// One request, as it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTrace {
    /// Position in send order within its level, warm-up included.
    pub index: u32,
    /// Position of its prompt in the prompts file, before any salt.
    pub prompt_index: u32,
    /// Whether the prompt was a fresh one.
    pub prompt: PromptUse,
    /// Which worker (closed loop) or arrival slot (open loop) sent it.
    pub worker: u32,
    /// When it was sent, since the level's start (the warm-up's first send).
    pub start: Duration,
    /// Open loop only: how much later than intended it was sent. Latencies count from the
    /// intended time.
    pub lateness: Option<Duration>,
    /// Which part of the level it belongs to; see [`Phase`].
    pub phase: Phase,
    /// How it ended.
    pub outcome: Outcome,
    /// When what happened.
    pub stamps: Stamps,
    /// Tokens and events.
    pub tokens: Tokens,
    /// Time between successive events with text, in microseconds, in order.
    pub gaps_us: Vec<u32>,
    /// The server's own account of where the time went.
    pub server: Option<ServerTimes>,
    /// What the connection was like.
    pub connection: Connection,
    /// The finish reason that the server gave.
    pub finish_reason: Option<String>,
    /// The HTTP status, once a response head was seen.
    pub http_status: Option<u16>,
    /// What `Retry-After` asked for, on any answer that carried it.
    pub retry_after: Option<Duration>,
    /// How long its worker paused after it, where a refusal made it.
    pub pause: Option<Duration>,
    /// SHA-256 (hex) of all generated text, reasoning first; `None` if there was none.
    pub text_sha256: Option<String>,
    /// The generated text, where it was to be kept.
    pub text: Option<String>,
    /// The model id that the answer carried.
    pub model: Option<String>,
    /// Observations that are no failure: "no `[DONE]` after the finish reason", say.
    pub notes: Vec<String>,
}

/// Whether a prompt was a fresh one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptUse {
    /// A salt line stood in front of it, since the file was used up.
    pub is_salted: bool,
    /// The server had been sent the very same text before.
    pub is_repeated: bool,
}

/// Which part of a level a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Sent to warm the server and the connections up; no figure uses it.
    Warmup,
    /// Among the first c completions.
    Ramp,
    /// Everything else that was measured.
    Steady,
    /// Ended after the load had begun to fall off (t₁ of the steady window).
    Tail,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The stream ended as it should: text, a finish reason, a complete body, no error.
    Ok,
    /// It did not; the message is for people.
    Failed(FailureClass, String),
}

impl Outcome {
    /// Whether the stream ended as it should.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }

    /// The failure's class, if it is one.
    pub fn failure(&self) -> Option<FailureClass> {
        match self {
            Self::Ok => None,
            Self::Failed(class, _) => Some(*class),
        }
    }
}

/// Why a request is no success. What came first in time wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureClass {
    /// DNS, refused, or the connect timeout.
    Connect,
    /// The TLS handshake.
    Tls,
    /// An HTTP status other than 200.
    Http(u16),
    /// Not HTTP, bad framing, a line or header over the limit, a 200 that is neither an event
    /// stream nor an error.
    Protocol,
    /// A 200 whose body is no event stream and carries an error object.
    BodyError,
    /// An error inside the stream, in any of its forms.
    ErrorEvent,
    /// Ended properly, without any text.
    Empty,
    /// A complete body with text and no finish reason.
    Truncated,
    /// The connection ended before the framing did.
    IncompleteBody,
    /// The peer reset the connection.
    ConnectionReset,
    /// No text within `first_token_timeout`.
    FirstTokenTimeout,
    /// No further text within `stall_timeout`.
    StallTimeout,
    /// Not finished within `request_timeout`.
    RequestTimeout,
    /// Stopped by the harness: no error of the server's.
    Cancelled,
}

impl FailureClass {
    /// What more requests do not change: nobody listens, a wrong key, no such page or model.
    pub const FOR_GOOD: [Self; 4] =
        [Self::Connect, Self::Http(401), Self::Http(403), Self::Http(404)];
}

impl std::fmt::Display for FailureClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Http(status) => return write!(f, "http_{status}"),
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::BodyError => "body_error",
            Self::ErrorEvent => "error_event",
            Self::Empty => "empty",
            Self::Truncated => "truncated",
            Self::IncompleteBody => "incomplete_body",
            Self::ConnectionReset => "connection_reset",
            Self::FirstTokenTimeout => "first_token_timeout",
            Self::StallTimeout => "stall_timeout",
            Self::RequestTimeout => "request_timeout",
            Self::Cancelled => "cancelled",
        };
        f.write_str(name)
    }
}

impl std::str::FromStr for FailureClass {
    type Err = UnknownFailureClass;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if let Some(status) = name.strip_prefix("http_") {
            return status.parse().map(Self::Http).map_err(|_| UnknownFailureClass(name.into()));
        }
        let named = [
            Self::Connect,
            Self::Tls,
            Self::Protocol,
            Self::BodyError,
            Self::ErrorEvent,
            Self::Empty,
            Self::Truncated,
            Self::IncompleteBody,
            Self::ConnectionReset,
            Self::FirstTokenTimeout,
            Self::StallTimeout,
            Self::RequestTimeout,
            Self::Cancelled,
        ];
        named
            .into_iter()
            .find(|class| class.to_string() == name)
            .ok_or_else(|| UnknownFailureClass(name.into()))
    }
}

/// A class name that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the failure class {0:?}")]
pub struct UnknownFailureClass(pub String);

/// When what happened, since the request was sent. What did not happen is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// The name was resolved (fresh connections).
    pub dns: Option<Duration>,
    /// TCP was connected (fresh connections); includes `dns`.
    pub connected: Option<Duration>,
    /// TLS was established (fresh connections); includes `connected`.
    pub tls: Option<Duration>,
    /// The request's last byte was given to the kernel.
    pub written: Option<Duration>,
    /// The response's head was parsed. Not comparable between servers: some send it before the
    /// queue, some with the first token.
    pub head: Option<Duration>,
    /// First event with generated text of any kind: TTFT.
    pub first_text: Option<Duration>,
    /// First event with text that is no reasoning.
    pub first_answer: Option<Duration>,
    /// Last event with generated text.
    pub last_text: Option<Duration>,
    /// End of the stream, or the moment of the failure: end-to-end latency.
    pub end: Duration,
    /// Who took the stamps.
    pub source: StampSource,
}

/// Which clock stamped the arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StampSource {
    /// A monotonic clock, at the return of the read.
    #[default]
    User,
    /// The kernel's receive stamps, tied to the monotonic clock.
    Kernel,
}

/// Tokens and events of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Output tokens: the server's usage, or the number of events with text where it gave none.
    pub n_out: Option<u64>,
    /// Where `n_out` is from.
    pub source: TokenSource,
    /// Prompt tokens by the server's usage.
    pub n_prompt: Option<u64>,
    /// Cached prompt tokens by the server's usage or timings.
    pub n_cached: Option<u64>,
    /// Tokens in the first event with text, where the server says so (k₁); else `None`, read as 1.
    pub n_first: Option<u64>,
    /// Events with text.
    pub n_chunks: u64,
    /// Reads of the socket that held more than one event with text.
    pub coalesced_reads: u64,
    /// Events that were not JSON and not `[DONE]`.
    pub parse_errors: u64,
}

/// Where an output token count is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenSource {
    /// The server's `usage`.
    Usage,
    /// The number of events with text: every figure built on it is marked.
    Estimated,
    /// Nothing was seen to count.
    #[default]
    Unknown,
}

/// Where the time went, by the server's own account.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTimes {
    /// Waiting for a slot.
    pub queue: Option<Duration>,
    /// Computing the prompt.
    pub prefill: Option<Duration>,
    /// Generating.
    pub decode: Option<Duration>,
    /// The field that said so: `timings`, `perf_metrics`, `headers`, `metrics`.
    pub source: String,
}

/// What the connection of one request was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// It was open before the request: kept from the last one, or opened ahead of the first. Else
    /// connect and TLS are inside TTFT.
    pub reused: bool,
    /// The kept one had died: the server closed it, before the request or at once after it, without
    /// one byte of an answer. It was replaced by a fresh one, once, and the request sent on that; what was lost is inside TTFT.
    pub stale: bool,
    /// The kernel's smallest round trip on it.
    pub rtt_min: Option<Duration>,
    /// Bytes of the request's head and body.
    pub request_bytes: u64,
}

impl RequestTrace {
    /// Time to first token, of requests that had any text.
    pub fn ttft(&self) -> Option<Duration> {
        self.stamps.first_text
    }

    /// Whether it counts towards the level's figures.
    pub fn is_measured(&self) -> bool {
        self.phase != Phase::Warmup
    }

    /// When it ended, since the level's start.
    pub fn end(&self) -> Duration {
        self.start + self.stamps.end
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An answered request of `n_out` tokens; times in seconds since the level's start.
    pub(crate) fn answered(n_out: u64, start: f64, first: f64, last: f64) -> RequestTrace {
        let since_start = |time: f64| Some(Duration::from_secs_f64(time) - seconds(start));
        fn seconds(time: f64) -> Duration {
            Duration::from_secs_f64(time)
        }
        RequestTrace {
            index: 0,
            prompt_index: 0,
            prompt: PromptUse::default(),
            worker: 0,
            start: seconds(start),
            lateness: None,
            phase: Phase::Steady,
            outcome: Outcome::Ok,
            stamps: Stamps {
                first_text: since_start(first),
                first_answer: since_start(first),
                last_text: since_start(last),
                end: seconds(last) - seconds(start),
                ..Stamps::default()
            },
            tokens: Tokens {
                n_out: Some(n_out),
                source: TokenSource::Usage,
                n_chunks: n_out,
                ..Tokens::default()
            },
            gaps_us: Vec::new(),
            server: None,
            connection: Connection::default(),
            finish_reason: Some("length".into()),
            http_status: Some(200),
            retry_after: None,
            pause: None,
            text_sha256: None,
            text: None,
            model: None,
            notes: Vec::new(),
        }
    }

    /// The same, ended by a failure at `end`.
    pub(crate) fn failed(class: FailureClass, start: f64, end: f64) -> RequestTrace {
        RequestTrace {
            outcome: Outcome::Failed(class, "as the test wants it".into()),
            stamps: Stamps {
                end: Duration::from_secs_f64(end) - Duration::from_secs_f64(start),
                ..Stamps::default()
            },
            tokens: Tokens::default(),
            finish_reason: None,
            ..answered(0, start, start, start)
        }
    }

    #[test]
    fn class_names_read_back() {
        for class in [FailureClass::Http(429), FailureClass::StallTimeout, FailureClass::Tls] {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("http_x".parse::<FailureClass>().is_err());
    }
}
