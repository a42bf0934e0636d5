//! What the machine did during a level. A missing value is null, and `reasons` says why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of samples in which each throttle reason stood, by its name.
pub type ThrottleShares = BTreeMap<String, f64>;

/// Counters of one level, over its steady window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Hardware {
    /// One entry a device; empty where there is none.
    pub gpus: Vec<Gpu>,
    /// Why there is none.
    pub gpu_reason: Option<String>,
    /// Each metric that was probed: `ok`, `not_supported` or the error.
    pub capabilities: BTreeMap<String, String>,
    /// Samples in the window.
    pub samples: u64,
    /// Time between samples, median.
    pub period_ms_p50: Option<f64>,
    /// Time between samples, largest.
    pub period_ms_max: Option<f64>,
    /// Share of the window that samples stand for.
    pub coverage: Option<f64>,
    /// How well each source was sampled: `gpu`, `host`. The four figures above are the worst one's.
    pub sources: BTreeMap<String, SourceUsage>,
    /// Where device memory figures are from: `nvml`, `meminfo` or null.
    pub memory_source: Option<String>,
    /// The server's process tree, where we started it.
    pub server: Option<ServerUsage>,
    /// The harness itself.
    pub harness: Option<HarnessUsage>,
    /// The whole machine.
    pub host: Option<HostUsage>,
    /// Joules over the window, by `energy_source`.
    pub energy_j: Option<f64>,
    /// Energy over the window ÷ output tokens delivered in it.
    pub joules_per_output_token: Option<f64>,
    /// Energy over the window ÷ prompt and output tokens of its requests.
    pub joules_per_total_token: Option<f64>,
    /// The same as the first, above the idle power before the level.
    pub joules_per_output_token_above_idle: Option<f64>,
    /// `counter`, `integrated_power`, `rapl`, `hwmon`, `wall_power` or null.
    pub energy_source: Option<String>,
    /// Why a value is null, by its key.
    pub reasons: BTreeMap<String, String>,
}

impl Hardware {
    /// The devices that the server under test uses; where none is known to be one, those of which
    /// that cannot be told.
    pub fn gpus_in_use(&self) -> Vec<&Gpu> {
        let known = self.gpus.iter().any(|gpu| gpu.used_by_server == Some(true));
        let used = if known { Some(true) } else { None };
        self.gpus.iter().filter(|gpu| gpu.used_by_server == used).collect()
    }
}

/// How well one source of samples kept up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SourceUsage {
    /// Samples in the window.
    pub samples: u64,
    /// Time between samples, median.
    pub period_ms_p50: Option<f64>,
    /// Time between samples, largest.
    pub period_ms_max: Option<f64>,
    /// Share of the window within one period of a sample.
    pub coverage: Option<f64>,
    /// How long a reading took, largest.
    pub read_ms_max: Option<f64>,
    /// CPU time of the sampler's thread ÷ time: its share of one core.
    pub cpu_share: Option<f64>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gpu {
    /// NVML's index.
    pub index: u32,
    /// NVML's UUID.
    pub uuid: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// Share of time in which at least one kernel ran; no occupancy.
    pub util_pct_mean: Option<f64>,
    /// Its largest sample.
    pub util_pct_max: Option<f64>,
    /// Share of time in which memory was accessed; no capacity.
    pub memory_util_pct_mean: Option<f64>,
    /// Watts.
    pub power_w_mean: Option<f64>,
    /// Watts.
    pub power_w_max: Option<f64>,
    /// Under load.
    pub sm_clock_mhz_mean: Option<f64>,
    /// Under load.
    pub sm_clock_mhz_min: Option<f64>,
    /// The device's own maximum.
    pub sm_clock_mhz_limit: Option<f64>,
    /// Memory clock.
    pub memory_clock_mhz_mean: Option<f64>,
    /// Degrees Celsius.
    pub temp_c_max: Option<f64>,
    /// Bytes in use, the driver's own included.
    pub memory_used_bytes_max: Option<u64>,
    /// Bytes in all.
    pub memory_total_bytes: Option<u64>,
    /// Joules over the window.
    pub energy_j: Option<f64>,
    /// Share of samples for each throttle reason.
    pub throttle_share: ThrottleShares,
    /// Whether the server under test holds memory on it; null where that cannot be told.
    pub used_by_server: Option<bool>,
    /// Who holds memory on it.
    pub processes: Vec<GpuProcess>,
}

/// One process on a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpuProcess {
    /// Its process id.
    pub pid: u32,
    /// Its program's name, where it can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `compute`, `graphics` or `compute+graphics`; older files list what computes, and lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Device memory, where the driver says.
    pub memory_bytes: Option<u64>,
    /// Whether it belongs to the server under test.
    pub ours: bool,
}

/// The server's process tree.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerUsage {
    /// CPU seconds over the window.
    pub cpu_s: Option<f64>,
    /// CPU seconds over the window ÷ output tokens delivered in it.
    pub cpu_s_per_output_token: Option<f64>,
    /// Resident set, file pages included.
    pub rss_bytes_max: Option<u64>,
    /// Proportional set: shared pages counted once.
    pub pss_bytes_max: Option<u64>,
    /// Major page faults over the window: reads from the disk.
    pub major_faults: Option<u64>,
}

/// The harness itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HarnessUsage {
    /// CPU seconds over the window.
    pub cpu_s: Option<f64>,
    /// Resident set.
    pub rss_bytes_max: Option<u64>,
    /// How late the event loops ran what was due, 99th percentile.
    pub loop_lag_ms_p99: Option<f64>,
}

/// The whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostUsage {
    /// All cores: 100 is every core busy.
    pub cpu_pct_mean: Option<f64>,
    /// Load average over one minute, at the window's end.
    pub load_1m: Option<f64>,
    /// MemAvailable.
    pub mem_available_bytes_min: Option<u64>,
    /// MemTotal − MemAvailable: without the page cache.
    pub mem_used_bytes_max: Option<u64>,
    /// Swap in use.
    pub swap_used_bytes_max: Option<u64>,
    /// Package energy by RAPL, joules.
    pub cpu_energy_j: Option<f64>,
    /// Energy by one hardware monitor where there is no RAPL, joules; `reasons` names the sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hwmon_energy_j: Option<f64>,
}
