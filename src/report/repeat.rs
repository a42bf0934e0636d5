//! Everything needed to repeat a run, and what its numbers mean.

use std::collections::BTreeMap;

use super::html::{escape, shortened, table};
use super::svg::short;
use super::views::Run;

/// Longest config that the page quotes, in characters; the results file has it whole.
const CONFIG_CHARS_MAX: usize = 4_000;
/// Longest value in the list of facts.
const VALUE_CHARS_MAX: usize = 600;

/// One closed block a run.
pub fn section(runs: &[Run]) -> String {
    runs.iter().map(block).collect()
}

fn block(run: &Run) -> String {
    let config = run.stored.file.meta.config.as_ref().and_then(|config| config.text.as_ref());
    let config = config.map_or(String::new(), |text| {
        let lines: Vec<String> = shortened(text, CONFIG_CHARS_MAX).lines().map(escape).collect();
        format!("<pre>{}</pre>", lines.join("\n"))
    });
    let floor = run.stored.file.client_floor.as_ref().map_or(String::new(), client_floor);
    format!(
        "<details><summary>{}</summary>{}{config}{floor}</details>",
        escape(&run.name),
        facts(run)
    )
}

fn facts(run: &Run) -> String {
    let meta = &run.stored.file.meta;
    let mut facts: Vec<(&str, String)> = vec![
        ("file", run.stored.name()),
        ("date", meta.date.clone()),
        ("target", meta.target.clone()),
        ("model", meta.model.clone()),
        ("precision", meta.precision.clone()),
        ("endpoint", meta.base_url.clone()),
        ("prompts", meta.prompts.clone()),
        ("prompts SHA-256", meta.prompts_sha256.clone().unwrap_or_default()),
        ("requests a level", format!("{} after {} for warm-up", meta.n, meta.warmup)),
        ("output tokens", format!("{}, ignore_eos {}", meta.max_tokens, meta.ignore_eos)),
        ("client", meta.client.clone()),
        ("command", meta.argv.join(" ")),
        ("harness", meta.harness_version.clone().unwrap_or_default()),
        ("commit", meta.git_sha.clone()),
    ];
    if let Some(config) = &meta.config {
        facts.push(("config", config.path.clone().unwrap_or_default()));
        facts.push(("config SHA-256", config.sha256.clone()));
    }
    if !meta.timeouts_s.is_empty() {
        let shown = meta.timeouts_s.iter().map(|(name, seconds)| {
            let seconds = seconds.map_or("none".into(), |s| format!("{} s", short(s)));
            format!("{name} {seconds}")
        });
        facts.push(("timeouts", shown.collect::<Vec<_>>().join(", ")));
    }
    if !meta.seeds.is_empty() {
        let shown = meta.seeds.iter().map(|(name, seed)| format!("{name} {seed}"));
        facts.push(("seeds", shown.collect::<Vec<_>>().join(", ")));
    }
    if let Some(server) = &meta.server {
        facts.push(("engine", server.engine.clone().unwrap_or_default()));
        facts.push(("engine version", server.version.clone().unwrap_or_default()));
        facts.push(("engine command", server.command.join(" ")));
    }
    if let Some(host) = &meta.host {
        let gpus = host.gpus.iter().filter_map(|gpu| gpu.name.clone()).collect::<Vec<_>>();
        let parts = [&host.os, &host.kernel, &host.arch, &host.cpu, &host.virtual_machine];
        let mut parts: Vec<String> = parts.into_iter().flatten().cloned().collect();
        parts.extend(gpus);
        facts.push(("host", parts.join(", ")));
    }
    let rows: Vec<Vec<String>> = facts
        .into_iter()
        .filter(|(_, fact)| !fact.is_empty())
        .map(|(name, fact)| vec![name.to_owned(), shortened(&fact, VALUE_CHARS_MAX)])
        .collect();
    table("What ran", &["what", "value"], &rows)
}

fn client_floor(floor: &crate::results::record::ClientFloor) -> String {
    if let Some(reason) = &floor.reason {
        return format!("<p class=\"muted\">No self-test: {}</p>", escape(&shortened(reason, 300)));
    }
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), short);
    let rows: Vec<Vec<String>> = floor
        .rows
        .iter()
        .map(|row| {
            vec![
                row.concurrency.to_string(),
                cell(row.ttft_error_ms_p50),
                cell(row.ttft_error_ms_p99),
                cell(row.gap_error_ms_p99),
                cell(row.cpu_us_per_event),
            ]
        })
        .collect();
    let head =
        ["c", "TTFT error p50, ms", "TTFT error p99, ms", "gap error p99, ms", "CPU per event, µs"];
    table("The harness's own error", &head, &rows)
}

/// What each metric means, once for all runs.
pub fn definitions(runs: &[Run]) -> String {
    let all: BTreeMap<&String, &String> =
        runs.iter().flat_map(|run| &run.stored.file.definitions).collect();
    let entries: String = all
        .iter()
        .map(|(name, text)| {
            format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(&shortened(text, 600)))
        })
        .collect();
    if entries.is_empty() { String::new() } else { format!("<dl>{entries}</dl>") }
}
