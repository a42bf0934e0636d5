//! Numbers → answers: measured ÷ predicted, Little's law, crossover, cost.

use std::time::Duration;

use super::evidence::{level_points, price_per_output_mtok};
use super::html::{self, escape};
use super::prediction::{self, Bandwidths};
use super::svg::short;
use super::views::{Run, value};
use crate::analyse::littles_law::{self, Behaviour, Check};

/// Decode speed against what the memory's bandwidth allows, and what prefill amounted to.
pub fn roofline(runs: &[Run]) -> String {
    let row = |run: &Run| {
        let file = &run.stored.file;
        let tps = prediction::measured_tps(file)?;
        let ceilings = prediction::ceilings(file, Bandwidths::default());
        let prefill = prediction::prefill(file);
        if ceilings.is_empty() && prefill.is_none() {
            return None;
        }
        let against = |name: &str| {
            let ceiling = ceilings.iter().find(|ceiling| ceiling.name == name);
            ceiling.map_or("-".into(), |ceiling| {
                format!("{} ({:.0} %)", short(ceiling.tps), 100.0 * tps / ceiling.tps)
            })
        };
        let share = |share: Option<f64>| {
            share.map_or(String::new(), |share| format!(" ({:.0} % of the peak)", 100.0 * share))
        };
        Some(vec![
            run.name.clone(),
            short(tps),
            against("file"),
            against("streamed"),
            value(prediction::achieved_bandwidth(file).map(|bytes| bytes / 1e9)),
            prefill.map_or("-".into(), |prefill| {
                format!("{}{}", short(prefill.flops_per_s / 1e12), share(prefill.share_of_peak))
            }),
        ])
    };
    let rows: Vec<Vec<String>> = runs.iter().filter_map(row).collect();
    if rows.is_empty() {
        return "<p class=\"muted\">No config names the memory's bandwidth (<code>[hardware] bandwidth_gb_s</code>) \
                and the model's bytes (<code>[model]</code>), so there is no ceiling to compare with.</p>"
            .to_owned();
    }
    let head = [
        "run",
        "measured tok/s (c=1)",
        "bandwidth ÷ file: tok/s (measured)",
        "bandwidth ÷ bytes streamed: tok/s (measured)",
        "bandwidth achieved, GB/s",
        "prefill, TFLOP/s",
    ];
    html::table("Measured ÷ predicted", &head, &rows)
}

/// Each level against what one at a time would give.
pub fn littles_law(runs: &[Run]) -> String {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for run in runs {
        let points = level_points(&run.stored.file);
        let checks = littles_law::check(&points);
        if let Some(last) = checks.last() {
            words.push(format!("{} {}{}", run.name, behaviour(last.behaviour), consistent(last)));
        }
        rows.extend(checks.iter().map(|check| {
            vec![
                run.name.clone(),
                check.concurrency.to_string(),
                seconds_with_half(check.e2e_mean, check.e2e_half),
                ratio_with_interval(check.e2e_ratio, check.e2e_ratio_interval),
                format!("{:.2}", check.ttft_ratio),
                format!("{:.2}", check.throughput_ratio),
                format!("{:.2}", check.serialness),
            ]
        }));
    }
    if rows.is_empty() {
        return "<p class=\"muted\">It takes a c=1 level and another one.</p>".to_owned();
    }
    let head = [
        "run",
        "c",
        "W(c), s (95 %)",
        "W(c) ÷ c·W(1) (95 %): 1 serial, 1/c parallel",
        "TTFT ÷ (c−1)·e2e₁+TTFT₁: 1 serial",
        "throughput ÷ that of c=1: 1 serial, c parallel",
        "serialness: 1 serial, 0 parallel",
    ];
    let table = html::table("Little's law", &head, &rows);
    format!("<p>{}.</p>{table}", escape(&words.join("; ")))
}

/// Whether the wait at the largest level is the one that Little's law gives, of a serial server.
fn consistent(check: &Check) -> String {
    let serial = check.behaviour == Behaviour::Serial && check.is_serial_wait() == Some(true);
    let c = check.concurrency;
    if serial { format!(" (consistent with Little's law at c={c})") } else { String::new() }
}

/// `2.31 ± 0.05`.
fn seconds_with_half(mean: Duration, half: Option<Duration>) -> String {
    let half = half.map_or(String::new(), |half| format!(" ± {:.2}", half.as_secs_f64()));
    format!("{:.2}{half}", mean.as_secs_f64())
}

/// `1.01 (0.97 to 1.05)`.
fn ratio_with_interval(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let text = |[low, high]: [f64; 2]| format!(" ({low:.2} to {high:.2})");
    format!("{ratio:.2}{}", interval.map_or(String::new(), text))
}

fn behaviour(behaviour: Behaviour) -> &'static str {
    match behaviour {
        Behaviour::Serial => "does one request at a time",
        Behaviour::Batching => "does many at once",
        Behaviour::Between => "is between: some at once, or all at a pace that suffers",
        Behaviour::Unknown => "may do either: its times are too unsteady to tell",
    }
}

/// Energy and prices; money for one's own hardware takes a cost config.
pub fn cost(runs: &[Run]) -> String {
    let mut rows = Vec::new();
    for run in runs {
        for level in &run.stored.file.levels {
            let joules = level.hardware.as_ref().and_then(|h| h.joules_per_output_token);
            let price = price_per_output_mtok(&run.stored.file.meta, level);
            if joules.is_none() && price.is_none() {
                continue;
            }
            // 1 kWh is 3.6 MJ; a million tokens.
            let kwh = joules.map(|joules| joules / 3.6);
            rows.push(vec![
                run.name.clone(),
                level.summary.concurrency.to_string(),
                value(joules),
                value(kwh),
                price.map_or("-".into(), |usd| format!("{usd:.3}")),
            ]);
        }
    }
    if rows.is_empty() {
        return "<p class=\"muted\">No energy was measured and no config names a price.</p>"
            .to_owned();
    }
    let head = [
        "run",
        "c",
        "J per output token",
        "kWh per million output tokens",
        "API price, USD per million output tokens with their prompts",
    ];
    html::table("Cost", &head, &rows)
        + "<p class=\"muted\">What a machine of your own costs, and from which volume it is cheaper: \
           <code>spark-bench cost</code>, with your price, years and tariff.</p>"
}
