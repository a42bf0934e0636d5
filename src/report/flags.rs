//! What not to believe, and why, in words.

use std::collections::BTreeMap;

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

/// Flags that are not grave stand on the page as long as there are no more than these; else they
/// are one click away, counted by name.
const OPEN_MAX: usize = 12;

/// The section: failed and skipped runs and invalid levels first, then each level's other flags.
pub fn section(runs: &[Run]) -> String {
    let outcomes: String = runs.iter().map(outcome).collect();
    let grave = levels(runs, Severity::Invalid);
    let others = levels(runs, Severity::Flagged);
    if outcomes.is_empty() && grave.is_empty() && others.is_empty() {
        return "<p>No level is flagged.</p>".to_owned();
    }
    let texts = |items: &[(String, String)]| items.iter().map(|(_, html)| html.as_str()).collect();
    let (grave, listed): (String, String) = (texts(&grave), texts(&others));
    let list = |items: String| match items.as_str() {
        "" => String::new(),
        _ => format!("<ul class=\"flags\">{items}</ul>"),
    };
    if others.len() <= OPEN_MAX {
        return list(outcomes + &grave + &listed);
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in &others {
        *counts.entry(name).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{} ×{count}", escape(name))).collect();
    format!(
        "{}<details><summary>{} flags: {}</summary>{}</details>",
        list(outcomes + &grave),
        others.len(),
        counts.join(", "),
        list(listed)
    )
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

/// Each flag of a severity: its name, and its line.
fn levels(runs: &[Run], severity: Severity) -> Vec<(String, String)> {
    let class = match severity {
        Severity::Flagged => "flagged",
        Severity::Invalid => "invalid",
    };
    let mut items = Vec::new();
    for run in runs {
        for level in &run.stored.file.levels {
            let place = format!("{}, c={}", run.name, level.summary.concurrency);
            let of_kind = level.flags.iter().filter(|flag| flag.severity == severity);
            let line = |name: &str, text: &str| (name.to_owned(), item(class, name, &place, text));
            items.extend(of_kind.map(|flag| line(&flag.name, &flag.text)));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::views::named;
    use crate::results::record::{Flag, Level, Meta, ResultsFile, Summary};
    use crate::results::store::StoredRun;

    fn run(flags: usize) -> StoredRun {
        let flag = |index: usize| Flag {
            name: if index == 0 { "error_rate" } else { "drift" }.into(),
            severity: if index == 0 { Severity::Invalid } else { Severity::Flagged },
            text: String::new(),
            numbers: BTreeMap::new(),
        };
        let level = Level {
            summary: Summary::default(),
            concurrency_asked: None,
            hardware: None,
            hardware_reason: None,
            flags: (0..flags).map(flag).collect(),
            verdict: Verdict::Invalid,
            server_metrics: None,
            requests: Vec::new(),
        };
        let meta = Meta { target: "t".into(), ..Meta::default() };
        let file = ResultsFile { levels: vec![level], ..ResultsFile::new(meta) }.brief();
        StoredRun { path: "t.json".into(), file }
    }

    #[test]
    fn many_flags_are_counted_and_the_grave_ones_stay_in_sight() {
        let few = section(&named(&[run(3)], Vec::new()));
        assert!(!few.contains("<details>") && few.matches("<li>").count() == 3);
        let many = section(&named(&[run(40)], Vec::new()));
        let (seen, hidden) = many.split_once("<details>").unwrap();
        assert!(seen.contains("error_rate") && !seen.contains("drift"), "{seen}");
        assert!(hidden.contains("39 flags: drift ×39"), "{hidden:.200}");
    }
}
