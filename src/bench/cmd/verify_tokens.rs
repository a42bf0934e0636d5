//! `spark-bench verify-tokens`: does the server count its output tokens as the model's own
//! tokenizer does?

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::{BadInput, answer, read_summaries, unreadable};
use crate::bench::config::values::BaseUrl;
use crate::bench::even_sample::is_chosen;
use crate::bench::http::Http;
use crate::exit_codes;
use crate::results::escape::terminal;
use crate::results::record::RequestRecord;
use crate::results::store::{self, StoredRun};

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
    #[arg(long, value_name = "N", default_value = "50")]
    sample: NonZeroUsize,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// A server that is busy answers late.
const DEADLINE: Duration = Duration::from_secs(60);

/// usage − tokenizer of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Difference {
    usage: u64,
    tokenizer: u64,
}

/// What was found of one results file.
struct Checked<'a> {
    run: &'a StoredRun,
    /// Answers with a text and a count.
    answers: usize,
    differences: Vec<Difference>,
}

/// Tokens by which an honest count may differ: an end-of-text token is in usage and not in the text.
const EXPLAINED: u64 = 1;
/// The same as a share of the answer: a model may spell a text with other tokens than its tokenizer
/// would, and text that is cut between two tokens may be merged into one. A 135M model's answers of
/// 64 tokens were off by two at most.
const EXPLAINED_SHARE: f64 = 0.05;

/// Prints how the counts differ; exit code 4 if any differs by more than is explained.
///
/// # Errors
/// If a file cannot be read, or no answer's text was kept.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let tokens = Tokens::of(args)?;
    let runs = read_summaries(&args.files)?;
    let kept = runs.iter().map(Kept::of).collect::<Result<Vec<_>, _>>()?;
    let answers: usize = kept.iter().map(|kept| kept.answers.len()).sum();
    if answers == 0 {
        return Err(BadInput(why_nothing(&runs, &kept)).into());
    }
    // One count over all files, so that the sample is spread evenly.
    let mut place = 0;
    let mut chosen = || {
        place += 1;
        is_chosen(place - 1, answers, args.sample.get())
    };
    let mut checked = Vec::new();
    for (run, kept) in runs.iter().zip(&kept) {
        let sample = kept.answers.iter().filter(|_| chosen());
        let differences = sample
            .map(|(text, usage)| Ok(Difference { usage: *usage, tokenizer: tokens.count(text)? }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        checked.push(Checked { run, answers: kept.answers.len(), differences });
    }
    if args.json {
        answer(&format!("{:#}\n", to_json(&checked)))?;
    } else {
        answer(&text(&checked))?;
    }
    let fine = checked.iter().all(|one| one.unexplained() == 0);
    Ok(if fine { exit_codes::OK } else { exit_codes::CHECK_FAILED })
}

/// What a results file holds that can be counted again; of its records nothing else stays in
/// memory.
#[derive(Default)]
struct Kept {
    answers: Vec<(String, u64)>,
    ok: u64,
    texts: u64,
}

impl Kept {
    fn of(run: &StoredRun) -> Result<Self, BadInput> {
        let mut kept = Self::default();
        let visit = |_, record: RequestRecord| {
            kept.ok += u64::from(record.ok);
            kept.texts += u64::from(record.text.is_some());
            kept.answers.extend(text_and_usage(record));
        };
        store::read_each_record(&run.path, visit).map_err(unreadable)?;
        Ok(kept)
    }
}

/// Why no file has an answer that could be checked.
fn why_nothing(runs: &[StoredRun], kept: &[Kept]) -> String {
    let names: Vec<String> = runs.iter().map(|run| run.path.display().to_string()).collect();
    let why = if kept.iter().all(|kept| kept.ok == 0) {
        "no request was ok"
    } else if kept.iter().any(|kept| kept.texts > 0) {
        "the texts were kept, but the server counted none of them (no usage)"
    } else {
        "no answer's text was kept: run with --save-text"
    };
    format!("{}: {why}", names.join(", "))
}

impl Checked<'_> {
    fn equal(&self) -> usize {
        self.differences.iter().filter(|one| one.distance() == 0).count()
    }

    fn unexplained(&self) -> usize {
        self.differences.iter().filter(|one| !one.is_explained()).count()
    }

    fn largest(&self) -> Option<Difference> {
        self.differences.iter().copied().max_by_key(|one| one.distance())
    }

    /// usage and tokenizer, over all answers.
    fn sums(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), one: &Difference| (sum.0 + one.usage, sum.1 + one.tokenizer);
        self.differences.iter().fold((0, 0), add)
    }

    fn sentence(&self) -> String {
        let mut said = format!(
            "{} ({}): {} of {} answers tokenised again",
            self.run.file.meta.target,
            self.run.name(),
            self.differences.len(),
            self.answers
        );
        let Some(largest) = self.largest() else {
            return said + if self.answers == 0 { " (no text was kept)" } else { "" };
        };
        let (usage, tokenizer) = self.sums();
        let more = self.unexplained();
        let _ = write!(
            said,
            ". The server counts {usage} tokens, the tokenizer {tokenizer}: {} answers the same, {} \
             off by one or a twentieth (an end-of-text token, or words that the model spelt with \
             other tokens), {more} off by more",
            self.equal(),
            self.differences.len() - self.equal() - more,
        );
        if largest.distance() > 0 {
            let _ = write!(
                said,
                "; at most by {}: usage says {}, the tokenizer {}",
                largest.distance(),
                largest.usage,
                largest.tokenizer
            );
        }
        said
    }
}

