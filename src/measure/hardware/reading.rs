//! What the sampler reads: of a device, of the host, of a process tree.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A number that a device may be able to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuMetric {
    /// Share of time in which at least one kernel ran, percent.
    Util,
    /// Share of time in which memory was accessed, percent.
    MemoryUtil,
    /// Bytes in use.
    MemoryUsed,
    /// SM clock, MHz.
    SmClock,
    /// Memory clock, MHz.
    MemoryClock,
    /// Power, watts; an average over a second on most devices.
    Power,
    /// Power at this instant, watts.
    PowerInstant,
    /// Joules since the driver was loaded.
    Energy,
    /// Degrees Celsius.
    Temperature,
}

impl GpuMetric {
    /// All of them, in the order of [`GpuReading::values`].
    pub const ALL: [Self; 9] = [
        Self::Util,
        Self::MemoryUtil,
        Self::MemoryUsed,
        Self::SmClock,
        Self::MemoryClock,
        Self::Power,
        Self::PowerInstant,
        Self::Energy,
        Self::Temperature,
    ];

    /// Its name in capability maps and series, with the unit where it has one.
    pub fn key(self) -> &'static str {
        match self {
            Self::Util => "util_pct",
            Self::MemoryUtil => "memory_util_pct",
            Self::MemoryUsed => "memory_used_bytes",
            Self::SmClock => "sm_clock_mhz",
            Self::MemoryClock => "memory_clock_mhz",
            Self::Power => "power_w",
            Self::PowerInstant => "power_instant_w",
            Self::Energy => "energy_j",
            Self::Temperature => "temp_c",
        }
    }
}

/// Whether a device can tell something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// It told.
    Ok,
    /// It says that it cannot, or the driver lacks the call.
    NotSupported,
    /// It failed otherwise; the text is the driver's.
    Error(String),
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::NotSupported => f.write_str("not_supported"),
            Self::Error(text) => f.write_str(text),
        }
    }
}

/// What a device says of itself once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuInfo {
    /// The driver's index.
    pub index: u32,
    /// Identity that survives a reboot.
    pub uuid: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// VBIOS version.
    pub vbios: Option<String>,
    /// "9.0", say.
    pub compute_capability: Option<String>,
    /// Enforced limit, watts.
    pub power_limit_w: Option<f64>,
    /// The largest SM clock that it can have, MHz.
    pub sm_clock_limit_mhz: Option<f64>,
    /// Bytes in all.
    pub memory_total_bytes: Option<u64>,
    /// What it can tell, by [`GpuMetric::key`], `throttle`, `processes`, and what is read once.
    pub capabilities: BTreeMap<&'static str, Capability>,
}

/// Why clocks are held down: NVML's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle(pub u64);

impl Throttle {
    /// NVML's bits and our names (`nvmlClocksThrottleReason…` in nvml.h).
    const NAMES: [(u64, &'static str); 9] = [
        (0x001, "gpu_idle"),
        (0x002, "applications_clocks_setting"),
        (0x004, "sw_power_cap"),
        (0x008, "hw_slowdown"),
        (0x010, "sync_boost"),
        (0x020, "sw_thermal_slowdown"),
        (0x040, "hw_thermal_slowdown"),
        (0x080, "hw_power_brake_slowdown"),
        (0x100, "display_clock_setting"),
    ];

    /// The names of what is set; bits that have none are `unknown`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known = Self::NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        let named = Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0);
        named.map(|(_, name)| *name).chain((self.0 & !known != 0).then_some("unknown"))
    }
}

/// One reading of one device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuReading {
    /// When its energy counter was read.
    pub at: Duration,
    /// In the order of [`GpuMetric::ALL`]; `None` is what was not told this time.
    pub values: [Option<f64>; GpuMetric::ALL.len()],
    /// Why clocks are held down.
    pub throttle: Option<Throttle>,
    /// The first thing that failed and should not have.
    pub error: Option<String>,
}

impl GpuReading {
    /// One of its values.
    pub fn get(&self, metric: GpuMetric) -> Option<f64> {
        self.values[metric as usize]
    }

    /// Sets one of its values.
    pub fn set(&mut self, metric: GpuMetric, value: Option<f64>) {
        self.values[metric as usize] = value;
    }
}

/// To whom a process on a device belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The server under test.
    Server,
    /// The harness.
    Harness,
    /// Somebody else.
    Other,
    /// That cannot be told: no server's processes are known, or its id is of another PID namespace.
    Unknown,
}

/// For what a process uses a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It computes.
    Compute,
    /// It draws: a display server, a desktop, a game; Vulkan, too.
    Graphics,
    /// Both.
    Both,
}

impl Use {
    /// The name that results carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Graphics => "graphics",
            Self::Both => "compute+graphics",
        }
    }
}

/// A process that holds memory on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id, by the driver.
    pub pid: u32,
    /// Its program's name, where it can be seen.
    pub name: Option<String>,
    /// For what it uses the device.
    pub kind: Use,
    /// Bytes on the device, where the driver says.
    pub memory_bytes: Option<u64>,
    /// Whose it is.
    pub owner: Owner,
}

impl fmt::Display for GpuProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("a process");
        write!(f, "{name} ({}, {})", self.pid, self.kind.name())
    }
}

/// A process tree at an instant. CPU time and faults are cumulative and keep what ended processes
/// used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TreeReading {
    /// CPU seconds, user and system.
    pub cpu_s: Option<f64>,
    /// Resident bytes, summed; shared pages count once for each process.
    pub rss_bytes: Option<u64>,
    /// Proportional set: shared pages are divided among those who share them. Read more seldom.
    pub pss_bytes: Option<u64>,
    /// Page faults that read from a disk.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// How many processes live; one that has ended and waits for its parent does not.
    pub processes: u32,
}

/// The host at an instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostReading {
    /// When.
    pub at: Duration,
    /// CPU seconds that all CPUs were busy, cumulative.
    pub cpu_busy_s: Option<f64>,
    /// CPU seconds that passed on all CPUs, cumulative.
    pub cpu_total_s: Option<f64>,
    /// Load average over a minute.
    pub load_1m: Option<f64>,
    /// Bytes in all.
    pub mem_total_bytes: Option<u64>,
    /// Bytes that nobody uses for anything.
    pub mem_free_bytes: Option<u64>,
    /// Bytes of the page cache.
    pub mem_cached_bytes: Option<u64>,
    /// Bytes that programs could have.
    pub mem_available_bytes: Option<u64>,
    /// Bytes.
    pub swap_used_bytes: Option<u64>,
    /// Joules of all CPU packages since the sampler started.
    pub cpu_energy_j: Option<f64>,
    /// Joules by one hardware monitor since the sampler started.
    pub hwmon_energy_j: Option<f64>,
    /// The server's process tree, where it is known.
    pub server: Option<TreeReading>,
    /// The harness itself.
    pub harness: TreeReading,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttle_bits_have_names_and_unknown_ones_are_not_dropped() {
        assert_eq!(Throttle(0).names().count(), 0);
        let names: Vec<_> = Throttle(0x44 | 0x8000).names().collect();
        assert_eq!(names, ["sw_power_cap", "hw_thermal_slowdown", "unknown"]);
    }

    #[test]
    fn metrics_stand_at_their_own_place() {
        for (place, metric) in GpuMetric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, place);
        }
    }
}
