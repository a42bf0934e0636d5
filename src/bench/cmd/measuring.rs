//! What the commands that measure share: their common flags, Ctrl-C, and how they answer.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{answer, cost};
use crate::analyse::littles_law;
use crate::bench::budget::Budget;
use crate::bench::config::CostConfig;
use crate::bench::config::values::Positive;
use crate::bench::progress::{Mode, Progress, counted};
use crate::bench::runner::{Harness, Outcome, client_floor};
use crate::exit_codes;
use crate::report::headlines::headlines;
use crate::report::{evidence, shapes};
use crate::results::brief::BriefFile;
use crate::results::escape::terminal;
use crate::results::record::{ClientFloor, ResultsFile};
use crate::results::scoreboard::{HEADER, Row, levels_table};

/// Flags that `run` and `matrix` share.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Where results go.
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Warnings and errors only.
    #[arg(long)]
    quiet: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Do not measure the harness's own error first (five seconds, once a boot).
    #[arg(long)]
    no_self_test: bool,
    /// Stop before the requests cost more than this together, by the targets' prices, in USD.
    #[arg(long, value_name = "USD")]
    max_cost: Option<Positive>,
    /// How progress is shown on stderr.
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    progress: Mode,
}

impl Common {
    /// Whether the answer is wanted as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Makes the folder for results: that it cannot be made is better known before the work.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_out(&self) -> anyhow::Result<()> {
        super::make_folder(&self.out)
    }

    /// For a command that writes no results and needs no progress.
    pub fn quiet() -> Self {
        let out = PathBuf::from("results");
        Self {
            out,
            quiet: true,
            json: false,
            no_self_test: true,
            max_cost: None,
            progress: Mode::Off,
        }
    }
}

/// One invocation of a command that measures.
#[derive(Debug)]
pub struct Session {
    /// What its targets share.
    pub harness: Harness,
    /// What a machine of one's own costs, for the headline.
    pub costs: Option<CostConfig>,
    answer_as: AnswerAs,
    self_test: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerAs {
    Text,
    Json,
}

/// Runs a command's asynchronous part.
///
/// # Errors
/// Its own, or a system without threads.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2) // The load has threads of its own; this is the journal and the display.
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(future)
}

impl Session {
    /// Looks at the machine, and listens for Ctrl-C.
    ///
    /// # Errors
    /// If the system refuses a signal handler, or cannot tell which program this is.
    pub async fn start(common: &Common) -> anyhow::Result<Self> {
        let progress = Progress::new(if common.quiet { Mode::Off } else { common.progress });
        let cancel = CancellationToken::new();
        let stop = interrupts().context("listening for Ctrl-C")?;
        let token = cancel.clone();
        tokio::spawn(async move {
            stop.await;
            token.cancel();
        });
        let mut harness = Harness::new(common.out.clone(), progress, cancel)
            .await
            .context("finding the running program")?;
        harness.budget = Budget::new(common.max_cost.map(Positive::get));
        let answer_as = if common.json { AnswerAs::Json } else { AnswerAs::Text };
        Ok(Self { harness, costs: None, answer_as, self_test: !common.no_self_test })
    }

    /// Measures the harness's own error at these levels, before the first server.
    pub async fn measure_floor(&mut self, levels: &[u32]) {
        let floor = if self.self_test {
            client_floor(&self.harness.exe, levels).await
        } else {
            let reason = Some("turned off by --no-self-test".to_owned());
            ClientFloor { reason, ..ClientFloor::default() }
        };
        self.harness.floor = Some(floor);
    }

    /// Says at once where a results file is and what it holds, in a line.
    pub fn tell(&self, outcome: &Outcome) {
        let file = &outcome.file;
        let reason = file.skipped.as_ref().map(|reason| ("skipped", reason));
        let reason = reason.or_else(|| file.failed.as_ref().map(|reason| ("failed", reason)));
        let text = match reason {
            Some((how, reason)) => format!("{}: {how}: {}", file.meta.target, reason.text),
            None => {
                let levels = counted(file.levels.len() as u64, "level");
                format!("{}: {levels}", file.meta.target)
            }
        };
        match reason {
            Some(("failed", _)) => {
                self.harness.progress.warn(&text);
                let tail = file.engine_log_tail.as_deref().unwrap_or_default();
                for line in &tail[tail.len().saturating_sub(LOG_LINES)..] {
                    self.harness.progress.say(&format!("  | {line}"));
                }
            }
            _ => self.harness.progress.say(&text),
        }
    }

    /// Prints what was measured; gives the exit code.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn answer(&self, outcomes: &[Outcome]) -> anyhow::Result<u8> {
        let briefs: Vec<BriefFile> = outcomes.iter().map(|outcome| outcome.file.brief()).collect();
        match self.answer_as {
            AnswerAs::Text => answer(&text(outcomes, &briefs, &self.headlines(&briefs)))?,
            AnswerAs::Json => {
                answer(&format!("{}\n", json(outcomes, &self.headlines(&briefs))))?;
            }
        }
        let interrupted = self.harness.cancel.is_cancelled().then_some(exit_codes::INTERRUPTED);
        Ok(exit_codes::worst(outcomes.iter().map(|outcome| outcome.code).chain(interrupted)))
    }

    /// How far each target is behind the reference.
    fn headlines(&self, files: &[BriefFile]) -> Vec<String> {
        let files: Vec<&BriefFile> = files.iter().collect();
        let costs = self.costs.as_ref().filter(|costs| costs.currency.eq_ignore_ascii_case("USD"));
        let mut said = headlines(&files, &|file| cost::own_money(costs?, file));
        match (&self.costs, costs) {
            _ if said.is_empty() => {}
            (Some(_), Some(costs)) => {
                let busy = costs.own.utilisation * 100.0;
                let name = &costs.own.name;
                said.push(format!(
                    "Prices of {}; {name} works {busy:.0} % of the time.",
                    costs.date
                ));
                for file in &files {
                    for doubt in cost::own_doubts(costs, file) {
                        let warning = format!("warning: {}: {doubt}", file.meta.target);
                        if !said.contains(&warning) {
                            said.push(warning);
                        }
                    }
                }
            }
            (Some(other), None) => {
                said.push(format!(
                    "The costs are in {}, the targets' prices in USD.",
                    other.currency
                ));
            }
            (None, _) => {}
        }
        said
    }
}

