//! "Where each one wins": sliders over measured rates. The formulas are those of
//! [`crate::analyse::explorer`]; `assets/explorer.js` says them again for the browser, and a test
//! holds that both agree.

use serde_json::json;

use super::html::escape;
use super::rates::{TargetRates, targets};
use super::views::Run;
use crate::analyse::explorer::{BYTES_PER_TOKEN, FIRST_ROUND_BYTES};
use crate::results::store::StoredRun;

/// The networks that the page offers, as round trips in milliseconds.
const NETWORKS: [(&str, f64); 4] =
    [("localhost", 0.05), ("LAN", 1.0), ("café over a tunnel", 45.0), ("cloud region", 70.0)];

/// The section; empty if no target has a c = 1 level.
pub fn section(runs: &[Run]) -> String {
    let stored: Vec<&StoredRun> = runs.iter().map(|run| run.stored).collect();
    let targets = targets(&stored);
    if targets.is_empty() {
        return "<p class=\"muted\">It takes a target with a c=1 level.</p>".to_owned();
    }
    let data = json!({
        "bytesPerToken": BYTES_PER_TOKEN,
        "firstRoundBytes": FIRST_ROUND_BYTES,
        "targets": targets.iter().map(target).collect::<Vec<_>>(),
    });
    // `<` is the one character that could end the script element.
    let data = data.to_string().replace('<', "\\u003c");
    let sliders = [
        ("prompt", "Prompt, tokens", 0, 15, 9),
        ("output", "Output, tokens", 0, 12, 8),
        ("concurrency", "Requests in flight", 0, 8, 0),
    ];
    let sliders: String = sliders
        .iter()
        .map(|(id, label, min, max, start)| {
            format!(
                "<label for=\"x-{id}\">{label} <output id=\"x-{id}-value\"></output></label>\
                 <input type=\"range\" id=\"x-{id}\" min=\"{min}\" max=\"{max}\" step=\"0.25\" value=\"{start}\">"
            )
        })
        .collect();
    format!(
        "<div id=\"x-explorer\"><div class=\"controls\">{}{}{sliders}\
         <label class=\"check\"><input type=\"checkbox\" id=\"x-fresh\"> first call (a new connection)</label></div>\
         {}<div id=\"x-bars\" class=\"bars\"></div><p id=\"x-verdict\" class=\"lead\" aria-live=\"polite\"></p>\
         <noscript><p>The sliders need JavaScript; <code>spark-bench predict</code> gives the same numbers.</p></noscript>\
         {}</div><script type=\"application/json\" id=\"x-data\">{data}</script>",
        side("a", &targets, 0),
        if targets.len() > 1 { side("b", &targets, 1) } else { String::new() },
        super::budget::key(),
        sources(&targets),
    )
}

fn target(target: &TargetRates) -> serde_json::Value {
    let rates = &target.rates;
    json!({
        "name": target.name,
        "rttS": target.rtt_s,
        "prefillFloorS": rates.prefill_floor_s,
        "prefillTps": rates.prefill_tps,
        "decodeTps": rates.decode_tps,
        "queueShare": rates.queue_share,
        "decodeSlowdown": rates.decode_slowdown,
        "handshakeRounds": rates.handshake_rounds,
    })
}

/// The choice of a target, and of the network to it.
fn side(id: &str, targets: &[TargetRates], chosen: usize) -> String {
    let options: String = targets
        .iter()
        .enumerate()
        .map(|(place, target)| {
            let selected = if place == chosen { " selected" } else { "" };
            format!("<option value=\"{place}\"{selected}>{}</option>", escape(&target.name))
        })
        .collect();
    let networks: String = NETWORKS
        .iter()
        .map(|(name, ms)| format!("<option value=\"{ms}\">{name} ({ms} ms)</option>"))
        .collect();
    format!(
        "<div class=\"side\"><label>Target <select id=\"x-{id}\">{options}</select></label>\
         <label>Network <select id=\"x-{id}-net\"><option value=\"measured\">as measured</option>{networks}</select></label></div>"
    )
}

fn sources(targets: &[TargetRates]) -> String {
    let items: String = targets
        .iter()
        .flat_map(|target| target.sources.iter().map(move |source| (target, source)))
        .map(|(target, source)| {
            let tag = if source.assumed { "<b class=\"tag flagged\">assumed</b> " } else { "" };
            format!(
                "<li>{tag}<b>{}</b> {}: {}</li>",
                escape(&target.name),
                escape(&source.figure),
                // The tag says it already.
                escape(source.source.trim_start_matches("assumed: "))
            )
        })
        .collect();
    // The sources of many targets are a long list: one click away.
    let open = if targets.len() <= 2 { " open" } else { "" };
    format!(
        "<details{open}><summary>Where the rates are from</summary><ul class=\"flags\">{items}\
         <li><b class=\"tag flagged\">assumed</b> {BYTES_PER_TOKEN} bytes for a prompt token, and a \
         connection that sends {FIRST_ROUND_BYTES:.0} bytes before it waits</li></ul></details>"
    )
}
