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

/// Adds a flag that was raised after its level, in the place that it would have had among the others.
pub fn add_flag(level: &mut record::Level, late: &memory::Flag) {
    let place = |name: &str| memory::FlagName::ALL.iter().position(|known| known.name() == name);
    let own = place(late.name.name());
    let behind = level.flags.iter().position(|other| place(&other.name) > own);
    level.flags.insert(behind.unwrap_or(level.flags.len()), flag(late));
    let worst = verdict(memory::Verdict::of(std::slice::from_ref(late)));
    level.verdict = level.verdict.max(worst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_flag_stands_where_it_would_have_stood() {
        let other = |name: &str| record::Flag {
            name: name.into(),
            severity: record::Severity::Flagged,
            text: String::new(),
            numbers: std::collections::BTreeMap::new(),
        };
        let mut level = record::Level {
            summary: record::Summary::default(),
            concurrency_asked: None,
            hardware: None,
            hardware_reason: None,
            server_metrics: None,
            flags: vec![other("drift"), other("interrupted")],
            verdict: record::Verdict::Valid,
            requests: Vec::new(),
        };
        let late = memory::memory_not_released(1 << 30, memory::Memory::Devices).expect("much");
        add_flag(&mut level, &late);
        let names: Vec<&str> = level.flags.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!(names, ["drift", "memory_not_released", "interrupted"]);
        assert_eq!(level.verdict, record::Verdict::Flagged);
        level.verdict = record::Verdict::Invalid;
        add_flag(&mut level, &late);
        assert_eq!(level.verdict, record::Verdict::Invalid);
    }
}
