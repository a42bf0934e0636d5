//! What not to believe, and why, in words.

use super::html::{escape, shortened};
use super::views::Run;
use crate::results::record::{Severity, Verdict};

/// Longest text of a flag or a failure that the page quotes; the results file has it whole.
const TEXT_CHARS_MAX: usize = 400;
/// Lines of a server's log that the page quotes.
const LOG_LINES_MAX: usize = 20;

/// A verdict in a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Flagged => "flagged",
        Verdict::Invalid => "invalid",
    }
}

/// The section: failed and skipped runs first, then each level's flags.
pub fn section(runs: &[Run]) -> String {
    let items: String = runs.iter().map(|run| outcome(run) + &levels(run)).collect();
    if items.is_empty() {
        return "<p>No level is flagged.</p>".to_owned();
    }
    format!("<ul class=\"flags\">{items}</ul>")
}

fn item(class: &str, word: &str, place: &str, text: &str) -> String {
    format!(
        "<li><b class=\"tag {class}\">{}</b> <b>{}</b> {}</li>",
        escape(word),
        escape(place),
        escape(&shortened(text, TEXT_CHARS_MAX))
    )
}

fn outcome(run: &Run) -> String {
    let file = &run.stored.file;
    let mut html = String::new();
    if let Some(reason) = &file.failed {
        let text = format!("({}) {}", reason.reason, reason.text);
        html.push_str(&item("invalid", "failed", &run.name, &text));
    }
    if let Some(reason) = &file.skipped {
        let text = format!("({}) {}", reason.reason, reason.text);
        html.push_str(&item("flagged", "skipped", &run.name, &text));
    }
    if file.interrupted {
        html.push_str(&item("flagged", "interrupted", &run.name, "measured until then"));
    }
    if let Some(log) = &file.engine_log_tail {
        let first = log.len().saturating_sub(LOG_LINES_MAX);
        let lines: String = log[first..]
            .iter()
            .map(|line| escape(&shortened(line, TEXT_CHARS_MAX)) + "\n")
            .collect();
        html.push_str(&format!(
            "<li><details><summary>Last lines of the server's log</summary><pre>{lines}</pre></details></li>"
        ));
    }
    html
}

fn levels(run: &Run) -> String {
    let mut html = String::new();
    for level in &run.stored.file.levels {
        for flag in &level.flags {
            let class = match flag.severity {
                Severity::Flagged => "flagged",
                Severity::Invalid => "invalid",
            };
            let place = format!("{}, c={}", run.name, level.summary.concurrency);
            html.push_str(&item(class, &flag.name, &place, &flag.text));
        }
    }
    html
}
