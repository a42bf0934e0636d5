//! The figures of one request (D9), each with its definition.

use super::trace::{RequestTrace, TokenSource};
use std::time::Duration;

/// What is said of each request, and in percentiles of each level.
///
/// Times are seconds; [`Metric::DecodeTps`] is tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// First generated text of any kind − sent.
    Ttft,
    /// First generated text that is no reasoning − sent.
    TtftAnswer,
    /// End of the stream − sent.
    E2e,
    /// Last generated text − sent.
    LastToken,
    /// Tokens per second while text flowed.
    DecodeTps,
    /// Seconds per token while text flowed.
    Tpot,
    /// Time between successive events with text, of all requests together.
    Gap,
    /// The largest gap of each request.
    MaxGap,
    /// Waiting for a slot, by the server's account.
    Queue,
    /// Computing the prompt, by the server's account.
    Prefill,
}

impl Metric {
    /// Every metric, in the order of the results file.
    pub const ALL: [Self; 10] = [
        Self::Ttft,
        Self::TtftAnswer,
        Self::E2e,
        Self::LastToken,
        Self::DecodeTps,
        Self::Tpot,
        Self::Gap,
        Self::MaxGap,
        Self::Queue,
        Self::Prefill,
    ];

    /// Its name in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::TtftAnswer => "ttft_answer",
            Self::E2e => "e2e",
            Self::LastToken => "last_token",
            Self::DecodeTps => "decode_tps",
            Self::Tpot => "tpot",
            Self::Gap => "gap",
            Self::MaxGap => "max_gap",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
        }
    }

    /// Whether it contains the wait behind other requests, and so correlates over the closed loop
    /// of a server that does one at a time.
    pub fn contains_the_queue(self) -> bool {
        matches!(self, Self::Ttft | Self::TtftAnswer | Self::E2e | Self::LastToken | Self::Queue)
    }

    /// Its value for one request; `None` where it has none. [`Metric::Gap`] has many values for a
    /// request, so it is never one.
    pub fn of(self, trace: &RequestTrace) -> Option<f64> {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        match self {
            Self::Ttft => seconds(ttft(trace)),
            Self::TtftAnswer => seconds(ttft_answer(trace)),
            Self::E2e => seconds(Some(e2e(trace))),
            Self::LastToken => seconds(last_token(trace)),
            Self::DecodeTps => decode_tps(trace),
            Self::Tpot => tpot(trace),
            Self::Gap => None,
            Self::MaxGap => seconds(max_gap(trace)),
            Self::Queue => seconds(trace.server.as_ref().and_then(|server| server.queue)),
            Self::Prefill => seconds(trace.server.as_ref().and_then(|server| server.prefill)),
        }
    }
}

/// In an open loop latencies count from the intended time, so that a stalled client hides nothing.
fn since_intended(trace: &RequestTrace, stamp: Duration) -> Duration {
    stamp + trace.lateness.unwrap_or_default()
}

/// Time to first token: first event with generated text of any kind − (intended) send.
pub fn ttft(trace: &RequestTrace) -> Option<Duration> {
    trace.stamps.first_text.map(|stamp| since_intended(trace, stamp))
}

/// The same for the first text that is no reasoning.
pub fn ttft_answer(trace: &RequestTrace) -> Option<Duration> {
    trace.stamps.first_answer.map(|stamp| since_intended(trace, stamp))
}

/// End of the stream, or the moment of the failure, − (intended) send.
pub fn e2e(trace: &RequestTrace) -> Duration {
    since_intended(trace, trace.stamps.end)
}

/// Last event with generated text − (intended) send.
pub fn last_token(trace: &RequestTrace) -> Option<Duration> {
    trace.stamps.last_text.map(|stamp| since_intended(trace, stamp))
}

/// Tokens in the first event with text: k₁, 1 where the server does not say.
pub fn tokens_in_first_event(trace: &RequestTrace) -> u64 {
    trace.tokens.n_first.unwrap_or(1).max(1)
}

