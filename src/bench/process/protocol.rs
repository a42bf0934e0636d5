//! What the harness and the supervisor of a server say to each other: JSON, one message a line, over
//! the supervisor's stdin and stdout.
//!
//! The first line is a [`ServerCommand`], so that neither arguments nor variables stand on the
//! supervisor's own command line. The pipe closing, at any time and for any reason, means: kill.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCommand {
    /// A name to be found in the environment's `PATH`, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where its output goes.
    pub log: PathBuf,
    /// Whether the log outlives the server.
    pub log_fate: LogFate,
}

/// What becomes of a log when its server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFate {
    /// It is removed: its last lines are in the results where something failed.
    Remove,
    /// It stays, because somebody asked for it.
    Keep,
}

/// From the harness, after the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Ask every process of the server to end; kill what has not after the grace.
    Stop {
        /// The signal's number.
        signal: i32,
        /// Milliseconds until the rest is killed.
        grace_ms: u64,
    },
}

/// From the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The server's process exists and leads a group of its own.
    Started {
        /// Its process id, and its group's.
        pid: u32,
    },
    /// There is no server, and there will be none.
    NotStarted {
        /// Whether there is no such program.
        missing: bool,
        /// What the system said.
        message: String,
    },
    /// The server's own process ended; others of its group may go on.
    Exited {
        /// How.
        exit: Exit,
        /// The last lines that it wrote.
        log_tail: Vec<String>,
    },
    /// Nothing of the server is left; the supervisor ends.
    Stopped(StopReport),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "signal {name}"),
                None => write!(f, "signal {signal}"),
            },
        }
    }
}

/// `SIGTERM` for 15, where the number is a signal's.
#[cfg(unix)]
fn signal_name(signal: i32) -> Option<&'static str> {
    nix::sys::signal::Signal::try_from(signal).ok().map(|signal| signal.as_str())
}

#[cfg(not(unix))]
fn signal_name(_: i32) -> Option<&'static str> {
    None
}

/// How a server was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReport {
    /// How its own process ended; `None` if it cannot be told.
    pub exit: Option<Exit>,
    /// Processes that had to be killed: those still there when the grace was over.
    pub killed: u32,
    /// Processes that not even a kill ended in time (stuck in the kernel).
    pub left: u32,
    /// From the request until nothing was left.
    pub took: Duration,
    /// The last lines of its log.
    pub log_tail: Vec<String>,
}

impl std::fmt::Display for StopReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.exit {
            Some(exit) => exit.fmt(f)?,
            None => f.write_str("ended")?,
        }
        if self.killed > 0 {
            write!(f, ", {} killed", self.killed)?;
        }
        if self.left > 0 {
            write!(f, ", {} cannot be killed", self.left)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_a_sentence() {
        let report = StopReport {
            exit: Some(Exit::Signal(9)),
            killed: 2,
            left: 0,
            took: Duration::ZERO,
            log_tail: Vec::new(),
        };
        assert_eq!(report.to_string(), "signal SIGKILL, 2 killed");
        assert_eq!(Exit::Code(3).to_string(), "exit code 3");
    }

    #[test]
    fn messages_are_one_line_each() {
        let log_tail = vec!["a\nb".to_owned()];
        let event = Event::Exited { exit: Exit::Code(1), log_tail };
        let line = serde_json::to_string(&event).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}
