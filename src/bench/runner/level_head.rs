//! What is known of a level before its first request: the head of its lines in the journal, by which
//! the run itself works out its figures too.

use serde_json::Value;

use super::level::Surroundings;
use crate::bench::config::target::{HardwareFacts, ModelFacts};
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
    let Config { target, workload: work, slo, hardware, model, .. } = around.config;
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
        ceiling_tps: ceiling(hardware, model, around.model_meta),
        save_gaps: work.save_gaps,
        save_text: work.save_text,
    }
}

/// The most tokens per second and stream that the memory allows. The bandwidth stands in the config;
/// the model's bytes are the server's own figure, or else the config's.
fn ceiling(
    hardware: &HardwareFacts,
    model: &ModelFacts,
    model_meta: Option<&Value>,
) -> Option<f64> {
    const GIGA: f64 = 1e9;
    let bandwidth = hardware.bandwidth_gb_s?.get() * GIGA;
    let told = model_meta.and_then(|meta| meta.get("bytes_read_per_token")?.as_u64());
    let bytes = told.or(model.bytes_read_per_token)? as f64;
    (bytes > 0.0).then(|| bandwidth / bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::config::values::Positive;

    #[test]
    fn the_ceiling_takes_the_servers_bytes_before_the_configs() {
        let bandwidth = Some(Positive::try_from(200.0).unwrap());
        let fast = HardwareFacts { bandwidth_gb_s: bandwidth, ..HardwareFacts::default() };
        let silent = ModelFacts::default();
        let known = ModelFacts { bytes_read_per_token: Some(4_000_000_000), ..silent.clone() };
        let told = json!({"bytes_read_per_token": 10_000_000_000_u64});
        assert_eq!(ceiling(&HardwareFacts::default(), &known, Some(&told)), None, "no bandwidth");
        assert_eq!(ceiling(&fast, &silent, None), None, "no bytes");
        assert_eq!(ceiling(&fast, &silent, Some(&told)), Some(20.0));
        assert_eq!(ceiling(&fast, &known, None), Some(50.0));
        assert_eq!(ceiling(&fast, &known, Some(&json!({"n_params": 1}))), Some(50.0));
        assert_eq!(ceiling(&fast, &known, Some(&told)), Some(20.0));
    }
}
