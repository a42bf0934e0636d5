//! Where the time of one request went, by the server's own account, in each dialect that is spoken.
//!
//! Durations only: clocks of two hosts are never subtracted.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lenient::{self, Number};
use super::mended;

/// One server's account of one request. What it did not say is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    /// Waiting for a slot.
    pub queue: Option<Duration>,
    /// Computing the prompt.
    pub prefill: Option<Duration>,
    /// Generating.
    pub decode: Option<Duration>,
    /// Arrival → first token, where only that is told: queue and prefill together.
    pub first_token: Option<Duration>,
    /// Prompt tokens that came from a cache.
    pub n_cached: Option<u64>,
}

impl Account {
    /// llama-server's `timings`, with the `queue_ms` that spark-serve adds. Milliseconds.
    pub fn of_timings(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Timings {
            queue_ms: Number,
            prompt_ms: Number,
            predicted_ms: Number,
            cache_n: Number,
        }
        let timings: Timings = lenient::object_mended(raw.get())?;
        Self {
            queue: millis(timings.queue_ms),
            prefill: millis(timings.prompt_ms),
            decode: millis(timings.predicted_ms),
            first_token: None,
            n_cached: timings.cache_n.count(),
        }
        .unless_empty()
    }

    /// vLLM's `metrics`. Milliseconds; its time to first token counts from the scheduling, so it
    /// is the prefill.
    pub fn of_metrics(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Metrics {
            queue_time_ms: Number,
            time_to_first_token_ms: Number,
            generation_time_ms: Number,
        }
        let metrics: Metrics = lenient::object_mended(raw.get())?;
        Self {
            queue: millis(metrics.queue_time_ms),
            prefill: millis(metrics.time_to_first_token_ms),
            decode: millis(metrics.generation_time_ms),
            ..Self::default()
        }
        .unless_empty()
    }

    /// Fireworks' `perf_metrics`: numbers or strings, dashes or underscores, and seconds or
    /// milliseconds, so `ttft_seen` (the client's own) decides on the unit: a server cannot have
    /// taken longer to its first token than the client waited for it.
    pub fn of_perf_metrics(raw: &RawValue, ttft_seen: Option<Duration>) -> Option<Self> {
        let serde_json::Value::Object(fields) = mended::value(raw.get())? else { return None };
        let number = |wanted: &str| {
            let (_, value) = fields.iter().find(|(key, _)| key.replace('_', "-") == wanted)?;
            serde_json::from_value::<Number>(value.clone()).ok()?.0
        };
        let first_token = number("server-time-to-first-token");
        let scale = unit(first_token, ttft_seen);
        let duration = |key: &str| seconds(number(key)? * scale);
        Self {
            queue: duration("prefill-queue-duration").or(duration("generation-queue-duration")),
            prefill: duration("prefill-duration"),
            decode: duration("generation-duration"),
            first_token: first_token.and_then(|value| seconds(value * scale)),
            n_cached: Number(number("cached-prompt-tokens")).count(),
        }
        .unless_empty()
    }

    /// A response header that tells the server's time to first token, under any prefix.
    pub fn of_header(name: &str, value: &str, ttft_seen: Option<Duration>) -> Option<Self> {
        if !name.ends_with("server-time-to-first-token") {
            return None;
        }
        let value: f64 = value.trim().parse().ok()?;
        let first_token = seconds(value * unit(Some(value), ttft_seen));
        Self { first_token, ..Self::default() }.unless_empty()
    }

    fn unless_empty(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// What a figure must be multiplied with to be in seconds: 1, or 0.001 if it would otherwise
/// exceed what the client saw.
fn unit(first_token: Option<f64>, seen: Option<Duration>) -> f64 {
    match (first_token, seen) {
        (Some(value), Some(seen)) if value > seen.as_secs_f64() + 0.0005 => 0.001,
        _ => 1.0,
    }
}

fn millis(number: Number) -> Option<Duration> {
    seconds(number.0? / 1000.0)
}

fn seconds(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    const fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn timings_are_milliseconds() {
        let json =
            r#"{"cache_n":3,"prompt_n":9,"prompt_ms":120.0,"predicted_ms":900,"queue_ms":5}"#;
        let account = Account::of_timings(&raw(json)).unwrap();
        assert_eq!((account.queue, account.prefill, account.decode), (ms(5), ms(120), ms(900)));
        assert_eq!(account.n_cached, Some(3));
        assert_eq!(Account::of_timings(&raw("{}")), None);
        assert_eq!(Account::of_timings(&raw("7")), None);
        assert_eq!(Account::of_timings(&raw(r#"{"prompt_ms":-1}"#)), None);
    }

    #[test]
    fn metrics_count_from_the_scheduling() {
        let json = r#"{"queue_time_ms":7,"time_to_first_token_ms":80,"generation_time_ms":null}"#;
        let account = Account::of_metrics(&raw(json)).unwrap();
        assert_eq!((account.queue, account.prefill, account.decode), (ms(7), ms(80), None));
    }

    #[test]
    fn the_unit_of_perf_metrics_is_whatever_fits_what_was_seen() {
        let seen = Some(Duration::from_millis(260));
        for json in [
            r#"{"server-time-to-first-token":"0.25","cached-prompt-tokens":"12"}"#,
            r#"{"server_time_to_first_token":250,"cached_prompt_tokens":12}"#,
        ] {
            let account = Account::of_perf_metrics(&raw(json), seen).unwrap();
            assert_eq!(account.first_token, ms(250), "{json}");
            assert_eq!(account.n_cached, Some(12), "{json}");
        }
        let split = r#"{"server-time-to-first-token":0.25,"prefill-queue-duration":0.05,"prefill-duration":0.2}"#;
        let account = Account::of_perf_metrics(&raw(split), seen).unwrap();
        assert_eq!((account.queue, account.prefill), (ms(50), ms(200)));
    }

    #[test]
    fn a_header_under_any_prefix_tells_the_first_token() {
        let seen = Some(Duration::from_millis(260));
        let account = Account::of_header("acme-server-time-to-first-token", "0.25", seen).unwrap();
        assert_eq!(account.first_token, ms(250));
        assert_eq!(Account::of_header("x-request-id", "1", seen), None);
    }
}
