//! What earlier runs left in the results folder: finished levels that a resumed matrix need not
//! measure again, and journals of harnesses that were killed.

use std::path::Path;

use crate::bench::digest::sha256_hex;
use crate::bench::progress::Progress;
use crate::measure;
use crate::measure::level::{EndedBy, SingleStream, StartMode};
use crate::measure::trace::FailureClass;
use crate::results::convert::trace_of_record;
use crate::results::journal::recover;
use crate::results::record::{Level, Meta, RequestRecord, ResultsFile};
use crate::results::store::{self, History, StoredRun, Written};

/// What a journal's file name ends in.
pub const JOURNAL_SUFFIX: &str = ".journal.jsonl";

/// Everything that decides what a results file's levels show: config, prompts, program, repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    config: String,
    prompts: Option<String>,
    binary: Option<String>,
    repeat: u32,
}

impl Identity {
    /// The identity of what stands in a file, or will stand in it.
    pub fn of(meta: &Meta) -> Self {
        let server = meta.server.as_ref();
        Self {
            config: meta.config.as_ref().map(|config| config.sha256.clone()).unwrap_or_default(),
            prompts: meta.prompts_sha256.clone(),
            binary: server.and_then(|server| server.binary_sha256.clone()),
            repeat: meta.repeat.unwrap_or(1),
        }
    }

    /// The same for one level, as a hash.
    pub fn level_key(&self, concurrency: u32) -> String {
        sha256_hex(format!("{self:?} c={concurrency}"))
    }
}

/// Finished levels of earlier runs.
#[derive(Debug, Default)]
pub struct Earlier {
    runs: Vec<StoredRun<RequestRecord>>,
}

impl Earlier {
    /// Reads the results folder. A journal without its results file is made into one first, marked
    /// as interrupted, so that nothing that was measured is lost.
    ///
    /// # Errors
    /// If a recovered file cannot be written.
    pub fn read(folder: &Path, progress: &Progress) -> Result<Self, store::StoreError> {
        for path in journals(folder) {
            match recover(&path) {
                Ok(recovered) => {
                    let journal = path.display();
                    progress.say(&match store::write_unless_there(folder, &recovered.file)? {
                        Written::New(file) => {
                            format!("recovered {} from {journal}", file.display())
                        }
                        Written::Before(file) => {
                            format!("{journal} was recovered into {} before", file.display())
                        }
                    });
                    // What it held is on the disk under its new name.
                    let _ = std::fs::remove_file(&path);
                }
                Err(error) => progress.warn(&format!("failed to {error}")),
            }
        }
        let history = store::read_history(folder).unwrap_or_else(|error| {
            let text = anyhow::Error::from(error);
            progress.warn(&format!("nothing to resume: failed to {text:#}"));
            History { runs: Vec::new(), unreadable: Vec::new() }
        });
        for error in history.unreadable {
            let text = anyhow::Error::from(error);
            progress.warn(&format!("nothing is taken over from one file: failed to {text:#}"));
        }
        Ok(Self { runs: history.runs })
    }

    /// The finished level at that concurrency of a run with that identity, and its file's name.
    pub fn level(&self, identity: &Identity, concurrency: u32) -> Option<(String, &Level)> {
        let same = self.runs.iter().filter(|run| Identity::of(&run.file.meta) == *identity);
        let mut levels = same.flat_map(|run| run.file.levels.iter().map(move |level| (run, level)));
        let (run, level) = levels.find(|(_, level)| is_finished_at(level, concurrency))?;
        Some((run.name(), level))
    }

    /// Whether one complete file holds all of these levels.
    pub fn is_complete(&self, identity: &Identity, levels: &[u32]) -> bool {
        let complete = |file: &ResultsFile| {
            let has = |&rung: &u32| file.levels.iter().any(|level| is_finished_at(level, rung));
            Identity::of(&file.meta) == *identity && levels.iter().all(has)
        };
        self.runs.iter().any(|run| complete(&run.file))
    }
}

/// What an earlier c = 1 level says to those above it, as it would have if they had followed at
/// once.
pub fn single_stream(level: &Level) -> Option<SingleStream> {
    let mode = StartMode::named(&level.summary.start_mode)?;
    if level.summary.concurrency != 1 || !mode.is_closed_loop() {
        return None;
    }
    let traces: Vec<_> =
        level.requests.iter().filter_map(|record| trace_of_record(record).ok()).collect();
    measure::level::single_stream(&traces)
}

/// The class of all failures of a level, if none of its requests went well for a reason that more
/// requests do not change.
pub fn refused_for_good(level: &Level) -> Option<&str> {
    let mut classes = level.summary.errors.keys();
    let (class, None) = (classes.next()?, classes.next()) else { return None };
    let for_good = FailureClass::FOR_GOOD.iter().any(|known| known.to_string() == *class);
    (level.summary.n_ok == 0 && for_good).then_some(class)
}

fn is_finished_at(level: &Level, concurrency: u32) -> bool {
    level.rung() == Some(concurrency) && is_finished(level)
}

/// Whether measuring it again would tell nothing new: not where it was cut short, nor where
/// everything was refused, which whoever resumes may have mended.
fn is_finished(level: &Level) -> bool {
    let cut_short = [EndedBy::Interrupted, EndedBy::MaxCost].map(EndedBy::name);
    !cut_short.contains(&level.summary.ended_by.as_str())
        && !level.flags.iter().any(|flag| flag.name == "interrupted")
        && refused_for_good(level).is_none()
}

fn journals(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_str().is_some_and(|path| path.ends_with(JOURNAL_SUFFIX)))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::Summary;

    #[test]
    fn a_level_is_known_by_its_place_in_the_ladder_and_not_by_what_was_in_flight() {
        let level = |concurrency_asked, concurrency, start_mode: &str| Level {
            concurrency_asked,
            summary: Summary {
                concurrency,
                start_mode: start_mode.to_owned(),
                ..Summary::default()
            },
            ..Level::default()
        };
        let run = |level| StoredRun {
            path: "run.json".into(),
            file: ResultsFile { levels: vec![level], ..ResultsFile::new(Meta::default()) },
        };
        for (level, known_at) in [
            (level(Some(4), 1, "open_poisson"), Some(4)),
            (level(Some(4), 4, "staggered"), Some(4)),
            // Files of before.
            (level(None, 4, "staggered"), Some(4)),
            (level(None, 4, "open_constant"), None),
        ] {
            let earlier = Earlier { runs: vec![run(level)] };
            let identity = Identity::of(&Meta::default());
            for rung in [1, 4] {
                let known = known_at == Some(rung);
                assert_eq!(earlier.level(&identity, rung).is_some(), known);
                assert_eq!(earlier.is_complete(&identity, &[rung]), known);
            }
        }
    }

    #[test]
    fn a_refused_level_is_measured_again_and_a_slow_one_is_not() {
        let level = |n_ok: u64, errors: &[&str]| Level {
            summary: Summary {
                n_ok,
                errors: errors.iter().map(|class| ((*class).to_owned(), 2)).collect(),
                ended_by: EndedBy::MaxAttempts.name().to_owned(),
                ..Summary::default()
            },
            ..Level::default()
        };
        let refused = level(0, &["http_401"]);
        assert_eq!(refused_for_good(&refused), Some("http_401"));
        assert!(!is_finished(&refused), "the key may be another one now");
        for finished in [
            level(5, &[]),
            level(1, &["connect"]),
            level(0, &["http_429"]),
            level(0, &["http_404", "stall_timeout"]),
        ] {
            assert_eq!(refused_for_good(&finished), None);
            assert!(is_finished(&finished));
        }
    }
}
