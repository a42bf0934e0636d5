//! What each figure of a results file means, in words: the text that every results file carries.

/// Name → meaning, for every figure of a summary and of a request. Bumping a formula bumps
/// `metrics_version`.
pub const DEFINITIONS: &[(&str, &str)] = &[
    (
        "ttft",
        "Time to first token, s: first event with generated text of any kind (answer, reasoning, \
         tool-call arguments) - request sent. Connect and TLS are inside where the connection was \
         fresh. In an open loop all latencies count from the intended send.",
    ),
    (
        "ttft_answer",
        "The same, s, for the first text that is no reasoning; null if there was none.",
    ),
    ("last_token", "Last event with generated text - request sent, s."),
    ("e2e", "End of the stream (or the moment of the failure) - request sent, s."),
    (
        "n_out",
        "Output tokens by the server's usage; where it gave none, the number of events with text, \
         and token_source says estimated.",
    ),
    (
        "decode_tps",
        "(n_out - k1) / (last event with text - first event with text), tokens per second, with k1 \
         = tokens in the first event where the server says so, else 1: the first token is \
         prefill's. Null where n_out <= k1 or all text came at one instant.",
    ),
    ("tpot", "1 / decode_tps, s per token."),
    (
        "gap",
        "Time between successive events with text, s, of all ok requests together; an inter-token \
         latency only where each event carries one token (see the flag coalesced). Gaps of one \
         request count as one independent observation.",
    ),
    ("max_gap", "The largest gap of each request, s: the stutter detector."),
    ("queue", "Waiting for a slot by the server's own account, s; server.source names the field."),
    ("prefill", "Computing the prompt by the server's own account, s."),
    (
        "_p50, _p90, _p95, _p99",
        "Percentiles over the ok requests by linear interpolation (numpy's default): h = (n - \
         1)q/100, x[floor h] + (h - floor h)(x[floor h + 1] - x[floor h]). _p99 is null under 100 \
         samples.",
    ),
    (
        "_n_eff",
        "Independent samples that the n are worth: n / max(1, tau), tau = 1 + 2 x the sum of the \
         autocorrelations in send order up to the last one before the first that is not positive; \
         at least c for the latencies of a server whose serialness is over 0.8 (n_eff_source).",
    ),
    (
        "_p50_ci, _p90_ci, _p99_ci",
        "95 % interval by exact order statistics for floor(n_eff) samples, mapped to the n values; \
         null for an end that does not exist at this sample size.",
    ),
    (
        "ttft_all, e2e_all",
        "Percentiles over all measured requests with each failure infinitely slow; null where \
         infinite; infinite_from_percent is the percentile above which they are.",
    ),
    ("n", "Measured requests: ok + failed. Warm-up and cancelled requests are not in it."),
    (
        "ok",
        "The stream ended as it should: HTTP 200, an event stream, text, a finish reason, no error \
         event, a complete body.",
    ),
    ("wall_s", "First measured send to last end, s."),
    ("throughput_tps", "Output tokens of ok requests / wall_s. Biased low by ramp and tail."),
    (
        "steady_tps",
        "Output tokens delivered in (t0, t1] / (t1 - t0), t0 = the c-th end of an ok request, t1 = \
         the first end after the last send: while c requests were in flight. k1 tokens count at \
         the first event, the others evenly until the last. Null under 3c ok requests, in an open \
         loop, and where a worker paused after a refusal.",
    ),
    (
        "n_stale",
        "Measured requests whose kept connection the server had closed without announcing it: it \
         was replaced, once, and the loss and the new connect are inside their TTFT.",
    ),
    (
        "lateness_s_p50, lateness_s_p99",
        "How much later than intended an open loop sent, s, over all measured requests; null in a \
         closed loop, the p99 under 100 requests.",
    ),
    ("steady_tps_ci", "95 % interval of steady_tps by the means of 10 equal parts of the window."),
    ("occupancy", "Mean requests in flight in (t0, t1] / c."),
    (
        "serialness",
        "(W(c) - W(1)) / ((c - 1) W(1)), W = mean e2e of steady requests: 1 is one at a time, 0 \
         perfectly parallel. Null without a c = 1 level.",
    ),
    ("stutter_share", "Share of ok requests with a gap over the stutter threshold."),
    (
        "settling",
        "MSER-5 in completion order: requests in the transient; unsettled where its minimum lies \
         at the largest cut allowed (half). A check: nothing is cut.",
    ),
    (
        "early_stopping",
        "One-sided 99 % upper bounds by MLPerf's early stopping; they take every request as \
         independent.",
    ),
    (
        "goodput",
        "Requests that ended well with ttft and tpot within the promise (inclusive; one token \
         passes tpot) / requests issued, and per second of wall_s.",
    ),
    (
        "phase",
        "warmup; ramp: ended no later than the c-th ok completion; tail: ended after t1; else \
         steady.",
    ),
    (
        "joules_per_output_token",
        "Energy over the steady window / output tokens delivered in it; energy_source names the \
         counter, and whether it covers the GPU, the package or the wall.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::metrics::Metric;

    #[test]
    fn every_metric_is_defined_once() {
        let defined = |name: &str| DEFINITIONS.iter().filter(|(key, _)| *key == name).count();
        for metric in Metric::ALL {
            assert_eq!(defined(metric.name()), 1, "{}", metric.name());
        }
        assert!(DEFINITIONS.iter().all(|(key, _)| defined(key) == 1));
    }
}
