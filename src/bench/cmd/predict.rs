//! `spark-bench predict`: what the machine's memory and arithmetic allow, against what was
//! measured; and Little's law.

mod facts;
mod request;

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{answer, read_runs};
use crate::analyse::littles_law;
use crate::bench::config::values::{NonNegative, Positive};
use crate::exit_codes;
use crate::report::evidence::{self, ModelAndMachine};
use crate::report::prediction::{
    Bandwidths, Ceiling, ceilings, inputs, measured_interval, measured_tps, prefill,
};
use crate::report::shapes;
use crate::results::brief::{BriefFile, Gaps};
use crate::results::escape::terminal;
use crate::results::record::Verdict;
use crate::results::store::StoredRun;

/// Flags of `spark-bench predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Memory bandwidth by the data sheet, GB/s; default: the config's `[hardware]`.
    #[arg(long, value_name = "GB/S", allow_negative_numbers = true)]
    bandwidth_gb_s: Option<Positive>,
    /// Memory bandwidth as measured on this machine, GB/s.
    #[arg(long, value_name = "GB/S", allow_negative_numbers = true)]
    measured_gb_s: Option<Positive>,
    /// A target's config: its model and hardware tables say what that target's results do not. May be
    /// given several times.
    #[arg(long, value_name = "CONFIG")]
    config: Vec<PathBuf>,
    /// The request whose time is worked out from the measured rates: prompt tokens.
    #[arg(long, value_name = "TOKENS", default_value = "512", value_parser = super::at_least_one::<NonZeroU32>)]
    prompt: NonZeroU32,
    /// Its output tokens.
    #[arg(long, value_name = "TOKENS", default_value = "256", value_parser = super::at_least_one::<NonZeroU32>)]
    output: NonZeroU32,
    /// Requests in flight, it included.
    #[arg(long, value_name = "N", default_value = "1", value_parser = super::at_least_one::<NonZeroU32>)]
    concurrency: NonZeroU32,
    /// Round trip to every server, milliseconds [default: as measured].
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    rtt_ms: Option<NonNegative>,
    /// Over a new connection.
    #[arg(long)]
    first_call: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the ceilings of each run.
///
/// # Errors
/// If a results file cannot be read.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut runs = read_runs(&args.files, Gaps::Drop)?;
    let added = facts::add(&mut runs, &args.config)?;
    if args.json {
        let each: Vec<Value> =
            runs.iter().zip(&added).map(|(run, added)| to_json(args, run, added)).collect();
        let all = json!({"runs": each, "request": request::to_json(&args.ask(), &runs)});
        answer(&format!("{all:#}\n"))?;
    } else {
        let texts: Vec<String> =
            runs.iter().zip(&added).map(|(run, added)| text(args, run, added)).collect();
        let files: Vec<&BriefFile> = runs.iter().map(|run| &run.file).collect();
        let shapes = shapes::text(&files);
        let request = request::text(&args.ask(), &runs);
        let parts = texts.into_iter().chain([shapes, request]).filter(|part| !part.is_empty());
        answer(&parts.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(exit_codes::OK)
}

impl Args {
    fn bandwidths(&self) -> Bandwidths {
        let bytes = |gb: Positive| gb.get() * 1e9;
        Bandwidths { spec: self.bandwidth_gb_s.map(bytes), measured: self.measured_gb_s.map(bytes) }
    }

    fn ask(&self) -> request::Asked {
        request::Asked {
            prompt: self.prompt.get(),
            output: self.output.get(),
            concurrency: self.concurrency.get(),
            rtt_s: self.rtt_ms.map(|ms| ms.get() / 1e3),
            handshakes: f64::from(u8::from(self.first_call)),
        }
    }
}

fn text(args: &Args, run: &StoredRun, added: &[String]) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{}", terminal(&text));
    };
    line(format!("{} ({})", run.file.meta.target, run.name()));
    let measured = measured_tps(&run.file);
    match measured {
        Some(tps) => {
            let interval = measured_interval(&run.file).map_or(String::new(), |[low, high]| {
                format!("; 95 % interval {low:.2} … {high:.2}")
            });
            line(format!("  measured: {tps:.2} tok/s per stream (p50, c = 1{interval})"));
        }
        None => line(format!("  {}", why_no_speed(&run.file))),
    }
    if let Some(inputs) = inputs(&run.file, args.bandwidths()) {
        line(format!("  inputs: {inputs}"));
    }
    for from in added {
        line(format!("  by the config, since the results do not say it: {from}"));
    }
    for level in run.file.levels.iter().filter(|level| !level.flags.is_empty()) {
        let flags: Vec<&str> = level.flags.iter().map(|flag| flag.name.as_str()).collect();
        let c = level.summary.concurrency;
        let how = if level.verdict == Verdict::Invalid { "invalid" } else { "flagged" };
        line(format!("  {how} at c = {c}: {}", flags.join(", ")));
    }
    let ceilings = ceilings(&run.file, args.bandwidths());
    for ceiling in &ceilings {
        let share = measured.map_or(String::new(), |tps| {
            format!(", measured is {:.1} % of it", 100.0 * tps / ceiling.tps)
        });
        line(format!("  ceiling: {:.2} tok/s{share} ({})", ceiling.tps, ceiling.formula));
    }
    if ceilings.is_empty() {
        line(format!("  no ceiling: it takes {}", missing(args, run)));
    } else if let Some(tps) = measured {
        line(explanation(tps, &ceilings));
    }
    if let Some(prefill) = prefill(&run.file) {
        let share = prefill.share_of_peak.map_or(String::new(), |share| {
            format!(", {:.1} % of the data sheet's rate", 100.0 * share)
        });
        line(format!(
            "  prefill: {:.3} TFLOP/s effective{share}: operations ÷ (TTFT − connect − network − \
             queue), median; operations for n fresh tokens: {}",
            prefill.flops_per_s / 1e12,
            prefill.formula
        ));
    }
    for check in littles_law::check(&evidence::level_points(&run.file)) {
        line(format!("  {}", check.sentence()));
    }
    out
}

