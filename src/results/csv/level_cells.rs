//! The columns of `levels.csv`.

use std::collections::BTreeMap;

use super::{Cell, Cells};
use crate::results::brief::BriefLevel;
use crate::results::record::{
    Gpu, Hardware, METRICS, Meta, MetricStats, ResultsFile, Summary, Verdict,
};
use crate::results::store::StoredRun;

/// Their names.
pub(super) fn columns() -> Vec<String> {
    let run = StoredRun { path: "".into(), file: ResultsFile::new(Meta::default()).brief() };
    cells(&run, None).into_iter().map(|(name, _)| name).collect()
}

/// One row; `level` is `None` for a run that measured nothing.
pub(super) fn cells(run: &StoredRun, level: Option<&BriefLevel>) -> Cells {
    let mut cells = run_cells(run);
    cells.extend(summary_cells(level.map(|level| &level.summary)));
    cells.extend(verdict_cells(level));
    for name in METRICS {
        let stats = level.and_then(|level| level.summary.metric(name));
        cells.extend(metric_cells(name, stats));
    }
    cells.extend(hardware_cells(level.and_then(|level| level.hardware.as_ref())));
    cells
}

fn named<const N: usize>(cells: [(&str, Cell); N]) -> Cells {
    cells.into_iter().map(|(name, cell)| (name.to_owned(), cell)).collect()
}

fn run_cells(run: &StoredRun) -> Cells {
    let (file, meta) = (&run.file, &run.file.meta);
    let (outcome, reason) = match (&file.failed, &file.skipped) {
        (Some(reason), _) => ("failed", Some(reason)),
        (_, Some(reason)) => ("skipped", Some(reason)),
        _ if file.interrupted => ("interrupted", None),
        _ => ("ok", None),
    };
    let server = meta.server.as_ref();
    let host = meta.host.as_ref();
    named([
        ("file", Cell::text(run.name())),
        ("date", Cell::text(&meta.date)),
        ("target", Cell::text(&meta.target)),
        ("change", Cell::text(&meta.change)),
        ("model", Cell::text(&meta.model)),
        ("base_model", Cell::Text(meta.base_model.clone())),
        ("precision", Cell::text(&meta.precision)),
        ("prompts", Cell::text(&meta.prompts)),
        ("prompts_sha256", Cell::Text(meta.prompts_sha256.clone())),
        ("max_tokens", Cell::Count(Some(meta.max_tokens))),
        ("ignore_eos", Cell::YesNo(Some(meta.ignore_eos))),
        ("open_rate_per_s", Cell::Float(meta.open_rate_per_s)),
        ("requests_asked_for", Cell::Count(Some(meta.n))),
        ("repeat", Cell::Count(meta.repeat.map(u64::from))),
        ("client", Cell::text(&meta.client)),
        ("base_url", Cell::text(&meta.base_url)),
        ("git_sha", Cell::text(&meta.git_sha)),
        ("git_dirty", Cell::YesNo(meta.git_dirty)),
        ("harness_version", Cell::Text(meta.harness_version.clone())),
        ("engine", Cell::Text(server.and_then(|server| server.engine.clone()))),
        ("engine_version", Cell::Text(server.and_then(|server| server.version.clone()))),
        ("host_hash", Cell::Text(host.and_then(|host| host.hostname_hash.clone()))),
        ("host_cpu", Cell::Text(host.and_then(|host| host.cpu.clone()))),
        ("outcome", Cell::text(outcome)),
        ("outcome_reason", Cell::Text(reason.map(|reason| reason.reason.clone()))),
        ("outcome_text", Cell::Text(reason.map(|reason| reason.text.clone()))),
    ])
}

