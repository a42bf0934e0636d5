//! What the flags need to know of the devices.

use super::Figures;
use crate::measure::flags::GpuFacts;

impl Figures {
    /// The facts of each device that the server used, or may have used: what somebody else does on
    /// another one is no concern of the level.
    pub fn gpu_facts(&self) -> Vec<GpuFacts> {
        let used = self.gpus.iter().filter(|gpu| gpu.used_by_server != Some(false));
        let facts = used.map(|gpu| GpuFacts {
            index: gpu.index,
            name: gpu.name.clone(),
            foreign_processes: gpu.foreign().map(ToString::to_string).collect(),
            sm_clock_mhz_mean: gpu.sm_clock_mhz_mean,
            sm_clock_mhz_limit: gpu.sm_clock_mhz_limit,
            throttle_share: gpu.throttle_share.clone(),
        });
        facts.collect()
    }

    /// Whether a figure of the power or energy of a device that the server used, or may have used, is
    /// in the results: then a window shorter than its sensor's is worth a flag.
    pub fn measures_power(&self) -> bool {
        let mut used = self.gpus.iter().filter(|gpu| gpu.used_by_server != Some(false));
        used.any(|gpu| gpu.power_w_mean.is_some() || gpu.energy_j.is_some())
    }
}

/// Memory in use after a stop, above what was in use before the start; `None` where either is not
/// known. Zero where less is in use now.
pub fn not_released(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::hardware::{GpuFigures, GpuProcess, Owner, Use};

    #[test]
    fn a_device_that_the_server_does_not_use_raises_no_flag() {
        let gpu = |index, used_by_server| GpuFigures {
            index,
            used_by_server,
            processes: vec![GpuProcess {
                pid: 1,
                name: Some("Xorg".to_owned()),
                kind: Use::Graphics,
                memory_bytes: None,
                owner: Owner::Other,
            }],
            power_w_mean: Some(1.0),
            ..GpuFigures::default()
        };
        let gpus = vec![gpu(0, Some(false)), gpu(1, Some(true)), gpu(2, None)];
        let figures = Figures { gpus, ..Figures::default() };
        let facts = figures.gpu_facts();
        assert_eq!(facts.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(facts[0].foreign_processes, ["Xorg (1, graphics)"]);
        assert!(figures.measures_power());
        assert!(!Figures::default().measures_power());
    }

    #[test]
    fn memory_that_was_given_back_is_zero_and_what_is_not_known_is_not_guessed() {
        assert_eq!(not_released(Some(10), Some(25)), Some(15));
        assert_eq!(not_released(Some(25), Some(10)), Some(0));
        assert_eq!((not_released(None, Some(1)), not_released(Some(1), None)), (None, None));
    }
}
