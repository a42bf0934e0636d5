//! What `/metrics` says, in Prometheus' text format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::inference::Occupancy;

/// All counters of one server. Recording never waits for a reader.
pub struct Metrics {
    registry: Registry,
    requests: Family<OutcomeLabel, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    output_tokens: Counter,
    queue: Histogram,
    ttft: Histogram,
    e2e: Histogram,
    itl: Histogram,
    occupancy: OccupancyGauges,
    last_in_slot_s: AtomicU64,
}

/// Copies of the inference thread's own gauges, taken at each scrape.
#[derive(Default)]
struct OccupancyGauges {
    queued: Gauge,
    running: Gauge,
    kv_tokens: Gauge,
    kv_ratio: Gauge<f64, AtomicU64>,
    cancelled_while_queued: Counter,
    cancelled_while_running: Counter,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The model or a stop string ended it.
    Stop,
    /// Its limit of tokens, or the context's.
    Length,
    /// The client hung up.
    Cancelled,
    /// The engine failed, or the server shut down.
    Failed,
    /// It was never accepted.
    Refused,
}

impl Outcome {
    const ALL: [Self; 5] = [Self::Stop, Self::Length, Self::Cancelled, Self::Failed, Self::Refused];

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// From half a millisecond to twenty minutes, a factor of about 2.2 apart: the queue of a slow model
/// is as long as that.
const LATENCY_BUCKETS_S: [f64; 20] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0,
    50.0, 100.0, 250.0, 500.0, 1200.0,
];

/// From 1 ms to 1 s between two tokens.
const ITL_BUCKETS_S: [f64; 15] =
    [0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.02, 0.03, 0.045, 0.06, 0.08, 0.12, 0.25, 0.5, 1.0];

