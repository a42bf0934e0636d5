//! `spark-bench plan`: how many requests a wanted precision takes, how long that is, and what can
//! be said with the number that the config asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{BadInput, answer, read_runs};
use crate::analyse::sample_size::{Pilot, PlanRow, log_deviation, samples_for_upper_end};
use crate::bench::config::Config;
use crate::bench::progress::{counted, round};
use crate::exit_codes;
use crate::measure::autocorrelation::autocorrelation_time;
use crate::measure::metrics::Metric;
use crate::report::evidence;
use crate::results::brief::{BriefFile, BriefLevel, Gaps};
use crate::results::store::StoredRun;

/// Flags of `spark-bench plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The target's config.
    config: PathBuf,
    /// Results of an earlier, short run of the same target: the spread and the pace.
    #[arg(long, value_name = "RESULTS")]
    pilot: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// What can be said of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelPlan {
    /// Requests in flight.
    pub concurrency: u32,
    /// ok requests asked for.
    pub requests: u32,
    /// The largest percentile whose interval has both ends, if each request is independent.
    pub bounded_percentile: Option<f64>,
    /// The same if the server does one at a time, so that c requests are worth one.
    pub bounded_percentile_serial: Option<f64>,
    /// What a pilot adds.
    pub forecast: Option<Forecast>,
}

/// What a pilot says of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// How long the level takes.
    pub time: Duration,
    /// Precision (±, relative) of the median and p90 of TTFT with the requests asked for.
    pub precision: [(f64, Option<f64>); 2],
    /// What ±5 % takes, for p50, p90 and p99.
    pub rows: [PlanRow; 3],
}

const PERCENTILES: [f64; 4] = [0.99, 0.95, 0.9, 0.5];
const WANTED: f64 = 0.05;

/// Prints the plan of each level.
///
/// # Errors
/// If the config or the pilot cannot be read.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let configs = Config::load(&args.config).map_err(|error| BadInput(error.to_string()))?;
    let runs = args
        .pilot
        .as_ref()
        .map(|path| read_runs(std::slice::from_ref(path), Gaps::Drop))
        .transpose()?;
    let mut plans = Vec::new();
    for config in &configs {
        let name = config.target.name.to_string();
        let pilot = runs.as_ref().map(|runs| pilot_of(config, runs)).transpose()?;
        let levels = plan(config, pilot.map(|run| &run.file));
        let notes = pilot.map(|run| doubts(config, run, &levels)).unwrap_or_default();
        plans.push((name, levels, notes));
    }
    if args.json {
        let all: Vec<Value> =
            plans.iter().map(|(name, levels, notes)| to_json(name, levels, notes)).collect();
        answer(&format!("{:#}\n", Value::from(all)))?;
    } else {
        let texts: Vec<String> = plans
            .iter()
            .map(|(name, levels, notes)| {
                let notes = notes.iter().map(|note| format!("  warning: {note}"));
                let lines: Vec<String> =
                    [name.clone()].into_iter().chain(notes).chain(sentences(levels)).collect();
                lines.join("\n")
            })
            .collect();
        answer(&format!("{}\n", texts.join("\n")))?;
    }
    Ok(exit_codes::OK)
}

/// Of several runs the newest of the same target; a single one is taken as it is.
fn pilot_of<'a>(config: &Config, runs: &'a [StoredRun]) -> Result<&'a StoredRun, BadInput> {
    let name = config.target.name.as_str();
    let same = runs.iter().filter(|run| run.file.meta.target == name);
    let newest = same.max_by(|a, b| a.file.meta.date.cmp(&b.file.meta.date));
    match (newest, runs) {
        (Some(run), _) | (None, [run]) => Ok(run),
        (None, _) => {
            Err(BadInput(format!("--pilot: none of the {} runs is of {name}", runs.len())))
        }
    }
}

/// Where a pilot is not of the work that is planned, or says nothing of a level.
fn doubts(config: &Config, pilot: &StoredRun, levels: &[LevelPlan]) -> Vec<String> {
    let (meta, name) = (&pilot.file.meta, pilot.name());
    let (target, tokens) = (config.target.name.as_str(), config.workload.max_tokens.get());
    let mut found = Vec::new();
    if meta.target != target {
        found.push(format!("the pilot {name} is of {}", meta.target));
    }
    if config.workload.shape.is_none() && meta.max_tokens != u64::from(tokens) {
        let asked = meta.max_tokens;
        found.push(format!("the pilot {name} asked for {asked} tokens, the config for {tokens}"));
    }
    let silent: Vec<String> = levels
        .iter()
        .filter(|level| level.forecast.is_none())
        .map(|level| format!("c={}", level.concurrency))
        .collect();
    if !silent.is_empty() {
        let silent = silent.join(", ");
        found.push(format!("the pilot {name} has too few ok requests, or none, at {silent}"));
    }
    found
}

/// What can be said of each level of a config; a pilot adds times and precisions.
pub fn plan(config: &Config, pilot: Option<&BriefFile>) -> Vec<LevelPlan> {
    let work = &config.workload;
    let level = |concurrency: &u32| {
        let requests = work.requests_at(*concurrency);
        let n = f64::from(requests);
        LevelPlan {
            concurrency: *concurrency,
            requests,
            bounded_percentile: bounded(n),
            bounded_percentile_serial: bounded((n / f64::from(*concurrency)).floor()),
            forecast: pilot
                .and_then(|file| evidence::level_at(file, *concurrency))
                .and_then(|level| forecast(level, n)),
        }
    };
    work.concurrency.levels().iter().map(level).collect()
}

fn bounded(n_eff: f64) -> Option<f64> {
    PERCENTILES.into_iter().find(|p| n_eff >= samples_for_upper_end(*p))
}

