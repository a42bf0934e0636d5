//! `spark-bench plan`: how many requests a wanted precision takes, how long that is, and what can
//! be said with the number that the config asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::percent::Percent;
use super::{BadInput, answer, read_runs};
use crate::analyse::sample_size::{Pilot, PlanRow, log_deviation, samples_for_upper_end};
use crate::bench::config::Config;
use crate::bench::progress::{counted, round};
use crate::exit_codes;
use crate::measure::autocorrelation::autocorrelation_time;
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
    /// The precision that is wanted, ± [default: 5% for p50, p90 and p99, and 10% for p99].
    #[arg(long, value_name = "PERCENT", requires = "pilot")]
    precision: Option<Percent>,
    /// The percentiles for which it is [default: 50,90,99].
    #[arg(long, value_name = "LIST", requires = "pilot", value_delimiter = ',', value_parser = percentile)]
    percentile: Vec<f64>,
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
    /// What the wanted precisions take.
    pub rows: Vec<PlanRow>,
}

const PERCENTILES: [f64; 4] = [0.99, 0.95, 0.9, 0.5];
/// What is told if nothing else is wanted: percentile and precision.
pub const WANTED: [(f64, f64); 4] = [(0.5, 0.05), (0.9, 0.05), (0.99, 0.05), (0.99, 0.1)];

/// A percentile of a list: from the median on, where an interval's upper end is what is short.
fn percentile(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_start_matches('p').parse::<f64>().ok();
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.5..1.0).contains(share));
    share.ok_or_else(|| "must be percentiles from 50 to under 100, such as 50,90,99".into())
}

impl Args {
    fn wanted(&self) -> Vec<(f64, f64)> {
        let precision = self.precision.map(|Percent(share)| share);
        match (precision, self.percentile.as_slice()) {
            (None, []) => WANTED.to_vec(),
            (precision, []) => [0.5, 0.9, 0.99].map(|p| (p, precision.unwrap_or(0.05))).to_vec(),
            (precision, list) => list.iter().map(|p| (*p, precision.unwrap_or(0.05))).collect(),
        }
    }
}

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
    if args.precision == Some(Percent(0.0)) {
        return Err(BadInput("--precision 0% would take requests without end".into()).into());
    }
    let wanted = args.wanted();
    let mut plans = Vec::new();
    for config in &configs {
        let name = config.target.name.to_string();
        let pilot = runs.as_ref().map(|runs| pilot_of(config, runs)).transpose()?;
        let levels = plan(config, pilot.map(|run| &run.file), &wanted);
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

/// What can be said of each level of a config; a pilot adds times and precisions, and what the
/// wanted ones take: (percentile, precision).
pub fn plan(config: &Config, pilot: Option<&BriefFile>, wanted: &[(f64, f64)]) -> Vec<LevelPlan> {
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
                .and_then(|file| {
                    let mut levels = file.levels.iter();
                    levels.find(|level| level.rung().unwrap_or_default() == *concurrency)
                })
                .and_then(|level| forecast(level, n, wanted)),
        }
    };
    work.concurrency.levels().iter().map(level).collect()
}

fn bounded(n_eff: f64) -> Option<f64> {
    PERCENTILES.into_iter().find(|p| n_eff >= samples_for_upper_end(*p))
}

fn forecast(level: &BriefLevel, planned: f64, wanted: &[(f64, f64)]) -> Option<Forecast> {
    let values = steady_ttfts(level);
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
        rows: wanted.iter().map(|(p, precision)| pilot.plan(*p, *precision)).collect(),
    })
}

/// TTFT between ramp and tail, in send order: the first c requests meet a queue that is still
/// filling, so that with them the spread would be that of the ramp. All ok ones where a file of
/// another harness knows no phases.
fn steady_ttfts(level: &BriefLevel) -> Vec<f64> {
    let requests = evidence::measured_ok(level);
    let has_phases = requests.iter().any(|request| request.is_steady());
    let steady = requests.iter().filter(|request| !has_phases || request.is_steady());
    steady.filter_map(|request| request.ttft()).filter(|ttft| *ttft > 0.0).collect()
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
            "    TTFT p{} within ±{} %: {:.0} requests, {}",
            trimmed(row.p * 100.0),
            trimmed(row.precision * 100.0),
            row.requests,
            round(row.time)
        )
    }));
    lines
}

/// "99.9", "5": a number that a person wrote.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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

    /// On a serial server each of the first c requests waits longer than the one before: that is the
    /// ramp, and no spread of what follows.
    #[test]
    fn the_ramp_is_no_spread() {
        use crate::results::record::{MetricStats, RequestRecord, ResultsFile, Summary};
        let record = |index: u32| RequestRecord {
            index,
            ok: true,
            phase: if index < 16 { "ramp" } else { "steady" }.into(),
            ttft: Some(match index {
                0..16 => 0.1 + 0.4 * f64::from(index),
                _ => 6.5 + 0.01 * f64::from(index % 7),
            }),
            ..RequestRecord::default()
        };
        let mut summary =
            Summary { concurrency: 16, n_ok: 100, wall_s: 50.0, ..Summary::default() };
        let stats = MetricStats { n: 100, n_eff: Some(100.0 / 16.0), ..MetricStats::default() };
        summary.metrics.0.insert("ttft".into(), stats);
        let level = crate::results::record::Level {
            summary,
            requests: (0..100).map(record).collect(),
            ..Default::default()
        };
        let file = ResultsFile {
            levels: vec![level],
            ..ResultsFile::new(crate::results::record::Meta::default())
        };
        let found = forecast(&file.brief().levels[0], 1000.0, &WANTED).unwrap();
        let precision = found.precision[0].1.unwrap();
        assert!(precision < 0.005, "steady waits differ by less than a hundredth: {precision}");
        assert_eq!(found.rows.len(), 4);
    }

    #[test]
    fn percentiles_of_a_list() {
        assert!((percentile("99.9").unwrap() - 0.999).abs() < 1e-12);
        assert_eq!(percentile("p50"), Ok(0.5));
        assert!(percentile("100").is_err() && percentile("0.9").is_err());
        assert_eq!((trimmed(99.9), trimmed(5.0)), ("99.9".into(), "5".into()));
    }

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
