//! `spark-bench verify-tokens`: does the server count its output tokens as the model's own
//! tokenizer does?

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;
use tokenizers::Tokenizer;

use super::{BadInput, answer, read_summaries, unreadable};
use crate::bench::config::values::BaseUrl;
use crate::bench::http::Http;
use crate::exit_codes;
use crate::results::record::RequestRecord;
use crate::results::store;

/// Flags of `spark-bench verify-tokens`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model's tokenizer.json.
    #[arg(long, value_name = "FILE", required_unless_present = "server")]
    tokenizer: Option<PathBuf>,
    /// A server of the same model that has /tokenize, as http://HOST:PORT, in the place of a file.
    #[arg(long, value_name = "URL", conflicts_with = "tokenizer")]
    server: Option<BaseUrl>,
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

/// A server that is busy answers late.
const DEADLINE: Duration = Duration::from_secs(60);

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
    let tokens = Tokens::of(args)?;
    let mut kept: Vec<(String, u64)> = Vec::new();
    for run in read_summaries(&args.files)? {
        store::read_each_record(&run.path, |_, record| kept.extend(text_and_usage(record)))
            .map_err(unreadable)?;
    }
    if kept.is_empty() {
        let text = "no answer with both its text and the server's usage: run with --save-text";
        return Err(BadInput(text.into()).into());
    }
    let step = kept.len().div_ceil(args.sample.max(1));
    let differences = kept
        .iter()
        .step_by(step)
        .map(|(text, usage)| Ok(Difference { usage: *usage, tokenizer: tokens.count(text)? }))
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

fn text_and_usage(record: RequestRecord) -> Option<(String, u64)> {
    let from_usage = record.ok && record.token_source == "usage";
    record.text.zip(record.n_out).filter(|_| from_usage)
}

/// Who tokenises.
enum Tokens {
    /// A file.
    File(Box<Tokenizer>),
    /// A server.
    Server {
        /// Where it tokenises.
        url: String,
        http: Http,
        runtime: tokio::runtime::Runtime,
    },
}

impl Tokens {
    fn of(args: &Args) -> anyhow::Result<Self> {
        if let Some(server) = &args.server {
            let root = server.as_str();
            let root = root.strip_suffix("/v1").unwrap_or(root);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let http = Http::new(None).map_err(BadInput)?;
            return Ok(Self::Server { url: format!("{root}/tokenize"), http, runtime });
        }
        let file = args.tokenizer.as_ref().expect("the flags require one of the two");
        let unreadable =
            |error| BadInput(format!("failed to read {} as a tokenizer: {error}", file.display()));
        Ok(Self::File(Box::new(Tokenizer::from_file(file).map_err(unreadable)?)))
    }

    /// Tokens of an answer, without what a prompt would begin with.
    fn count(&self, text: &str) -> anyhow::Result<u64> {
        match self {
            Self::File(tokenizer) => {
                let encoding = tokenizer
                    .encode(text, false)
                    .map_err(|error| anyhow!("failed to tokenise an answer: {error}"))?;
                Ok(encoding.len() as u64)
            }
            Self::Server { url, http, runtime } => {
                // Two spellings of the same wish: each server takes its own.
                let body = json!({"content": text, "add_special": false, "parse_special": false,
                    "prompt": text, "add_special_tokens": false});
                let reply = runtime.block_on(http.post_json(url, &body, None, DEADLINE))?;
                let answer: serde_json::Value = serde_json::from_str(&reply.body)
                    .map_err(|_| anyhow!("{url} answers {} and no JSON", reply.status))?;
                let tokens = answer.get("tokens").and_then(serde_json::Value::as_array);
                let tokens = tokens.filter(|_| reply.status == 200);
                let tokens = tokens
                    .ok_or_else(|| anyhow!("{url} answers {} and no tokens", reply.status))?;
                Ok(tokens.len() as u64)
            }
        }
    }
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
        assert_eq!(text_and_usage(record.clone()), Some(("a b c".to_owned(), 3)));
        let estimated = RequestRecord { token_source: "estimated".into(), ..record.clone() };
        assert_eq!(text_and_usage(estimated), None);
        assert_eq!(text_and_usage(RequestRecord { text: None, ..record }), None);
    }

    #[test]
    fn the_answer_tells_apart_what_is_explained() {
        let pair = |usage, tokenizer| Difference { usage, tokenizer };
        let said = text(&[pair(256, 256), pair(256, 255), pair(256, 200)], 900);
        assert!(said.contains("3 of 900"), "{said}");
        assert!(said.contains("usage says 256, the tokenizer 200"), "{said}");
    }
}