fn forecast(level: &BriefLevel, planned: f64) -> Option<Forecast> {
    let values: Vec<f64> =
        evidence::series(level, Metric::Ttft).values.iter().map(|(_, value)| *value).collect();
    let stats = level.summary.metric("ttft")?;
    // A file of another harness does not say what its requests are worth.
    let worth = || Some(values.len() as f64 / autocorrelation_time(&values)?.max(1.0));
    let n_eff = stats.n_eff.or_else(worth).filter(|n_eff| *n_eff > 0.0)?;
    let n = if stats.n > 0 { stats.n as f64 } else { values.len() as f64 };
    let n_ok = level.summary.n_ok as f64;
    let pilot = Pilot {
        sigma: log_deviation(&values)?,
        requests_per_sample: (n / n_eff).max(1.0),
        requests_per_s: n_ok / level.summary.wall_s,
    };
    (pilot.requests_per_s.is_finite() && pilot.requests_per_s > 0.0).then(|| Forecast {
        time: pilot.time(planned),
        precision: [0.5, 0.9].map(|p| (p, pilot.precision(p, planned))),
        rows: [0.5, 0.9, 0.99].map(|p| pilot.plan(p, WANTED)),
    })
}

/// The plan in words, a level a line (and more, with a pilot).
pub fn sentences(levels: &[LevelPlan]) -> Vec<String> {
    let mut lines = Vec::new();
    for level in levels {
        lines.push(bounds(level));
        lines.extend(level.forecast.iter().flat_map(forecast_lines));
    }
    lines
}

/// The plan in a line a level.
pub fn short(levels: &[LevelPlan]) -> Vec<String> {
    let line = |level: &LevelPlan| {
        let forecast = level.forecast.as_ref().map(|forecast| {
            let (time, said) = (round(forecast.time), said(forecast));
            format!("; about {time}, TTFT {said}")
        });
        format!("{}{}", bounds(level), forecast.unwrap_or_default())
    };
    levels.iter().map(line).collect()
}

/// "  c=16: 200 requests: intervals with both ends up to p95 (up to p50 if the server does one at a
/// time)".
fn bounds(level: &LevelPlan) -> String {
    let up_to = |p: f64| format!("up to p{:.0}", p * 100.0);
    let requests = counted(u64::from(level.requests), "request");
    let said = match (level.bounded_percentile, level.bounded_percentile_serial) {
        (None, _) => "too few for an interval with both ends".to_owned(),
        (Some(p), _) if level.concurrency == 1 => {
            format!("intervals with both ends {}", up_to(p))
        }
        (Some(p), serial) => format!(
            "intervals with both ends {} ({} if the server does one at a time)",
            up_to(p),
            serial.map_or("none".into(), up_to)
        ),
    };
    format!("  c={}: {requests}: {said}", level.concurrency)
}

/// "p50 ±2.1 %, p90 ±5.0 %".
fn said(forecast: &Forecast) -> String {
    let said = forecast.precision.iter().map(|(p, precision)| {
        let within = precision
            .map_or("without an upper end".into(), |value| format!("±{:.1} %", value * 100.0));
        format!("p{:.0} {within}", p * 100.0)
    });
    said.collect::<Vec<_>>().join(", ")
}

fn forecast_lines(forecast: &Forecast) -> Vec<String> {
    let (time, said) = (round(forecast.time), said(forecast));
    let mut lines = vec![format!("    about {time}; TTFT {said}")];
    lines.extend(forecast.rows.iter().map(|row| {
        format!(
            "    TTFT p{:.0} within ±{:.0} %: {:.0} requests, {}",
            row.p * 100.0,
            row.precision * 100.0,
            row.requests,
            round(row.time)
        )
    }));
    lines
}

fn to_json(name: &str, levels: &[LevelPlan], warnings: &[String]) -> Value {
    let row = |row: &PlanRow| {
        json!({
            "percentile": row.p * 100.0,
            "precision": row.precision,
            "requests": row.requests,
            "time_s": row.time.as_secs_f64(),
        })
    };
    let level = |level: &LevelPlan| {
        let forecast = level.forecast.as_ref().map(|forecast| {
            json!({
                "time_s": forecast.time.as_secs_f64(),
                "ttft_p50_precision": forecast.precision[0].1,
                "ttft_p90_precision": forecast.precision[1].1,
                "wanted": forecast.rows.iter().map(row).collect::<Vec<_>>(),
            })
        });
        json!({
            "concurrency": level.concurrency,
            "requests": level.requests,
            "bounded_percentile": level.bounded_percentile.map(|p| p * 100.0),
            "bounded_percentile_serial": level.bounded_percentile_serial.map(|p| p * 100.0),
            "forecast": forecast,
        })
    };
    let levels: Vec<Value> = levels.iter().map(level).collect();
    json!({"target": name, "warnings": warnings, "levels": levels})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_n_can_say() {
        assert_eq!(bounded(367.0), Some(0.95));
        assert_eq!(bounded(368.0), Some(0.99));
        assert_eq!(bounded(5.0), None);
        let level = LevelPlan {
            concurrency: 16,
            requests: 200,
            bounded_percentile: bounded(200.0),
            bounded_percentile_serial: bounded(12.0),
            forecast: None,
        };
        let brief = short(std::slice::from_ref(&level));
        assert_eq!(
            brief,
            ["  c=16: 200 requests: intervals with both ends up to p95 (up to p50 if the server \
              does one at a time)"]
        );
        assert_eq!(sentences(&[level]), brief);
        let few = LevelPlan {
            concurrency: 1,
            requests: 1,
            bounded_percentile: bounded(1.0),
            bounded_percentile_serial: bounded(1.0),
            forecast: None,
        };
        assert_eq!(short(&[few]), ["  c=1: 1 request: too few for an interval with both ends"]);
    }
}
