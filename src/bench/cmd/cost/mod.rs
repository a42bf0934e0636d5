//! `spark-bench cost`: run it or pay for it.

mod doubts;

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{BadInput, answer, read_summaries, unreadable};
use crate::analyse::cost::{BreakEven, OwnCost, Workload, break_even};
use crate::analyse::headline::tokens_for_the_same_money;
use crate::bench::config::CostConfig;
use crate::exit_codes;
use crate::report::evidence;
use crate::results::brief::{BriefFile, BriefLevel, Gaps};
use crate::results::escape::terminal;
use crate::results::store::{self, StoredRun};

/// Flags of `spark-bench cost`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Prices, powers and the tariff: see configs/costs/.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Results files of the machine in question, or folders of them.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// The answer for one run.
struct Answer<'a> {
    run: &'a StoredRun,
    level: &'a BriefLevel,
    work: Workload,
    throughput_tps: f64,
    busy_w: f64,
    own: OwnCost,
    api_per_mtok: f64,
    break_even: BreakEven,
    /// The same at the ends of the throughput's 95 % interval, slow and fast, where it has one.
    /// Prices, powers and the utilisation are taken as they are stated.
    ends: Option<[(OwnCost, BreakEven); 2]>,
}

/// Prints the comparison for each run, at the level with the largest throughput.
///
/// # Errors
/// If a file cannot be read, or the config lacks what no results file says.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let config = CostConfig::load(&args.config).map_err(|error| BadInput(error.to_string()))?;
    let runs = read_summaries(&args.files)?;
    let answers = runs.iter().map(|run| work_out(&config, run)).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let all: Vec<Value> = answers.iter().map(|answer| to_json(&config, answer)).collect();
        answer(&format!("{:#}\n", json!({"config": config, "answers": all})))?;
    } else {
        let texts: Vec<String> = answers.iter().map(|answer| text(&config, answer)).collect();
        answer(&texts.join("\n"))?;
    }
    Ok(exit_codes::OK)
}

fn work_out<'a>(config: &CostConfig, run: &'a StoredRun) -> Result<Answer<'a>, BadInput> {
    let refuse = |what: &str| BadInput(format!("{}: {what}", run.path.display()));
    let rated = evidence::busiest(&run.file);
    let (level, throughput_tps) = rated
        .and_then(|level| Some((level, evidence::throughput(level)?)))
        .ok_or_else(|| refuse(why_no_throughput(&run.file)))?;
    let busy_w = config.own.busy_w.or_else(|| device_power(level)).ok_or_else(|| {
        refuse("no power was measured, so the config needs own.busy_w (a wall meter's)")
    })?;
    let work = work_of(run, level)?;
    let api_per_mtok = config
        .api_price()
        .blended_per_output_mtok(&work)
        .ok_or_else(|| refuse("has no token counts, so there is nothing to put a price on"))?;
    let at = |throughput_tps: f64| {
        let own = config.own.at(busy_w).cost(throughput_tps, config.own.utilisation);
        (own, break_even(&own, api_per_mtok))
    };
    let (own, break_even) = at(throughput_tps);
    let interval = evidence::steady_rate(level).filter(|rate| rate.low > 0.0);
    let ends = interval.map(|rate| [at(rate.low), at(rate.high)]);
    Ok(Answer { run, level, work, throughput_tps, busy_w, own, api_per_mtok, break_even, ends })
}

/// The tokens of a level. A file of another harness has their counts in its requests only, which
/// were not kept in memory.
fn work_of(run: &StoredRun, level: &BriefLevel) -> Result<Workload, BadInput> {
    if level.summary.output_tokens > 0 {
        return Ok(evidence::work_of(level));
    }
    let whole = store::read_brief(&run.path, Gaps::Drop).map_err(unreadable)?;
    let level = evidence::counterpart(&whole, level).unwrap_or(level);
    Ok(evidence::work_of(level))
}

/// Why a run's figures may not be those of the config's machine or weights; empty for a run that
/// [`own_money`] puts no price on.
pub(super) fn own_doubts(config: &CostConfig, file: &BriefFile) -> Vec<String> {
    let priced = file.meta.price.is_none() && own_money(config, file).is_some();
    if priced { doubts::of_run(config, &file.meta) } else { Vec::new() }
}

fn why_no_throughput(file: &BriefFile) -> &'static str {
    match file.levels.as_slice() {
        [] => "has no level: the run was skipped, failed or stopped before the first one",
        _ => "has no level with a throughput that is not invalid",
    }
}

/// What a million output tokens cost on the machine of a config, where a run's server was on the
/// machine of the harness; `None` elsewhere, and without a throughput or a power.
pub(super) fn own_money(config: &CostConfig, file: &BriefFile) -> Option<f64> {
    let level = evidence::busiest(file).filter(|_| doubts::ran_here(&file.meta))?;
    let busy_w = config.own.busy_w.or_else(|| device_power(level))?;
    config.own.at(busy_w).cost(evidence::throughput(level)?, config.own.utilisation).per_mtok
}

/// Power of the devices that the server used, watts: less than the box draws.
fn device_power(level: &BriefLevel) -> Option<f64> {
    let used = level.hardware.as_ref()?.gpus_in_use().into_iter();
    used.filter_map(|gpu| gpu.power_w_mean).reduce(|one, other| one + other)
}