impl Default for Metrics {
    fn default() -> Self {
        let latency = || Histogram::new(LATENCY_BUCKETS_S);
        let mut metrics = Self {
            registry: Registry::with_prefix("spark_serve"),
            requests: Family::default(),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            output_tokens: Counter::default(),
            queue: latency(),
            ttft: latency(),
            e2e: latency(),
            itl: Histogram::new(ITL_BUCKETS_S),
            occupancy: OccupancyGauges::default(),
            last_in_slot_s: AtomicU64::new(0),
        };
        for outcome in Outcome::ALL {
            // So that a rate can be taken before the first one of its kind.
            drop(metrics.requests.get_or_create(&OutcomeLabel { outcome: outcome.name() }));
        }
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Generating requests by outcome", self.requests.clone());
        let counters = [
            ("prompt_tokens", "Tokens of prompts, cached ones included", &self.prompt_tokens),
            ("cached_prompt_tokens", "Tokens of prompts that were cached", &self.cached_tokens),
            ("output_tokens", "Tokens generated", &self.output_tokens),
            (
                "cancelled_while_queued",
                "Requests whose client hung up before they started",
                &self.occupancy.cancelled_while_queued,
            ),
            (
                "cancelled_while_running",
                "Requests whose client hung up while they ran",
                &self.occupancy.cancelled_while_running,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let histograms = [
            ("queue", "From a request's place in the queue to its start in the slot", &self.queue),
            ("ttft", "From a request's last byte to its first text", &self.ttft),
            ("e2e", "From a request's last byte to the end of its answer", &self.e2e),
            ("itl", "From one text of an answer to the next, for each token in it", &self.itl),
        ];
        for (name, help, histogram) in histograms {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        let now = &self.occupancy;
        registry.register("queue_depth", "Requests that wait", now.queued.clone());
        registry.register("requests_running", "Requests in the slot", now.running.clone());
        registry.register("kv_tokens", "Tokens in the KV cache", now.kv_tokens.clone());
        registry.register("kv_usage_ratio", "The same over the context", now.kv_ratio.clone());
    }

    /// A request has ended. Of a refused one nothing else is recorded.
    pub fn ended(&self, outcome: Outcome) {
        self.requests.get_or_create(&OutcomeLabel { outcome: outcome.name() }).inc();
    }

    /// A request has left the queue.
    pub fn started(&self, queued: Duration) {
        self.queue.observe(queued.as_secs_f64());
    }

    /// A prompt was computed.
    pub fn prompt_done(&self, n_prompt: u32, n_cached: u32) {
        self.prompt_tokens.inc_by(n_prompt.into());
        self.cached_tokens.inc_by(n_cached.into());
    }

    /// The first text of an answer, `n_tokens` tokens of it.
    pub fn first_text(&self, since_arrival: Duration, n_tokens: u32) {
        self.ttft.observe(since_arrival.as_secs_f64());
        self.output_tokens.inc_by(n_tokens.into());
    }

    /// A later text of an answer.
    pub fn more_text(&self, since_last: Duration, n_tokens: u32) {
        let each = since_last.as_secs_f64() / f64::from(n_tokens.max(1));
        for _ in 0..n_tokens {
            self.itl.observe(each);
        }
        self.output_tokens.inc_by(n_tokens.into());
    }

    /// Tokens that were generated and not sent.
    pub fn silent_tokens(&self, n_tokens: u32) {
        self.output_tokens.inc_by(n_tokens.into());
    }

    /// An answer is complete; `in_slot` of the time it had the device.
    pub fn completed(&self, since_arrival: Duration, in_slot: Duration) {
        self.e2e.observe(since_arrival.as_secs_f64());
        self.last_in_slot_s.store(in_slot.as_secs(), Ordering::Relaxed);
    }

    /// Seconds until one more request may find room in a full queue: what the last answer took,
    /// from 1 to 60.
    pub fn retry_after_s(&self) -> u64 {
        self.last_in_slot_s.load(Ordering::Relaxed).clamp(1, 60)
    }

    /// Everything, as Prometheus reads it. `occupancy` and `n_ctx` are absent while loading.
    pub fn render(&self, occupancy: Option<(Occupancy, u32)>) -> String {
        if let Some((occupancy, n_ctx)) = occupancy {
            self.copy(occupancy, n_ctx);
        }
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry).expect("a String takes any text");
        text
    }

    fn copy(&self, from: Occupancy, n_ctx: u32) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let now = &self.occupancy;
        now.queued.set(whole(from.queued));
        now.running.set(whole(from.running));
        now.kv_tokens.set(whole(from.kv_tokens));
        let tokens = u32::try_from(from.kv_tokens).unwrap_or(u32::MAX);
        now.kv_ratio.set(f64::from(tokens) / f64::from(n_ctx.max(1)));
        let cancelled = [
            (&now.cancelled_while_queued, from.cancelled_while_queued),
            (&now.cancelled_while_running, from.cancelled_while_running),
        ];
        for (counter, total) in cancelled {
            counter.inner().store(total, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_shows_in_every_figure() {
        let metrics = Metrics::default();
        metrics.started(Duration::from_millis(20));
        metrics.prompt_done(31, 2);
        metrics.first_text(Duration::from_millis(70), 1);
        metrics.more_text(Duration::from_millis(30), 3);
        metrics.completed(Duration::from_millis(100), Duration::from_millis(80));
        metrics.ended(Outcome::Length);
        let occupancy = Occupancy { queued: 3, running: 1, kv_tokens: 64, ..Occupancy::default() };
        let text = metrics.render(Some((occupancy, 256)));
        for line in [
            "spark_serve_requests_total{outcome=\"length\"} 1",
            "spark_serve_requests_total{outcome=\"cancelled\"} 0",
            "spark_serve_prompt_tokens_total 31",
            "spark_serve_cached_prompt_tokens_total 2",
            "spark_serve_output_tokens_total 4",
            "spark_serve_queue_depth 3",
            "spark_serve_requests_running 1",
            "spark_serve_kv_usage_ratio 0.25",
            "spark_serve_queue_seconds_count 1",
            "spark_serve_itl_seconds_count 3",
            "spark_serve_ttft_seconds_bucket{le=\"0.1\"} 1",
            "spark_serve_e2e_seconds_count 1",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_full_queue_names_the_time_of_the_last_answer() {
        let metrics = Metrics::default();
        assert_eq!(metrics.retry_after_s(), 1);
        metrics.completed(Duration::from_secs(42), Duration::from_secs(12));
        assert_eq!(metrics.retry_after_s(), 12);
    }
}
