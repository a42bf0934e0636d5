//! Runs of prompts of exact length: how fast prompts are read and answers written, by prompt,
//! output and depth.
//!
//! Prefill in two ways, both named: by the client's clock (fresh prompt tokens ÷ (TTFT − connect −
//! network − queue)), which any server has, and by the server's own timings.

use super::html::{self, escape};
use super::views::Run;
use crate::measure::metrics::network_rounds;
use crate::measure::sample::Sample;
use crate::results::brief::{Brief, BriefFile, BriefLevel};
use crate::results::escape::terminal;

use super::evidence::measured_ok;

/// One level of one shape.
struct Row {
    target: String,
    shape: String,
    concurrency: u32,
    n: usize,
    prompt_tokens: Option<f64>,
    by_client: Sample,
    by_server: Sample,
    decode: Sample,
}

const HEAD: [&str; 8] = [
    "target",
    "shape",
    "c",
    "n",
    "prompt tokens",
    "prefill tok/s (TTFT − network − queue)",
    "prefill tok/s (server's timings)",
    "decode tok/s",
];

/// Whether a run's prompts were made to a shape.
fn is_shaped(file: &BriefFile) -> bool {
    file.meta.facts.contains_key("shape")
}

fn rows<'a>(files: impl Iterator<Item = &'a BriefFile>) -> Vec<Row> {
    let row = |file: &BriefFile, level: &BriefLevel| {
        let requests = measured_ok(level);
        let sample = |rate: fn(&Brief) -> Option<f64>| {
            let rates = requests.iter().filter_map(|request| rate(request));
            Sample::new(rates.filter(|rate| rate.is_finite() && *rate > 0.0).collect())
        };
        Row {
            target: file.meta.target.clone(),
            shape: file.meta.prompts.clone(),
            concurrency: level.summary.concurrency,
            n: requests.len(),
            prompt_tokens: sample(|request| Some(request.n_prompt()? as f64)).median(),
            by_client: sample(prefill_tps_by_client),
            by_server: sample(prefill_tps_by_server),
            decode: sample(|request| request.decode_tps()),
        }
    };
    files
        .filter(|file| is_shaped(file))
        .flat_map(|file| file.levels.iter().map(move |level| row(file, level)))
        .collect()
}

/// Prompt tokens that had to be computed.
fn fresh(request: &Brief) -> Option<f64> {
    Some(request.n_fresh()? as f64)
}

/// Seconds of prefill by the client's clock: what is left of TTFT without connecting, network and
/// queue. A queue that the server does not tell of is still in it.
pub fn prefill_time_s(request: &Brief) -> Option<f64> {
    let connect = request.handshakes_s();
    let queue = request.queue_s().unwrap_or(0.0);
    Some(request.ttft()? - connect - network_s(request) - queue)
}

/// Seconds of round trips until the whole request had arrived and the first answer was back.
pub(super) fn network_s(request: &Brief) -> f64 {
    f64::from(network_rounds(request.request_bytes())) * request.rtt_s().unwrap_or(0.0)
}

/// Fresh prompt tokens ÷ [`prefill_time_s`].
fn prefill_tps_by_client(request: &Brief) -> Option<f64> {
    Some(fresh(request)? / prefill_time_s(request)?)
}

/// By the server's own account.
fn prefill_tps_by_server(request: &Brief) -> Option<f64> {
    Some(fresh(request)? / request.prefill_s()?)
}

impl Row {
    fn cells(&self) -> Vec<String> {
        vec![
            self.target.clone(),
            self.shape.clone(),
            self.concurrency.to_string(),
            self.n.to_string(),
            self.prompt_tokens.map_or("-".into(), |tokens| format!("{tokens:.0}")),
            spread(&self.by_client),
            spread(&self.by_server),
            spread(&self.decode),
        ]
    }
}

