//! One level: load, counters, figures, flags.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bench::client::Endpoint;
use crate::bench::config::{Config, Workload};
use crate::bench::load::{LevelObserver, LevelRun, LevelSpec, run_level};
use crate::bench::prompt_tokens::PromptTokens;
use crate::bench::prompts::PromptCursor;
use crate::bench::telemetry::{
    Recording, Sampler, SamplerConfig, ServerProcesses, WindowFacts, hardware_record,
};
use crate::measure::flags::{ClientFacts, Outside, TokenizerCheck};
use crate::measure::hardware::{Figures, ServerPlace};
use crate::measure::level::{EndedBy, LevelSummary, SingleStream};
use crate::measure::steady::{Window, tokens_within};
use crate::measure::trace::RequestTrace;
use crate::results::journal::{Beside, LevelHead};
use crate::results::record::{ClientFloor, Level};

use super::place::place;

/// How long the counters are read before the load begins: the power at rest, and what a sensor's
/// average still remembers.
const IDLE_BEFORE: Duration = Duration::from_secs(2);

/// What a level needs to know beside its concurrency.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The target and its work.
    pub config: &'a Config,
    /// Where requests go.
    pub endpoint: &'a Endpoint,
    /// The server's process, where we started it.
    pub server_pid: Option<u32>,
    /// What the server tells of its model, where we started it.
    pub model_meta: Option<&'a Value>,
    /// Settings that were read back differently.
    pub settings_not_applied: &'a [String],
    /// The model's own tokenizer, where the config names it.
    pub tokens: Option<&'a PromptTokens>,
    /// The harness's own error.
    pub floor: Option<&'a ClientFloor>,
}

/// A level that was measured.
#[derive(Debug)]
pub struct Measured {
    /// As it stands in a results file.
    pub level: Level,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// What later levels are compared with, if this was c = 1.
    pub single: Option<SingleStream>,
    /// What the answers' headers say of who answered.
    pub headers: std::collections::BTreeMap<String, String>,
    /// The counters over time, if they were asked for.
    pub series: Option<String>,
}

/// Runs one level and works out what it shows.
///
/// # Errors
/// If the system gives no threads; whatever the server does is a record.
pub async fn measure(
    around: Surroundings<'_>,
    head: &LevelHead,
    spec: &LevelSpec,
    prompts: &mut PromptCursor,
    observer: &dyn LevelObserver,
    cancel: &CancellationToken,
) -> io::Result<Measured> {
    let sampler = Sampler::start(sampler_config(around))?;
    let idle_from = Instant::now();
    tokio::select! {
        () = tokio::time::sleep(IDLE_BEFORE) => {}
        () = cancel.cancelled() => {}
    }
    let run = run_level(around.endpoint, prompts, spec, observer, cancel).await?;
    let place = match around.server_pid {
        Some(_) => ServerPlace::Here,
        None => place(around.endpoint).await,
    };
    let recording =
        tokio::task::spawn_blocking(move || sampler.stop()).await.map_err(io::Error::other)?;

    let summary = head.summarise(run.start_mode, run.ended_by, &run.traces);
    let hardware = hardware(around, &run, &summary, &recording, (idle_from, run.epoch), place);
    let beside = Beside {
        hardware: Some(hardware_record(&hardware)),
        floor: around.floor,
        outside: outside(around, &run, &summary, &hardware, prompts),
    };
    Ok(Measured {
        level: head.level(&summary, &run.traces, beside),
        ended_by: run.ended_by,
        single: summary.as_single_stream(),
        headers: run.response_headers,
        series: around.config.workload.save_series.then(|| recording.series_csv(run.epoch)),
    })
}

fn sampler_config(around: Surroundings<'_>) -> SamplerConfig {
    let period = around.config.hardware.sample_period.unwrap_or(Workload::SAMPLE_PERIOD);
    let server = around.server_pid.map(|pid| ServerProcesses { root: pid, group: Some(pid) });
    SamplerConfig { period: period.0, server, ..SamplerConfig::default() }
}

/// The counters over the steady window, or over the whole measured part where there is none.
fn hardware(
    around: Surroundings<'_>,
    run: &LevelRun,
    summary: &LevelSummary,
    recording: &Recording,
    idle: (Instant, Instant),
    place: ServerPlace,
) -> Figures {
    let from = run.measured_from.unwrap_or_default();
    let window = summary.steady.unwrap_or(Window { t0: from, t1: from + summary.wall });
    let measured: Vec<&RequestTrace> =
        run.traces.iter().filter(|trace| trace.is_measured()).collect();
    let output = tokens_within(&measured, window);
    // Prompts are computed before the first token: those whose first token fell into the window.
    let in_window = |trace: &&&RequestTrace| {
        let first = trace.stamps.first_text.map(|first| trace.start + first);
        first.is_some_and(|first| window.t0 < first && first <= window.t1)
    };
    let prompt: u64 =
        measured.iter().filter(in_window).filter_map(|trace| trace.tokens.n_prompt).sum();
    let lag = run.loop_lag.percentile(99).map(|lag| lag.as_secs_f64() * 1e3);
    recording.figures(&WindowFacts {
        idle: Some(idle),
        output_tokens: (output > 0.0).then_some(output),
        total_tokens: (output > 0.0).then_some(output + prompt as f64),
        wall_power_w: around.config.hardware.wall_power_w.map(|watts| watts.get()),
        loop_lag_ms_p99: lag,
        place,
        ..WindowFacts::new(run.epoch + window.t0, run.epoch + window.t1)
    })
}

/// What neither the level's head nor its requests tell.
fn outside(
    around: Surroundings<'_>,
    run: &LevelRun,
    summary: &LevelSummary,
    hardware: &Figures,
    prompts: &PromptCursor,
) -> Outside {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let window = summary.steady.map_or(summary.wall, |steady| steady.length()).as_secs_f64();
    let cpu_s = hardware.harness.and_then(|harness| harness.cpu_s);
    Outside {
        client: ClientFacts {
            cpu_share: cpu_s.filter(|_| window > 0.0).map(|cpu_s| cpu_s / window / cores),
            loop_lag_p99: run.loop_lag.percentile(99),
            ..ClientFacts::default()
        },
        tokenizer: around.tokens.and_then(|tokens| prompt_counts(tokens, run, prompts)),
        gpus: hardware.gpu_facts(),
        measures_power: hardware.measures_power(),
        ..Outside::default()
    }
}

/// The server's counts of prompt tokens against the tokenizer's; `None` where salt lines changed
/// prompts.
fn prompt_counts(
    tokens: &PromptTokens,
    run: &LevelRun,
    prompts: &PromptCursor,
) -> Option<TokenizerCheck> {
    let measured = run.traces.iter().filter(|trace| trace.is_measured());
    let told: Vec<(u32, u64)> =
        measured.filter_map(|trace| Some((trace.prompt_index, trace.tokens.n_prompt?))).collect();
    let salted = run.traces.iter().any(|trace| trace.is_measured() && trace.prompt.is_salted);
    (!salted).then(|| tokens.check(prompts.file(), &told)).flatten()
}
