//! A results file is made from a journal.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::{Beside, FORMAT, LevelHead, Line};
use crate::measure::level::{EndedBy, StartMode, assign_phases};
use crate::measure::trace::RequestTrace;
use crate::results::convert::{phase_name, trace_of_record};
use crate::results::record::{Level, RequestRecord, ResultsFile, ServerMetrics};

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
    if format > FORMAT {
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
    open: Option<Open>,
}

/// A level whose end was not read yet.
struct Open {
    head: LevelHead,
    start_mode: StartMode,
    requests: Vec<RequestRecord>,
}

impl Making {
    fn take(&mut self, line: Line, warnings: &mut Vec<String>) {
        match (line, &mut self.open) {
            (Line::Level(head), _) => {
                self.close(warnings);
                let start_mode = start_mode(&head.start_mode);
                self.open = Some(Open { head: *head, start_mode, requests: Vec::new() });
            }
            (Line::Measuring { start_mode: name }, Some(open)) => {
                open.start_mode = start_mode(&name);
            }
            (Line::Request(record), Some(open)) => open.requests.push(*record),
            (Line::LevelEnd(level), open @ Some(_)) => {
                let Some(Open { head, requests, .. }) = open.take() else { return };
                let mode = start_mode(&level.summary.start_mode);
                let requests = settled(requests, &head, mode, warnings);
                let level = Level { requests, ..*level };
                self.finished.push(Finished { key: head.key, level: level.clone() });
                self.file.levels.push(level);
            }
            (Line::AnswerHeaders(headers), _) => {
                self.file.meta.server.get_or_insert_default().headers.extend(headers);
            }
            (Line::Measuring { .. } | Line::Request(_) | Line::LevelEnd(_), None) => {
                warnings.push("a line outside any level: dropped".to_owned());
            }
            (Line::Run { .. }, _) => warnings.push("a second head: dropped".to_owned()),
        }
    }

    /// A level without an end: its figures are worked out from what there is.
    fn close(&mut self, warnings: &mut Vec<String>) {
        let Some(Open { head, start_mode, mut requests }) = self.open.take() else { return };
        let mut traces = traces(&mut requests, warnings);
        if !traces.iter().any(RequestTrace::is_measured) {
            return;
        }
        assign_phases(head.concurrency, start_mode, EndedBy::Killed, &mut traces);
        let summary = head.summarise(start_mode, EndedBy::Killed, &traces);
        let floor = self.file.client_floor.as_ref();
        let level = head.level(&summary, &traces, Beside { floor, ..Beside::default() });
        let hardware_reason = Some("the harness was killed before the level's end".to_owned());
        let lost = ServerMetrics { counters: None, reason: hardware_reason.clone() };
        self.file.levels.push(Level { server_metrics: Some(lost), hardware_reason, ..level });
    }
}

/// The records of a level that had ended, as they stood in its results file: in send order and with
/// their phases (in a journal everything measured is `steady`), without what was not to be kept.
fn settled(
    mut records: Vec<RequestRecord>,
    head: &LevelHead,
    start_mode: StartMode,
    warnings: &mut Vec<String>,
) -> Vec<RequestRecord> {
    let mut traces = traces(&mut records, warnings);
    // It had ended: nothing of it is missing, whatever ended it.
    assign_phases(head.concurrency, start_mode, EndedBy::NOk, &mut traces);
    let keep = head.keep();
    for (record, trace) in records.iter_mut().zip(&traces) {
        phase_name(trace.phase).clone_into(&mut record.phase);
        record.gaps_us = record.gaps_us.take().filter(|_| keep.gaps);
        record.text = record.text.take().filter(|_| keep.text);
    }
    records
}

/// The traces of records, both in send order; a record that is none is dropped.
fn traces(records: &mut Vec<RequestRecord>, warnings: &mut Vec<String>) -> Vec<RequestTrace> {
    records.sort_by_key(|record| record.index);
    let mut traces = Vec::new();
    records.retain(|record| match trace_of_record(record) {
        Ok(trace) => {
            traces.push(trace);
            true
        }
        Err(error) => {
            warnings.push(format!("request {} dropped: failed to {error}", record.index));
            false
        }
    });
    traces
}

fn start_mode(name: &str) -> StartMode {
    StartMode::named(name).unwrap_or(StartMode::Staggered)
}
