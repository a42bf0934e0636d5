//! When not to believe a number: every flag, its threshold and its numbers.
//!
//! The thresholds' reasons stand in METHODOLOGY.md. What the requests and the summary tell is
//! judged from them; the rest comes in as [`Outside`] facts, and what is not known raises no flag.

mod load;
mod outside;
mod requests;

pub use outside::{
    AskedLength, ClientFacts, GpuFacts, Memory, ModelMismatch, Outside, TokenizerCheck,
    memory_not_released,
};

use super::level::LevelSummary;
use super::trace::{FailureClass, RequestTrace};
use std::collections::BTreeMap;

/// One reason not to believe a level as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// Which.
    pub name: FlagName,
    /// How bad it is.
    pub severity: Severity,
    /// In words, with the numbers.
    pub text: String,
    /// The numbers, by names that carry their unit.
    pub numbers: BTreeMap<&'static str, f64>,
}

/// How bad a flag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Read the reason before quoting the number.
    Flagged,
    /// Do not quote the number.
    Invalid,
}

/// What a level is worth: the worst of its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verdict {
    /// No flag.
    #[default]
    Valid,
    /// At least one flag.
    Flagged,
    /// At least one flag that forbids quoting.
    Invalid,
}

impl Verdict {
    /// The worst of `flags`.
    pub fn of(flags: &[Flag]) -> Self {
        match flags.iter().map(|flag| flag.severity).max() {
            None => Self::Valid,
            Some(Severity::Flagged) => Self::Flagged,
            Some(Severity::Invalid) => Self::Invalid,
        }
    }
}

macro_rules! flag_names {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Every flag there is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FlagName {
            $($(#[$doc])* $variant,)*
        }

        impl FlagName {
            /// Every flag, in the order in which a level's flags are listed.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in results files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

flag_names! {
    /// Requests failed.
    ErrorRate = "error_rate",
    /// Answers were not of the length asked for.
    LengthMismatch = "length_mismatch",
    /// Token counts are not the server's own.
    UsageMissing = "usage_missing",
    /// Usage and text disagree on whether there was any.
    UsageMismatch = "usage_mismatch",
    /// Events were not JSON.
    ParseErrors = "parse_errors",
    /// Events carried more than one token.
    Coalesced = "coalesced",
    /// Prompts were answered from a cache.
    CachedPrompts = "cached_prompts",
    /// A prompt was sent twice.
    DuplicatePrompts = "duplicate_prompts",
    /// Prompts were made different by a line in front.
    SaltedPrompts = "salted_prompts",
    /// Too few requests for a tail.
    NTooSmall = "n_too_small",
    /// Much of the time had fewer than c in flight.
    TailHeavy = "tail_heavy",
    /// The first half was not like the second.
    Drift = "drift",
    /// Fewer than c were in flight while c should have been.
    LowOccupancy = "low_occupancy",
    /// The harness itself may be what was measured.
    ClientLimited = "client_limited",
    /// The server counts other prompt tokens than the tokenizer.
    PromptMismatch = "prompt_mismatch",
    /// Another model answered.
    WrongModel = "wrong_model",
    /// The server does not run with the settings asked for.
    SettingsNotApplied = "settings_not_applied",
    /// The server accounts for more time than there was.
    NegativeRemainder = "negative_remainder",
    /// Faster than the machine's memory allows.
    OverRoofline = "over_roofline",
    /// Somebody else used the device.
    ForeignGpuProcess = "foreign_gpu_process",
    /// The device ran at a low clock.
    LowClock = "low_clock",
    /// The device held itself back.
    Throttled = "throttled",
    /// Too short for the power sensor.
    LevelShorterThanPowerWindow = "level_shorter_than_power_window",
    /// Device memory was not given back.
    MemoryNotReleased = "memory_not_released",
    /// Cut short.
    Interrupted = "interrupted",
}

/// Judges a level: its flags in the order of [`FlagName::ALL`], and the worst of them.
pub fn judge(
    summary: &LevelSummary,
    traces: &[RequestTrace],
    outside: &Outside,
) -> (Vec<Flag>, Verdict) {
    let mut measured: Vec<&RequestTrace> = traces
        .iter()
        .filter(|trace| trace.is_measured())
        .filter(|trace| trace.outcome.failure() != Some(FailureClass::Cancelled))
        .collect();
    measured.sort_by_key(|trace| (trace.index, trace.start, trace.worker));
    let mut flags = requests::flags(summary, &measured, outside.length);
    flags.extend(load::flags(summary, &measured));
    flags.extend(outside::flags(summary, outside));
    flags.sort_by_key(|flag| flag.name);
    let verdict = Verdict::of(&flags);
    (flags, verdict)
}

impl Flag {
    fn new(name: FlagName, severity: Severity, text: String) -> Self {
        Self { name, severity, text, numbers: BTreeMap::new() }
    }

    fn flagged(name: FlagName, text: String) -> Self {
        Self::new(name, Severity::Flagged, text)
    }

    fn number(mut self, name: &'static str, value: f64) -> Self {
        self.numbers.insert(name, value);
        self
    }
}

/// `share` as a percentage with the digits that matter.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests;
