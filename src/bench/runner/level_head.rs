//! What is known of a level before its first request: the head of its lines in the journal, by which
//! the run itself works out its figures too.

use super::level::Surroundings;
use crate::bench::config::{Config, TimeSpan};
use crate::measure::level::SingleStream;
use crate::results::journal::{LevelHead, Promise};

/// The head of a level of that key and concurrency that follows a c = 1 level like `single`.
pub fn level_head(
    around: Surroundings<'_>,
    key: String,
    concurrency: u32,
    start_mode: String,
    single: Option<SingleStream>,
) -> LevelHead {
    let Config { target, workload: work, slo, .. } = around.config;
    let seconds = |time: Option<TimeSpan>| time.map(|time| time.0.as_secs_f64());
    LevelHead {
        key,
        concurrency,
        start_mode,
        stutter_ms: work.stutter_ms.get(),
        single_e2e_s: single.map(|single| single.e2e_mean.as_secs_f64()),
        slo: Promise { ttft_s: seconds(slo.ttft), tpot_s: seconds(slo.tpot) },
        max_tokens: Some(u64::from(work.max_tokens.get())),
        ignore_eos: work.ignore_eos,
        model: target.model.to_string(),
        accept_models: target.accept_models.clone(),
        settings_not_applied: around.settings_not_applied.to_vec(),
        ceiling_tps: ceiling(around.config),
        save_gaps: work.save_gaps,
        save_text: work.save_text,
    }
}

/// The most tokens per second and stream that the memory allows, where the config says enough.
fn ceiling(config: &Config) -> Option<f64> {
    const GIGA: f64 = 1e9;
    let bandwidth = config.hardware.bandwidth_gb_s?.get() * GIGA;
    let bytes = config.model.bytes_read_per_token? as f64;
    (bytes > 0.0).then(|| bandwidth / bytes)
}
