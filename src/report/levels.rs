//! Each run's levels: how TTFT is distributed, and what happened over time.

use super::html;
use super::svg::{Axis, Mark, Plot, Point, Series, Style, short};
use super::timeline;
use super::views::Run;
use crate::results::brief::BriefLevel;

/// Points of a distribution's line: more would not be seen.
const STEPS_MAX: usize = 60;
/// Levels whose time lines fit into a page of less than a megabyte.
const TIMELINES_MAX: usize = 32;
/// Points over the time of all levels together.
const BINS_TOTAL: usize = 1_800;

/// One section a run.
pub fn section(runs: &[Run]) -> String {
    let levels: usize = runs.iter().map(|run| run.stored.file.levels.len()).sum();
    let bins = (BINS_TOTAL / levels.max(1)).clamp(40, 140);
    let mut left = TIMELINES_MAX;
    let mut html = String::new();
    for run in runs {
        html.push_str(&format!("<h3>{}</h3>", html::escape(&run.name)));
        if run.stored.file.levels.is_empty() {
            html.push_str("<p>No level was measured; the reason stands under Flags.</p>");
            continue;
        }
        html.push_str(&distribution_figure(run));
        for level in &run.stored.file.levels {
            if left == 0 {
                html.push_str(&format!(
                    "<p class=\"muted\">c={}: left out here, since the page shows the time lines of \
                     {TIMELINES_MAX} levels; a report of this file alone has them.</p>",
                    level.summary.concurrency
                ));
                continue;
            }
            left -= 1;
            html.push_str(&timeline::figure(run, level, bins));
        }
    }
    html
}

fn ok_ttfts(level: &BriefLevel) -> Vec<f64> {
    let measured = level.requests.iter().filter(|request| request.is_measured_ok());
    let mut ttfts: Vec<f64> = measured.filter_map(|request| request.ttft()).collect();
    ttfts.sort_by(f64::total_cmp);
    ttfts
}

/// The share of requests that had their first token by then, a line a level.
pub fn distribution(run: &Run) -> Plot {
    let series = run.stored.file.levels.iter().enumerate().map(|(place, level)| {
        let ttfts = ok_ttfts(level);
        let c = level.summary.concurrency;
        let steps = ttfts.len().min(STEPS_MAX);
        let point = |step: usize| {
            let rank = (step * ttfts.len()).div_ceil(steps.max(1)).max(1) - 1;
            let percent = (rank + 1) as f64 / ttfts.len() as f64 * 100.0;
            // A dot, and a tip, at every tenth only: the line tells the rest.
            let tip = if steps <= 20 || step.is_multiple_of((steps / 10).max(1)) {
                let ms = short(ttfts[rank] * 1e3);
                format!("c={c}: {} % within {ms} ms", short(percent))
            } else {
                String::new()
            };
            Point { x: ttfts[rank] * 1e3, y: percent, tip }
        };
        Series {
            name: format!("c={c}"),
            style: Style::nth(place),
            mark: Mark::Line,
            points: (1..=steps).map(point).collect(),
        }
    });
    Plot {
        title: "Had their first token by then".into(),
        height: 230.0,
        x: Axis::log("ms, log scale"),
        y: Axis { ticks: None, ..Axis::linear("% of requests") },
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

fn distribution_figure(run: &Run) -> String {
    let plot = distribution(run);
    let shares = [1, 10, 25, 50, 75, 90, 99, 100];
    let rows: Vec<Vec<String>> = run
        .stored
        .file
        .levels
        .iter()
        .map(|level| {
            let ttfts = ok_ttfts(level);
            let at = |share: usize| {
                let place = (share * ttfts.len()).div_ceil(100).max(1) - 1;
                ttfts.get(place).map_or("-".into(), |s| short(s * 1e3))
            };
            let mut row = vec![format!("c={}", level.summary.concurrency)];
            row.extend(shares.map(at));
            row
        })
        .collect();
    let head = ["level", "1 %", "10 %", "25 %", "50 %", "75 %", "90 %", "99 %", "all"];
    let table =
        html::table("TTFT by which so many requests had their first token, ms", &head, &rows);
    let legend = plot.series.iter().map(|series| (series.name.as_str(), series.style));
    html::legend(legend) + &html::figure(&[plot.svg("")], &table)
}
