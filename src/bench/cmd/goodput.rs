//! `spark-bench goodput`: how many requests kept a promise, asked of results that exist.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{BadInput, answer, read_summaries, unreadable};
use crate::bench::config::duration::TimeSpan;
use crate::exit_codes;
use crate::measure::goodput::{Goodput, Slo, Tally};
use crate::results::brief::BriefLevel;
use crate::results::convert::trace_of_record;
use crate::results::escape::terminal;
use crate::results::record::{RequestRecord, Summary, Verdict};
use crate::results::store::{self, StoredRun};

/// Flags of `spark-bench goodput`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Largest time to first token [default: what the run itself was measured with].
    #[arg(long, value_name = "DURATION", requires = "slo_tpot")]
    slo_ttft: Option<TimeSpan>,
    /// Largest time per output token [default: what the run itself was measured with].
    #[arg(long, value_name = "DURATION", requires = "slo_ttft")]
    slo_tpot: Option<TimeSpan>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found of one level.
struct Found<'a> {
    level: &'a BriefLevel,
    goodput: Goodput,
}

/// Prints each level's goodput.
///
/// # Errors
/// If a file cannot be read, or neither the flags nor the run name a promise.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let runs = read_summaries(&args.files)?;
    let mut text = String::new();
    let mut all = Vec::new();
    for run in &runs {
        let slo = promise(args, run)?;
        let found = found(run, slo)?;
        text.push_str(&to_text(run, slo, &found));
        all.push(to_json(run, slo, &found));
    }
    answer(&if args.json { format!("{:#}\n", json!(all)) } else { text })?;
    Ok(exit_codes::OK)
}

/// What was promised: by the flags, else by the run's own config.
fn promise(args: &Args, run: &StoredRun) -> Result<Slo, BadInput> {
    if let (Some(ttft), Some(tpot)) = (args.slo_ttft, args.slo_tpot) {
        return Ok(Slo { ttft: ttft.0, tpot: tpot.0 });
    }
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let own = run.file.levels.iter().find_map(|level| level.summary.goodput);
    let own = own.and_then(|own| {
        Some(Slo { ttft: seconds(own.slo_ttft_s)?, tpot: seconds(own.slo_tpot_s)? })
    });
    own.ok_or_else(|| {
        let name = run.name();
        BadInput(format!("{name} was measured without [slo]: give --slo-ttft and --slo-tpot"))
    })
}

/// Each level's requests counted; one record at a time is in memory.
fn found<'a>(run: &'a StoredRun, slo: Slo) -> anyhow::Result<Vec<Found<'a>>> {
    let mut tallies = vec![Tally::default(); run.file.levels.len()];
    let mut bad = None;
    store::read_each_record(&run.path, |level, record: RequestRecord| {
        match trace_of_record(&record) {
            Ok(trace) => tallies[level].add(&trace, slo),
            Err(error) => bad = bad.take().or(Some((record.index, error))),
        }
    })
    .map_err(unreadable)?;
    if let Some((index, error)) = bad {
        return Err(BadInput(format!("{}: request {index}: {error}", run.name())).into());
    }
    let of_level = |(level, tally): (&'a BriefLevel, Tally)| {
        let wall = Duration::try_from_secs_f64(level.summary.wall_s).unwrap_or_default();
        Found { level, goodput: tally.over(slo, wall) }
    };
    Ok(run.file.levels.iter().zip(tallies).map(of_level).collect())
}

impl Found<'_> {
    /// Independent requests that these are worth: where they wait for each other, fewer.
    fn independent(&self) -> f64 {
        let summary: &Summary = &self.level.summary;
        let n_eff = summary.metric("ttft").and_then(|ttft| ttft.n_eff);
        n_eff.unwrap_or(f64::INFINITY).min(self.goodput.issued as f64)
    }

    /// 95 % interval of the share that kept the promise.
    fn interval(&self) -> Option<(f64, f64)> {
        self.goodput.attainment_interval(self.independent())
    }
}

fn to_text(run: &StoredRun, slo: Slo, found: &[Found]) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let name = terminal(&run.file.meta.target);
    let mut text = format!(
        "{name} ({}): TTFT up to {} ms and up to {} ms per output token\n",
        terminal(&run.name()),
        ms(slo.ttft),
        ms(slo.tpot)
    );
    for one in found {
        let (goodput, c) = (&one.goodput, one.level.summary.concurrency);
        let Some(share) = goodput.attainment else {
            text.push_str(&format!("  c={c}: no request was issued\n"));
            continue;
        };
        let interval = one.interval().map_or(String::new(), |(low, high)| {
            let worth = one.independent();
            format!("; 95 %: {:.1} to {:.1} %, worth {worth:.1}", low * 100.0, high * 100.0)
        });
        let rates = goodput.rate_per_s.zip(goodput.request_rate_per_s);
        let rates = rates.map_or(String::new(), |(good, all)| {
            format!(", {good:.2} good requests per second of {all:.2}")
        });
        let verdict = match one.level.verdict {
            Verdict::Valid => "",
            Verdict::Flagged => "  (flagged)",
            Verdict::Invalid => "  (invalid)",
        };
        text.push_str(&format!(
            "  c={c}: {} of {} ({:.1} %{interval}){rates}{verdict}\n",
            goodput.good,
            goodput.issued,
            share * 100.0,
        ));
    }
    text
}

fn to_json(run: &StoredRun, slo: Slo, found: &[Found]) -> Value {
    let level = |one: &Found| {
        json!({
            "concurrency": one.level.summary.concurrency,
            "verdict": one.level.verdict,
            "good": one.goodput.good,
            "issued": one.goodput.issued,
            "attainment": one.goodput.attainment,
            "attainment_95": one.interval().map(|(low, high)| [low, high]),
            "independent": one.independent(),
            "rate_per_s": one.goodput.rate_per_s,
            "request_rate_per_s": one.goodput.request_rate_per_s,
        })
    };
    json!({
        "target": run.file.meta.target,
        "file": run.name(),
        "slo_ttft_s": slo.ttft.as_secs_f64(),
        "slo_tpot_s": slo.tpot.as_secs_f64(),
        "levels": found.iter().map(level).collect::<Vec<_>>(),
    })
}
