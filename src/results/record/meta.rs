//! What was run, where, against what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The lesson's keys, and what makes a run repeatable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Meta {
    /// The scoreboard's target column.
    pub target: String,
    /// Where the API answers.
    pub base_url: String,
    /// The model id asked for.
    pub model: String,
    /// What the weights are, whatever the id: groups scoreboard tables.
    #[serde(default)]
    pub base_model: Option<String>,
    /// Of the weights; "undisclosed" is a value.
    pub precision: String,
    /// What is new about this row.
    pub change: String,
    /// Commit of the working directory, short.
    pub git_sha: String,
    /// Whether it had uncommitted changes.
    #[serde(default)]
    pub git_dirty: Option<bool>,
    /// Start, RFC 3339, UTC.
    pub date: String,
    /// End, RFC 3339, UTC.
    #[serde(default)]
    pub date_end: Option<String>,
    /// Asked of each request.
    pub max_tokens: u64,
    /// Whether the answer's length was forced.
    pub ignore_eos: bool,
    /// Path of the prompts file as it was named.
    pub prompts: String,
    /// SHA-256 of its bytes.
    #[serde(default)]
    pub prompts_sha256: Option<String>,
    /// ok requests asked for in each level (the default, where levels differ).
    pub n: u64,
    /// Warm-up requests a level.
    pub warmup: u64,
    /// Where the client ran.
    pub client: String,
    /// This harness: its version, and the commit that it was built from.
    #[serde(default)]
    pub harness_version: Option<String>,
    /// Its command line.
    #[serde(default)]
    pub argv: Vec<String>,
    /// The config's text, and the effective settings.
    #[serde(default)]
    pub config: Option<ConfigText>,
    /// Which pass over the ladder this is, from 1.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// The target with which this one took turns, level by level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleaved_with: Option<String>,
    /// Names of earlier results files from which a resumed run took finished levels. Those of them
    /// that were interrupted are no rows of their own beside this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_from: Vec<String>,
    /// Sampling temperature asked for.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Seeds by what they seed.
    #[serde(default)]
    pub seeds: BTreeMap<String, u64>,
    /// Timeouts by name; null is none.
    #[serde(default)]
    pub timeouts_s: BTreeMap<String, Option<f64>>,
    /// Threshold of the stutter figures.
    #[serde(default)]
    pub stutter_ms: Option<f64>,
    /// Requests that arrive each second, in an open loop; null in a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_rate_per_s: Option<f64>,
    /// `forbid` or `allow`.
    #[serde(default)]
    pub prompt_reuse: Option<String>,
    /// `http/1.1` or `h2`.
    #[serde(default)]
    pub protocol: Option<String>,
    /// USD per million tokens, as the config states it.
    #[serde(default)]
    pub price: Option<serde_json::Value>,
    /// What the harness added to each request's body.
    #[serde(default)]
    pub extra_body: Option<serde_json::Value>,
    /// The config's `[hardware]`, `[model]` and `[slo]` tables, verbatim.
    #[serde(default)]
    pub facts: BTreeMap<String, serde_json::Value>,
    /// What answered.
    #[serde(default)]
    pub server: Option<ServerMeta>,
    /// The machine that the harness ran on.
    #[serde(default)]
    pub host: Option<Host>,
}

/// The config of a run: verbatim, and its identity.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigText {
    /// Path as it was named; null for a run from flags.
    pub path: Option<String>,
    /// The file's text; null for a run from flags.
    pub text: Option<String>,
    /// SHA-256 of everything that decides what is measured.
    pub sha256: String,
    /// The settings with their defaults, of a run from flags too. Not in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<serde_json::Value>,
}

