//! What results files say to the analyses: the road from a file's keys to `analyse`'s inputs.

use std::time::Duration;

use serde_json::Value;

use crate::analyse::compare::Series;
use crate::analyse::cost::{ApiPrice, Workload};
use crate::analyse::littles_law::LevelPoint;
use crate::analyse::roofline::{PrefillModel, StepBytes};
use crate::measure::batch_means::MeanInterval;
use crate::measure::effective_mean::effective_mean;
use crate::measure::level::EffectiveRule;
use crate::measure::metrics::Metric;
use crate::measure::sample::Sample;
use crate::results::brief::{Brief, BriefFile, BriefLevel};
use crate::results::record::{Meta, Verdict};

/// What is known of a model and its machine: by the server's own account, else by the config.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelAndMachine {
    /// Bytes of the weights' file.
    pub weight_bytes: Option<f64>,
    /// Bytes of weights that one decode step reads.
    pub bytes_read_per_token: Option<f64>,
    /// Bytes of keys and values for each token of context.
    pub kv_bytes_per_token: Option<f64>,
    /// Parameters.
    pub n_params: Option<f64>,
    /// Parameters of the embedding table, of which a prompt token reads one row and multiplies none.
    pub table_params: Option<f64>,
    /// The arithmetic of prefill, where the server tells the model's shape.
    pub prefill: Option<PrefillModel>,
    /// Memory bandwidth by the data sheet, bytes per second.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Peak rate of arithmetic by the data sheet, operations per second.
    pub flops_per_s: Option<f64>,
}

impl ModelAndMachine {
    /// What a results file says.
    pub fn of(meta: &Meta) -> Self {
        let server = meta.server.as_ref().and_then(|server| server.model_meta.as_ref());
        let fact = |table: &str, key: &str| number(meta.facts.get(table)?.get(key)?);
        let either = |of_server: &str, of_config: &str| {
            let told = server.and_then(|meta| number(meta.get(of_server)?));
            told.or_else(|| fact("model", of_config))
        };
        Self {
            weight_bytes: either("size_bytes", "weight_bytes").or_else(|| {
                // Some servers name the size of their model's file so.
                server.and_then(|meta| number(meta.get("size")?))
            }),
            bytes_read_per_token: either("bytes_read_per_token", "bytes_read_per_token"),
            kv_bytes_per_token: either("kv_bytes_per_token", "kv_bytes_per_token"),
            n_params: either("n_params", "n_params"),
            table_params: server.and_then(table_params),
            prefill: server.and_then(prefill_model),
            flops_per_s: fact("hardware", "flops_bf16"),
            bandwidth_bytes_per_s: fact("hardware", "bandwidth_gb_s").map(|gb| gb * 1e9),
        }
    }

    /// What a decode step reads, where both figures are known.
    pub fn step_bytes(&self) -> Option<StepBytes> {
        let (weights, kv_per_token) = (self.bytes_read_per_token?, self.kv_bytes_per_token?);
        Some(StepBytes { weights, kv_per_token })
    }
}

/// The matrices of a dense transformer, from the figures that a server tells of its model:
/// P_mm = parameters − embedding − output matrix − norms. The two tables are one where a step reads
/// the whole file (tied); heads are d/H wide.
fn prefill_model(meta: &Value) -> Option<PrefillModel> {
    let figure = |key: &str| number(meta.get(key)?);
    let (params, layers, width) = (figure("n_params")?, figure("n_layer")?, figure("n_embd")?);
    let table = table_params(meta)?;
    let tied = figure("bytes_read_per_token")? >= figure("size_bytes")?;
    let tables = if tied { table } else { 2.0 * table };
    let norms = (2.0 * layers + 1.0) * width;
    let matrix_params = params - tables - norms;
    (matrix_params > 0.0).then_some(PrefillModel {
        matrix_params,
        head_params: table,
        layers,
        attention_width: width,
    })
}

fn table_params(meta: &Value) -> Option<f64> {
    Some(number(meta.get("n_vocab")?)? * number(meta.get("n_embd")?)?)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| *number > 0.0)
}