/// Mean ± standard deviation.
fn spread(sample: &Sample) -> String {
    let digits = |value: f64| {
        let decimals = if value >= 100.0 { 1 } else { 2 };
        format!("{value:.decimals$}")
    };
    match (sample.mean(), sample.std_dev()) {
        (Some(mean), Some(deviation)) => format!("{} ± {}", digits(mean), digits(deviation)),
        (Some(mean), None) => digits(mean),
        _ => "-".into(),
    }
}

/// What the columns hold.
const LEGEND: &str = "pp: prompt tokens, tg: output tokens, d: tokens of an earlier conversation \
                      before the prompt, all of them computed; mean ± standard deviation over n \
                      requests";

/// The table for a terminal; empty without such runs.
pub fn text(files: &[&BriefFile]) -> String {
    let rows: Vec<Vec<String>> = rows(files.iter().copied()).iter().map(Row::cells).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head: Vec<String> = HEAD.iter().map(|&cell| cell.to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows)
        .map(|row| row.iter().map(|cell| terminal(cell)).collect())
        .collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            // Names to the left, numbers to the right.
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text + LEGEND + "\n"
}

/// The section of the page; empty without such runs.
pub fn section(runs: &[Run]) -> String {
    let rows: Vec<Vec<String>> =
        rows(runs.iter().map(|run| &run.stored.file)).iter().map(Row::cells).collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = html::table("Prefill and decode by shape", &HEAD, &rows);
    format!("{table}<p class=\"muted\">{}.</p>", escape(LEGEND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::brief::Gaps;
    use crate::results::record::{
        Level, Meta, RequestRecord, ResultsFile, ServerTimesRecord, Summary,
    };

    fn request(ttft: f64) -> RequestRecord {
        RequestRecord {
            ok: true,
            phase: "steady".into(),
            ttft: Some(ttft),
            n_prompt: Some(1_000),
            n_cached: Some(0),
            rtt_s: Some(0.01),
            decode_tps: Some(50.0),
            server: Some(ServerTimesRecord {
                queue_s: Some(0.04),
                prefill_s: Some(0.2),
                decode_s: None,
                source: "timings".into(),
            }),
            ..RequestRecord::default()
        }
    }

    fn file(requests: Vec<RequestRecord>) -> BriefFile {
        let meta = Meta {
            target: "box".into(),
            prompts: "pp1000-tg8-d0".into(),
            facts: [("shape".to_owned(), serde_json::json!({"depth": 0}))].into(),
            ..Meta::default()
        };
        let level = Level {
            summary: Summary { concurrency: 1, ..Summary::default() },
            requests,
            ..Level::default()
        };
        ResultsFile { levels: vec![level], ..ResultsFile::new(meta) }.brief()
    }

    #[test]
    fn prefill_is_told_by_both_clocks_with_n_and_spread() {
        // 1,000 ÷ (0.3 − 0.01 − 0.04) = 4,000 and 1,000 ÷ (0.25 − 0.05) = 5,000.
        let warmup = RequestRecord { phase: "warmup".into(), ..request(9.0) };
        let file = file(vec![warmup, request(0.3), request(0.25)]);
        let said = text(&[&file]);
        assert!(said.contains("4500.0 ± 707.1"), "{said}");
        assert!(said.contains("5000.0 ± 0.00"), "{said}");
        assert!(said.contains("50.00 ± 0.00"), "{said}");
        assert!(said.lines().nth(1).is_some_and(|row| row.starts_with("box")), "{said}");
    }

    #[test]
    fn cached_tokens_are_no_work_and_other_runs_are_left_out() {
        let half = RequestRecord { n_cached: Some(500), server: None, ..request(0.51) };
        assert_eq!(prefill_tps_by_client(&Brief::of(&half, Gaps::Drop)), Some(1_000.0));
        let mut plain = file(vec![request(0.3)]);
        plain.meta.facts.clear();
        assert_eq!(text(&[&plain]), "");
    }
}
