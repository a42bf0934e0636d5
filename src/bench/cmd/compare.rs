//! `spark-bench compare`: did anything change between two runs?

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{BadInput, answer, unreadable};
use crate::analyse::compare::{Change, Method, Ratio, compare, ratio_of_rates};
use crate::exit_codes;
use crate::measure::metrics::Metric;
use crate::report::evidence;
use crate::results::record::{Level, Meta, ResultsFile};
use crate::results::store;

/// Flags of `spark-bench compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The results file to compare with.
    a: PathBuf,
    /// The results file of the change.
    b: PathBuf,
    /// Exit with 4 if any figure is significantly worse in B, by more than this ("5%").
    #[arg(long, value_name = "PERCENT")]
    fail_if_slower: Option<Percent>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// A share, written as a percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().trim_end_matches('%').trim();
        match number.parse::<f64>() {
            Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(Self(percent / 100.0)),
            _ => Err(format!("{text:?} is no percentage such as 5%")),
        }
    }
}

/// One figure of one level, in both runs.
struct Row {
    concurrency: u32,
    figure: &'static str,
    /// Whether more of it is better.
    direction: Direction,
    ratio: f64,
    interval_95: Option<[f64; 2]>,
    change: Change,
    details: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    MoreIsBetter,
    LessIsBetter,
}

/// The figures that are compared; tails are not: the interval of a p99 is too wide for it under a
/// thousand requests.
const METRICS: [(Metric, Direction); 3] = [
    (Metric::Ttft, Direction::LessIsBetter),
    (Metric::E2e, Direction::LessIsBetter),
    (Metric::DecodeTps, Direction::MoreIsBetter),
];

/// Compares level by level.
///
/// # Errors
/// If a file cannot be read, or the two have no level in common.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let (a, b) =
        (&store::read(&args.a).map_err(unreadable)?, &store::read(&args.b).map_err(unreadable)?);
    let differences = differences(&a.meta, &b.meta);
    let rows: Vec<Row> = a
        .levels
        .iter()
        .filter_map(|level| Some((level, evidence::level_at(b, level.summary.concurrency)?)))
        .flat_map(|(level_a, level_b)| compare_levels(level_a, level_b))
        .collect();
    if rows.is_empty() {
        return Err(BadInput("the two runs have no figure of a level in common".into()).into());
    }
    let slower: Vec<&Row> = match args.fail_if_slower {
        Some(Percent(allowed)) => rows.iter().filter(|row| row.is_worse_by(allowed)).collect(),
        None => Vec::new(),
    };
    if args.json {
        let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
        let slower = slower.iter().map(|row| row.name()).collect::<Vec<_>>();
        let all = json!({"differences": differences, "rows": rows, "slower": slower});
        answer(&format!("{all:#}\n"))?;
    } else {
        answer(&text(a, b, &differences, &rows, &slower))?;
    }
    Ok(if slower.is_empty() { exit_codes::OK } else { exit_codes::CHECK_FAILED })
}

fn compare_levels(a: &Level, b: &Level) -> Vec<Row> {
    let concurrency = a.summary.concurrency;
    let of_metric = |(metric, direction): (Metric, Direction)| {
        let ratio = compare(&evidence::series(a, metric), &evidence::series(b, metric))?;
        Some(Row {
            concurrency,
            figure: metric.name(),
            direction,
            ratio: ratio.ratio,
            interval_95: ratio.interval_95,
            change: ratio.change(),
            details: details(&ratio),
        })
    };
    let mut rows: Vec<Row> = METRICS.into_iter().filter_map(of_metric).collect();
    let rates = evidence::steady_rate(a).zip(evidence::steady_rate(b));
    rows.extend(rates.map(|(a, b)| {
        let (ratio, [low, high]) = ratio_of_rates(&a, &b);
        let change = if low > 1.0 {
            Change::Higher
        } else if high < 1.0 {
            Change::Lower
        } else {
            Change::NotSignificant
        };
        Row {
            concurrency,
            figure: "steady_tps",
            direction: Direction::MoreIsBetter,
            ratio,
            interval_95: Some([low, high]),
            change,
            details: "batch means".into(),
        }
    }));
    rows
}

fn details(ratio: &Ratio) -> String {
    let how = match ratio.method {
        Method::Paired => "pairs of prompts",
        Method::Unpaired => "requests, unpaired",
    };
    let p = ratio.p.map_or(String::new(), |p| format!(", p={p:.2e}"));
    format!("{} {how}{p}", ratio.n)
}

impl Row {
    fn name(&self) -> String {
        format!("c={} {}", self.concurrency, self.figure)
    }

    fn verdict(&self) -> &'static str {
        match (self.change, self.direction) {
            (Change::NotSignificant, _) => "no significant change",
            (Change::Higher, Direction::MoreIsBetter)
            | (Change::Lower, Direction::LessIsBetter) => "better",
            _ => "worse",
        }
    }

    fn is_worse_by(&self, allowed: f64) -> bool {
        let worse = match self.direction {
            Direction::MoreIsBetter => 1.0 / self.ratio - 1.0,
            Direction::LessIsBetter => self.ratio - 1.0,
        };
        self.verdict() == "worse" && worse > allowed
    }

    fn to_json(&self) -> Value {
        json!({
            "concurrency": self.concurrency,
            "figure": self.figure,
            "ratio_b_over_a": self.ratio,
            "interval_95": self.interval_95,
            "verdict": self.verdict(),
            "method": self.details,
        })
    }
}

