//! One level: from its requests to its figures.

mod effective;
pub(crate) use effective::Rule as EffectiveRule;
mod stats;

pub use stats::SampleSummary;

use super::batch_means::{MeanInterval, PARTS, batch_means};
use super::metrics::Metric;
use super::sample::{PercentilesWithFailures, Sample};
use super::steady::{Edges, Window, edges, mean_in_flight, steady_window, tokens_within};
use super::trace::{FailureClass, Phase, RequestTrace};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a level besides its requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelFacts {
    /// Requests that were kept in flight (closed loop). Ignored in an open loop, where the most
    /// that were in flight at once stand in its place.
    pub concurrency: u32,
    /// How the load was started.
    pub start_mode: StartMode,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// A gap over this is a stutter.
    pub stutter: Duration,
    /// The c = 1 level of the same target and workload, if there is one: without it the serialness
    /// of the server is unknown.
    pub single: Option<SingleStream>,
}

/// How requests are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// Closed loop; the workers' first sends are spread over one request's time.
    Staggered,
    /// Closed loop; all workers start at once.
    Simultaneous,
    /// Open loop, Poisson arrivals.
    OpenPoisson,
    /// Open loop, a constant rate.
    OpenConstant,
}

impl StartMode {
    /// Its name in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Staggered => "staggered",
            Self::Simultaneous => "simultaneous",
            Self::OpenPoisson => "open_poisson",
            Self::OpenConstant => "open_constant",
        }
    }

    /// Whether a fixed number of requests is kept in flight.
    pub fn is_closed_loop(self) -> bool {
        matches!(self, Self::Staggered | Self::Simultaneous)
    }
}

/// Why a level ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// As many ok requests as were asked for.
    NOk,
    /// The cap on attempts.
    MaxAttempts,
    /// The cap on time.
    MaxDuration,
    /// The cap on money.
    MaxCost,
    /// Ctrl-C, SIGTERM, or a harness that was killed.
    Interrupted,
}

impl EndedBy {
    /// Its name in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NOk => "n_ok",
            Self::MaxAttempts => "max_attempts",
            Self::MaxDuration => "max_duration",
            Self::MaxCost => "max_cost",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What one request at a time was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleStream {
    /// W(1): mean end-to-end latency at c = 1.
    pub e2e_mean: Duration,
}

/// What effective sample sizes rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectiveSource {
    /// Autocorrelation, and the measured serialness of the server.
    Serialness,
    /// Autocorrelation alone: there was no c = 1 level to compare with.
    Autocorrelation,
}

impl EffectiveSource {
    /// Its name in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serialness => "serialness",
            Self::Autocorrelation => "autocorrelation",
        }
    }
}

/// The figures of one level. Metrics are seconds or tokens per second.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelSummary {
    /// Requests in flight (closed loop), or the most that were (open loop).
    pub concurrency: u32,
    /// See [`StartMode`].
    pub start_mode: StartMode,
    /// See [`EndedBy`].
    pub ended_by: EndedBy,
    /// Measured requests that ended as they should.
    pub n_ok: u64,
    /// Measured requests that did not.
    pub n_err: u64,
    /// Measured requests that the harness stopped.
    pub n_cancelled: u64,
    /// Warm-up requests.
    pub n_warmup: u64,
    /// Failures by class.
    pub errors: BTreeMap<FailureClass, u64>,
    /// First measured send → last end of a measured request.
    pub wall: Duration,
    /// Tokens of the ok requests.
    pub tokens: TokenTotals,
    /// Σ output tokens of ok requests ÷ wall.
    pub throughput_tps: Option<f64>,
    /// The window in which c requests were in flight; `None` where there is none (open loop, fewer
    /// than 3c ok requests).
    pub steady: Option<Window>,
    /// Tokens delivered in it ÷ its length; also `None` if a worker waited for a `Retry-After`.
    pub steady_tps: Option<f64>,
    /// The same with its 95 % interval by batch means; `None` where a part would be shorter than
    /// one request.
    pub steady_interval: Option<MeanInterval>,
    /// Mean in flight in the window ÷ c.
    pub occupancy: Option<f64>,
    /// (W(c) − W(1)) / ((c − 1)·W(1)); `None` at c = 1 and without a c = 1 level.
    pub serialness: Option<f64>,
    /// Mean end-to-end latency of the steady requests: W(c).
    pub e2e_steady_mean: Option<Duration>,
    /// Share of ok requests with a gap over the stutter threshold.
    pub stutter_share: Option<f64>,
    /// What the effective sample sizes rest on.
    pub effective_source: EffectiveSource,
    /// TTFT with failures as infinite.
    pub ttft_all: Option<PercentilesWithFailures>,
    /// End-to-end latency with failures as infinite.
    pub e2e_all: Option<PercentilesWithFailures>,
    /// Each metric over the ok requests.
    pub metrics: BTreeMap<Metric, SampleSummary>,
}

