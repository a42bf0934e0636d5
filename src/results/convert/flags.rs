//! Flags and verdicts, and what a level's hardware says to them.

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

/// What the flags need to know of the devices that the server used, or may have used.
pub fn gpu_facts(hardware: &record::Hardware) -> Vec<memory::GpuFacts> {
    let concerned = hardware.gpus.iter().filter(|gpu| gpu.used_by_server != Some(false));
    let facts = |gpu: &record::Gpu| memory::GpuFacts {
        index: gpu.index,
        name: gpu.name.clone(),
        foreign_processes: gpu.processes.iter().filter(|process| !process.ours).count() as u64,
        sm_clock_mhz_mean: gpu.sm_clock_mhz_mean,
        sm_clock_mhz_limit: gpu.sm_clock_mhz_limit,
        throttle_share: gpu.throttle_share.clone(),
    };
    concerned.map(facts).collect()
}