/// Tokens per second while text flowed: (N − k₁)/(t_last − t_first) (D9).
///
/// `None`, never infinite or zero, where N ≤ k₁ or the window has no length.
pub fn decode_tps(trace: &RequestTrace) -> Option<f64> {
    let (tokens, window) = decode_window(trace)?;
    Some(tokens as f64 / window.as_secs_f64())
}

/// Seconds per token while text flowed: the inverse of [`decode_tps`].
pub fn tpot(trace: &RequestTrace) -> Option<f64> {
    let (tokens, window) = decode_window(trace)?;
    Some(window.as_secs_f64() / tokens as f64)
}

/// Tokens after the first event with text, and the time that they took.
fn decode_window(trace: &RequestTrace) -> Option<(u64, Duration)> {
    let (first, last) = (trace.stamps.first_text?, trace.stamps.last_text?);
    let tokens = trace.tokens.n_out?.checked_sub(tokens_in_first_event(trace))?;
    let window = last.checked_sub(first)?;
    (tokens > 0 && !window.is_zero()).then_some((tokens, window))
}

/// The largest time between two successive events with text.
pub fn max_gap(trace: &RequestTrace) -> Option<Duration> {
    trace.gaps_us.iter().max().map(|gap| Duration::from_micros(u64::from(*gap)))
}

/// The end-to-end latency that TTFT, a token count and a pace add up to: TTFT + (N − 1)·ITL.
pub fn e2e_from_pace(ttft: Duration, n_out: u64, tpot: Duration) -> Duration {
    ttft + tpot.mul_f64(n_out.saturating_sub(1) as f64)
}

/// Output tokens, where there is a count that the server itself gave.
pub fn usage_tokens(trace: &RequestTrace) -> Option<u64> {
    trace.tokens.n_out.filter(|_| trace.tokens.source == TokenSource::Usage)
}

/// Where one request's TTFT went. The parts add up to TTFT exactly: what nobody accounts for is
/// shown, and is negative where a field was misread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtftBudget {
    /// Name resolution and TCP connect, of a fresh connection.
    pub connect: Duration,
    /// TLS handshake, of a fresh connection.
    pub tls: Duration,
    /// Round trips × the connection's smallest round trip.
    pub network: Duration,
    /// Waiting for a slot, by the server's account.
    pub queue: Duration,
    /// Computing the prompt, by the server's account.
    pub prefill: Duration,
    /// The remainder, in nanoseconds; negative where the parts exceed the whole.
    pub unaccounted_ns: i64,
}

/// Bytes of a request that the kernel sends before it waits for an acknowledgement: an initial
/// congestion window of ten segments of 1,460 bytes (RFC 6928).
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;

/// Round trips until the whole request has arrived and the first answer is back: the congestion
/// window doubles with each, so ⌈log₂(bytes/14,600 + 1)⌉, at least 1.
pub fn network_rounds(request_bytes: u64) -> u32 {
    let rounds = (request_bytes as f64 / INITIAL_WINDOW_BYTES + 1.0).log2().ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 ..= 51")]
    let rounds = rounds.max(1.0) as u32;
    rounds
}

/// What a request's budget is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TtftParts {
    /// First text since the request was sent.
    pub ttft: Duration,
    /// Name resolution and TCP connect, of a fresh connection.
    pub connect: Duration,
    /// TLS handshake, of a fresh connection.
    pub tls: Duration,
    /// The connection's smallest round trip.
    pub rtt: Duration,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Waiting for a slot, where the server says it.
    pub queue: Option<Duration>,
    /// Computing the prompt, where the server says it.
    pub prefill: Option<Duration>,
}

impl TtftParts {
    /// Where TTFT went; `None` without any account by the server.
    pub fn budget(&self) -> Option<TtftBudget> {
        if self.queue.is_none() && self.prefill.is_none() {
            return None;
        }
        let Self { ttft, connect, tls, .. } = *self;
        let network = self.rtt * network_rounds(self.request_bytes);
        let queue = self.queue.unwrap_or_default();
        let prefill = self.prefill.unwrap_or_default();
        let parts = connect + tls + network + queue + prefill;
        let unaccounted_ns = signed_ns(ttft).saturating_sub(signed_ns(parts));
        Some(TtftBudget { connect, tls, network, queue, prefill, unaccounted_ns })
    }
}

