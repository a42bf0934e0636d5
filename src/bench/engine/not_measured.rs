//! Why a target, or the rest of it, was not measured: a row of its own in results and scoreboard.

use crate::exit_codes;
use crate::results::record::Reason;

/// What kind of reason it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It cannot run here, and that is nobody's fault.
    Skipped,
    /// The server did not start.
    NotStarted,
    /// The server is not what it should be.
    CheckFailed,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// What the user gave cannot be used.
    BadInput,
}

/// A reason with its words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NotMeasured {
    /// What kind it is.
    pub kind: Kind,
    /// Its stable name.
    pub reason: &'static str,
    /// For people.
    pub text: String,
    /// The last lines of the server's log.
    pub log_tail: Vec<String>,
}

impl NotMeasured {
    /// A reason without a log.
    pub fn new(kind: Kind, reason: &'static str, text: impl Into<String>) -> Self {
        Self { kind, reason, text: text.into(), log_tail: Vec::new() }
    }

    /// The same with the last lines of a log.
    pub fn with_log(self, log_tail: Vec<String>) -> Self {
        Self { log_tail, ..self }
    }

    /// Whether the end of the server's log may explain it.
    pub fn wants_log(&self) -> bool {
        !matches!(self.kind, Kind::Interrupted | Kind::Skipped)
    }

    /// Interrupted.
    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted", "interrupted")
    }

    /// What it makes the exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Skipped => exit_codes::OK,
            Kind::NotStarted => exit_codes::NOT_STARTED,
            Kind::CheckFailed => exit_codes::CHECK_FAILED,
            Kind::Interrupted => exit_codes::INTERRUPTED,
            Kind::BadInput => exit_codes::USAGE,
        }
    }

    /// As it stands in a results file.
    pub fn record(&self) -> Reason {
        Reason { reason: self.reason.to_owned(), text: self.text.clone() }
    }
}