/// Lines of a failed server's log that are shown; the results file has more.
const LOG_LINES: usize = 8;

/// Resolves at the first Ctrl-C or SIGTERM. A second Ctrl-C is not needed: everything that follows
/// has a deadline.
fn interrupts() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    })
}

fn text(outcomes: &[Outcome], files: &[BriefFile], headlines: &[String]) -> String {
    let mut text = String::new();
    for file in files.iter().filter(|file| !file.levels.is_empty()) {
        text.push_str(&levels_table(file));
        text.push('\n');
        for check in littles_law::check(&evidence::level_points(file)) {
            text.push_str(&check.sentence());
            text.push('\n');
        }
    }
    let shapes = shapes::text(&files.iter().collect::<Vec<_>>());
    if !shapes.is_empty() {
        text.push_str(&format!("\n{shapes}"));
    }
    for (place, headline) in headlines.iter().enumerate() {
        let before = if place == 0 { "\nHow far behind:\n" } else { "" };
        text.push_str(&format!("{before}{}\n", terminal(headline)));
    }
    text.push_str("\nSCOREBOARD rows:\n");
    text.push_str(HEADER);
    text.push('\n');
    for outcome in outcomes {
        text.push_str(&Row::of(&outcome.file).markdown());
        text.push('\n');
    }
    text.push('\n');
    for outcome in outcomes {
        text.push_str(&format!("{}\n", outcome.path.display()));
    }
    for hint in outcomes.iter().filter_map(|outcome| hint(&outcome.file)) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    text
}

/// What to look at where nothing of a run went well and the reason is an ordinary one.
fn hint(file: &ResultsFile) -> Option<String> {
    let summaries = || file.levels.iter().map(|level| &level.summary);
    if summaries().any(|summary| summary.n_ok > 0) {
        return None;
    }
    let all_are = |class: &str| summaries().all(|summary| summary.errors.contains_key(class));
    let (target, url) = (&file.meta.target, &file.meta.base_url);
    if file.levels.is_empty() {
        None
    } else if all_are("connect") {
        Some(format!(
            "{target}: nothing answers at {url}; is the address right, and does a server listen there?"
        ))
    } else if all_are("http_404") && !url.ends_with("/v1") {
        Some(format!("{target}: {url} has no such page; most base URLs end in /v1"))
    } else if all_are("http_404") {
        Some(format!("{target}: {url} has no such page, or no model {:?}", file.meta.model))
    } else if all_are("http_401") || all_are("http_403") {
        Some(format!(
            "{target}: {url} wants a key, or another one than it got; --key-env (key_env in a \
             config) names the variable that holds it"
        ))
    } else {
        None
    }
}

fn json(outcomes: &[Outcome], headlines: &[String]) -> serde_json::Value {
    let runs = outcomes.iter().map(|outcome| {
        let file = &outcome.file;
        let summaries: Vec<_> = file.levels.iter().map(|level| &level.summary).collect();
        let verdicts: Vec<_> = file.levels.iter().map(|level| level.verdict).collect();
        json!({
            "path": path_text(&outcome.path), "target": file.meta.target,
            "summaries": summaries, "verdicts": verdicts, "skipped": file.skipped,
            "failed": file.failed, "interrupted": file.interrupted, "exit_code": outcome.code,
        })
    });
    json!({ "runs": runs.collect::<Vec<_>>(), "headlines": headlines })
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Level, Meta, Summary, Verdict};

    fn failed_with(class: &str, base_url: &str, n_ok: u64) -> ResultsFile {
        let meta = Meta { target: "box".into(), base_url: base_url.into(), ..Meta::default() };
        let summary =
            Summary { n_ok, errors: [(class.to_owned(), 3)].into(), ..Summary::default() };
        let level = Level { summary, verdict: Verdict::Invalid, ..Level::default() };
        ResultsFile { levels: vec![level], ..ResultsFile::new(meta) }
    }

    #[test]
    fn where_nothing_went_well_the_ordinary_reason_is_named() {
        let check = |class: &str, url: &str, expect: &str| {
            let hint = hint(&failed_with(class, url, 0)).unwrap();
            assert!(hint.starts_with("box: ") && hint.contains(expect), "{hint}");
        };
        check("connect", "http://127.0.0.1:9/v1", "nothing answers at http://127.0.0.1:9/v1");
        check("http_404", "http://127.0.0.1:9", "end in /v1");
        check("http_404", "http://127.0.0.1:9/v1", "no model");
        check("http_401", "http://127.0.0.1:9/v1", "--key-env");
        assert_eq!(hint(&failed_with("stall_timeout", "http://a/v1", 0)), None);
        assert_eq!(hint(&failed_with("connect", "http://a/v1", 1)), None);
        assert_eq!(hint(&ResultsFile::new(Meta::default())), None, "it says itself why");
    }
}
