//! `spark-bench cost`: run it or pay for it.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{BadInput, answer, read_runs};
use crate::analyse::cost::{ApiPrice, BreakEven, OwnCost, OwnHardware, break_even};
use crate::analyse::headline::{TargetFigures, sentence};
use crate::exit_codes;
use crate::report::evidence;
use crate::results::record::Level;
use crate::results::store::StoredRun;

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

/// A cost config. Nothing in it has a default that is money: prices are read, never assumed.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CostConfig {
    /// When these prices were true.
    date: String,
    /// What the money is.
    currency: String,
    own: Own,
    api: Api,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Own {
    name: String,
    price: f64,
    residual: f64,
    years: f64,
    idle_w: f64,
    /// Default: the devices' mean power in the results.
    busy_w: Option<f64>,
    tariff_per_kwh: f64,
    /// Share of the time in which it produces.
    utilisation: f64,
    #[serde(default)]
    other_per_month: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Api {
    name: String,
    input_per_mtok: f64,
    /// Default: as fresh ones.
    cached_per_mtok: Option<f64>,
    output_per_mtok: f64,
}

/// The answer for one run.
struct Answer<'a> {
    run: &'a StoredRun,
    level: &'a Level,
    throughput_tps: f64,
    busy_w: f64,
    own: OwnCost,
    api_per_mtok: f64,
    break_even: BreakEven,
}

/// Prints the comparison for each run, at the level with the largest throughput.
///
/// # Errors
/// If a file cannot be read, or the config lacks what no results file says.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let config = read_config(args)?;
    let runs = read_runs(&args.files)?;
    let answers = runs.iter().map(|run| work_out(&config, run)).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let all: Vec<Value> = answers.iter().map(to_json).collect();
        answer(&format!("{:#}\n", json!({"config": config, "answers": all})))?;
    } else {
        let texts: Vec<String> = answers.iter().map(|answer| text(&config, answer)).collect();
        answer(&texts.join("\n"))?;
    }
    Ok(exit_codes::OK)
}

fn read_config(args: &Args) -> Result<CostConfig, BadInput> {
    let path = args.config.display();
    let text = std::fs::read_to_string(&args.config)
        .map_err(|error| BadInput(format!("failed to read {path}: {error}")))?;
    let config: CostConfig =
        toml::from_str(&text).map_err(|error| BadInput(format!("{path}: {error}")))?;
    let own = &config.own;
    let refuse = |what: &str| Err(BadInput(format!("{path}: {what}")));
    if !(own.years > 0.0 && own.years.is_finite()) {
        return refuse("own.years is more than 0");
    }
    if !(0.0..=1.0).contains(&own.utilisation) {
        return refuse("own.utilisation is a share of the time, 0 to 1");
    }
    let amounts = [own.price, own.residual, own.idle_w, own.tariff_per_kwh, own.other_per_month];
    let prices = [config.api.input_per_mtok, config.api.output_per_mtok];
    if amounts.iter().chain(&prices).any(|amount| !(*amount >= 0.0 && amount.is_finite())) {
        return refuse("prices, powers and the tariff are numbers from 0 on");
    }
    Ok(config)
}

fn work_out<'a>(config: &CostConfig, run: &'a StoredRun) -> Result<Answer<'a>, BadInput> {
    let name = run.name();
    let level = evidence::busiest(&run.file);
    let (level, throughput_tps) = level
        .and_then(|level| Some((level, evidence::throughput(level)?)))
        .ok_or_else(|| BadInput(format!("{name}: no level has a throughput")))?;
    let busy_w = config.own.busy_w.or_else(|| device_power(level)).ok_or_else(|| {
        BadInput(format!(
            "{name}: no power was measured, so the config needs own.busy_w (a wall meter's)"
        ))
    })?;
    let own = &config.own;
    let hardware = OwnHardware {
        price: own.price,
        residual: own.residual,
        years: own.years,
        idle_w: own.idle_w,
        busy_w,
        tariff_per_kwh: own.tariff_per_kwh,
        other_per_month: own.other_per_month,
    };
    let api = ApiPrice {
        input_per_mtok: config.api.input_per_mtok,
        cached_per_mtok: config.api.cached_per_mtok.unwrap_or(config.api.input_per_mtok),
        output_per_mtok: config.api.output_per_mtok,
    };
    let api_per_mtok = api
        .blended_per_output_mtok(&evidence::work_of(level))
        .ok_or_else(|| BadInput(format!("{name}: its levels have no token counts")))?;
    let own = hardware.cost(throughput_tps, own.utilisation);
    let break_even = break_even(&own, api_per_mtok);
    Ok(Answer { run, level, throughput_tps, busy_w, own, api_per_mtok, break_even })
}

