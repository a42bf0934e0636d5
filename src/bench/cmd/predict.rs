//! `spark-bench predict`: what the machine's memory and arithmetic allow, against what was
//! measured; and Little's law.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{answer, read_runs};
use crate::analyse::littles_law;
use crate::analyse::roofline::simple_prefill_flops;
use crate::exit_codes;
use crate::report::evidence::{self, ModelAndMachine};
use crate::results::record::{Level, ResultsFile};
use crate::results::store::StoredRun;

/// Flags of `spark-bench predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Memory bandwidth by the data sheet, GB/s; default: the config's `[hardware]`.
    #[arg(long, value_name = "GB/S")]
    bandwidth_gb_s: Option<f64>,
    /// Memory bandwidth as measured on this machine, GB/s.
    #[arg(long, value_name = "GB/S")]
    measured_gb_s: Option<f64>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// One ceiling.
struct Ceiling {
    name: &'static str,
    formula: &'static str,
    tps: f64,
}

/// Prints the ceilings of each run.
///
/// # Errors
/// If a results file cannot be read.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let runs = read_runs(&args.files)?;
    if args.json {
        let all: Vec<Value> = runs.iter().map(|run| to_json(args, run)).collect();
        answer(&format!("{:#}\n", Value::from(all)))?;
    } else {
        let texts: Vec<String> = runs.iter().map(|run| text(args, run)).collect();
        answer(&texts.join("\n"))?;
    }
    Ok(exit_codes::OK)
}

/// Mean prompt and answer of the c = 1 level, in tokens.
fn workload(level: &Level) -> Option<(u64, u64)> {
    let n_ok = level.summary.n_ok;
    let mean = |total: u64| total.checked_div(n_ok);
    Some((mean(level.summary.prompt_tokens)?, mean(level.summary.output_tokens)?))
}

fn ceilings(args: &Args, run: &StoredRun) -> Vec<Ceiling> {
    let known = ModelAndMachine::of(&run.file.meta);
    let spec = args.bandwidth_gb_s.map(|gb| gb * 1e9).or(known.bandwidth_bytes_per_s);
    let measured = args.measured_gb_s.map(|gb| gb * 1e9);
    let single = evidence::level_at(&run.file, 1).and_then(workload);
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
        ("measured", "measured bandwidth ÷ bytes streamed over the answer", streamed(measured)),
    ];
    let known =
        |(name, formula, tps): (_, _, Option<f64>)| Some(Ceiling { name, formula, tps: tps? });
    all.into_iter().filter_map(known).collect()
}

/// Operations per second of prefill, from TTFT less what the budget explains otherwise: the
/// network's round trip and the queue.
fn effective_prefill_flops(run: &StoredRun) -> Option<f64> {
    let level = evidence::level_at(&run.file, 1)?;
    let params = ModelAndMachine::of(&run.file.meta).n_params?;
    let (prompt, _) = workload(level)?;
    let cached = level.summary.cached_tokens.checked_div(level.summary.n_ok)?;
    let ttft = level.summary.metric("ttft")?.p50?;
    let requests = evidence::measured_ok(level);
    let rtts: Vec<f64> = requests.iter().filter_map(|record| record.rtt_s).collect();
    let network = rtts.iter().sum::<f64>() / rtts.len().max(1) as f64;
    let queue = level.summary.metric("queue").and_then(|queue| queue.p50).unwrap_or(0.0);
    let prefill = Duration::try_from_secs_f64(ttft - network - queue).ok()?;
    let flops = simple_prefill_flops(params, prompt.saturating_sub(cached));
    (!prefill.is_zero() && flops > 0.0).then(|| flops / prefill.as_secs_f64())
}

fn measured_tps(file: &ResultsFile) -> Option<f64> {
    evidence::level_at(file, 1)?.summary.metric("decode_tps")?.p50
}

fn text(args: &Args, run: &StoredRun) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!("{} ({})", run.file.meta.target, run.name()));
    let measured = measured_tps(&run.file);
    match measured {
        Some(tps) => line(format!("  measured: {tps:.2} tok/s per stream (p50, c = 1)")),
        None => line("  no decode speed at c = 1 in this file".into()),
    }
    let ceilings = ceilings(args, run);
    for ceiling in &ceilings {
        let share = measured.map_or(String::new(), |tps| {
            format!(", measured is {:.1} % of it", 100.0 * tps / ceiling.tps)
        });
        line(format!("  ceiling: {:.2} tok/s{share} ({})", ceiling.tps, ceiling.formula));
    }
    if ceilings.is_empty() {
        line(
            "  no ceiling: it takes a bandwidth ([hardware] bandwidth_gb_s or --bandwidth-gb-s) \
             and the model's bytes (the server's meta, or [model] in the config)"
                .into(),
        );
    } else if let Some(tps) = measured {
        line(explanation(tps, &ceilings));
    }
    if let Some(flops) = effective_prefill_flops(run) {
        line(format!(
            "  prefill: {:.2} TFLOP/s effective (2 × parameters × fresh prompt tokens ÷ (TTFT − \
             network − queue))",
            flops / 1e12
        ));
    }
    for check in littles_law::check(&evidence::level_points(&run.file)) {
        line(format!("  {}", check.sentence()));
    }
    out
}

fn explanation(tps: f64, ceilings: &[Ceiling]) -> String {
    let best = ceilings.last().map_or(f64::NAN, |ceiling| ceiling.tps);
    if tps > 1.02 * best {
        return "  Above the ceiling: a byte count, the bandwidth or the token count is wrong, or \
                several tokens come from one pass over the weights."
            .into();
    }
    let missing_ms = 1e3 / tps - 1e3 / best;
    format!(
        "  The rest, {missing_ms:.2} ms of each token's {:.2} ms, is no memory traffic: launching \
         work, attention, sampling, text, network, and memory that gives less than its bandwidth.",
        1e3 / tps
    )
}

fn to_json(args: &Args, run: &StoredRun) -> Value {
    let measured = measured_tps(&run.file);
    let ceilings: Vec<Value> = ceilings(args, run)
        .iter()
        .map(|ceiling| {
            json!({
                "name": ceiling.name,
                "formula": ceiling.formula,
                "tps": ceiling.tps,
                "measured_share": measured.map(|tps| tps / ceiling.tps),
            })
        })
        .collect();
    let little: Vec<Value> = littles_law::check(&evidence::level_points(&run.file))
        .iter()
        .map(|check| {
            json!({
                "concurrency": check.concurrency,
                "e2e_ratio": check.e2e_ratio,
                "ttft_ratio": check.ttft_ratio,
                "throughput_ratio": check.throughput_ratio,
                "serialness": check.serialness,
                "sentence": check.sentence(),
            })
        })
        .collect();
    json!({
        "file": run.name(),
        "target": run.file.meta.target,
        "decode_tps_p50": measured,
        "ceilings": ceilings,
        "effective_prefill_flops": effective_prefill_flops(run),
        "littles_law": little,
    })
}
