//! The six numbers against concurrency, for all runs.

use super::html;
use super::svg::{Axis, Mark, Plot, Point, Scale, Series, short};
use super::views::{Run, ms, value};
use super::work::Works;
use crate::results::brief::BriefLevel;
use crate::results::record::MetricStats;
use crate::results::scoreboard::interval_ms;

/// Names, units, how to draw, and where each number is from.
type Number = (&'static str, &'static str, Scale, fn(&BriefLevel) -> Option<f64>);

const NUMBERS: [Number; 6] = [
    ("TTFT, typical (p50)", "ms", Scale::Log, |l| metric(l, "ttft", |m| m.p50).map(|s| s * 1e3)),
    ("TTFT, the unlucky (p90)", "ms", Scale::Log, |l| {
        metric(l, "ttft", |m| m.p90).map(|s| s * 1e3)
    }),
    ("Time per token (TPOT p50)", "ms", Scale::Linear, |l| {
        metric(l, "tpot", |m| m.p50)
            .or_else(|| metric(l, "decode_tps", |m| m.p50).map(|tps| 1.0 / tps))
            .map(|s| s * 1e3)
    }),
    ("Speed of one stream (p50)", "tok/s", Scale::Linear, |l| metric(l, "decode_tps", |m| m.p50)),
    ("End to end (p50)", "s", Scale::Log, |l| metric(l, "e2e", |m| m.p50)),
    ("Throughput, all streams", "tok/s", Scale::Linear, throughput),
];

fn metric(level: &BriefLevel, name: &str, get: fn(&MetricStats) -> Option<f64>) -> Option<f64> {
    level.summary.metric(name).and_then(get)
}

/// Over the whole time; none of fewer ok requests than workers, which would be a smaller load's.
fn throughput(level: &BriefLevel) -> Option<f64> {
    level.summary.throughput_tps.filter(|_| level.summary.fills_its_workers())
}

/// One plot a number; a line a run.
pub fn plots(runs: &[Run]) -> Vec<Plot> {
    let mut levels: Vec<f64> = runs
        .iter()
        .flat_map(|run| &run.stored.file.levels)
        .map(|level| f64::from(level.summary.concurrency))
        .collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let works = Works::of(runs);
    let (names, styles) = (works.names(), works.styles());
    NUMBERS
        .iter()
        .map(|(title, unit, scale, get)| {
            let series = runs.iter().zip(&names).zip(&styles).map(|((run, name), style)| Series {
                name: name.clone(),
                style: *style,
                mark: Mark::Line,
                points: points(run, name, unit, *get),
            });
            Plot {
                title: (*title).to_owned(),
                height: 230.0,
                x: Axis {
                    label: "requests in flight".into(),
                    scale: Scale::Log,
                    ticks: Some(levels.clone()),
                },
                y: Axis { label: label(unit, *scale), scale: *scale, ticks: None },
                series: series.filter(|series| !series.points.is_empty()).collect(),
            }
        })
        .collect()
}

/// An axis that does not begin at zero says so.
fn label(unit: &str, scale: Scale) -> String {
    match scale {
        Scale::Linear => unit.to_owned(),
        Scale::Log => format!("{unit}, log scale"),
    }
}

fn points(run: &Run, name: &str, unit: &str, get: fn(&BriefLevel) -> Option<f64>) -> Vec<Point> {
    let mut points: Vec<Point> = run
        .stored
        .file
        .levels
        .iter()
        .filter_map(|level| {
            let (x, y) = (f64::from(level.summary.concurrency), get(level)?);
            let tip = format!("{name}\nc={x}: {} {unit}, n={}", short(y), level.summary.n_ok);
            Some(Point { x, y, tip })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// The section.
pub fn section(runs: &[Run]) -> String {
    let works = Works::of(runs);
    let (names, styles) = (works.names(), works.styles());
    let drawn = runs.iter().zip(names.iter().zip(styles));
    let drawn = drawn.filter(|(run, _)| !run.stored.file.levels.is_empty());
    let legend = html::legend(drawn.map(|(_, (name, style))| (name.as_str(), style)));
    let plots: Vec<String> = plots(runs).iter().map(|plot| plot.svg("")).collect();
    let rows: Vec<Vec<String>> = runs.iter().flat_map(rows).collect();
    let head = [
        "run",
        "c",
        "n ok",
        "failed",
        "TTFT p50 (95 %)",
        "p90",
        "p99",
        "n eff",
        "TPOT p50",
        "tok/s p50",
        "e2e p50 s",
        "tok/s all",
        "steady",
        "verdict",
    ];
    let table = html::table("Every level", &head, &rows);
    format!("{}{legend}{}", works.notice(), html::figure(&plots, &table))
}

/// "131 ms (130 … 135 ms)".
fn with(figure: String, interval: Option<String>) -> String {
    // It breaks before the bracket only.
    let whole = |interval: String| interval.replace(' ', "\u{a0}");
    interval.map_or(figure.clone(), |interval| format!("{figure} ({}\u{a0}ms)", whole(interval)))
}

fn rows(run: &Run) -> Vec<Vec<String>> {
    let row = |level: &BriefLevel| {
        let summary = &level.summary;
        let p99 = if summary.n_ok < 100 {
            "n<100".to_owned()
        } else {
            ms(metric(level, "ttft", |m| m.p99))
        };
        let ends = |of: fn(&MetricStats) -> Option<[Option<f64>; 2]>| {
            summary.metric("ttft").and_then(|ttft| interval_ms(of(ttft)))
        };
        vec![
            run.name.clone(),
            summary.concurrency.to_string(),
            summary.n_ok.to_string(),
            summary.n_err.to_string(),
            with(ms(metric(level, "ttft", |m| m.p50)), ends(|m| m.p50_ci)),
            with(ms(metric(level, "ttft", |m| m.p90)), ends(|m| m.p90_ci)),
            with(p99, ends(|m| m.p99_ci)),
            value(metric(level, "ttft", |m| m.n_eff)),
            ms(metric(level, "tpot", |m| m.p50)),
            value(metric(level, "decode_tps", |m| m.p50)),
            value(metric(level, "e2e", |m| m.p50)),
            value(throughput(level)),
            value(summary.steady_tps),
            super::flags::verdict(level.verdict).to_owned(),
        ]
    };
    run.stored.file.levels.iter().map(row).collect()
}