/// The measured ok requests of a level, in send order.
pub fn measured_ok(level: &BriefLevel) -> Vec<&Brief> {
    let kept = |record: &&Brief| record.is_measured_ok();
    let mut requests: Vec<&Brief> = level.requests.iter().filter(kept).collect();
    requests.sort_by_key(|record| record.index());
    requests
}

/// One metric of a level's measured ok requests, prompt by prompt, in send order. Empty for the
/// metrics that a brief record does not keep: `ttft_answer`, `tpot` (one over `decode_tps`) and gaps.
pub fn series(level: &BriefLevel, metric: Metric) -> Series {
    let value = |record: &Brief| match metric {
        Metric::Ttft => record.ttft(),
        Metric::E2e => record.e2e(),
        Metric::LastToken => record.last_token(),
        Metric::DecodeTps => record.decode_tps(),
        Metric::MaxGap => record.max_gap(),
        Metric::Queue => record.queue_s(),
        Metric::Prefill => record.prefill_s(),
        Metric::TtftAnswer | Metric::Tpot | Metric::Gap => None,
    };
    let usable = |record: &&Brief| {
        let value = value(record).filter(|value| *value > 0.0 && value.is_finite())?;
        Some((record.prompt_index(), value))
    };
    Series {
        values: measured_ok(level).iter().filter_map(usable).collect(),
        n_eff: level.summary.metric(metric.name()).and_then(|stats| stats.n_eff),
        correlation_time_min: EffectiveRule::new(
            level.summary.concurrency,
            level.summary.serialness,
        )
        .time_min(metric),
    }
}

/// Throughput of a level: the steady one where there is one, else over the wall time; none of a level
/// whose few requests never kept its workers busy.
pub fn throughput(level: &BriefLevel) -> Option<f64> {
    let summary = &level.summary;
    let tps = summary.steady_tps.or(summary.throughput_tps);
    tps.filter(|_| summary.fills_its_workers())
}

/// Steady throughput with its interval by batch means.
pub fn steady_rate(level: &BriefLevel) -> Option<MeanInterval> {
    let [low, high] = level.summary.steady_tps_ci?;
    let mean = f64::midpoint(low, high);
    (mean > 0.0).then_some(MeanInterval { mean, std_dev: f64::NAN, low, high })
}

/// What Little's law needs of each level that has it: latencies between ramp and tail, since the
/// first c requests meet a queue that is still filling.
pub fn level_points(file: &BriefFile) -> Vec<LevelPoint> {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|t| !t.is_zero());
    let point = |level: &BriefLevel| {
        let requests = measured_ok(level);
        // Under three requests a worker there is no steady state to speak of.
        let summary = &level.summary;
        if summary.n_ok < 3 * u64::from(summary.concurrency) {
            return None;
        }
        let steady = requests.iter().filter(|record| record.is_steady());
        let (e2e, ttft): (Vec<f64>, Vec<f64>) =
            steady.filter_map(|record| record.e2e().zip(record.ttft())).unzip();
        let n_eff = EffectiveRule::new(summary.concurrency, summary.serialness)
            .sample_size(Metric::E2e, &e2e);
        let interval = n_eff.and_then(|n_eff| effective_mean(&e2e, n_eff));
        // A file of another harness knows no phases, and may have no means.
        let of_summary = |name| level.summary.metric(name);
        let e2e = Sample::new(e2e)
            .mean()
            .or_else(|| of_summary("e2e")?.mean)
            .or_else(|| of_summary("e2e")?.p50)?;
        let ttft = Sample::new(ttft).median().or_else(|| of_summary("ttft")?.p50)?;
        Some(LevelPoint {
            concurrency: level.summary.concurrency,
            e2e_mean: time(e2e)?,
            e2e_half: interval.and_then(|interval| time((interval.high - interval.low) / 2.0)),
            ttft_p50: time(ttft)?,
            throughput_tps: throughput(level).filter(|tps| *tps > 0.0)?,
        })
    };
    // Little's law of a closed loop: in an open one nothing waits for what is ahead of it.
    file.levels.iter().filter(|level| !level.is_open()).filter_map(point).collect()
}

/// The level at a concurrency: of a closed loop, for an open one keeps none.
pub fn level_at(file: &BriefFile, concurrency: u32) -> Option<&BriefLevel> {
    let mut closed = file.levels.iter().filter(|level| !level.is_open());
    closed.find(|level| level.summary.concurrency == concurrency)
}

