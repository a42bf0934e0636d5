//! A request's trace and its record.

use crate::measure::metrics;
use crate::measure::trace::{
    Connection, FailureClass, Outcome, Phase, PromptUse, RequestTrace, ServerTimes, StampSource,
    Stamps, TokenSource, Tokens,
};
use crate::results::record::{RequestRecord, ServerTimesRecord};
use std::time::Duration;

/// What of a request is kept beyond its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// The time between successive events with text.
    pub gaps: bool,
    /// The generated text.
    pub text: bool,
}

impl Keep {
    /// Everything: a journal needs it to give the same figures again.
    pub const ALL: Self = Self { gaps: true, text: true };
}

/// A record that cannot be a request's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadRecord {
    /// A time that is negative, not finite, or beyond what a duration holds.
    #[error("read {key} = {value} as a time")]
    Time {
        /// The record's key.
        key: &'static str,
        /// What stood there, in seconds.
        value: f64,
    },
    /// A name that this version does not know.
    #[error("read {name:?} as a {key}")]
    Name {
        /// The record's key.
        key: &'static str,
        /// What stood there.
        name: String,
    },
    /// A key without which the request means nothing.
    #[error("find {0}")]
    Missing(&'static str),
}

/// The record of a trace. Derived figures (`decode_tps`, `tpot`, `max_gap`) are worked out here.
pub fn record_of_trace(trace: &RequestTrace, keep: Keep) -> RequestRecord {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let (stamps, tokens) = (&trace.stamps, &trace.tokens);
    let (error, error_class) = match &trace.outcome {
        Outcome::Ok => (None, None),
        Outcome::Failed(class, message) => (Some(message.clone()), Some(class.to_string())),
    };
    RequestRecord {
        index: trace.index,
        prompt_index: trace.prompt_index,
        prompt_salted: trace.prompt.is_salted,
        prompt_repeated: trace.prompt.is_repeated,
        worker: trace.worker,
        start_s: trace.start.as_secs_f64(),
        lateness_s: seconds(trace.lateness),
        phase: phase_name(trace.phase).to_owned(),
        ok: trace.outcome.is_ok(),
        ttft: seconds(metrics::ttft(trace)),
        ttft_answer: seconds(metrics::ttft_answer(trace)),
        last_token: seconds(metrics::last_token(trace)),
        e2e: Some(metrics::e2e(trace).as_secs_f64()),
        n_out: tokens.n_out,
        decode_tps: metrics::decode_tps(trace),
        tpot: metrics::tpot(trace),
        n_chunks: tokens.n_chunks,
        max_gap: seconds(metrics::max_gap(trace)),
        error,
        error_class,
        http_status: trace.http_status,
        retry_after_s: seconds(trace.retry_after),
        pause_s: seconds(trace.pause),
        n_prompt: tokens.n_prompt,
        n_cached: tokens.n_cached,
        n_first: tokens.n_first,
        token_source: token_source_name(tokens.source).to_owned(),
        finish_reason: trace.finish_reason.clone(),
        model: trace.model.clone(),
        dns_s: seconds(stamps.dns),
        connect_s: seconds(stamps.connected),
        tls_s: seconds(
            stamps.tls.map(|stamp| stamp.saturating_sub(stamps.connected.unwrap_or_default())),
        ),
        written_s: seconds(stamps.written),
        headers_s: seconds(stamps.head),
        reused_connection: trace.connection.reused,
        stale_connection: trace.connection.stale,
        rtt_s: seconds(trace.connection.rtt_min),
        request_bytes: trace.connection.request_bytes,
        server: trace.server.as_ref().map(|server| ServerTimesRecord {
            queue_s: seconds(server.queue),
            prefill_s: seconds(server.prefill),
            decode_s: seconds(server.decode),
            source: server.source.clone(),
        }),
        parse_errors: tokens.parse_errors,
        coalesced_reads: tokens.coalesced_reads,
        stamp_source: stamp_source_name(stamps.source).to_owned(),
        text_sha256: trace.text_sha256.clone(),
        notes: trace.notes.clone(),
        text: trace.text.clone().filter(|_| keep.text),
        gaps_us: keep.gaps.then(|| trace.gaps_us.clone()),
    }
}

