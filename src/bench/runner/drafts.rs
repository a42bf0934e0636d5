//! The results files of one life of a server, before they are written.

use super::Harness;
use super::ladder::Step;
use super::meta::{self, PromptsName};
use super::target::{Outcome, Work};
use crate::bench::config::PromptSource;
use crate::bench::engine::{Kind, NotMeasured};
use crate::bench::secrets::Secrets;
use crate::exit_codes;
use crate::measure::flags;
use crate::measure::level::EndedBy;
use crate::results::journal::Journal;
use crate::results::record::{Level, ResultsFile, ServerMeta, Verdict};
use crate::results::{convert, series, store};

/// One results file in the making.
pub struct Draft {
    /// What it is about: its target with its own prompts only.
    pub work: Work,
    /// What will stand in it.
    pub file: ResultsFile,
    /// The counters over time, of the levels that asked for them.
    pub series: Vec<(u32, String)>,
    /// Its journal, once its first level has begun.
    pub journal: Option<Journal>,
    /// Which of the file's levels were measured in this life of the server.
    of_this_life: Vec<usize>,
}

impl Draft {
    /// Takes over a finished level of an earlier results file.
    pub fn take_over(&mut self, from: &str, level: &Level) {
        let sources = &mut self.file.meta.resumed_from;
        if !sources.iter().any(|source| source == from) {
            sources.push(from.to_owned());
        }
        self.file.levels.push(level.clone());
    }

    /// Adds a level that was measured just now.
    pub fn add_measured(&mut self, level: Level) {
        self.of_this_life.push(self.file.levels.len());
        self.file.levels.push(level);
    }
}

/// A draft for each prompts file.
pub struct Drafts {
    /// In the config's order.
    pub all: Vec<Draft>,
    /// What must not stand in any of them.
    pub secrets: Secrets,
    /// Levels that a complete file has.
    levels: usize,
}

impl Drafts {
    /// Empty ones.
    pub fn new(harness: &Harness, work: &Work) -> Self {
        let draft = |source: PromptSource| {
            let name = PromptsName { path: source.name(), sha256: None };
            let work = Work { config: work.config.of_source(&source), ..work.clone() };
            let file =
                meta::empty_file(harness, &work.config, work.spec.as_ref(), &name, work.repeat);
            Draft { work, file, series: Vec::new(), journal: None, of_this_life: Vec::new() }
        };
        let all = work.config.workload.sources().into_iter().map(draft).collect();
        let levels = work.config.workload.concurrency.levels().len();
        Self { all, levels, secrets: Secrets::default() }
    }

    /// Whether a level is there, measured or taken over.
    pub fn hold(&self, step: Step) -> bool {
        let levels = &self.all[step.file].file.levels;
        levels.iter().any(|level| level.rung() == Some(step.concurrency))
    }

    /// A server has been started: the levels that follow are of its life.
    pub fn begin_life(&mut self) {
        for draft in &mut self.all {
            draft.of_this_life.clear();
        }
    }

    /// What was found out after the server's end about each level that was measured in its life.
    pub fn flag_this_life(&mut self, flag: &flags::Flag) {
        for Draft { file, of_this_life, .. } in &mut self.all {
            of_this_life.iter().for_each(|&index| convert::add_flag(&mut file.levels[index], flag));
        }
    }

    /// What is known of the server, in each; of earlier lives what only they can tell stays.
    pub fn put_server(&mut self, about: &ServerMeta, base_url: &str) {
        for draft in &mut self.all {
            let earlier = draft.file.meta.server.take().unwrap_or_default();
            let probe_before = earlier.probe_before.or_else(|| about.probe_before.clone());
            let headers = earlier.headers;
            draft.file.meta.server = Some(ServerMeta { probe_before, headers, ..about.clone() });
            base_url.clone_into(&mut draft.file.meta.base_url);
        }
    }

    /// Changes what is known of the server, in each that knows one.
    pub fn update_server(&mut self, update: impl Fn(&mut ServerMeta)) {
        self.all.iter_mut().filter_map(|draft| draft.file.meta.server.as_mut()).for_each(update);
    }

    /// Says in each file that is not complete why it is not.
    pub fn put_reason(&mut self, why: &NotMeasured) {
        let tail = self.secrets.scrub_lines(&why.log_tail);
        let mut reason = why.record();
        reason.text = self.secrets.scrub(&reason.text);
        for Draft { file, .. } in &mut self.all {
            if file.levels.len() == self.levels && !was_cut_short(file) {
                continue;
            }
            match why.kind {
                Kind::Skipped => file.skipped = Some(reason.clone()),
                Kind::Interrupted => file.interrupted = true,
                _ => file.failed = Some(reason.clone()),
            }
            if !tail.is_empty() {
                file.engine_log_tail = Some(tail.clone());
            }
        }
    }

    /// Writes them all; a journal whose results file stands is removed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(self, harness: &Harness, code: u8) -> Result<Vec<Outcome>, store::StoreError> {
        let write = |draft: Draft| {
            let Draft { file, series: tables, journal, .. } = draft;
            let path = store::write_new(&harness.out, &file)?;
            if !tables.is_empty() {
                series::write_beside(&path, &tables)?;
            }
            if let Some(Err(error)) = journal.map(Journal::remove) {
                harness.progress.warn(&format!("failed to remove a journal: {error}"));
            }
            let code = exit_codes::worst([code, code_of(&file)]);
            Ok(Outcome { path, file, code })
        };
        self.all.into_iter().map(write).collect()
    }
}

/// The exit code that a file's levels alone would give.
fn code_of(file: &ResultsFile) -> u8 {
    let invalid = file.levels.iter().any(|level| level.verdict == Verdict::Invalid);
    let mut flags = file.levels.iter().flat_map(|level| &level.flags);
    let check =
        flags.any(|flag| ["settings_not_applied", "wrong_model"].contains(&flag.name.as_str()));
    exit_codes::worst([
        if invalid { exit_codes::INVALID_LEVELS } else { exit_codes::OK },
        if check { exit_codes::CHECK_FAILED } else { exit_codes::OK },
    ])
}

fn was_cut_short(file: &ResultsFile) -> bool {
    let cut_short = [EndedBy::Interrupted, EndedBy::MaxCost].map(EndedBy::name);
    file.levels.iter().any(|level| cut_short.contains(&level.summary.ended_by.as_str()))
}
