//! One level: from its requests to its figures.

mod checks;
mod effective;
mod load;
pub(crate) use effective::Rule as EffectiveRule;
mod stats;

pub use checks::{EarlyStopping, Settling};
pub use stats::SampleSummary;

use super::batch_means::MeanInterval;
use super::goodput::{Goodput, Slo, goodput};
use super::metrics::Metric;
use super::sample::{P99_MIN_SAMPLES, PercentilesWithFailures, Sample};
use super::steady::{Edges, Window, edges, edges_when_killed};
use super::trace::{FailureClass, Phase, RequestTrace};
use load::Load;
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
    /// What a user is promised, if anything.
    pub slo: Option<Slo>,
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

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Staggered, Self::Simultaneous, Self::OpenPoisson, Self::OpenConstant];
        all.into_iter().find(|mode| mode.name() == name)
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
    /// Every request was refused in a way that more of them do not change.
    Refused,
    /// The cap on time.
    MaxDuration,
    /// The cap on money.
    MaxCost,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// The harness was killed: of what was in flight then, nothing is known.
    Killed,
}

impl EndedBy {
    /// Its name in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NOk => "n_ok",
            Self::MaxAttempts => "max_attempts",
            Self::Refused => "refused",
            Self::MaxDuration => "max_duration",
            Self::MaxCost => "max_cost",
            Self::Interrupted | Self::Killed => "interrupted",
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
    /// Measured requests whose kept connection the server had closed, so that it was replaced.
    pub n_stale: u64,
    /// How late an open loop sent; `None` in a closed one.
    pub lateness: Option<Lateness>,
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
    /// Tokens delivered in it ÷ its length; also `None` if a worker paused after a refusal.
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
    /// Whether the level settled.
    pub settling: Settling,
    /// MLPerf's bounds.
    pub early_stopping: EarlyStopping,
    /// How much of the work kept the promise, where there is one.
    pub goodput: Option<Goodput>,
    /// Each metric over the ok requests.
    pub metrics: BTreeMap<Metric, SampleSummary>,
}

/// How much later than it was meant to an open loop sent, in seconds, over all measured requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lateness {
    /// Median.
    pub p50: f64,
    /// 99th percentile; `None` under 100 requests.
    pub p99: Option<f64>,
    /// The largest.
    pub max: f64,
}

impl Lateness {
    fn new(measured: &[&RequestTrace]) -> Option<Self> {
        let late = measured.iter().filter_map(|trace| trace.lateness);
        let sample = Sample::new(late.map(|late| late.as_secs_f64()).collect());
        let p99 = sample.percentile(99.0).filter(|_| sample.len() >= P99_MIN_SAMPLES);
        Some(Self { p50: sample.median()?, p99, max: sample.percentile(100.0)? })
    }
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

/// What a closed level of one request at a time says to those above it, from its requests alone;
/// the same as [`LevelSummary::as_single_stream`].
pub fn single_stream(traces: &[RequestTrace]) -> Option<SingleStream> {
    let measured = measured(traces);
    let ok: Vec<&RequestTrace> =
        measured.iter().copied().filter(|trace| trace.outcome.is_ok()).collect();
    let e2e_mean = load::steady_mean(&ok, edges(&measured, 1)).filter(|mean| !mean.is_zero())?;
    Some(SingleStream { e2e_mean })
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
    let load = Load::new(facts, &measured, &ok);
    let (errors, n_cancelled) = failures(&measured);
    let n_err = errors.values().sum();
    let tokens = token_totals(&ok);
    let wall = wall(&measured);
    let effective = effective::Rule::new(load.concurrency, load.serialness);
    let sample =
        |metric: Metric| Sample::new(ok.iter().filter_map(|trace| metric.of(trace)).collect());
    let (ttft, e2e) = (sample(Metric::Ttft), sample(Metric::E2e));
    let with_failures =
        |ok: &Sample| PercentilesWithFailures::new(ok, usize::try_from(n_err).ok()?);
    LevelSummary {
        concurrency: load.concurrency,
        start_mode: facts.start_mode,
        ended_by: facts.ended_by,
        n_ok: ok.len() as u64,
        n_err,
        n_cancelled,
        n_warmup: (traces.len() - measured.len()) as u64,
        n_stale: measured.iter().filter(|trace| trace.connection.stale).count() as u64,
        lateness: Lateness::new(&measured),
        errors,
        wall,
        tokens,
        throughput_tps: per_second(tokens.output as f64, wall),
        steady: load.steady,
        steady_tps: load.steady_tps(&measured),
        steady_interval: load.steady_interval(&measured),
        occupancy: load.occupancy(&measured),
        serialness: load.serialness,
        e2e_steady_mean: load.e2e_mean,
        stutter_share: stutter_share(&ok, facts.stutter),
        effective_source: effective.source(),
        ttft_all: with_failures(&ttft),
        e2e_all: with_failures(&e2e),
        settling: Settling::new(&ok),
        early_stopping: EarlyStopping::new(&ttft, &e2e),
        goodput: facts.slo.map(|slo| goodput(traces, slo, wall)),
        metrics: stats::summarise_metrics(&ok, effective),
    }
}

/// Says of each measured request whether it belongs to the ramp (ended among the first c ok
/// completions), to the tail (ended after the load had begun to fall off) or to what is between.
/// Warm-up requests stay what they are; in an open loop there is neither ramp nor tail.
pub fn assign_phases(
    concurrency: u32,
    start_mode: StartMode,
    ended_by: EndedBy,
    traces: &mut [RequestTrace],
) {
    let edges = if start_mode.is_closed_loop() {
        edges_of(&measured(traces), concurrency, ended_by)
    } else {
        Edges::default()
    };
    for trace in traces.iter_mut().filter(|trace| trace.is_measured()) {
        trace.phase = phase(trace, edges, start_mode);
    }
}

/// Where the ramp of a closed loop ends and its tail begins.
fn edges_of(measured: &[&RequestTrace], concurrency: u32, ended_by: EndedBy) -> Edges {
    let edges = if ended_by == EndedBy::Killed { edges_when_killed } else { edges };
    edges(measured, concurrency as usize)
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

fn stutter_share(ok: &[&RequestTrace], threshold: Duration) -> Option<f64> {
    let stutters = |trace: &&&RequestTrace| {
        trace.gaps_us.iter().any(|gap| Duration::from_micros(u64::from(*gap)) > threshold)
    };
    let count = ok.iter().filter(stutters).count();
    (!ok.is_empty()).then(|| count as f64 / ok.len() as f64)
}

#[cfg(test)]
mod tests;
