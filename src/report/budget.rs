//! Where the milliseconds of TTFT go: stacked bars, a bar a level.

use super::html::{self, escape};
use super::svg::short;
use super::views::{Run, time};
use crate::results::brief::BriefLevel;

/// Mean parts of TTFT, seconds, in the order of the bar.
struct Parts([(&'static str, &'static str, f64); 6]);

/// Over the measured ok requests for which the server told its times.
fn parts(level: &BriefLevel) -> Option<(Parts, usize)> {
    let mut sums = [0.0; 6];
    let mut count = 0;
    for request in level.requests.iter().filter(|request| request.is_measured_ok()) {
        let Some(budget) = request.ttft_budget() else { continue };
        count += 1;
        let seconds = [
            budget.network.as_secs_f64(),
            budget.connect.as_secs_f64(),
            budget.tls.as_secs_f64(),
            budget.queue.as_secs_f64(),
            budget.prefill.as_secs_f64(),
            budget.unaccounted_ns as f64 / 1e9,
        ];
        for (sum, part) in sums.iter_mut().zip(seconds) {
            *sum += part;
        }
    }
    let names = [
        ("network", "net"),
        ("connect", "shake"),
        ("TLS", "shake"),
        ("queue", "queue"),
        ("prefill", "prefill"),
        ("unaccounted", "rest"),
    ];
    let mut place = 0;
    (count > 0).then(|| {
        let parts = names.map(|(name, class)| {
            place += 1;
            (name, class, sums[place - 1] / f64::from(count))
        });
        (Parts(parts), count as usize)
    })
}

/// The section.
pub fn section(runs: &[Run]) -> String {
    let mut bars = String::new();
    let mut rows = Vec::new();
    let mut silent = Vec::new();
    for run in runs {
        for level in &run.stored.file.levels {
            let c = level.summary.concurrency;
            let Some((Parts(parts), count)) = parts(level) else {
                silent.push(format!("{} c={c}", run.name));
                continue;
            };
            let name = format!("{}, c={c}", run.name);
            bars.push_str(&bar(&name, &parts));
            let mut row = vec![name, count.to_string()];
            row.extend(parts.iter().map(|(_, _, seconds)| short(seconds * 1e3)));
            rows.push(row);
        }
    }
    let mut html = String::new();
    if !rows.is_empty() {
        let head =
            ["level", "requests", "network", "connect", "TLS", "queue", "prefill", "unaccounted"];
        let table = html::table("Mean parts of TTFT, ms", &head, &rows);
        html.push_str(&key());
        html.push_str(&html::figure(&[format!("<div class=\"bars\">{bars}</div>")], &table));
    }
    if !silent.is_empty() {
        html.push_str(&format!(
            "<p class=\"muted\">These servers do not tell where their time goes: {}.</p>",
            escape(&html::shortened(&silent.join("; "), 600))
        ));
    }
    html
}

/// What the colours of a stacked bar mean, here and in the explorer.
pub fn key() -> String {
    let parts = [
        ("net", "network"),
        ("shake", "handshake"),
        ("queue", "queue"),
        ("prefill", "prefill"),
        ("decode", "decode"),
        ("rest", "unaccounted"),
    ];
    let entries: String = parts
        .iter()
        .map(|(class, name)| format!("<li><i class=\"chip b-{class}\"></i>{name}</li>"))
        .collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

fn bar(name: &str, parts: &[(&str, &str, f64)]) -> String {
    let total: f64 = parts.iter().map(|(_, _, seconds)| seconds.max(0.0)).sum();
    let pieces: String = parts
        .iter()
        .filter(|(_, _, seconds)| *seconds > 0.0)
        .map(|(part, class, seconds)| {
            format!(
                "<span class=\"b-{class}\" style=\"width:{:.2}%\" data-tip=\"{}\n{part}: {}\"></span>",
                100.0 * seconds / total,
                escape(name),
                time(*seconds)
            )
        })
        .collect();
    format!(
        "<div class=\"row\"><span class=\"name\">{}</span><div class=\"bar\" role=\"img\" \
         aria-label=\"{} in all\">{pieces}</div><span class=\"sum\">{}</span></div>",
        escape(name),
        time(total),
        time(total)
    )
}