/// Σ tokens of the ok requests of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenTotals {
    /// Prompt tokens.
    pub prompt: u64,
    /// Output tokens.
    pub output: u64,
    /// Cached prompt tokens.
    pub cached: u64,
}

impl LevelSummary {
    /// Measured requests: ok + failed.
    pub fn n(&self) -> u64 {
        self.n_ok + self.n_err
    }

    /// One metric's figures.
    pub fn metric(&self, metric: Metric) -> Option<&SampleSummary> {
        self.metrics.get(&metric)
    }

    /// What the levels above c = 1 are compared with; `None` if this is not c = 1.
    pub fn as_single_stream(&self) -> Option<SingleStream> {
        let e2e_mean = self.e2e_steady_mean.filter(|mean| !mean.is_zero())?;
        (self.concurrency == 1 && self.start_mode.is_closed_loop())
            .then_some(SingleStream { e2e_mean })
    }
}

/// Measured requests in send order, whatever order they are handed over in.
fn measured(traces: &[RequestTrace]) -> Vec<&RequestTrace> {
    let mut measured: Vec<&RequestTrace> =
        traces.iter().filter(|trace| trace.is_measured()).collect();
    measured.sort_by_key(|trace| (trace.index, trace.start, trace.worker));
    measured
}

/// The figures of a level. The same traces give the same bits, whichever order they come in.
///
/// Phases are worked out here; of those in the traces only [`Phase::Warmup`] is looked at.
pub fn summarise(facts: &LevelFacts, traces: &[RequestTrace]) -> LevelSummary {
    let measured = measured(traces);
    let ok: Vec<&RequestTrace> =
        measured.iter().copied().filter(|trace| trace.outcome.is_ok()).collect();
    let (errors, n_cancelled) = failures(&measured);
    let closed = facts.start_mode.is_closed_loop();
    let concurrency = if closed { facts.concurrency } else { most_in_flight(&measured) };
    let level_edges =
        if closed { edges(&measured, concurrency as usize) } else { Edges::default() };
    let steady = if closed { steady_window(&measured, concurrency as usize) } else { None };
    let tokens = token_totals(&ok);
    let wall = wall(&measured);
    let e2e_steady_mean = steady_mean(&ok, level_edges);
    let serialness = serialness(concurrency, e2e_steady_mean, facts.single.filter(|_| closed));
    let effective = effective::Rule::new(concurrency, serialness);
    let metrics = stats::summarise_metrics(&ok, effective);
    let steady_tps = steady.filter(|_| !measured.iter().any(|trace| made_its_worker_wait(trace)));
    let n_err = errors.values().sum();
    let with_failures = |metric: Metric| {
        let values = ok.iter().filter_map(|trace| metric.of(trace)).collect();
        PercentilesWithFailures::new(&Sample::new(values), usize::try_from(n_err).ok()?)
    };
    LevelSummary {
        concurrency,
        start_mode: facts.start_mode,
        ended_by: facts.ended_by,
        n_ok: ok.len() as u64,
        n_err,
        n_cancelled,
        n_warmup: (traces.len() - measured.len()) as u64,
        errors,
        wall,
        tokens,
        throughput_tps: per_second(tokens.output as f64, wall),
        steady,
        steady_tps: steady_tps
            .and_then(|window| per_second(tokens_within(&measured, window), window.length())),
        steady_interval: steady_tps
            .and_then(|window| steady_interval(&measured, window, e2e_steady_mean?)),
        occupancy: steady.map(|window| mean_in_flight(&measured, window) / f64::from(concurrency)),
        serialness,
        e2e_steady_mean,
        stutter_share: stutter_share(&ok, facts.stutter),
        effective_source: effective.source(),
        ttft_all: with_failures(Metric::Ttft),
        e2e_all: with_failures(Metric::E2e),
        metrics,
    }
}

/// Says of each measured request whether it belongs to the ramp (ended among the first c ok
/// completions), to the tail (ended after the load had begun to fall off) or to what is between.
/// Warm-up requests stay what they are; in an open loop there is neither ramp nor tail.
pub fn assign_phases(facts: &LevelFacts, traces: &mut [RequestTrace]) {
    let edges = if facts.start_mode.is_closed_loop() {
        edges(&measured(traces), facts.concurrency as usize)
    } else {
        Edges::default()
    };
    for trace in traces.iter_mut().filter(|trace| trace.is_measured()) {
        trace.phase = phase(trace, edges, facts.start_mode);
    }
}