/// What a ceiling would take.
fn missing(args: &Args, run: &StoredRun) -> String {
    let known = ModelAndMachine::of(&run.file.meta);
    let given = args.bandwidth_gb_s.or(args.measured_gb_s).is_some();
    let bandwidth = "a bandwidth ([hardware] bandwidth_gb_s in the config, or --bandwidth-gb-s)";
    let bytes = "the model's bytes, which this server does not tell ([model] in the target's \
                 config: weight_bytes, bytes_read_per_token, kv_bytes_per_token; predict --config \
                 FILE reads it for results that were measured without)";
    let has_bandwidth = given || known.bandwidth_bytes_per_s.is_some();
    let has_bytes = known.weight_bytes.is_some() || known.bytes_read_per_token.is_some();
    match (has_bandwidth, has_bytes) {
        (false, true) => bandwidth.into(),
        (true, false) => bytes.into(),
        (true, true) => "a c = 1 level, and all of [model]'s figures".into(),
        (false, false) => format!("{bandwidth}, and {bytes}"),
    }
}

fn why_no_speed(file: &BriefFile) -> String {
    let why = file.failed.as_ref().or(file.skipped.as_ref());
    match (why, evidence::level_at(file, 1)) {
        (Some(why), None) => format!("nothing was measured: {}", why.text),
        (None, None) if file.levels.is_empty() => "no level was measured".into(),
        (_, None) => "no level at c = 1, which a prediction is compared with".into(),
        (_, Some(level)) if level.summary.n_ok == 0 => "no request at c = 1 was ok".into(),
        (_, Some(_)) => "no decode speed at c = 1 (answers of one token, or no counts)".into(),
    }
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
        "  The rest, {missing_ms:.2} ms of each token's {:.2} ms, is not explained by reading at that \
         bandwidth: the memory gives less (measure it: --measured-gb-s), the cores are too slow for \
         it, or it is other work, such as attention, sampling, text and the network.",
        1e3 / tps
    )
}

fn to_json(args: &Args, run: &StoredRun, added: &[String]) -> Value {
    let prefill = prefill(&run.file);
    let measured = measured_tps(&run.file);
    let ceilings: Vec<Value> = ceilings(&run.file, args.bandwidths())
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
                "e2e_mean_s": check.e2e_mean.as_secs_f64(),
                "e2e_mean_interval_95_s": check.e2e_half.map(|half| {
                    let (mean, half) = (check.e2e_mean.as_secs_f64(), half.as_secs_f64());
                    [mean - half, mean + half]
                }),
                "e2e_ratio": check.e2e_ratio,
                "e2e_ratio_interval_95": check.e2e_ratio_interval,
                "is_serial_wait": check.is_serial_wait(),
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
        "decode_tps_p50_interval_95": measured_interval(&run.file),
        "from_config": added,
        "inputs": inputs(&run.file, args.bandwidths()),
        "ceilings": ceilings,
        "effective_prefill_flops": prefill.map(|prefill| prefill.flops_per_s),
        "prefill_formula": prefill.map(|prefill| prefill.formula),
        "prefill_share_of_peak": prefill.and_then(|prefill| prefill.share_of_peak),
        "littles_law": little,
    })
}
