//! How many threads llama.cpp is to use: one for each physical core that this process may run on.
//!
//! A second thread on the same core adds nothing to a decode, which waits for memory, and the threads
//! spin at barriers, so more of them than cores make everything slower.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;

/// Physical cores, at least 1.
pub(super) fn physical_cores() -> u32 {
    // It respects the affinity mask and the quota of the control group.
    let logical = std::thread::available_parallelism().map_or(1, NonZero::get);
    let physical = cores_of_the_machine().unwrap_or(logical);
    u32::try_from(logical.min(physical).max(1)).unwrap_or(1)
}

/// The number of different (package, core) pairs that Linux names; `None` elsewhere.
fn cores_of_the_machine() -> Option<usize> {
    let mut cores = HashSet::new();
    for entry in fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let topology = entry.path().join("topology");
        let read = |name: &str| fs::read_to_string(topology.join(name)).ok();
        if let (Some(package), Some(core)) = (read("physical_package_id"), read("core_id")) {
            cores.insert((package, core));
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_at_least_one_core_and_no_more_than_the_process_may_use() {
        let cores = super::physical_cores() as usize;
        assert!(cores >= 1);
        assert!(cores <= std::thread::available_parallelism().unwrap().get());
    }
}
