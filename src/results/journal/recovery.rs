//! A results file is made from a journal.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FORMAT, LevelHead, Line};
use crate::measure::flags::{Outside, judge};
use crate::measure::level::{EndedBy, LevelFacts, StartMode, assign_phases, summarise};
use crate::measure::trace::RequestTrace;
use crate::results::convert::{self, Keep, record_of_trace, trace_of_record};
use crate::results::record::{Level, RequestRecord, ResultsFile};

/// The longest line: the record of a request with a very long text.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What a journal held.
#[derive(Debug)]
pub struct Recovered {
    /// The results file, marked `interrupted`; a level that had not ended stands last.
    pub file: ResultsFile,
    /// Levels that had ended: what a resumed run need not do again.
    pub finished: Vec<Finished>,
    /// What was dropped, in words.
    pub warnings: Vec<String>,
}

/// A level that had ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// What its figures depend on.
    pub key: String,
    /// All of it.
    pub level: Level,
}

/// Why nothing can be made of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// Its first line is no head of a run.
    #[error("read {0} as a journal: it does not begin with the head of a run")]
    NoHead(PathBuf),
    /// A later version of this program wrote it.
    #[error("read {0}: its format is {1}, this spark-bench knows {FORMAT}")]
    Newer(PathBuf, u32),
}

/// Makes a results file from a journal.
///
/// # Errors
/// If it cannot be read or does not begin as a journal does. Lines that are torn or strange are
/// dropped with a warning.
pub fn recover(path: &Path) -> Result<Recovered, JournalError> {
    let failed = |error| JournalError::Read(path.to_owned(), error);
    let mut lines = Lines { reader: BufReader::new(File::open(path).map_err(failed)?), number: 0 };
    let mut warnings = Vec::new();
    let first = lines.next(&mut warnings).map_err(failed)?;
    let Some(Line::Run { format, file: mut head }) = first else {
        return Err(JournalError::NoHead(path.to_owned()));
    };
    if format != FORMAT {
        return Err(JournalError::Newer(path.to_owned(), format));
    }
    head.interrupted = true;
    let mut making = Making { file: *head, finished: Vec::new(), open: None };
    while let Some(line) = lines.next(&mut warnings).map_err(failed)? {
        making.take(line, &mut warnings);
    }
    making.close(&mut warnings);
    Ok(Recovered { file: making.file, finished: making.finished, warnings })
}

/// The lines of a journal, one at a time: a journal may be larger than memory.
struct Lines {
    reader: BufReader<File>,
    number: usize,
}

impl Lines {
    fn next(&mut self, warnings: &mut Vec<String>) -> std::io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = std::io::Read::take(&mut self.reader, LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let torn = bytes.last() != Some(&b'\n');
            match serde_json::from_slice(&bytes) {
                Ok(line) if !torn => return Ok(Some(line)),
                _ if torn => warnings.push(format!("line {} is torn: dropped", self.number)),
                Ok(_) => {}
                Err(error) => {
                    warnings.push(format!("line {} is no journal's: {error}", self.number));
                }
            }
        }
    }
}

/// A results file under construction.
struct Making {
    file: ResultsFile,
    finished: Vec<Finished>,
    open: Option<(LevelHead, Vec<RequestRecord>)>,
}

impl Making {
    fn take(&mut self, line: Line, warnings: &mut Vec<String>) {
        match (line, &mut self.open) {
            (Line::Level(head), _) => {
                self.close(warnings);
                self.open = Some((head, Vec::new()));
            }
            (Line::Request(record), Some((_, requests))) => requests.push(*record),
            (Line::LevelEnd(level), Some((head, requests))) => {
                let traces = traces(requests, warnings);
                let mode = start_mode(&level.summary.start_mode);
                let requests = settled(traces, head.concurrency, mode);
                let level = Level { requests, ..*level };
                self.finished.push(Finished { key: head.key.clone(), level: level.clone() });
                self.file.levels.push(level);
                self.open = None;
            }
            (Line::Request(_) | Line::LevelEnd(_), None) => {
                warnings.push("a line outside any level: dropped".to_owned());
            }
            (Line::Run { .. }, _) => warnings.push("a second head: dropped".to_owned()),
        }
    }

    /// A level without an end: its figures are worked out from what there is.
    fn close(&mut self, warnings: &mut Vec<String>) {
        let Some((head, requests)) = self.open.take() else { return };
        let traces = traces(&requests, warnings);
        if traces.iter().any(RequestTrace::is_measured) {
            self.file.levels.push(cut_short(&head, traces));
        }
    }
}

/// The level that was running when the harness died.
fn cut_short(head: &LevelHead, traces: Vec<RequestTrace>) -> Level {
    let start_mode = start_mode(&head.start_mode);
    let facts = LevelFacts {
        concurrency: head.concurrency,
        start_mode,
        ended_by: EndedBy::Interrupted,
        stutter: Duration::from_millis(head.stutter_ms),
        single: None,
        slo: None,
    };
    let summary = summarise(&facts, &traces);
    let (flags, verdict) = judge(&summary, &traces, &Outside::default());
    Level {
        summary: convert::summary(&summary),
        concurrency_asked: Some(head.concurrency),
        hardware: None,
        server_metrics: None,
        flags: flags.iter().map(convert::flag).collect(),
        verdict: convert::verdict(verdict),
        requests: settled(traces, head.concurrency, start_mode),
    }
}

/// Records in send order, with their phases: in a journal everything measured is `steady`.
fn settled(
    mut traces: Vec<RequestTrace>,
    concurrency: u32,
    start_mode: StartMode,
) -> Vec<RequestRecord> {
    traces.sort_by_key(|trace| trace.index);
    assign_phases(concurrency, start_mode, &mut traces);
    traces.iter().map(|trace| record_of_trace(trace, Keep::ALL)).collect()
}

fn traces(records: &[RequestRecord], warnings: &mut Vec<String>) -> Vec<RequestTrace> {
    let keep = |record: &RequestRecord| match trace_of_record(record) {
        Ok(trace) => Some(trace),
        Err(error) => {
            warnings.push(format!("request {} dropped: failed to {error}", record.index));
            None
        }
    };
    records.iter().filter_map(keep).collect()
}

fn start_mode(name: &str) -> StartMode {
    use StartMode::{OpenConstant, OpenPoisson, Simultaneous, Staggered};
    let all = [Staggered, Simultaneous, OpenPoisson, OpenConstant];
    all.into_iter().find(|mode| mode.name() == name).unwrap_or(Staggered)
}