/// The trace of a record.
///
/// # Errors
///
/// [`BadRecord`] where a time is none, a name is unknown, or an end or a failure's class is missing.
pub fn trace_of_record(record: &RequestRecord) -> Result<RequestTrace, BadRecord> {
    let lateness = maybe_time("lateness_s", record.lateness_s)?;
    // The record counts latencies from the intended time, the trace from the send.
    let since_send = |key, value: Option<f64>| {
        let time = maybe_time(key, value)?;
        Ok(time.map(|time| time.saturating_sub(lateness.unwrap_or_default())))
    };
    let connected = maybe_time("connect_s", record.connect_s)?;
    let tls = maybe_time("tls_s", record.tls_s)?;
    Ok(RequestTrace {
        index: record.index,
        prompt_index: record.prompt_index,
        prompt: PromptUse { is_salted: record.prompt_salted, is_repeated: record.prompt_repeated },
        worker: record.worker,
        start: time("start_s", record.start_s)?,
        lateness,
        phase: phase(&record.phase)?,
        outcome: outcome(record)?,
        stamps: Stamps {
            dns: maybe_time("dns_s", record.dns_s)?,
            connected,
            tls: tls.map(|tls| tls + connected.unwrap_or_default()),
            written: maybe_time("written_s", record.written_s)?,
            head: maybe_time("headers_s", record.headers_s)?,
            first_text: since_send("ttft", record.ttft)?,
            first_answer: since_send("ttft_answer", record.ttft_answer)?,
            last_text: since_send("last_token", record.last_token)?,
            end: since_send("e2e", record.e2e)?.ok_or(BadRecord::Missing("e2e"))?,
            source: stamp_source(&record.stamp_source)?,
        },
        tokens: Tokens {
            n_out: record.n_out,
            source: token_source(&record.token_source)?,
            n_prompt: record.n_prompt,
            n_cached: record.n_cached,
            n_first: record.n_first,
            n_chunks: record.n_chunks,
            coalesced_reads: record.coalesced_reads,
            parse_errors: record.parse_errors,
        },
        gaps_us: record.gaps_us.clone().unwrap_or_default(),
        server: record.server.as_ref().map(server_times).transpose()?,
        connection: Connection {
            reused: record.reused_connection,
            stale: record.stale_connection,
            rtt_min: maybe_time("rtt_s", record.rtt_s)?,
            request_bytes: record.request_bytes,
        },
        finish_reason: record.finish_reason.clone(),
        http_status: record.http_status,
        retry_after: maybe_time("retry_after_s", record.retry_after_s)?,
        pause: maybe_time("pause_s", record.pause_s)?,
        text_sha256: record.text_sha256.clone(),
        text: record.text.clone(),
        model: record.model.clone(),
        notes: record.notes.clone(),
    })
}

fn server_times(record: &ServerTimesRecord) -> Result<ServerTimes, BadRecord> {
    Ok(ServerTimes {
        queue: maybe_time("server.queue_s", record.queue_s)?,
        prefill: maybe_time("server.prefill_s", record.prefill_s)?,
        decode: maybe_time("server.decode_s", record.decode_s)?,
        source: record.source.clone(),
    })
}

fn outcome(record: &RequestRecord) -> Result<Outcome, BadRecord> {
    if record.ok {
        return Ok(Outcome::Ok);
    }
    let name = record.error_class.as_ref().ok_or(BadRecord::Missing("error_class"))?;
    let class: FailureClass =
        name.parse().map_err(|_| BadRecord::Name { key: "error_class", name: name.clone() })?;
    Ok(Outcome::Failed(class, record.error.clone().unwrap_or_default()))
}

fn maybe_time(key: &'static str, seconds: Option<f64>) -> Result<Option<Duration>, BadRecord> {
    seconds.map(|seconds| time(key, seconds)).transpose()
}

/// To the nearest nanosecond.
fn time(key: &'static str, seconds: f64) -> Result<Duration, BadRecord> {
    Duration::try_from_secs_f64(seconds).map_err(|_| BadRecord::Time { key, value: seconds })
}

/// A phase's name in results files.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warmup",
        Phase::Ramp => "ramp",
        Phase::Steady => "steady",
        Phase::Tail => "tail",
    }
}

fn phase(name: &str) -> Result<Phase, BadRecord> {
    let all = [Phase::Warmup, Phase::Ramp, Phase::Steady, Phase::Tail];
    by_name("phase", name, all, phase_name)
}

fn token_source_name(source: TokenSource) -> &'static str {
    match source {
        TokenSource::Usage => "usage",
        TokenSource::Estimated => "estimated",
        TokenSource::Unknown => "unknown",
    }
}

fn token_source(name: &str) -> Result<TokenSource, BadRecord> {
    let all = [TokenSource::Usage, TokenSource::Estimated, TokenSource::Unknown];
    by_name("token_source", name, all, token_source_name)
}