/// What is not the same in both runs, so that a change may be its doing.
fn differences(a: &Meta, b: &Meta) -> Vec<String> {
    let host = |meta: &Meta| meta.host.as_ref().and_then(|host| host.hostname_hash.clone());
    // What the same machine may have had set otherwise.
    let driver = |meta: &Meta| meta.host.as_ref().and_then(|host| host.driver.clone());
    let governor = |meta: &Meta| meta.host.as_ref().and_then(|host| host.governor.clone());
    let supply = |meta: &Meta| meta.host.as_ref().and_then(|host| host.power_supply.clone());
    let power_limits = |meta: &Meta| -> Vec<Option<f64>> {
        meta.host.iter().flat_map(|host| &host.gpus).map(|gpu| gpu.power_limit_w).collect()
    };
    let version = |meta: &Meta| meta.server.as_ref().and_then(|server| server.version.clone());
    let command = |meta: &Meta| meta.server.as_ref().map(|server| server.command.join(" "));
    let pairs = [
        ("model", json!(a.model), json!(b.model)),
        ("precision", json!(a.precision), json!(b.precision)),
        ("change", json!(a.change), json!(b.change)),
        ("prompts", json!(a.prompts_sha256), json!(b.prompts_sha256)),
        ("max_tokens", json!(a.max_tokens), json!(b.max_tokens)),
        ("ignore_eos", json!(a.ignore_eos), json!(b.ignore_eos)),
        ("temperature", json!(a.temperature), json!(b.temperature)),
        ("client", json!(a.client), json!(b.client)),
        ("protocol", json!(a.protocol), json!(b.protocol)),
        ("extra_body", json!(a.extra_body), json!(b.extra_body)),
        ("harness", json!(a.harness_version), json!(b.harness_version)),
        ("server version", json!(version(a)), json!(version(b))),
        ("server command", json!(command(a)), json!(command(b))),
        ("host", json!(host(a)), json!(host(b))),
        ("GPU driver", json!(driver(a)), json!(driver(b))),
        ("GPU power limits, W", json!(power_limits(a)), json!(power_limits(b))),
        ("CPU governor", json!(governor(a)), json!(governor(b))),
        ("power supply", json!(supply(a)), json!(supply(b))),
    ];
    let differing = pairs.into_iter().filter(|(_, a, b)| a != b);
    differing.map(|(what, a, b)| format!("{what}: {a} → {b}")).collect()
}

fn text(
    a: &ResultsFile,
    b: &ResultsFile,
    differences: &[String],
    rows: &[Row],
    slower: &[&Row],
) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!("A: {} ({})", a.meta.target, a.meta.date));
    line(format!("B: {} ({})", b.meta.target, b.meta.date));
    for difference in differences {
        line(format!("differs: {difference}"));
    }
    line("\nRatios B ÷ A with 95 % intervals; a change is called by the 99 % interval.".into());
    for row in rows {
        let interval = row.interval_95.map_or("too few samples for an interval".into(), |ends| {
            format!("{:.4} … {:.4}", ends[0], ends[1])
        });
        line(format!(
            "{:<18} {:.4}  [{interval}]  {}  ({})",
            row.name(),
            row.ratio,
            row.verdict(),
            row.details
        ));
    }
    if !slower.is_empty() {
        let names: Vec<String> = slower.iter().map(|row| row.name()).collect();
        line(format!("\nSlower than allowed: {}", names.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!("5%".parse(), Ok(Percent(0.05)));
        assert_eq!("2.5".parse(), Ok(Percent(0.025)));
        assert!("-1%".parse::<Percent>().is_err());
        assert!("five".parse::<Percent>().is_err());
    }

    #[test]
    fn slower_means_worse_whichever_way_the_figure_runs() {
        let row = |direction, ratio, change| Row {
            concurrency: 1,
            figure: "figure",
            direction,
            ratio,
            interval_95: None,
            change,
            details: String::new(),
        };
        use Change::{Higher, Lower, NotSignificant};
        use Direction::{LessIsBetter, MoreIsBetter};
        assert!(row(LessIsBetter, 1.06, Higher).is_worse_by(0.05));
        assert!(!row(LessIsBetter, 1.04, Higher).is_worse_by(0.05));
        assert!(!row(LessIsBetter, 1.5, NotSignificant).is_worse_by(0.05));
        assert!(row(MoreIsBetter, 0.9, Lower).is_worse_by(0.05));
        assert!(!row(MoreIsBetter, 1.9, Higher).is_worse_by(0.05));
    }

    #[test]
    fn another_driver_or_power_limit_is_named() {
        use crate::results::record::{Host, HostGpu};
        let meta = |driver: &str, limit| Meta {
            host: Some(Host {
                driver: Some(driver.to_owned()),
                gpus: vec![HostGpu { power_limit_w: Some(limit), ..HostGpu::default() }],
                ..Host::default()
            }),
            ..Meta::default()
        };
        let found = differences(&meta("580.95", 300.0), &meta("590.10", 250.0));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("580.95") && found[1].contains("250.0"), "{found:?}");
        assert_eq!(differences(&meta("1", 1.0), &meta("1", 1.0)), Vec::<String>::new());
    }
}