fn text(config: &CostConfig, answer: &Answer<'_>) -> String {
    let (own, money) = (&answer.own, &config.currency);
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{}", terminal(&text));
    };
    line(format!(
        "{} ({}), prices of {}",
        answer.run.file.meta.target,
        answer.run.name(),
        config.date
    ));
    for doubt in doubts::doubts(config, answer) {
        line(format!("  warning: {doubt}"));
    }
    line(format!(
        "  {}: {:.1} tok/s at c = {}, {:.0} W ({:.0} kJ per million tokens), busy {:.0} % of the \
         time: {:.1} million tokens a month",
        config.own.name,
        answer.throughput_tps,
        answer.level.summary.concurrency,
        answer.busy_w,
        answer.busy_w / answer.throughput_tps * 1e3,
        config.own.utilisation * 100.0,
        own.mtok_per_month
    ));
    let all_in = own.per_mtok.map_or("no".into(), |cost| format!("{cost:.4}"));
    let interval = per_mtok_interval(answer).map_or_else(String::new, |[low, high]| {
        format!(" ({low:.4} to {high:.4} by the throughput's 95 % interval)")
    });
    line(format!(
        "  costs {all_in} {money} per million output tokens{interval}: {:.2} a month of \
         amortisation, {:.1} kWh; one more million costs {:.4}",
        own.amortisation_per_month, own.kwh_per_month, own.marginal_per_mtok
    ));
    let prompts = answer.work.prompt / answer.work.output;
    let with = if prompts > 0.0 {
        format!(", with the {prompts:.1} prompt tokens that came with each")
    } else {
        String::new()
    };
    line(format!(
        "  {}: {:.4} {money} per million output tokens{with}",
        config.api.name, answer.api_per_mtok
    ));
    line(break_even_sentence(answer));
    if let Some(how) =
        own.per_mtok.and_then(|own| tokens_for_the_same_money(own, answer.api_per_mtok))
    {
        line(format!(
            "  At {:.0} % of the time, {} gives {how} tokens for the same money.",
            config.own.utilisation * 100.0,
            config.own.name
        ));
    }
    out
}

fn break_even_sentence(answer: &Answer<'_>) -> String {
    match answer.break_even {
        BreakEven::From { mtok_per_month, utilisation } => format!(
            "  Own hardware is cheaper from {mtok_per_month:.1} million output tokens a month on, \
             that is, if it is busy {:.1} % of the time{}.",
            utilisation * 100.0,
            utilisation_interval(answer).map_or_else(String::new, |[low, high]| {
                format!(" ({:.1} to {:.1} %)", low * 100.0, high * 100.0)
            })
        ),
        BreakEven::BeyondCapacity { mtok_per_month, utilisation } => format!(
            "  Never: it would take {mtok_per_month:.1} million output tokens a month, {:.1}×{} \
             what the machine can do.",
            utilisation,
            utilisation_interval(answer).map_or_else(String::new, |[low, high]| {
                format!(" ({low:.1}× to {high:.1}×)")
            })
        ),
        BreakEven::Never => "  Never: its power alone costs more than the API.".into(),
    }
}

/// The cheap end first: a machine is cheap where it is fast.
fn per_mtok_interval(answer: &Answer<'_>) -> Option<[f64; 2]> {
    let [slow, fast] = answer.ends.as_ref()?;
    Some([fast.0.per_mtok?, slow.0.per_mtok?])
}

/// Of the break-even's share of the time; over 1 where the machine cannot do as much. `None` where
/// an end of the interval never breaks even.
fn utilisation_interval(answer: &Answer<'_>) -> Option<[f64; 2]> {
    let [slow, fast] = answer.ends.as_ref()?;
    Some([fast.1.utilisation()?, slow.1.utilisation()?])
}

fn to_json(config: &CostConfig, answer: &Answer<'_>) -> Value {
    let (verdict, volume) = match answer.break_even {
        BreakEven::From { mtok_per_month, .. } => ("from", Some(mtok_per_month)),
        BreakEven::BeyondCapacity { mtok_per_month, .. } => ("never", Some(mtok_per_month)),
        BreakEven::Never => ("never", None),
    };
    json!({
        "file": answer.run.name(),
        "target": answer.run.file.meta.target,
        "warnings": doubts::doubts(config, answer),
        "concurrency": answer.level.summary.concurrency,
        "throughput_tps": answer.throughput_tps,
        "busy_w": answer.busy_w,
        "joules_per_mtok": answer.busy_w / answer.throughput_tps * 1e6,
        "amortisation_per_month": answer.own.amortisation_per_month,
        "kwh_per_month": answer.own.kwh_per_month,
        "mtok_per_month": answer.own.mtok_per_month,
        "capacity_mtok_per_month": answer.own.capacity_mtok_per_month,
        "own_per_mtok": answer.own.per_mtok,
        "own_per_mtok_ci_95": per_mtok_interval(answer),
        "own_marginal_per_mtok": answer.own.marginal_per_mtok,
        "api_per_mtok": answer.api_per_mtok,
        "break_even": verdict,
        "break_even_mtok_per_month": volume,
        "break_even_utilisation": answer.break_even.utilisation(),
        "break_even_utilisation_ci_95": utilisation_interval(answer),
    })
}