fn stamp_source_name(source: StampSource) -> &'static str {
    match source {
        StampSource::User => "user",
        StampSource::Kernel => "kernel",
    }
}

fn stamp_source(name: &str) -> Result<StampSource, BadRecord> {
    by_name("stamp_source", name, [StampSource::User, StampSource::Kernel], stamp_source_name)
}

fn by_name<T: Copy>(
    key: &'static str,
    name: &str,
    all: impl IntoIterator<Item = T>,
    name_of: fn(T) -> &'static str,
) -> Result<T, BadRecord> {
    let found = all.into_iter().find(|value| name_of(*value) == name);
    found.ok_or_else(|| BadRecord::Name { key, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Below five days, so that a time and a lateness stay below ten.
    fn times() -> impl Strategy<Value = Vec<Duration>> {
        prop::collection::vec((0u64..400_000_000_000_000).prop_map(Duration::from_nanos), 14)
    }

    fn trace(at: &[Duration], ok: bool, lateness: bool) -> RequestTrace {
        RequestTrace {
            index: 7,
            prompt_index: 3,
            prompt: PromptUse { is_salted: ok, is_repeated: lateness },
            worker: 2,
            start: at[0],
            lateness: lateness.then_some(at[1]),
            phase: if ok { Phase::Steady } else { Phase::Warmup },
            outcome: if ok {
                Outcome::Ok
            } else {
                Outcome::Failed(FailureClass::Http(429), "slow down".into())
            },
            stamps: Stamps {
                dns: Some(at[2]),
                connected: Some(at[3]),
                tls: Some(at[3] + at[4]),
                written: Some(at[5]),
                head: None,
                first_text: Some(at[6]),
                first_answer: Some(at[7]),
                last_text: Some(at[8]),
                end: at[9],
                source: StampSource::Kernel,
            },
            tokens: Tokens {
                n_out: Some(256),
                source: TokenSource::Usage,
                n_prompt: Some(41),
                n_cached: Some(0),
                n_first: Some(2),
                n_chunks: 250,
                coalesced_reads: 3,
                parse_errors: 1,
            },
            gaps_us: vec![1, 59_000],
            server: Some(ServerTimes {
                queue: Some(at[10]),
                prefill: None,
                decode: Some(at[11]),
                source: "timings".into(),
            }),
            connection: Connection {
                reused: true,
                stale: true,
                rtt_min: Some(at[12]),
                request_bytes: 512,
            },
            finish_reason: Some("length".into()),
            http_status: Some(200),
            retry_after: Some(at[13]),
            pause: Some(at[13]),
            text_sha256: Some("ab".into()),
            text: Some("text".into()),
            model: Some("model".into()),
            notes: vec!["no [DONE]".into()],
        }
    }

    proptest! {
        #[test]
        fn a_trace_survives_the_file_to_the_nanosecond(
            at in times(),
            ok in any::<bool>(),
            lateness in any::<bool>(),
        ) {
            let trace = trace(&at, ok, lateness);
            let json = serde_json::to_string(&record_of_trace(&trace, Keep::ALL)).unwrap();
            let record: RequestRecord = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(trace_of_record(&record).unwrap(), trace);
        }
    }

    #[test]
    fn what_is_not_kept_is_null_and_its_figures_stay() {
        let trace = trace(&[Duration::from_secs(1); 14], true, false);
        let record = record_of_trace(&trace, Keep::default());
        assert_eq!((record.gaps_us, record.text), (None, None));
        assert_eq!(record.max_gap, Some(0.059));
    }

    #[test]
    fn a_record_that_cannot_be_is_refused() {
        let good = record_of_trace(&trace(&[Duration::from_secs(1); 14], true, false), Keep::ALL);
        let refusal = |change: &dyn Fn(&mut RequestRecord)| {
            let mut record = good.clone();
            change(&mut record);
            trace_of_record(&record).unwrap_err()
        };
        let time = refusal(&|record| record.start_s = -1.0);
        assert_eq!(time, BadRecord::Time { key: "start_s", value: -1.0 });
        assert!(matches!(refusal(&|record| record.ttft = Some(f64::NAN)), BadRecord::Time { .. }));
        assert_eq!(refusal(&|record| record.e2e = None), BadRecord::Missing("e2e"));
        assert_eq!(refusal(&|record| record.ok = false), BadRecord::Missing("error_class"));
        let name = refusal(&|record| record.phase = "later".into());
        assert_eq!(name, BadRecord::Name { key: "phase", name: "later".into() });
    }
}
