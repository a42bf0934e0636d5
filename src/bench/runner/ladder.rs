//! The ladder of one prompts file: level by level, each request into the journal first.

use tokio_util::sync::CancellationToken;

use super::drafts::{Draft, Drafts};
use super::earlier::{Identity, JOURNAL_SUFFIX, refused_for_good, single_stream};
use super::endpoint::{level_spec, prompt_reuse};
use super::level::{self, Measured, Surroundings};
use super::level_head::level_head;
use super::target::Work;
use super::{Harness, meta, probe, scrape};
use crate::bench::budget::usd;
use crate::bench::client::Endpoint;
use crate::bench::config::{Config, Target};
use crate::bench::engine::{Kind, NotMeasured, RunningServer};
use crate::bench::load::{Arrivals, LevelObserver, LevelSpec, Start};
use crate::bench::progress::{LevelProgress, Progress, Wanted};
use crate::bench::prompt_tokens::PromptTokens;
use crate::bench::prompts::{PromptCursor, PromptFile, SentPrompts};
use crate::measure::level::{EndedBy, SingleStream, StartMode};
use crate::measure::trace::RequestTrace;
use crate::results::journal::{Journal, LevelHead};
use crate::results::record::{Level, ResultsFile, ServerMeta, Verdict};
use crate::results::store;

/// Journals of one second, target and prompts stem: more is a mistake, not a collision.
const JOURNALS_MAX: u32 = 100;

/// One level of one prompts file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which of the config's prompts files, from 0.
    pub file: usize,
    /// Requests in flight.
    pub concurrency: u32,
}

/// What the levels of one prompts file share, from turn to turn.
pub struct Ladder {
    /// What decides what its levels show.
    pub identity: Identity,
    /// `None` until the prompts have been made.
    cursor: Option<PromptCursor>,
    single: Option<SingleStream>,
}

impl Ladder {
    /// A ladder whose prompts are to come.
    pub fn new(identity: Identity) -> Self {
        Self { identity, cursor: None, single: None }
    }

    /// Its prompts are there, for a server that has been sent these.
    pub fn put_prompts(&mut self, config: &Config, prompts: PromptFile, sent: SentPrompts) {
        let seed = config.workload.shuffle_seed;
        self.cursor = Some(PromptCursor::for_server(prompts, seed, prompt_reuse(config), sent));
    }
}

/// The levels of one turn.
pub struct Run<'a> {
    /// What all targets share.
    pub harness: &'a Harness,
    /// The target and its work.
    pub work: &'a Work,
    /// Where requests go.
    pub endpoint: &'a Endpoint,
    /// The server, where we started it.
    pub server: Option<&'a RunningServer>,
    /// The model's own tokenizer, where the config names it.
    pub tokens: Option<&'a PromptTokens>,
}