impl Difference {
    fn is_explained(self) -> bool {
        let share = self.distance() as f64 / self.tokenizer.max(1) as f64;
        self.distance() <= EXPLAINED || share <= EXPLAINED_SHARE
    }
}

/// The models of the files, where there are several: one tokenizer is of one.
fn models(checked: &[Checked<'_>]) -> Option<String> {
    let model = |one: &Checked<'_>| {
        let meta = &one.run.file.meta;
        meta.base_model.clone().unwrap_or_else(|| meta.model.clone())
    };
    let models: BTreeSet<String> = checked.iter().map(model).collect();
    let names = || models.iter().cloned().collect::<Vec<_>>().join(", ");
    (models.len() > 1).then(|| format!("of several models, and a tokenizer is of one: {}", names()))
}

fn text(checked: &[Checked<'_>]) -> String {
    let warning = models(checked).map(|models| format!("warning: {models}"));
    let lines = checked.iter().map(Checked::sentence).chain(warning);
    lines.map(|line| terminal(&line) + "\n").collect()
}

fn to_json(checked: &[Checked<'_>]) -> Value {
    let sum = |count: fn(&Checked<'_>) -> usize| checked.iter().map(count).sum::<usize>();
    let largest = |differences: &mut dyn Iterator<Item = Difference>| {
        differences.map(|one| one.distance()).max()
    };
    let of_file = |one: &Checked<'_>| {
        json!({
            "file": one.run.name(),
            "target": one.run.file.meta.target,
            "answers": one.answers,
            "checked": one.differences.len(),
            "equal": one.equal(),
            "not_explained": one.unexplained(),
            "usage_tokens": one.sums().0,
            "tokenizer_tokens": one.sums().1,
            "largest_difference": largest(&mut one.differences.iter().copied()),
        })
    };
    json!({
        "answers": sum(|one| one.answers),
        "checked": sum(|one| one.differences.len()),
        "equal": sum(|one| one.equal()),
        "not_explained": sum(|one| one.unexplained()),
        "largest_difference":
            largest(&mut checked.iter().flat_map(|one| one.differences.iter().copied())),
        "warning": models(checked),
        "files": checked.iter().map(of_file).collect::<Vec<_>>(),
    })
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
        let name = file.display();
        let bytes = std::fs::read(file)
            .map_err(|error| BadInput(format!("failed to read {name}: {error}")))?;
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| {
            BadInput(format!(
                "{name} is no tokenizer.json, as a model on Hugging Face has it: {error}"
            ))
        })?;
        Ok(Self::File(Box::new(tokenizer)))
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
                let reply = runtime
                    .block_on(http.post_json(url, &body, None, DEADLINE))
                    .map_err(|error| BadInput(format!("failed to {:#}", anyhow!(error))))?;
                let answer: Value = serde_json::from_str(&reply.body)
                    .map_err(|_| BadInput(format!("{url} answers {} and no JSON", reply.status)))?;
                let tokens = answer.get("tokens").and_then(Value::as_array);
                let tokens = tokens.filter(|_| reply.status == 200);
                let tokens = tokens.ok_or_else(|| {
                    BadInput(format!("{url} answers {} and no tokens", reply.status))
                })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Meta, ResultsFile};

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
        let run =
            StoredRun { path: "r.json".into(), file: ResultsFile::new(Meta::default()).brief() };
        let pair = |usage, tokenizer| Difference { usage, tokenizer };
        let differences = vec![pair(256, 256), pair(256, 255), pair(256, 200)];
        let checked = Checked { run: &run, answers: 900, differences };
        let said = checked.sentence();
        assert!(said.contains("3 of 900"), "{said}");
        assert!(said.contains("counts 768 tokens, the tokenizer 711: 1 answers the same, 1 off"));
        assert!(said.contains("1 off by more; at most by 56: usage says 256, the tokenizer 200"));
        assert!(pair(64, 66).is_explained() && !pair(64, 80).is_explained());
        assert!(pair(3, 2).is_explained() && !pair(4, 2).is_explained());
        assert!(why_nothing(&[run], &[Kept::default()]).starts_with("r.json: no request was ok"));
    }

    #[test]
    fn one_tokenizer_is_of_one_model() {
        let run = |model: &str| StoredRun {
            path: "r.json".into(),
            file: ResultsFile::new(Meta { model: model.into(), ..Meta::default() }).brief(),
        };
        let runs = [run("a"), run("b")];
        let checked = |run| Checked { run, answers: 0, differences: Vec::new() };
        let both: Vec<Checked<'_>> = runs.iter().map(checked).collect();
        assert!(text(&both).contains("warning: of several models"), "{}", text(&both));
        assert_eq!(models(&both[..1]), None);
    }
}
