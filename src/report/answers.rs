//! Numbers → answers: measured ÷ predicted, Little's law, crossover, cost.

use std::time::Duration;

use serde_json::Value;

use super::html::{self, escape};
use super::svg::short;
use super::views::{Run, value};
use crate::analyse::cost::{ApiPrice, Workload};
use crate::analyse::littles_law::{self, Behaviour, LevelPoint};
use crate::analyse::roofline::StepBytes;
use crate::results::record::{Level, Meta};

fn fact(meta: &Meta, table: &str, key: &str) -> Option<f64> {
    meta.facts.get(table)?.get(key).and_then(Value::as_f64)
}

fn p50(level: &Level, name: &str) -> Option<f64> {
    level.summary.metric(name).and_then(|stats| stats.p50)
}

fn at_one(run: &Run) -> Option<Level> {
    let level = run.stored.file.levels.iter().find(|level| level.summary.concurrency == 1)?;
    Some(Level { requests: Vec::new(), ..level.clone() })
}

/// Decode speed against what the memory's bandwidth allows; needs `[hardware]` and `[model]`.
pub fn roofline(runs: &[Run]) -> String {
    let row = |run: &Run| {
        let meta = &run.stored.file.meta;
        let bandwidth = fact(meta, "hardware", "bandwidth_gb_s")? * 1e9;
        let weights = fact(meta, "model", "bytes_read_per_token");
        let file = fact(meta, "model", "weight_bytes");
        let level = at_one(run)?;
        let tps = p50(&level, "decode_tps")?;
        let n_ok = level.summary.n_ok.max(1);
        let (prompt, output) =
            (level.summary.prompt_tokens / n_ok, level.summary.output_tokens / n_ok);
        let streamed = weights.or(file)?;
        let bytes = StepBytes {
            weights: streamed,
            kv_per_token: fact(meta, "model", "kv_bytes_per_token").unwrap_or(0.0),
        };
        let answer =
            bandwidth * (output.max(2) - 1) as f64 / bytes.of_answer(prompt, output.max(2));
        let against = |ceiling: f64| format!("{} ({:.0} %)", short(ceiling), 100.0 * tps / ceiling);
        Some(vec![
            run.name.clone(),
            short(tps),
            file.map_or("-".into(), |file| against(bandwidth / file)),
            against(answer),
            short(bytes.achieved_bandwidth(tps, prompt, output) / 1e9),
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
    ];
    html::table("Measured ÷ predicted, decode", &head, &rows)
}

fn point(level: &Level) -> Option<LevelPoint> {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    let e2e = level.summary.metric("e2e")?;
    Some(LevelPoint {
        concurrency: level.summary.concurrency,
        e2e_mean: time(e2e.mean.or(e2e.p50)?)?,
        ttft_p50: time(p50(level, "ttft")?)?,
        throughput_tps: level.summary.throughput_tps?,
    })
}

/// Each level against what one at a time would give.
pub fn littles_law(runs: &[Run]) -> String {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    for run in runs {
        let points: Vec<LevelPoint> = run.stored.file.levels.iter().filter_map(point).collect();
        let checks = littles_law::check(&points);
        if let Some(last) = checks.last() {
            words.push(format!("{} {}", run.name, behaviour(last.behaviour)));
        }
        rows.extend(checks.iter().map(|check| {
            vec![
                run.name.clone(),
                check.concurrency.to_string(),
                format!("{:.2}", check.e2e_ratio),
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
        "W(c) ÷ c·W(1): 1 serial, 1/c parallel",
        "TTFT ÷ (c−1)·e2e₁+TTFT₁: 1 serial",
        "throughput ÷ that of c=1: 1 serial, c parallel",
        "serialness: 1 serial, 0 parallel",
    ];
    let table = html::table("Little's law", &head, &rows);
    format!("<p>{}.</p>{table}", escape(&words.join("; ")))
}

fn behaviour(behaviour: Behaviour) -> &'static str {
    match behaviour {
        Behaviour::Serial => "does one request at a time",
        Behaviour::Batching => "does many at once",
        Behaviour::Between => "is between: some at once, or all at a pace that suffers",
    }
}

/// Energy and prices; money for one's own hardware takes a cost config.
pub fn cost(runs: &[Run]) -> String {
    let mut rows = Vec::new();
    for run in runs {
        for level in &run.stored.file.levels {
            let joules = level.hardware.as_ref().and_then(|h| h.joules_per_output_token);
            let price = price(&run.stored.file.meta, level);
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

fn price(meta: &Meta, level: &Level) -> Option<f64> {
    let price = meta.price.as_ref()?;
    let get = |key: &str| price.get(key).and_then(Value::as_f64);
    let input_per_mtok = get("input_per_mtok").unwrap_or(0.0);
    let price = ApiPrice {
        input_per_mtok,
        cached_per_mtok: get("cached_per_mtok").unwrap_or(input_per_mtok),
        output_per_mtok: get("output_per_mtok")?,
    };
    let summary = &level.summary;
    let workload = Workload {
        prompt: summary.prompt_tokens as f64,
        cached: summary.cached_tokens as f64,
        output: summary.output_tokens as f64,
    };
    price.blended_per_output_mtok(&workload).filter(|usd| *usd > 0.0)
}
