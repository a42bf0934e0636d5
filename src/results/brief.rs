//! What the analyses ask of a request, in a fifth of the memory that its record takes.
//!
//! A night's run holds millions of records. `report`, `predict`, `compare` and the like need all of
//! them at once, since they sort and pair them, but of each only times and counts.

use std::time::Duration;

use super::record::{Level, RequestRecord, ResultsFile};
use crate::measure::metrics::{TtftBudget, TtftParts};

/// A level that holds brief records.
pub type BriefLevel = Level<Brief>;
/// A results file that holds brief records.
pub type BriefFile = ResultsFile<Brief>;

/// A request in brief: times in seconds, NaN for none, and counts, `u32::MAX` for none.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    start_s: f64,
    lateness_s: f64,
    ttft: f64,
    last_token: f64,
    e2e: f64,
    decode_tps: f64,
    max_gap: f64,
    connect_s: f64,
    tls_s: f64,
    rtt_s: f64,
    queue_s: f64,
    prefill_s: f64,
    n_out: u32,
    n_prompt: u32,
    n_cached: u32,
    request_bytes: u32,
    index: u32,
    prompt_index: u32,
    gaps_us: Option<Box<[u32]>>,
    ok: bool,
    phase: Phase,
}

/// As much of a record's phase as the analyses ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warmup,
    Steady,
    Other,
}

/// Whether the time between each two texts is kept where a file has it: 4 bytes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// It is.
    Keep,
    /// It is not: only the largest of each request.
    Drop,
}

fn second(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn seconds(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

/// Counts of one request over four billion are none.
fn count(value: Option<u64>) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX)
}

fn counted(value: u32) -> Option<u64> {
    (value != u32::MAX).then_some(u64::from(value))
}

impl Brief {
    /// What is kept of a record.
    pub fn of(record: &RequestRecord, gaps: Gaps) -> Self {
        let server = |time: fn(&super::record::ServerTimesRecord) -> Option<f64>| {
            second(record.server.as_ref().and_then(time))
        };
        Self {
            start_s: record.start_s,
            lateness_s: second(record.lateness_s),
            ttft: second(record.ttft),
            last_token: second(record.last_token),
            e2e: second(record.e2e),
            decode_tps: second(record.decode_tps),
            max_gap: second(record.max_gap),
            connect_s: second(record.connect_s),
            tls_s: second(record.tls_s),
            rtt_s: second(record.rtt_s),
            queue_s: server(|server| server.queue_s),
            prefill_s: server(|server| server.prefill_s),
            n_out: count(record.n_out),
            n_prompt: count(record.n_prompt),
            n_cached: count(record.n_cached),
            request_bytes: count(Some(record.request_bytes)),
            index: record.index,
            prompt_index: record.prompt_index,
            ok: record.ok,
            phase: match record.phase.as_str() {
                "warmup" => Phase::Warmup,
                "steady" => Phase::Steady,
                _ => Phase::Other,
            },
            gaps_us: record.gaps_us.as_deref().filter(|_| gaps == Gaps::Keep).map(Box::from),
        }
    }

    /// Position in send order within the level.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Position of the prompt in its file.
    pub fn prompt_index(&self) -> u32 {
        self.prompt_index
    }

    /// When it was sent, since the level's start.
    pub fn start_s(&self) -> f64 {
        self.start_s
    }

    /// Whether the stream ended as it should.
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    /// Whether it is one of those that figures are made of: ok, and no warm-up.
    pub fn is_measured_ok(&self) -> bool {
        self.ok && self.phase != Phase::Warmup
    }

    /// Whether it ran between the level's ramp and its tail.
    pub fn is_steady(&self) -> bool {
        self.phase == Phase::Steady
    }

    /// First generated text of any kind.
    pub fn ttft(&self) -> Option<f64> {
        seconds(self.ttft)
    }

    /// Last generated text.
    pub fn last_token(&self) -> Option<f64> {
        seconds(self.last_token)
    }

    /// End of the stream, or the moment of the failure.
    pub fn e2e(&self) -> Option<f64> {
        seconds(self.e2e)
    }

    /// Tokens per second while text flowed.
    pub fn decode_tps(&self) -> Option<f64> {
        seconds(self.decode_tps)
    }