fn summary_cells(summary: Option<&Summary>) -> Cells {
    let count = |get: fn(&Summary) -> u64| Cell::Count(summary.map(get));
    let float = |get: fn(&Summary) -> Option<f64>| Cell::Float(summary.and_then(get));
    let text = |get: fn(&Summary) -> &str| Cell::Text(summary.map(|s| get(s).to_owned()));
    named([
        ("concurrency", count(|s| u64::from(s.concurrency))),
        ("n", count(|s| s.n)),
        ("n_ok", count(|s| s.n_ok)),
        ("n_err", count(|s| s.n_err)),
        ("n_cancelled", count(|s| s.n_cancelled)),
        ("n_warmup", count(|s| s.n_warmup)),
        ("n_stale", Cell::Count(summary.and_then(|s| s.n_stale))),
        ("lateness_s_p50", float(|s| s.lateness_s_p50)),
        ("lateness_s_p99", float(|s| s.lateness_s_p99)),
        ("errors", Cell::Text(summary.map(|s| counts(&s.errors)))),
        ("wall_s", float(|s| Some(s.wall_s))),
        // Of fewer ok requests than workers it would be that of a smaller load.
        ("throughput_tps", float(|s| s.throughput_tps.filter(|_| s.fills_its_workers()))),
        ("steady_tps", float(|s| s.steady_tps)),
        ("steady_t0_s", float(|s| s.steady_t0_s)),
        ("steady_t1_s", float(|s| s.steady_t1_s)),
        ("occupancy", float(|s| s.occupancy)),
        ("serialness", float(|s| s.serialness)),
        ("stutter_share", float(|s| s.stutter_share)),
        ("start_mode", text(|s| &s.start_mode)),
        ("ended_by", text(|s| &s.ended_by)),
        ("prompt_tokens", count(|s| s.prompt_tokens)),
        ("output_tokens", count(|s| s.output_tokens)),
        ("cached_tokens", count(|s| s.cached_tokens)),
        ("n_eff_source", text(|s| &s.n_eff_source)),
        ("ttft_all_p50_s", float(|s| s.ttft_all?.p50)),
        ("ttft_all_p90_s", float(|s| s.ttft_all?.p90)),
        ("ttft_all_p99_s", float(|s| s.ttft_all?.p99)),
        ("e2e_all_p50_s", float(|s| s.e2e_all?.p50)),
        ("e2e_all_p90_s", float(|s| s.e2e_all?.p90)),
        ("e2e_all_p99_s", float(|s| s.e2e_all?.p99)),
    ])
}

/// "connect 2; http_429 3".
fn counts(by_name: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> =
        by_name.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join("; ")
}

fn verdict_cells(level: Option<&BriefLevel>) -> Cells {
    let verdict = level.map(|level| match level.verdict {
        Verdict::Valid => "valid",
        Verdict::Flagged => "flagged",
        Verdict::Invalid => "invalid",
    });
    let joined = |get: fn(&crate::results::record::Flag) -> &str| {
        level.map(|level| level.flags.iter().map(get).collect::<Vec<_>>().join("; "))
    };
    named([
        ("verdict", Cell::Text(verdict.map(str::to_owned))),
        ("flags", Cell::Text(joined(|flag| &flag.name))),
        ("flag_texts", Cell::Text(joined(|flag| &flag.text))),
    ])
}

/// `ttft_p50_s` and so on; rates carry their unit already.
fn metric_cells(name: &str, stats: Option<&MetricStats>) -> Cells {
    let unit = if name.ends_with("_tps") { "" } else { "_s" };
    let float = |key: &str, get: fn(&MetricStats) -> Option<f64>| {
        (format!("{name}_{key}{unit}"), Cell::Float(stats.and_then(get)))
    };
    vec![
        float("p50", |m| m.p50),
        float("p90", |m| m.p90),
        float("p95", |m| m.p95),
        float("p99", |m| m.p99),
        float("mean", |m| m.mean),
        float("min", |m| m.min),
        float("max", |m| m.max),
        (format!("{name}_n"), Cell::Count(stats.map(|m| m.n))),
        (format!("{name}_n_eff"), Cell::Float(stats.and_then(|m| m.n_eff))),
        float("p50_ci_low", |m| m.p50_ci?[0]),
        float("p50_ci_high", |m| m.p50_ci?[1]),
        float("p90_ci_low", |m| m.p90_ci?[0]),
        float("p90_ci_high", |m| m.p90_ci?[1]),
        float("p99_ci_low", |m| m.p99_ci?[0]),
        float("p99_ci_high", |m| m.p99_ci?[1]),
    ]
}