/// Power of the devices that the server used, watts: less than the box draws.
fn device_power(level: &Level) -> Option<f64> {
    let gpus = &level.hardware.as_ref()?.gpus;
    let used = gpus.iter().filter(|gpu| gpu.used_by_server != Some(false));
    used.filter_map(|gpu| gpu.power_w_mean).reduce(|one, other| one + other)
}

fn text(config: &CostConfig, answer: &Answer<'_>) -> String {
    let (own, money) = (&answer.own, &config.currency);
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "{} ({}), prices of {}",
        answer.run.file.meta.target,
        answer.run.name(),
        config.date
    ));
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
    line(format!(
        "  costs {all_in} {money} per million output tokens: {:.2} a month of amortisation, {:.1} \
         kWh; one more million costs {:.4}",
        own.amortisation_per_month, own.kwh_per_month, own.marginal_per_mtok
    ));
    line(format!(
        "  {}: {:.4} {money} per million output tokens, with the prompts that came with them",
        config.api.name, answer.api_per_mtok
    ));
    line(match answer.break_even {
        BreakEven::From { mtok_per_month, utilisation } => format!(
            "  Own hardware is cheaper from {mtok_per_month:.1} million output tokens a month on, \
             that is, if it is busy {:.1} % of the time.",
            utilisation * 100.0
        ),
        BreakEven::BeyondCapacity { mtok_per_month, utilisation } => format!(
            "  Never: it would take {mtok_per_month:.1} million output tokens a month, {:.1}× what \
             the machine can do.",
            utilisation
        ),
        BreakEven::Never => "  Never: its power alone costs more than the API.".into(),
    });
    line(format!("  {}", headline(config, answer)));
    out
}

/// Own hardware against the API, per dollar: at the utilisation that the config assumes.
fn headline(config: &CostConfig, answer: &Answer<'_>) -> String {
    let of = |name: &str, money_per_mtok| TargetFigures {
        name: name.to_owned(),
        money_per_mtok,
        ..TargetFigures::default()
    };
    let own = of(&config.own.name, answer.own.per_mtok);
    sentence(&own, &of(&config.api.name, Some(answer.api_per_mtok)))
}

fn to_json(answer: &Answer<'_>) -> Value {
    let (verdict, volume, utilisation) = match answer.break_even {
        BreakEven::From { mtok_per_month, utilisation } => {
            ("from", Some(mtok_per_month), Some(utilisation))
        }
        BreakEven::BeyondCapacity { mtok_per_month, utilisation } => {
            ("never", Some(mtok_per_month), Some(utilisation))
        }
        BreakEven::Never => ("never", None, None),
    };
    json!({
        "file": answer.run.name(),
        "target": answer.run.file.meta.target,
        "concurrency": answer.level.summary.concurrency,
        "throughput_tps": answer.throughput_tps,
        "busy_w": answer.busy_w,
        "joules_per_mtok": answer.busy_w / answer.throughput_tps * 1e6,
        "amortisation_per_month": answer.own.amortisation_per_month,
        "kwh_per_month": answer.own.kwh_per_month,
        "mtok_per_month": answer.own.mtok_per_month,
        "capacity_mtok_per_month": answer.own.capacity_mtok_per_month,
        "own_per_mtok": answer.own.per_mtok,
        "own_marginal_per_mtok": answer.own.marginal_per_mtok,
        "api_per_mtok": answer.api_per_mtok,
        "break_even": verdict,
        "break_even_mtok_per_month": volume,
        "break_even_utilisation": utilisation,
    })
}