impl Run<'_> {
    /// Each of these levels, into the draft of its prompts file.
    ///
    /// # Errors
    /// Why the rest was not measured.
    pub async fn levels(
        &self,
        steps: &[Step],
        ladders: &mut [Ladder],
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        for step in steps {
            let draft = &mut drafts.all[step.file];
            if draft.file.levels.is_empty() {
                draft.file.meta.date = meta::now();
            }
            let work = draft.work.clone();
            let mut endpoint = self.endpoint.clone();
            endpoint.body.max_tokens = work.config.workload.max_tokens.get();
            let run = Run { work: &work, endpoint: &endpoint, ..*self };
            let result = run.step(step.concurrency, &mut ladders[step.file], draft).await;
            draft.file.meta.date_end = Some(meta::now());
            result?;
        }
        Ok(())
    }

    async fn step(
        &self,
        concurrency: u32,
        ladder: &mut Ladder,
        draft: &mut Draft,
    ) -> Result<(), NotMeasured> {
        if self.harness.cancel.is_cancelled() {
            return Err(NotMeasured::interrupted());
        }
        if let Some((from, level)) = self.harness.earlier.level(&ladder.identity, concurrency) {
            ladder.single = ladder.single.or_else(|| single_stream(level));
            let name = self.work.config.target.name.as_str();
            let requests = self.work.config.workload.requests_at(concurrency);
            self.harness.progress.known(name, concurrency, u64::from(requests), &from);
            draft.take_over(&from, level);
            if let Some(journal) = &draft.journal {
                self.note(journal.finished_level(&self.head_of(ladder, level), level));
            }
            return Ok(());
        }
        let around =
            Surroundings { floor: draft.file.client_floor.as_ref(), ..self.surroundings() };
        let journal = match draft.journal.take() {
            Some(journal) => journal,
            None => self.create_journal(ladder, &draft.file)?,
        };
        let head = self.head(ladder, concurrency, start_mode(&self.work.config));
        self.note(journal.level(&head));
        let scrape = scrape::before(&self.work.config, self.server).await;
        let cursor = ladder.cursor.as_mut().expect("prompts are made before a level is measured");
        let measured = self.level(around, &head, cursor, &journal).await;
        let measured = match measured {
            Ok(mut measured) => {
                measured.level.server_metrics = scrape.after().await;
                self.note(journal.level_end(&measured.level));
                Ok(measured)
            }
            failed => failed,
        };
        draft.journal = Some(journal);
        let measured = measured?;
        ladder.single = ladder.single.or(measured.single);
        let ended_by = measured.ended_by;
        let headers = meta::telling_headers(measured.headers);
        if let Some(journal) = &draft.journal {
            self.note(journal.answer_headers(&headers));
        }
        put_headers(&mut draft.file, headers);
        draft.series.extend(measured.series.map(|csv| (concurrency, csv)));
        let refused = refused_for_good(&measured.level).map(|class| {
            let text = format!("every request of a level ended as {class}; no other was tried");
            NotMeasured::new(Kind::Skipped, "refused", text)
        });
        draft.add_measured(measured.level);
        match ended_by {
            EndedBy::Interrupted | EndedBy::Killed => Err(NotMeasured::interrupted()),
            EndedBy::MaxCost => Err(self.too_expensive()),
            EndedBy::NOk | EndedBy::MaxAttempts | EndedBy::Refused | EndedBy::MaxDuration => {
                refused.map_or(Ok(()), Err)
            }
        }
    }

    /// The budget is used up: nothing more is measured, which was asked for.
    fn too_expensive(&self) -> NotMeasured {
        let spent = usd(self.harness.budget.spent_usd());
        let text = format!("stopped at {spent}, before --max-cost was passed");
        NotMeasured::new(Kind::Skipped, "max_cost", text)
    }

    fn head(&self, ladder: &Ladder, concurrency: u32, start_mode: String) -> LevelHead {
        let key = ladder.identity.level_key(concurrency);
        level_head(self.surroundings(), key, concurrency, start_mode, ladder.single)
    }

    /// What the levels have around them.
    fn surroundings(&self) -> Surroundings<'_> {
        let settings = self.server.map(|server| server.settings.differing.as_slice());
        Surroundings {
            config: &self.work.config,
            endpoint: self.endpoint,
            server_pid: self.server.map(RunningServer::pid),
            model_meta: self.server.and_then(|server| server.model_meta.as_ref()),
            settings_not_applied: settings.unwrap_or_default(),
            tokens: self.tokens,
            floor: None,
        }
    }

    fn head_of(&self, ladder: &Ladder, level: &Level) -> LevelHead {
        let rung = level.rung().unwrap_or(level.summary.concurrency);
        self.head(ladder, rung, level.summary.start_mode.clone())
    }

    /// The journal of a results file, under the name that this will have, with the levels that it
    /// has already.
    fn create_journal(&self, ladder: &Ladder, file: &ResultsFile) -> Result<Journal, NotMeasured> {
        let out = &self.harness.out;
        let failed = |error: std::io::Error| {
            let text = format!("failed to write a journal in {}: {error}", out.display());
            NotMeasured::new(Kind::NotStarted, "no_journal", text)
        };
        std::fs::create_dir_all(out).map_err(failed)?;
        let stem = store::file_stem(file);
        for attempt in 1..=JOURNALS_MAX {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let path = out.join(format!("{stem}{suffix}{JOURNAL_SUFFIX}"));
            let journal = match Journal::create(&path, file) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                other => other.map_err(failed)?,
            };
            for level in &file.levels {
                self.note(journal.finished_level(&self.head_of(ladder, level), level));
            }
            return Ok(journal);
        }
        Err(failed(std::io::ErrorKind::AlreadyExists.into()))
    }

    /// A journal that cannot be written (a full disk) costs safety, not the run.
    fn note(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.harness.progress.warn(&format!("failed to write the journal: {error}"));
        }
    }

    /// One level; it ends early if the server does.
    async fn level(
        &self,
        around: Surroundings<'_>,
        head: &LevelHead,
        cursor: &mut PromptCursor,
        journal: &Journal,
    ) -> Result<Measured, NotMeasured> {
        let config = &self.work.config;
        let spec = LevelSpec {
            purse: self.harness.budget.purse(config, cursor.file()),
            ..level_spec(config, head.concurrency)
        };
        let name = config.target.name.as_str();
        let wanted = Wanted { concurrency: spec.concurrency, n_ok: spec.n_ok, warmup: spec.warmup };
        let progress = self.harness.progress.level(name, wanted);
        let stop: CancellationToken = self.harness.cancel.child_token();
        let observer = Observer {
            journal,
            target: &config.target,
            whole: &self.harness.progress,
            level: &progress,
        };
        let measuring = level::measure(around, head, &spec, cursor, &observer, &stop);
        let watched = async {
            match self.server {
                Some(server) => {
                    server.wait_for_end().await;
                    stop.cancel();
                    std::future::pending().await
                }
                None => std::future::pending::<()>().await,
            }
        };
        let measured = tokio::select! {
            measured = measuring => measured,
            () = watched => unreachable!("watching never ends before the level does"),
            () = progress.keep_fresh() => unreachable!("it never ends"),
        };
        let measured = measured.map_err(|error| {
            NotMeasured::new(
                Kind::NotStarted,
                "no_threads",
                format!("failed to run a level: {error}"),
            )
        })?;
        progress.done(&verdict_text(&measured));
        Ok(measured)
    }
}

