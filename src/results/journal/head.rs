//! What has to be known of a level beside its requests, and what they come to together.
//!
//! The run itself and the recovery of its journal both go this way, so that the same requests give
//! the same figures and the same verdict.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::flags::{AskedLength, ModelMismatch, Outside, judge};
use crate::measure::goodput::Slo;
use crate::measure::level::{
    EndedBy, LevelFacts, LevelSummary, SingleStream, StartMode, summarise,
};
use crate::measure::trace::RequestTrace;
use crate::results::convert::{self, Keep, record_of_trace};
use crate::results::record::{ClientFloor, Hardware, Level};

/// What is known of a level before its first request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelHead {
    /// What the level's figures depend on, as one hash: config, prompts, binary, concurrency,
    /// repeat. A level with the same key need not be run again.
    pub key: String,
    /// Requests in flight; in an open loop the level's name only.
    pub concurrency: u32,
    /// `staggered`, `simultaneous`, `open_poisson`, `open_constant`: as far as it is known before
    /// the start.
    pub start_mode: String,
    /// A gap over this is a stutter.
    pub stutter_ms: f64,
    /// W(1), where a c = 1 level came before.
    pub single_e2e_s: Option<f64>,
    /// The config's `[slo]`.
    pub slo: Promise,
    /// Output tokens that are asked for.
    pub max_tokens: Option<u64>,
    /// Whether an answer may not end before them.
    pub ignore_eos: bool,
    /// The model that is asked for.
    pub model: String,
    /// Other ids that may answer.
    pub accept_models: Vec<String>,
    /// Settings that the server was asked for and does not run with, in words.
    pub settings_not_applied: Vec<String>,
    /// The most tokens per second and stream that the memory allows.
    pub ceiling_tps: Option<f64>,
    /// What of each request goes into the results file.
    pub save_gaps: bool,
    /// See `save_gaps`.
    pub save_text: bool,
}

/// What a user is promised; nothing, where a bound is missing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Promise {
    /// Largest time to first token.
    pub ttft_s: Option<f64>,
    /// Largest time per output token.
    pub tpot_s: Option<f64>,
}

/// What else a running harness finds out about a level, and a dead one takes with it.
#[derive(Debug, Default)]
pub struct Beside<'a> {
    /// What the machine did.
    pub hardware: Option<Hardware>,
    /// The harness's own error, by its self-test: this stands in the results file.
    pub floor: Option<&'a ClientFloor>,
    /// What neither the head nor the requests tell.
    pub outside: Outside,
}

impl LevelHead {
    /// The figures of the level's requests.
    pub fn summarise(
        &self,
        start_mode: StartMode,
        ended_by: EndedBy,
        traces: &[RequestTrace],
    ) -> LevelSummary {
        let facts = LevelFacts {
            concurrency: self.concurrency,
            start_mode,
            ended_by,
            stutter: time(self.stutter_ms / 1e3).unwrap_or(Duration::MAX),
            single: self.single_e2e_s.and_then(time).map(|e2e_mean| SingleStream { e2e_mean }),
            slo: self.slo.bounds(),
        };
        summarise(&facts, traces)
    }

    /// The level as it stands in a results file: figures, flags, verdict, requests.
    pub fn level(
        &self,
        summary: &LevelSummary,
        traces: &[RequestTrace],
        beside: Beside<'_>,
    ) -> Level {
        let mut outside = Outside {
            length: self.max_tokens.map(|asked| self.length(asked)),
            wrong_model: self.wrong_model(traces),
            settings_not_applied: self.settings_not_applied.clone(),
            ceiling_tps: self.ceiling_tps,
            ..beside.outside
        };
        outside.client.gap_error_p99 = gap_error(beside.floor, summary.concurrency);
        let (flags, verdict) = judge(summary, traces, &outside);
        let requests = traces.iter().map(|trace| record_of_trace(trace, self.keep())).collect();
        Level {
            summary: convert::summary(summary),
            concurrency_asked: Some(self.concurrency),
            hardware: beside.hardware,
            hardware_reason: None,
            server_metrics: None,
            flags: flags.iter().map(convert::flag).collect(),
            verdict: convert::verdict(verdict),
            requests,
        }
    }

    /// What of a request goes into the results file.
    pub fn keep(&self) -> Keep {
        Keep { gaps: self.save_gaps, text: self.save_text }
    }

    fn length(&self, asked: u64) -> AskedLength {
        if self.ignore_eos { AskedLength::Exactly(asked) } else { AskedLength::AtMost(asked) }
    }

    /// The first answer of a model that was not asked for.
    fn wrong_model(&self, traces: &[RequestTrace]) -> Option<ModelMismatch> {
        let accepted = |id: &String| *id == self.model || self.accept_models.contains(id);
        let mut models = traces.iter().filter_map(|trace| trace.model.as_ref());
        let answered = models.find(|answered| !accepted(answered))?;
        // A journal of before does not say what was asked for.
        (!self.model.is_empty())
            .then(|| ModelMismatch { asked: self.model.clone(), answered: answered.clone() })
    }
}

impl Promise {
    fn bounds(self) -> Option<Slo> {
        Some(Slo { ttft: time(self.ttft_s?)?, tpot: time(self.tpot_s?)? })
    }
}

/// What a file says may be no time.
fn time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// The self-test's error at this concurrency, or at the next larger one that it knows.
fn gap_error(floor: Option<&ClientFloor>, concurrency: u32) -> Option<Duration> {
    let rows = floor?.rows.iter().filter(|row| row.concurrency >= concurrency);
    let row = rows.min_by_key(|row| row.concurrency)?;
    row.gap_error_ms_p99.and_then(|ms| time(ms.max(0.0) / 1e3))
}
