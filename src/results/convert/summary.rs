//! A level's figures as they stand in a results file.

use crate::measure::level::{LevelSummary, SampleSummary};
use crate::measure::order_statistics::Interval;
use crate::measure::sample::PercentilesWithFailures;
use crate::results::record::{MetricStats, MetricTable, PercentilesAll, Summary};

/// The summary of a level as it stands in a results file.
pub fn summary(level: &LevelSummary) -> Summary {
    let metrics = level.metrics.iter().map(|(name, of)| (name.name().to_owned(), stats(of)));
    let errors = level.errors.iter().map(|(class, count)| (class.to_string(), *count));
    Summary {
        concurrency: level.concurrency,
        n: level.n(),
        n_ok: level.n_ok,
        n_err: level.n_err,
        n_cancelled: level.n_cancelled,
        n_warmup: level.n_warmup,
        errors: errors.collect(),
        wall_s: level.wall.as_secs_f64(),
        throughput_tps: level.throughput_tps,
        steady_tps: level.steady_tps,
        steady_t0_s: level.steady.map(|window| window.t0.as_secs_f64()),
        steady_t1_s: level.steady.map(|window| window.t1.as_secs_f64()),
        occupancy: level.occupancy,
        serialness: level.serialness,
        stutter_share: level.stutter_share,
        start_mode: level.start_mode.name().to_owned(),
        n_eff_source: level.effective_source.name().to_owned(),
        ended_by: level.ended_by.name().to_owned(),
        prompt_tokens: level.tokens.prompt,
        output_tokens: level.tokens.output,
        cached_tokens: level.tokens.cached,
        ttft_all: level.ttft_all.map(with_failures),
        e2e_all: level.e2e_all.map(with_failures),
        metrics: MetricTable(metrics.collect()),
    }
}

fn stats(of: &SampleSummary) -> MetricStats {
    let ends = |interval: Option<Interval>| interval.map(|of| [of.low, of.high]);
    MetricStats {
        p50: of.p50,
        p90: of.p90,
        p95: of.p95,
        p99: of.p99,
        mean: of.mean,
        min: of.min,
        max: of.max,
        n: of.n,
        n_eff: of.n_eff,
        p50_ci: ends(of.p50_interval),
        p90_ci: ends(of.p90_interval),
        p99_ci: ends(of.p99_interval),
    }
}

fn with_failures(of: PercentilesWithFailures) -> PercentilesAll {
    PercentilesAll {
        p50: of.p50,
        p90: of.p90,
        p99: of.p99,
        infinite_from_percent: of.infinite_from_percent,
    }
}
