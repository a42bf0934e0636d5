//! Goodput (D11): the share and the rate of requests that were good enough.

use super::metrics::{tpot, ttft};
use super::proportion::wilson;
use super::trace::{FailureClass, RequestTrace};
use std::time::Duration;

/// What a user is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slo {
    /// Largest time to first token.
    pub ttft: Duration,
    /// Largest time per output token.
    pub tpot: Duration,
}

/// How much of the work kept the promise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goodput {
    /// The promise.
    pub slo: Slo,
    /// Requests that ended well, with TTFT and TPOT within the promise (inclusive).
    pub good: u64,
    /// Requests that were issued; failures are misses.
    pub issued: u64,
    /// `good` ÷ `issued`; `None` if nothing was issued.
    pub attainment: Option<f64>,
    /// Good requests per second.
    pub rate_per_s: Option<f64>,
    /// Requests that ended well, good or not, per second.
    pub request_rate_per_s: Option<f64>,
}

/// Goodput of a level's measured requests over `wall`.
pub fn goodput(traces: &[RequestTrace], slo: Slo, wall: Duration) -> Goodput {
    let mut tally = Tally::default();
    traces.iter().for_each(|trace| tally.add(trace, slo));
    tally.over(slo, wall)
}

/// Requests counted against a promise, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    good: u64,
    ok: u64,
    issued: u64,
}

impl Tally {
    /// Counts a request, unless it is a warm-up's or the harness cancelled it. An answer of one
    /// token has no TPOT and passes that half.
    pub fn add(&mut self, trace: &RequestTrace, slo: Slo) {
        if !trace.is_measured() || trace.outcome.failure() == Some(FailureClass::Cancelled) {
            return;
        }
        self.issued += 1;
        if trace.outcome.is_ok() {
            self.ok += 1;
            self.good += u64::from(is_good(trace, slo));
        }
    }

    /// What the count comes to over `wall`.
    pub fn over(self, slo: Slo, wall: Duration) -> Goodput {
        let Self { good, ok, issued } = self;
        let seconds = wall.as_secs_f64();
        let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        Goodput {
            slo,
            good,
            issued,
            attainment: (issued > 0).then(|| good as f64 / issued as f64),
            rate_per_s: rate(good),
            request_rate_per_s: rate(ok),
        }
    }
}

impl Goodput {
    /// Wilson's 95 % interval of the share, of as many requests as `independent` says that they are
    /// worth; `None` if that is none.
    pub fn attainment_interval(&self, independent: f64) -> Option<(f64, f64)> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
        let whole = |count: f64| count as u64;
        let n = independent.floor();
        wilson(whole((self.attainment? * n).round()), whole(n))
    }
}

fn is_good(trace: &RequestTrace, slo: Slo) -> bool {
    // Half a nanosecond of tolerance: a pace is a quotient, a promise is a decimal.
    let within = |pace: f64| pace <= slo.tpot.as_secs_f64() + 0.5e-9;
    ttft(trace).is_some_and(|ttft| ttft <= slo.ttft) && tpot(trace).is_none_or(within)
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::{answered, failed};
    use super::*;

    #[test]
    fn failures_are_misses() {
        let answer = |ttft: f64, tpot: f64| answered(11, 0.0, ttft, ttft + 10.0 * tpot);
        let traces = [
            answer(0.31, 0.018),
            answer(0.48, 0.021),
            answer(0.52, 0.019),
            answer(0.12, 0.041),
            failed(FailureClass::Http(500), 0.0, 0.1),
            answer(0.5, 0.04),
            answer(0.2, 0.03),
            answer(1.9, 0.09),
        ];
        let slo = Slo { ttft: Duration::from_millis(500), tpot: Duration::from_millis(40) };
        let got = goodput(&traces, slo, Duration::from_millis(12_500));
        assert_eq!((got.good, got.issued, got.attainment), (4, 8, Some(0.5)));
        assert_eq!((got.rate_per_s, got.request_rate_per_s), (Some(0.32), Some(0.56)));
        assert_eq!(got.attainment_interval(8.0), wilson(4, 8));
        assert_eq!(got.attainment_interval(2.9), wilson(1, 2), "worth two of them");
        assert_eq!(got.attainment_interval(0.5), None);
    }

    #[test]
    fn one_token_passes_the_pace() {
        let slo = Slo { ttft: Duration::from_secs(1), tpot: Duration::from_nanos(1) };
        let got = goodput(&[answered(1, 0.0, 0.5, 0.5)], slo, Duration::ZERO);
        assert_eq!((got.good, got.rate_per_s), (1, None));
    }
}