/// What answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerMeta {
    /// Name of the engines file's entry; null for a target that was running already.
    pub engine: Option<String>,
    /// What its version command said.
    pub version: Option<String>,
    /// The command that started it.
    pub command: Vec<String>,
    /// SHA-256 of the program that was started.
    pub binary_sha256: Option<String>,
    /// Time from start to ready.
    pub ready_s: Option<f64>,
    /// Settings read back from it, by the path that was read.
    pub applied_settings: BTreeMap<String, serde_json::Value>,
    /// The model id that it says it serves.
    pub model_id: Option<String>,
    /// The model's figures by its own account (`/v1/models` meta).
    pub model_meta: Option<serde_json::Value>,
    /// Response headers that name a region, a backend or a limit.
    pub headers: BTreeMap<String, String>,
    /// Text of the coherence probe, before and after the levels.
    pub probe_before: Option<String>,
    /// See `probe_before`.
    pub probe_after: Option<String>,
    /// How it ended: exit code or signal, and whether it had to be killed.
    pub stopped: Option<String>,
    /// Memory in use before its start and after its stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ServerMemory>,
}

/// Memory in use around the life of a server, for the flag `memory_not_released`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerMemory {
    /// Before its start.
    pub before_bytes: Option<u64>,
    /// After its stop: as soon as it was back, ten seconds later at the latest.
    pub after_bytes: Option<u64>,
    /// `nvml` (all devices), `meminfo` (the machine, without the page cache) or null.
    pub source: Option<String>,
}

/// The machine that the harness ran on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Host {
    /// First 12 hex digits of the SHA-256 of the host's name: tells machines apart, names none.
    pub hostname_hash: Option<String>,
    /// Distribution and version.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// CPU architecture.
    pub arch: Option<String>,
    /// CPU model name.
    pub cpu: Option<String>,
    /// Physical cores.
    pub cores_physical: Option<u32>,
    /// Hardware threads that this process may use.
    pub cores_logical: Option<u32>,
    /// Bytes.
    pub memory_total_bytes: Option<u64>,
    /// GPUs.
    pub gpus: Vec<HostGpu>,
    /// NVIDIA driver version.
    pub driver: Option<String>,
    /// CUDA version of the driver.
    pub cuda: Option<String>,
    /// CPU frequency governor.
    pub governor: Option<String>,
    /// Whether turbo is on.
    pub turbo: Option<bool>,
    /// `ac` or `battery`.
    pub power_supply: Option<String>,
    /// CPUs that the cgroup allows.
    pub cgroup_cpu_quota: Option<f64>,
    /// Whether this is a virtual machine, and of which kind.
    pub virtual_machine: Option<String>,
    /// Why a value is null, by its path (`gpus.0.vbios`). Not in older files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, String>,
}

/// One GPU of the host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostGpu {
    /// NVML's index.
    pub index: u32,
    /// Product name.
    pub name: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// VBIOS version.
    pub vbios: Option<String>,
    /// Enforced power limit, watts.
    pub power_limit_w: Option<f64>,
    /// "9.0", say.
    pub compute_capability: Option<String>,
    /// Bytes.
    pub memory_total_bytes: Option<u64>,
}

/// The harness's own error, from the self-test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientFloor {
    /// One row a level; empty where `reason` says why.
    pub rows: Vec<FloorRow>,
    /// Why there are no rows.
    pub reason: Option<String>,
}

/// The harness's own error at one concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FloorRow {
    /// Streams at once.
    pub concurrency: u32,
    /// Scheduled time between tokens.
    pub gap_ms: f64,
    /// Error of TTFT: seen − written.
    pub ttft_error_ms_p50: Option<f64>,
    /// See above.
    pub ttft_error_ms_p99: Option<f64>,
    /// See above.
    pub ttft_error_ms_max: Option<f64>,
    /// Absolute error of the gaps.
    pub gap_error_ms_p50: Option<f64>,
    /// See above.
    pub gap_error_ms_p99: Option<f64>,
    /// See above.
    pub gap_error_ms_max: Option<f64>,
    /// Events that arrived, per second.
    pub events_per_s: Option<f64>,
    /// The harness's CPU time for each event.
    pub cpu_us_per_event: Option<f64>,
    /// Resident bytes for each stream.
    pub bytes_per_stream: Option<f64>,
    /// How late the event loops ran what was due, 99th percentile.
    pub loop_lag_ms_p99: Option<f64>,
    /// Events that were sent and not seen.
    pub lost_events: u64,
}

/// What a metric means.
pub type Definition = String;
