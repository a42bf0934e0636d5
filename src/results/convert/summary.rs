//! A level's figures as they stand in a results file.

use crate::measure::definitions::DEFINITIONS;
use crate::measure::goodput;
use crate::measure::level::{self, LevelSummary, SampleSummary};
use crate::measure::mser::Mser;
use crate::measure::order_statistics::Interval;
use crate::measure::sample::PercentilesWithFailures;
use crate::results::record::{
    EarlyStopping, Goodput, MetricStats, MetricTable, PercentilesAll, Settling, Summary,
};
use std::collections::BTreeMap;

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
        n_stale: Some(level.n_stale),
        lateness_s_p50: level.lateness.map(|late| late.p50),
        lateness_s_p99: level.lateness.and_then(|late| late.p99),
        errors: errors.collect(),
        wall_s: level.wall.as_secs_f64(),
        throughput_tps: level.throughput_tps,
        steady_tps: level.steady_tps,
        steady_tps_ci: level.steady_interval.map(|interval| [interval.low, interval.high]),
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
        settling: settling(level.settling),
        early_stopping: early_stopping(level.early_stopping),
        goodput: level.goodput.map(goodput),
        metrics: MetricTable(metrics.collect()),
    }
}

/// What each figure means, as it stands in every results file.
pub fn definitions() -> BTreeMap<String, String> {
    DEFINITIONS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
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

fn settling(of: level::Settling) -> Settling {
    let cut = |check: Option<Mser>| check.map(|check| check.cut as u64);
    let unsettled = |check: Option<Mser>| check.map(|check| check.at_bound);
    Settling {
        ttft_cut: cut(of.ttft),
        ttft_unsettled: unsettled(of.ttft),
        decode_tps_cut: cut(of.decode_tps),
        decode_tps_unsettled: unsettled(of.decode_tps),
    }
}

fn early_stopping(of: level::EarlyStopping) -> EarlyStopping {
    EarlyStopping {
        ttft_p90: of.ttft_p90,
        ttft_p99: of.ttft_p99,
        e2e_p90: of.e2e_p90,
        e2e_p99: of.e2e_p99,
    }
}

fn goodput(of: goodput::Goodput) -> Goodput {
    Goodput {
        slo_ttft_s: of.slo.ttft.as_secs_f64(),
        slo_tpot_s: of.slo.tpot.as_secs_f64(),
        good: of.good,
        attainment: of.attainment,
        rate_per_s: of.rate_per_s,
    }
}