/// Where TTFT went; `None` without text, or without any account by the server.
pub fn ttft_budget(trace: &RequestTrace) -> Option<TtftBudget> {
    let server = trace.server.as_ref()?;
    let connect = trace.stamps.connected.unwrap_or_default();
    let parts = TtftParts {
        ttft: trace.stamps.first_text?,
        connect,
        tls: trace.stamps.tls.map_or(Duration::ZERO, |stamp| stamp.saturating_sub(connect)),
        rtt: trace.connection.rtt_min.unwrap_or_default(),
        request_bytes: trace.connection.request_bytes,
        queue: server.queue,
        prefill: server.prefill,
    };
    parts.budget()
}

fn signed_ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::assert_close;
    use super::super::trace::ServerTimes;
    use super::super::trace::tests::answered;
    use super::*;

    #[test]
    fn the_first_tokens_are_prefills() {
        let mut trace = answered(256, 0.0, 0.125, 15.325);
        assert_close(decode_tps(&trace).unwrap(), 16.776315789473685);
        assert_close(tpot(&trace).unwrap(), 1.0 / 16.776315789473685);
        let pace = Duration::from_secs_f64(15.2 / 255.0);
        let e2e = e2e_from_pace(Duration::from_millis(125), 256, pace).as_secs_f64();
        assert!((e2e - 15.325).abs() < 1e-6, "{e2e}");
        trace.tokens.n_first = Some(3);
        assert_close(decode_tps(&trace).unwrap(), 16.644736842105264);
    }

    #[test]
    fn no_window_no_speed() {
        assert_eq!(decode_tps(&answered(1, 0.0, 0.1, 0.2)), None);
        assert_eq!(decode_tps(&answered(0, 0.0, 0.1, 0.2)), None);
        assert_eq!(decode_tps(&answered(9, 0.0, 0.1, 0.1)), None);
        let mut unknown = answered(9, 0.0, 0.1, 0.2);
        unknown.tokens.n_out = None;
        assert_eq!(decode_tps(&unknown), None);
    }

    #[test]
    fn an_open_loop_counts_from_the_intended_time() {
        let mut trace = answered(2, 0.0, 0.5, 1.0);
        trace.lateness = Some(Duration::from_millis(250));
        assert_eq!(Metric::Ttft.of(&trace), Some(0.75));
        assert_eq!(Metric::E2e.of(&trace), Some(1.25));
        assert_eq!(Metric::DecodeTps.of(&trace), Some(2.0));
    }

    #[test]
    fn rounds_double_the_window() {
        let bytes_and_rounds = [(0, 1), (9_000, 1), (14_600, 1), (18_000, 2), (140_000, 4)];
        for (bytes, rounds) in bytes_and_rounds {
            assert_eq!(network_rounds(bytes), rounds, "{bytes} bytes");
        }
    }

    #[test]
    fn a_budget_adds_up_and_shows_what_is_left() {
        let mut trace = answered(2, 0.0, 0.5, 1.0);
        assert_eq!(ttft_budget(&trace), None);
        let ms = Duration::from_millis;
        trace.stamps.connected = Some(ms(20));
        trace.stamps.tls = Some(ms(50));
        trace.connection.rtt_min = Some(ms(10));
        trace.server = Some(ServerTimes {
            queue: Some(ms(100)),
            prefill: Some(ms(350)),
            decode: None,
            source: "timings".into(),
        });
        let budget = ttft_budget(&trace).unwrap();
        assert_eq!((budget.connect, budget.tls, budget.network), (ms(20), ms(30), ms(10)));
        assert_eq!(budget.unaccounted_ns, -10_000_000);
    }
}