fn verdict_text(measured: &Measured) -> String {
    let names: Vec<&str> = measured.level.flags.iter().map(|flag| flag.name.as_str()).collect();
    match measured.level.verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Flagged => format!("flagged: {}", names.join(", ")),
        Verdict::Invalid => format!("INVALID: {}", names.join(", ")),
    }
}

fn put_headers(file: &mut ResultsFile, headers: std::collections::BTreeMap<String, String>) {
    let server = file.meta.server.get_or_insert_with(ServerMeta::default);
    // A later level's values win: limits count down.
    server.headers.extend(headers);
}

/// How the requests of a config begin, as far as it is known before.
fn start_mode(config: &Config) -> String {
    let mode = match level_spec(config, 1).start {
        Start::Staggered if config.workload.warmup > 0 => StartMode::Staggered,
        Start::Staggered | Start::Simultaneous => StartMode::Simultaneous,
        Start::Open { arrivals: Arrivals::Poisson, .. } => StartMode::OpenPoisson,
        Start::Open { arrivals: Arrivals::Constant, .. } => StartMode::OpenConstant,
    };
    mode.name().to_owned()
}

/// Each finished request: first into the journal, then onto the screen.
struct Observer<'a> {
    journal: &'a Journal,
    target: &'a Target,
    whole: &'a Progress,
    level: &'a LevelProgress<'a>,
}

impl LevelObserver for Observer<'_> {
    fn measuring(&self, start_mode: StartMode) {
        // A full disk is said once, at the level's end.
        let _ = self.journal.measuring(start_mode);
        self.level.measuring(start_mode);
    }

    fn finished(&self, trace: &RequestTrace) {
        let _ = self.journal.request(trace);
        // The level will be invalid for it. Whoever sits there need not wait until its end to know.
        if let Some(answered) = trace.model.as_ref().filter(|id| !self.target.accepts(id)) {
            let text = probe::other_model(self.target, answered);
            self.whole.warn_once(&format!("{}: {text}", self.target.name));
        }
        self.level.finished(trace);
    }
}