fn phase(trace: &RequestTrace, edges: Edges, mode: StartMode) -> Phase {
    let end = trace.end();
    // Fewer than c completions: nothing ever left the ramp.
    let in_ramp = edges.ramp_end.map_or(mode.is_closed_loop(), |ramp_end| end <= ramp_end);
    if in_ramp {
        Phase::Ramp
    } else if edges.tail_start.is_some_and(|tail_start| end > tail_start) {
        Phase::Tail
    } else {
        Phase::Steady
    }
}

fn failures(measured: &[&RequestTrace]) -> (BTreeMap<FailureClass, u64>, u64) {
    let mut errors = BTreeMap::new();
    for class in measured.iter().filter_map(|trace| trace.outcome.failure()) {
        *errors.entry(class).or_insert(0) += 1;
    }
    let cancelled = errors.remove(&FailureClass::Cancelled).unwrap_or(0);
    (errors, cancelled)
}

fn wall(measured: &[&RequestTrace]) -> Duration {
    let start = measured.iter().map(|trace| trace.start).min();
    let end = measured.iter().map(|trace| trace.end()).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}

fn token_totals(ok: &[&RequestTrace]) -> TokenTotals {
    let mut totals = TokenTotals::default();
    for tokens in ok.iter().map(|trace| &trace.tokens) {
        totals.prompt = totals.prompt.saturating_add(tokens.n_prompt.unwrap_or(0));
        totals.output = totals.output.saturating_add(tokens.n_out.unwrap_or(0));
        totals.cached = totals.cached.saturating_add(tokens.n_cached.unwrap_or(0));
    }
    totals
}

fn per_second(tokens: f64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| tokens / time.as_secs_f64())
}

/// Mean end-to-end latency of the requests between ramp and tail; where there is none (few
/// requests for the concurrency), of all after the ramp.
fn steady_mean(ok: &[&RequestTrace], edges: Edges) -> Option<Duration> {
    let after_ramp =
        |trace: &RequestTrace| edges.ramp_end.is_none_or(|ramp_end| trace.end() > ramp_end);
    let before_tail = |trace: &RequestTrace| edges.tail_start.is_none_or(|t1| trace.end() <= t1);
    let mean = |keep: &dyn Fn(&RequestTrace) -> bool| {
        let kept: Vec<f64> = ok
            .iter()
            .filter(|trace| keep(trace))
            .filter_map(|trace| Metric::E2e.of(trace))
            .collect();
        Sample::new(kept).mean().map(Duration::from_secs_f64)
    };
    mean(&|trace| after_ramp(trace) && before_tail(trace)).or_else(|| mean(&after_ramp))
}

/// (W(c) − W(1)) / ((c − 1)·W(1)): 1 for a server that does one request at a time, 0 for one that
/// does all at once.
fn serialness(
    concurrency: u32,
    mean: Option<Duration>,
    single: Option<SingleStream>,
) -> Option<f64> {
    let (mean, single) = (mean?.as_secs_f64(), single?.e2e_mean.as_secs_f64());
    let others = concurrency.checked_sub(1).filter(|others| *others > 0)?;
    (single > 0.0).then(|| (mean - single) / (f64::from(others) * single))
}

/// A refusal that says when to come back: the worker idled, so c were not in flight.
fn made_its_worker_wait(trace: &RequestTrace) -> bool {
    !trace.outcome.is_ok() && trace.retry_after.is_some_and(|wait| !wait.is_zero())
}

fn steady_interval(
    measured: &[&RequestTrace],
    window: Window,
    e2e_mean: Duration,
) -> Option<MeanInterval> {
    let parts = u32::try_from(PARTS).ok()?;
    if window.length() / parts < e2e_mean {
        return None;
    }
    let rate = |part: Window| per_second(tokens_within(measured, part), part.length());
    let rates: Vec<f64> = window.parts(parts).filter_map(rate).collect();
    batch_means(&rates)
}

fn stutter_share(ok: &[&RequestTrace], threshold: Duration) -> Option<f64> {
    let stutters = |trace: &&&RequestTrace| {
        trace.gaps_us.iter().any(|gap| Duration::from_micros(u64::from(*gap)) > threshold)
    };
    let count = ok.iter().filter(stutters).count();
    (!ok.is_empty()).then(|| count as f64 / ok.len() as f64)
}

/// The most requests that were in flight at one moment; one that ends as another starts does not
/// overlap it.
fn most_in_flight(measured: &[&RequestTrace]) -> u32 {
    let starts = measured.iter().map(|trace| (trace.start, 1));
    let ends = measured.iter().map(|trace| (trace.end(), -1));
    let mut events: Vec<(Duration, i32)> = starts.chain(ends).collect();
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in events {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}

#[cfg(test)]
mod tests;
