//! The ladder of one prompts file: level by level, each request into the journal first.

use tokio_util::sync::CancellationToken;

use super::drafts::{Draft, Drafts};
use super::earlier::{Identity, JOURNAL_SUFFIX, single_stream};
use super::endpoint::{level_spec, prompt_reuse};
use super::level::{self, Measured, Surroundings};
use super::target::Work;
use super::{Harness, meta};
use crate::bench::client::Endpoint;
use crate::bench::config::Config;
use crate::bench::engine::{Kind, NotMeasured, RunningServer};
use crate::bench::load::{Arrivals, LevelObserver, Start};
use crate::bench::progress::LevelProgress;
use crate::bench::prompts::{PromptCursor, PromptFile};
use crate::measure::level::{EndedBy, StartMode};
use crate::measure::trace::RequestTrace;
use crate::results::journal::{Journal, LevelHead};
use crate::results::record::{ResultsFile, ServerMeta, Verdict};
use crate::results::store;

/// Journals of one second, target and prompts stem: more is a mistake, not a collision.
const JOURNALS_MAX: u32 = 100;

/// The levels of one life of a server.
pub struct Run<'a> {
    /// What all targets share.
    pub harness: &'a Harness,
    /// The target and its work.
    pub work: &'a Work,
    /// Where requests go.
    pub endpoint: &'a Endpoint,
    /// The server, where we started it.
    pub server: Option<&'a RunningServer>,
}

impl Run<'_> {
    /// The ladder of each prompts file, each into its draft.
    ///
    /// # Errors
    /// Why the rest was not measured.
    pub async fn ladders(
        &self,
        prompts: Vec<PromptFile>,
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        for (index, prompts) in prompts.into_iter().enumerate() {
            let seed = self.work.config.workload.shuffle_seed;
            let mut cursor = PromptCursor::new(prompts, seed, prompt_reuse(&self.work.config));
            let draft = &mut drafts.all[index];
            draft.file.meta.date = meta::now();
            let work = draft.work.clone();
            let mut endpoint = self.endpoint.clone();
            endpoint.body.max_tokens = work.config.workload.max_tokens.get();
            let run = Run { work: &work, endpoint: &endpoint, ..*self };
            let result = run.ladder(&mut cursor, draft).await;
            draft.file.meta.date_end = Some(meta::now());
            result?;
        }
        Ok(())
    }

    async fn ladder(
        &self,
        cursor: &mut PromptCursor,
        draft: &mut Draft,
    ) -> Result<(), NotMeasured> {
        let identity = Identity::of(&draft.file.meta);
        let mut single = None;
        for &concurrency in self.work.config.workload.concurrency.levels() {
            if self.harness.cancel.is_cancelled() {
                return Err(NotMeasured::interrupted());
            }
            if let Some(level) = self.harness.earlier.level(&identity, concurrency) {
                single = single.or_else(|| single_stream(level));
                draft.file.levels.push(level.clone());
                continue;
            }
            let around = Surroundings {
                config: &self.work.config,
                endpoint: self.endpoint,
                server_pid: self.server.map(RunningServer::pid),
                settings_not_applied: self
                    .server
                    .map_or(&[], |server| server.settings.differing.as_slice()),
                floor: draft.file.client_floor.as_ref(),
                single,
            };
            let journal = match draft.journal.take() {
                Some(journal) => journal,
                None => self.create_journal(&draft.file)?,
            };
            let head = LevelHead {
                key: identity.level_key(concurrency),
                concurrency,
                start_mode: start_mode(&self.work.config),
                stutter_ms: level::stutter_ms(&self.work.config),
            };
            self.note(journal.level(&head));
            let measured = self.level(around, concurrency, cursor, &journal).await;
            if let Ok(measured) = &measured {
                self.note(journal.level_end(&measured.level));
            }
            draft.journal = Some(journal);
            let measured = measured?;
            single = single.or(measured.single);
            let ended_by = measured.ended_by;
            put_headers(&mut draft.file, measured.headers);
            draft.series.extend(measured.series.map(|csv| (concurrency, csv)));
            draft.file.levels.push(measured.level);
            if ended_by == EndedBy::Interrupted {
                return Err(NotMeasured::interrupted());
            }
        }
        Ok(())
    }

    /// The journal of a results file, under the name that this will have.
    fn create_journal(&self, file: &ResultsFile) -> Result<Journal, NotMeasured> {
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
            match Journal::create(&path, file) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => return other.map_err(failed),
            }
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
        concurrency: u32,
        cursor: &mut PromptCursor,
        journal: &Journal,
    ) -> Result<Measured, NotMeasured> {
        let config = &self.work.config;
        let n_ok = config.workload.requests_at(concurrency);
        let name = config.target.name.as_str();
        let progress = self.harness.progress.level(name, concurrency, n_ok);
        let stop: CancellationToken = self.harness.cancel.child_token();
        let observer = Observer { journal, progress: &progress };
        let measuring = level::measure(around, concurrency, cursor, &observer, &stop);
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
    let headers = meta::telling_headers(headers);
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
    progress: &'a LevelProgress<'a>,
}

impl LevelObserver for Observer<'_> {
    fn measuring(&self) {
        self.progress.measuring();
    }

    fn finished(&self, trace: &RequestTrace) {
        // A full disk is said once, at the level's end.
        let _ = self.journal.request(trace);
        self.progress.finished(trace);
    }
}
