//! The journal of a run: every finished request, on the disk before the run goes on.
//!
//! One JSON object a line, only ever appended: the run's head, then for each level its head, its
//! requests as they finish, and its end. Each line is handed to the kernel at once, so that a
//! harness that is killed loses none; a level's end is synced to the disk, so that a machine that
//! loses power loses at most the level that ran. A line that was being written is torn: it is
//! dropped on reading, with a warning.

mod head;
mod recovery;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::convert::{Keep, record_of_trace};
use super::record::{Level, RequestRecord, ResultsFile};
use crate::measure::level::StartMode;
use crate::measure::trace::RequestTrace;

pub use head::{Beside, LevelHead, Promise};
pub use recovery::{Finished, JournalError, Recovered, recover};

/// The version of the lines. In the first one a level's head said too little of it for its verdict.
const FORMAT: u32 = 2;

/// A journal that is being written. Shared by reference: each line is one append.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The run's head: a results file without levels.
    Run { format: u32, file: Box<ResultsFile> },
    /// A level begins.
    Level(Box<LevelHead>),
    /// Its warm-up is over.
    Measuring { start_mode: String },
    /// A request has ended.
    Request(Box<RequestRecord>),
    /// The level has ended: everything of it but its requests.
    LevelEnd(Box<Level>),
    /// Headers of its answers that say who answered.
    AnswerHeaders(BTreeMap<String, String>),
}

impl Journal {
    /// Starts a journal; `head` is the results file to be, without levels.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path, head: &ResultsFile) -> std::io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        let journal = Self { path: path.to_owned(), file: Mutex::new(file) };
        let file = Box::new(ResultsFile { levels: Vec::new(), ..head.clone() });
        journal.append(&Line::Run { format: FORMAT, file })?;
        Ok(journal)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A level begins.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn level(&self, head: &LevelHead) -> std::io::Result<()> {
        self.append(&Line::Level(Box::new(head.clone())))
    }

    /// The level's warm-up is over, and how it starts is known.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn measuring(&self, start_mode: StartMode) -> std::io::Result<()> {
        self.append(&Line::Measuring { start_mode: start_mode.name().to_owned() })
    }

    /// A request has ended. Everything of it is kept: its gaps, and its text where it was kept.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn request(&self, trace: &RequestTrace) -> std::io::Result<()> {
        self.append(&Line::Request(Box::new(record_of_trace(trace, Keep::ALL))))
    }

    /// A level that was finished earlier, whole: what a resumed run took over is in its journal too,
    /// so that what is recovered from it lacks nothing.
    ///
    /// # Errors
    /// As [`Self::level_end`].
    pub fn finished_level(&self, head: &LevelHead, level: &Level) -> std::io::Result<()> {
        self.level(head)?;
        for request in &level.requests {
            self.append(&Line::Request(Box::new(request.clone())))?;
        }
        self.level_end(level)
    }

    /// What the answers' headers say of who answered.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn answer_headers(&self, headers: &BTreeMap<String, String>) -> std::io::Result<()> {
        self.append(&Line::AnswerHeaders(headers.clone()))
    }

    /// The level has ended. Its requests' phases are those of `level`.
    ///
    /// # Errors
    /// If the line cannot be written, or not be synced to the disk.
    pub fn level_end(&self, level: &Level) -> std::io::Result<()> {
        // The requests stand there already.
        let level = Level { requests: Vec::new(), ..level.clone() };
        self.append(&Line::LevelEnd(Box::new(level)))?;
        self.lock().sync_data()
    }

    /// The results file stands: the journal is not needed any more.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> std::io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// One write for each line: the kernel takes it whole or, on a full disk, in part.
    fn append(&self, line: &Line) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.lock().write_all(&bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
