//! Measured ÷ predicted of one run: what `spark-bench predict` prints and the page shows.

use std::time::Duration;

use super::evidence::{self, ModelAndMachine};
use super::shapes::prefill_time_s;
use crate::analyse::roofline::simple_prefill_flops;
use crate::measure::sample::Sample;
use crate::results::brief::{BriefFile, BriefLevel};

/// Bandwidths that the results do not know, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidths {
    /// By the data sheet, in the place of the config's.
    pub spec: Option<f64>,
    /// As measured on the machine.
    pub measured: Option<f64>,
}

/// One ceiling of the decode speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// `file`, `streamed` or `measured`.
    pub name: &'static str,
    /// How it is worked out.
    pub formula: &'static str,
    /// Tokens per second.
    pub tps: f64,
}

/// What prefill amounted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefill {
    /// Operations per second.
    pub flops_per_s: f64,
    /// How they are counted.
    pub formula: &'static str,
    /// Share of the data sheet's rate, where the config names one.
    pub share_of_peak: Option<f64>,
}

/// Mean prompt and answer of the c = 1 level, in tokens.
fn workload(level: &BriefLevel) -> Option<(u64, u64)> {
    let n_ok = level.summary.n_ok;
    let mean = |total: u64| total.checked_div(n_ok);
    Some((mean(level.summary.prompt_tokens)?, mean(level.summary.output_tokens)?))
}

/// The ceilings that can be told, from the roughest to the best founded.
pub fn ceilings(file: &BriefFile, bandwidths: Bandwidths) -> Vec<Ceiling> {
    let known = ModelAndMachine::of(&file.meta);
    let spec = bandwidths.spec.or(known.bandwidth_bytes_per_s);
    let single = evidence::level_at(file, 1).and_then(workload);
    let streamed = |bandwidth: Option<f64>| {
        let (prompt, output) = single?;
        known.step_bytes()?.ceiling_of_answer(bandwidth?, prompt, output)
    };
    let by_file = spec.zip(known.weight_bytes).map(|(spec, bytes)| spec / bytes);
    let all = [
        ("file", "spec bandwidth ÷ bytes of the file", by_file),
        (
            "streamed",
            "spec bandwidth ÷ bytes streamed over the answer (weights + KV)",
            streamed(spec),
        ),
        (
            "measured",
            "measured bandwidth ÷ bytes streamed over the answer",
            streamed(bandwidths.measured),
        ),
    ];
    let known =
        |(name, formula, tps): (_, _, Option<f64>)| Some(Ceiling { name, formula, tps: tps? });
    all.into_iter().filter_map(known).collect()
}

/// What the ceilings rest on, in words; `None` where there is neither a bandwidth nor a model.
pub fn inputs(file: &BriefFile, bandwidths: Bandwidths) -> Option<String> {
    let known = ModelAndMachine::of(&file.meta);
    let gb = |bytes: f64, from: &str| format!("{:.1} GB/s ({from})", bytes / 1e9);
    let spec = match (bandwidths.spec, known.bandwidth_bytes_per_s) {
        (Some(given), _) => Some(gb(given, "--bandwidth-gb-s")),
        (None, Some(config)) => Some(gb(config, "the config's [hardware]")),
        (None, None) => None,
    };
    let measured = bandwidths.measured.map(|bytes| gb(bytes, "--measured-gb-s"));
    let bytes = |what: &str, bytes: Option<f64>| Some(format!("{what} {}", metric_bytes(bytes?)));
    let tokens = evidence::level_at(file, 1).and_then(workload);
    let tokens = tokens.map(|(prompt, output)| {
        format!("{prompt} prompt tokens and {output} of an answer (means at c = 1)")
    });
    let model = known.weight_bytes.is_some() || known.bytes_read_per_token.is_some();
    let all = [
        spec,
        measured,
        bytes("a file of", known.weight_bytes),
        bytes("weights read for each token", known.bytes_read_per_token),
        bytes("KV cache for each token of context", known.kv_bytes_per_token),
        tokens.filter(|_| model),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// "269.1 MB".
fn metric_bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} kB", b / 1e3),
    }
}

/// The 95 % interval of [`measured_tps`], where it has both ends.
pub fn measured_interval(file: &BriefFile) -> Option<[f64; 2]> {
    let [low, high] = evidence::level_at(file, 1)?.summary.metric("decode_tps")?.p50_ci?;
    Some([low?, high?])
}

/// Median decode speed of one stream.
pub fn measured_tps(file: &BriefFile) -> Option<f64> {
    evidence::level_at(file, 1)?.summary.metric("decode_tps")?.p50
}

/// Bytes per second that it amounts to.
pub fn achieved_bandwidth(file: &BriefFile) -> Option<f64> {
    let (prompt, output) = workload(evidence::level_at(file, 1)?)?;
    let bytes = ModelAndMachine::of(&file.meta).step_bytes()?;
    Some(bytes.achieved_bandwidth(measured_tps(file)?, prompt, output))
}

/// Operations per second of prefill at c = 1: the median over requests of the operations of their
/// fresh tokens ÷ (TTFT − connect − network − queue).
pub fn prefill(file: &BriefFile) -> Option<Prefill> {
    let level = evidence::level_at(file, 1)?;
    let known = ModelAndMachine::of(&file.meta);
    let (operations, formula): (Box<dyn Fn(u64) -> f64>, _) = match (known.prefill, known.n_params)
    {
        (Some(model), _) => (Box::new(move |n| model.flops(n)), "2·P_mm·n + 2·P_head + 2·L·d·n²"),
        (None, Some(params)) => match known.table_params.filter(|table| *table < params) {
            Some(table) => (
                Box::new(move |n| simple_prefill_flops(params - table, n)),
                "2 × (parameters − embedding) × n (without attention)",
            ),
            None => (
                Box::new(move |n| simple_prefill_flops(params, n)),
                "2 × parameters × n (too high by the embedding's share: a tenth for 8 billion \
                 parameters, a quarter for a small model)",
            ),
        },
        (None, None) => return None,
    };
    let rates = evidence::measured_ok(level).into_iter().filter_map(|request| {
        let fresh = request.n_fresh()?;
        let time = Duration::try_from_secs_f64(prefill_time_s(request)?).ok()?;
        (!time.is_zero() && fresh > 0).then(|| operations(fresh) / time.as_secs_f64())
    });
    let flops_per_s = Sample::new(rates.collect()).median()?;
    let share_of_peak = known.flops_per_s.map(|peak| flops_per_s / peak);
    Some(Prefill { flops_per_s, formula, share_of_peak })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::brief::Gaps;
    use crate::results::store::read_brief;

    /// A committed run of the short prompts.
    fn committed(target: &str) -> BriefFile {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let end = format!("Z-{target}-short.json");
        let mut named = files.filter(|path| path.to_string_lossy().ends_with(&end));
        read_brief(&named.next().unwrap(), Gaps::Drop).unwrap()
    }

    #[test]
    fn the_same_prompts_are_the_same_work_however_much_a_server_tells_of_its_model() {
        let work = |target| {
            let file = committed(target);
            let level = evidence::level_at(&file, 1).unwrap();
            let ttft = level.summary.metric("ttft").unwrap().p50.unwrap();
            prefill(&file).unwrap().flops_per_s * ttft
        };
        // The one tells its layers, the other its vocabulary and width only.
        let ratio = work("llama-server-1") / work("spark-serve");
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
    }
}
