//! Flags and verdicts.

use crate::measure::flags as memory;
use crate::results::record;

/// A flag as it stands in a results file.
pub fn flag(flag: &memory::Flag) -> record::Flag {
    record::Flag {
        name: flag.name.name().to_owned(),
        severity: match flag.severity {
            memory::Severity::Flagged => record::Severity::Flagged,
            memory::Severity::Invalid => record::Severity::Invalid,
        },
        text: flag.text.clone(),
        numbers: flag.numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    }
}

/// A verdict as it stands in a results file.
pub fn verdict(verdict: memory::Verdict) -> record::Verdict {
    match verdict {
        memory::Verdict::Valid => record::Verdict::Valid,
        memory::Verdict::Flagged => record::Verdict::Flagged,
        memory::Verdict::Invalid => record::Verdict::Invalid,
    }
}