    /// Largest time between two events with text.
    pub fn max_gap(&self) -> Option<f64> {
        seconds(self.max_gap)
    }

    /// The time between each two events with text, microseconds, where it was saved and kept.
    pub fn gaps_us(&self) -> Option<&[u32]> {
        self.gaps_us.as_deref()
    }

    /// Connecting and the TLS handshake, of a fresh connection; else 0.
    pub fn handshakes_s(&self) -> f64 {
        seconds(self.connect_s).unwrap_or(0.0) + seconds(self.tls_s).unwrap_or(0.0)
    }

    /// The kernel's smallest round trip on the connection.
    pub fn rtt_s(&self) -> Option<f64> {
        seconds(self.rtt_s)
    }

    /// Waiting for a slot, by the server's account.
    pub fn queue_s(&self) -> Option<f64> {
        seconds(self.queue_s)
    }

    /// Computing the prompt, by the server's account.
    pub fn prefill_s(&self) -> Option<f64> {
        seconds(self.prefill_s)
    }

    /// Output tokens.
    pub fn n_out(&self) -> Option<u64> {
        counted(self.n_out)
    }

    /// Prompt tokens by the server's count.
    pub fn n_prompt(&self) -> Option<u64> {
        counted(self.n_prompt)
    }

    /// Of them, cached.
    pub fn n_cached(&self) -> Option<u64> {
        counted(self.n_cached)
    }

    /// Prompt tokens that had to be computed.
    pub fn n_fresh(&self) -> Option<u64> {
        Some(self.n_prompt()?.saturating_sub(self.n_cached().unwrap_or(0)))
    }

    /// Bytes of the request.
    pub fn request_bytes(&self) -> u64 {
        u64::from(self.request_bytes)
    }

    /// Where TTFT went; `None` without text, without an account by the server, or with a time that
    /// is none.
    pub fn ttft_budget(&self) -> Option<TtftBudget> {
        let time = |value: f64| -> Option<Option<Duration>> {
            // No value is none; one that is no time spoils the budget.
            seconds(value)
                .map(|value| Duration::try_from_secs_f64(value).ok())
                .map_or(Some(None), |t| t.map(Some))
        };
        let parts = TtftParts {
            // It counts from the time intended, the budget from the send.
            ttft: time(self.ttft)??.saturating_sub(time(self.lateness_s)?.unwrap_or_default()),
            connect: time(self.connect_s)?.unwrap_or_default(),
            tls: time(self.tls_s)?.unwrap_or_default(),
            rtt: time(self.rtt_s)?.unwrap_or_default(),
            request_bytes: self.request_bytes(),
            queue: time(self.queue_s)?,
            prefill: time(self.prefill_s)?,
        };
        parts.budget()
    }
}

impl Default for Brief {
    fn default() -> Self {
        Self::of(&RequestRecord::default(), Gaps::Drop)
    }
}

impl ResultsFile {
    /// The same in brief, gaps included.
    pub fn brief(&self) -> BriefFile {
        let brief = |record: &RequestRecord| Brief::of(record, Gaps::Keep);
        self.with_records(|_, records| records.iter().map(brief).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_record_says_what_the_record_says_and_is_small() {
        assert!(size_of::<Brief>() * 6 < 916, "{}", size_of::<Brief>());
        let record = RequestRecord {
            ok: true,
            phase: "steady".into(),
            ttft: Some(0.1),
            n_prompt: Some(10),
            n_cached: Some(4),
            gaps_us: Some(vec![1, 2]),
            ..RequestRecord::default()
        };
        let brief = Brief::of(&record, Gaps::Keep);
        assert!(brief.is_measured_ok() && brief.is_steady());
        assert_eq!((brief.ttft(), brief.e2e(), brief.n_fresh()), (Some(0.1), None, Some(6)));
        assert_eq!((brief.n_out(), brief.gaps_us()), (None, Some(&[1, 2][..])));
        assert_eq!(Brief::of(&record, Gaps::Drop).gaps_us(), None);
        let warmup = RequestRecord { phase: "warmup".into(), ..record };
        assert!(!Brief::of(&warmup, Gaps::Drop).is_measured_ok());
    }
}