/// What is known of `values`, folded into one; `None` where nothing is known.
fn fold(values: Vec<Option<f64>>, fold: fn(&[f64]) -> f64) -> Cell {
    let known: Vec<f64> = values.into_iter().flatten().collect();
    Cell::Float((!known.is_empty()).then(|| fold(&known)))
}

/// Several devices in use are one figure: means averaged, watts, joules and bytes added.
fn hardware_cells(hardware: Option<&Hardware>) -> Cells {
    let gpus = hardware.map_or_else(Vec::new, Hardware::gpus_in_use);
    let each = |get: fn(&Gpu) -> Option<f64>| gpus.iter().map(|gpu| get(gpu)).collect::<Vec<_>>();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let max = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
    let min = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
    let float = |get: fn(&Hardware) -> Option<f64>| Cell::Float(hardware.and_then(get));
    let bytes = |get: fn(&Hardware) -> Option<u64>| Cell::Count(hardware.and_then(get));
    let text = |get: fn(&Hardware) -> &Option<String>| {
        Cell::Text(hardware.and_then(|hardware| get(hardware).clone()))
    };
    named([
        ("gpu_count", Cell::Count(hardware.map(|_| gpus.len() as u64))),
        ("gpu_reason", text(|h| &h.gpu_reason)),
        ("gpu_util_pct_mean", fold(each(|gpu| gpu.util_pct_mean), mean)),
        ("gpu_util_pct_max", fold(each(|gpu| gpu.util_pct_max), max)),
        ("gpu_power_w_mean", fold(each(|gpu| gpu.power_w_mean), sum)),
        ("gpu_power_w_max", fold(each(|gpu| gpu.power_w_max), sum)),
        ("gpu_energy_j", fold(each(|gpu| gpu.energy_j), sum)),
        ("gpu_sm_clock_mhz_mean", fold(each(|gpu| gpu.sm_clock_mhz_mean), mean)),
        ("gpu_sm_clock_mhz_min", fold(each(|gpu| gpu.sm_clock_mhz_min), min)),
        ("gpu_memory_clock_mhz_mean", fold(each(|gpu| gpu.memory_clock_mhz_mean), mean)),
        ("gpu_temp_c_max", fold(each(|gpu| gpu.temp_c_max), max)),
        (
            "gpu_memory_used_bytes_max",
            fold(each(|gpu| gpu.memory_used_bytes_max.map(|bytes| bytes as f64)), sum),
        ),
        ("memory_source", text(|h| &h.memory_source)),
        ("hardware_samples", bytes(|h| Some(h.samples))),
        ("hardware_period_ms_p50", float(|h| h.period_ms_p50)),
        ("hardware_coverage", float(|h| h.coverage)),
        ("server_cpu_s", float(|h| h.server?.cpu_s)),
        ("server_rss_bytes_max", bytes(|h| h.server?.rss_bytes_max)),
        ("server_pss_bytes_max", bytes(|h| h.server?.pss_bytes_max)),
        ("harness_cpu_s", float(|h| h.harness?.cpu_s)),
        ("harness_rss_bytes_max", bytes(|h| h.harness?.rss_bytes_max)),
        ("harness_loop_lag_ms_p99", float(|h| h.harness?.loop_lag_ms_p99)),
        ("host_cpu_pct_mean", float(|h| h.host?.cpu_pct_mean)),
        ("host_load_1m", float(|h| h.host?.load_1m)),
        ("host_mem_available_bytes_min", bytes(|h| h.host?.mem_available_bytes_min)),
        ("host_swap_used_bytes_max", bytes(|h| h.host?.swap_used_bytes_max)),
        ("joules_per_output_token", float(|h| h.joules_per_output_token)),
        ("joules_per_total_token", float(|h| h.joules_per_total_token)),
        ("joules_per_output_token_above_idle", float(|h| h.joules_per_output_token_above_idle)),
        ("energy_source", text(|h| &h.energy_source)),
    ])
}
