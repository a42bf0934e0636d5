//! The results file, as it stands on disk: versioned wire types and nothing else.
//!
//! A reader of the lesson's own files finds its keys where it looks for them (`meta`, `levels[]`,
//! `summary`, `requests[]`; seconds as floats). Everything else is added beside, with the unit in
//! the name. `None` is written as `null`: a value that is missing is never 0. Absent is only what
//! says that something happened (`failed`, `resumed_from`), and what the first files of this version
//! did not have yet.

mod hardware;
mod level;
mod meta;
mod request;

pub use hardware::{
    Gpu, GpuProcess, Hardware, HarnessUsage, HostUsage, ServerUsage, SourceUsage, ThrottleShares,
};
pub use level::{
    EarlyStopping, Flag, Goodput, Level, METRICS, MetricStats, MetricTable, PercentilesAll,
    ServerMetrics, Settling, Severity, Summary, Verdict,
};
pub use meta::{
    ClientFloor, ConfigText, Definition, FloorRow, Host, HostGpu, Meta, ServerMemory, ServerMeta,
};
pub use request::{RequestRecord, ServerTimesRecord};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bumped whenever a key changes its name, place or type.
pub const SCHEMA_VERSION: u32 = 1;
/// Bumped whenever a formula changes.
pub const METRICS_VERSION: u32 = 1;

/// One run: one target, one prompts file, one pass over the ladder of levels.
// `R` is what is kept of each request: on disk its whole record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResultsFile")]
pub struct ResultsFile<R = RequestRecord> {
    /// [`SCHEMA_VERSION`] of the writer; files of the lesson's own harness have none (0).
    #[serde(default)]
    pub schema_version: u32,
    /// [`METRICS_VERSION`] of the writer.
    #[serde(default)]
    pub metrics_version: u32,
    /// What was run, where, against what.
    pub meta: Meta,
    /// One entry a level, in the order they ran.
    pub levels: Vec<Level<R>>,
    /// Set where the target could not run here, or was not measured further; `reason` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Reason>,
    /// Set where the run failed as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Reason>,
    /// True where the run was cut short and this file holds what was measured until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The last lines of the server's log, where something failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_log_tail: Option<Vec<String>>,
    /// The harness's own error at these levels.
    #[serde(default)]
    pub client_floor: Option<ClientFloor>,
    /// What each metric means, in words.
    #[serde(default)]
    pub definitions: BTreeMap<String, Definition>,
}

impl ResultsFile {
    /// A file of this version in which nothing has been measured yet.
    pub fn new(meta: Meta) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            metrics_version: METRICS_VERSION,
            meta,
            levels: Vec::new(),
            skipped: None,
            failed: None,
            interrupted: false,
            engine_log_tail: None,
            client_floor: None,
            definitions: BTreeMap::new(),
        }
    }
}

impl<R> ResultsFile<R> {
    /// The same file with other records: those of each level, by its place.
    pub fn with_records<S>(
        &self,
        mut records: impl FnMut(usize, &[R]) -> Vec<S>,
    ) -> ResultsFile<S> {
        let level = |(place, level): (usize, &Level<R>)| Level {
            summary: level.summary.clone(),
            concurrency_asked: level.concurrency_asked,
            hardware_reason: level.hardware_reason.clone(),
            hardware: level.hardware.clone(),
            server_metrics: level.server_metrics.clone(),
            flags: level.flags.clone(),
            verdict: level.verdict,
            requests: records(place, &level.requests),
        };
        ResultsFile {
            schema_version: self.schema_version,
            metrics_version: self.metrics_version,
            meta: self.meta.clone(),
            levels: self.levels.iter().enumerate().map(level).collect(),
            skipped: self.skipped.clone(),
            failed: self.failed.clone(),
            interrupted: self.interrupted,
            engine_log_tail: self.engine_log_tail.clone(),
            client_floor: self.client_floor.clone(),
            definitions: self.definitions.clone(),
        }
    }
}

/// Why a run was skipped or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// A stable name: `no_key`, `no_program`, `does_not_fit`, `not_ready`, `wrong_model`, ….
    pub reason: String,
    /// For people.
    pub text: String,
}