/// The level that stands at the same place of another run's ladder.
pub fn counterpart<'a>(file: &'a BriefFile, level: &BriefLevel) -> Option<&'a BriefLevel> {
    let place = |level: &BriefLevel| level.rung().unwrap_or(level.summary.concurrency);
    file.levels.iter().find(|other| place(other) == place(level))
}

/// The level with the largest throughput among those that are not invalid.
pub fn busiest(file: &BriefFile) -> Option<&BriefLevel> {
    let believed = file.levels.iter().filter(|level| level.verdict != Verdict::Invalid);
    let rated = believed.filter_map(|level| Some((level, throughput(level)?)));
    let rated = rated.filter(|(_, tps)| *tps > 0.0);
    rated.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(level, _)| level)
}

/// An API's price for a million output tokens with the prompts that came with them, by the config.
pub fn price_per_output_mtok(meta: &Meta, level: &BriefLevel) -> Option<f64> {
    let price = meta.price.as_ref()?;
    let get = |key: &str| price.get(key).and_then(Value::as_f64);
    let input_per_mtok = get("input_per_mtok").unwrap_or(0.0);
    let price = ApiPrice {
        input_per_mtok,
        cached_per_mtok: get("cached_per_mtok").unwrap_or(input_per_mtok),
        output_per_mtok: get("output_per_mtok")?,
    };
    price.blended_per_output_mtok(&work_of(level)).filter(|usd| *usd > 0.0)
}

/// The tokens of a level's ok requests. Files of other harnesses have no sums: there the requests'
/// own counts are added up.
pub fn work_of(level: &BriefLevel) -> Workload {
    let summary = &level.summary;
    if summary.output_tokens == 0 {
        let requests = measured_ok(level);
        let sum = |count: fn(&Brief) -> Option<u64>| {
            requests.iter().filter_map(|request| count(request)).sum::<u64>() as f64
        };
        return Workload {
            prompt: sum(|request| request.n_prompt()),
            cached: sum(|request| request.n_cached()),
            output: sum(|request| request.n_out()),
        };
    }
    Workload {
        prompt: summary.prompt_tokens as f64,
        cached: summary.cached_tokens as f64,
        output: summary.output_tokens as f64,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::measure::sample::tests::assert_close;
    use crate::results::record::Summary;

    #[test]
    fn few_requests_have_no_throughput_of_many_workers() {
        let level = |n_ok: u64, start_mode: &str| BriefLevel {
            summary: Summary {
                concurrency: 16,
                n_ok,
                start_mode: start_mode.into(),
                throughput_tps: Some(502.0),
                ..Summary::default()
            },
            ..BriefLevel::default()
        };
        assert_eq!(throughput(&level(5, "staggered")), None);
        assert_eq!(throughput(&level(16, "staggered")), Some(502.0));
        assert_eq!(throughput(&level(5, "open_poisson")), Some(502.0), "it has no workers");
    }

    #[test]
    fn the_matrices_of_llama_8b_and_of_a_tied_model() {
        let llama = prefill_model(&json!({
            "n_params": 8_030_261_248u64, "n_layer": 32, "n_embd": 4096, "n_vocab": 128_256,
            "size_bytes": 16_060_522_496u64, "bytes_read_per_token": 15_009_857_536u64,
        }));
        let llama = llama.unwrap();
        assert_close(llama.matrix_params, 6_979_321_856.0);
        assert_close(llama.head_params, 525_336_576.0);
        assert_close(llama.flops(2000), 28_966_914_097_152.0);
        let small = prefill_model(&json!({
            "n_params": 134_515_008, "n_layer": 30, "n_embd": 576, "n_vocab": 49_152,
            "size_bytes": 269_100_288, "bytes_read_per_token": 269_100_288,
        }));
        // Each layer: q and o 576·576, k and v 576·192, three of 576·1,536.
        let layer = 2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1_536;
        assert_close(small.unwrap().matrix_params, f64::from(30 * layer));
        assert_eq!(prefill_model(&json!({"n_params": 1_000})), None);
    }
}
