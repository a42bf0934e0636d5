//! `spark-bench verify-tokens`: does the server count its output tokens as the model's own
//! tokenizer does?

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::anyhow;
use serde_json::json;
use tokenizers::Tokenizer;

use super::{BadInput, answer, read_runs};
use crate::exit_codes;
use crate::results::record::RequestRecord;

/// Flags of `spark-bench verify-tokens`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model's tokenizer.json.
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// Results files of runs with --save-text, or folders of them.
    #[arg(required = true, value_name = "RESULTS")]
    files: Vec<PathBuf>,
    /// How many answers to look at, spread evenly over all of them.
    #[arg(long, value_name = "N", default_value_t = 50)]
    sample: usize,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// usage − tokenizer of one answer.
struct Difference {
    usage: u64,
    tokenizer: u64,
}

/// An end-of-text token is in usage and not in the text; and text that is cut between two tokens
/// may be merged into one when it is tokenised again.
const EXPLAINED: u64 = 1;

/// Prints how the counts differ; exit code 4 if any differs by more than one token.
///
/// # Errors
/// If a file cannot be read, or no answer's text was kept.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let path = args.tokenizer.display();
    let tokenizer = Tokenizer::from_file(&args.tokenizer)
        .map_err(|error| BadInput(format!("failed to read {path} as a tokenizer: {error}")))?;
    let runs = read_runs(&args.files)?;
    let records = runs.iter().flat_map(|run| &run.file.levels).flat_map(|level| &level.requests);
    let kept: Vec<(&str, u64)> = records.filter_map(text_and_usage).collect();
    if kept.is_empty() {
        let text = "no answer with both its text and the server's usage: run with --save-text";
        return Err(BadInput(text.into()).into());
    }
    let step = kept.len().div_ceil(args.sample.max(1));
    let differences = kept
        .iter()
        .step_by(step)
        .map(|(text, usage)| count(&tokenizer, text, *usage))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let unexplained = differences.iter().filter(|one| one.distance() > EXPLAINED).count();
    let largest = differences.iter().map(Difference::distance).max().unwrap_or(0);
    if args.json {
        let equal = differences.iter().filter(|one| one.distance() == 0).count();
        let all = json!({
            "answers": kept.len(),
            "checked": differences.len(),
            "equal": equal,
            "off_by_more_than_one": unexplained,
            "largest_difference": largest,
        });
        answer(&format!("{all:#}\n"))?;
    } else {
        answer(&text(&differences, kept.len()))?;
    }
    Ok(if unexplained == 0 { exit_codes::OK } else { exit_codes::CHECK_FAILED })
}

fn text_and_usage(record: &RequestRecord) -> Option<(&str, u64)> {
    let from_usage = record.ok && record.token_source == "usage";
    record.text.as_deref().zip(record.n_out).filter(|_| from_usage)
}

fn count(tokenizer: &Tokenizer, text: &str, usage: u64) -> anyhow::Result<Difference> {
    let encoding = tokenizer
        .encode(text, false)
        .map_err(|error| anyhow!("failed to tokenise an answer: {error}"))?;
    Ok(Difference { usage, tokenizer: encoding.len() as u64 })
}

impl Difference {
    fn distance(&self) -> u64 {
        self.usage.abs_diff(self.tokenizer)
    }
}

fn text(differences: &[Difference], answers: usize) -> String {
    let count = |distance: std::ops::RangeInclusive<u64>| {
        differences.iter().filter(|one| distance.contains(&one.distance())).count()
    };
    let (checked, largest) =
        (differences.len(), differences.iter().max_by_key(|one| one.distance()));
    let mut out = format!(
        "{checked} of {answers} answers tokenised again: {} as the server counts, {} off by one \
         (an end-of-text token, or a cut between two), {} off by more\n",
        count(0..=0),
        count(1..=1),
        count(2..=u64::MAX)
    );
    if let Some(largest) = largest.filter(|one| one.distance() > EXPLAINED) {
        let _ = writeln!(
            out,
            "largest difference: usage says {}, the tokenizer {}",
            largest.usage, largest.tokenizer
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_with_text_and_usage_count() {
        let record = RequestRecord {
            ok: true,
            n_out: Some(3),
            token_source: "usage".into(),
            text: Some("a b c".into()),
            ..RequestRecord::default()
        };
        assert_eq!(text_and_usage(&record), Some(("a b c", 3)));
        let estimated = RequestRecord { token_source: "estimated".into(), ..record.clone() };
        assert_eq!(text_and_usage(&estimated), None);
        assert_eq!(text_and_usage(&RequestRecord { text: None, ..record }), None);
    }

    #[test]
    fn the_answer_tells_apart_what_is_explained() {
        let pair = |usage, tokenizer| Difference { usage, tokenizer };
        let said = text(&[pair(256, 256), pair(256, 255), pair(256, 200)], 900);
        assert!(said.contains("3 of 900"), "{said}");
        assert!(said.contains("usage says 256, the tokenizer 200"), "{said}");
    }
}
