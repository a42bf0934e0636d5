//! Samples of the machine → the figures of a level.
//!
//! Every instant is a [`Duration`] since the sampler's epoch, on the monotonic clock. Figures are
//! over a [`Window`] that lies inside the load (the steady window), so idle before and after is in
//! none of them. What cannot be said is `None`, and [`Figures::reasons`] says why: never 0.

mod energy;
mod flag_facts;
mod gpu;
mod host;
mod reading;
mod series;

pub use energy::{
    CounterError, EnergySource, Power, counter_delta, counter_step, energy_delta, integrate,
    power_at_rest,
};
pub use flag_facts::not_released;
pub use gpu::{GpuFigures, ThrottleShares};
pub use host::{HarnessFigures, HostFigures, ServerFigures};
pub use reading::{
    Capability, GpuInfo, GpuMetric, GpuProcess, GpuReading, HostReading, Owner, Throttle,
    TreeReading, Use,
};
pub use series::{Point, SourceFigures, SourceRow, Window};

use std::collections::BTreeMap;
use std::time::Duration;

/// What one source thread recorded: a row a reading, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Track<T> {
    /// How the thread kept time.
    pub rows: Vec<SourceRow>,
    /// What it read, one entry a row.
    pub readings: Vec<T>,
}

/// One device: what was known of it at the start, and what was read.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuTrack {
    /// Read once.
    pub info: GpuInfo,
    /// In order of time.
    pub readings: Vec<GpuReading>,
    /// Everybody who held memory on it, by the instant of the reading.
    pub processes: Vec<(Duration, Vec<GpuProcess>)>,
}

/// Everything that the sampler saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// The period that was asked for.
    pub period: Duration,
    /// One entry a device.
    pub gpus: Vec<GpuTrack>,
    /// How the thread that reads the devices kept time.
    pub gpu_rows: Vec<SourceRow>,
    /// Why there is no device, where there is none.
    pub gpu_reason: Option<String>,
    /// The host, the server's processes and the harness.
    pub host: Track<HostReading>,
    /// What the host and the processes can tell, by path (`host.cpu_energy_j`).
    pub host_capabilities: BTreeMap<String, Capability>,
    /// Why something of the host could not be read, by key.
    pub host_reasons: BTreeMap<String, String>,
}

/// Where the server under test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerPlace {
    /// On the machine that was sampled.
    #[default]
    Here,
    /// On another one: what was sampled says nothing of it.
    Elsewhere,
}

/// What the level says about the window, for figures that divide by it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Output tokens delivered in the window; `None` where that is not known.
    pub output_tokens: Option<f64>,
    /// Prompt and output tokens of the window's requests.
    pub total_tokens: Option<f64>,
    /// A span without load before the level, for the idle power.
    pub idle: Option<Window>,
    /// What a wall meter said under load, watts: the whole box. It stands before all other sources.
    pub wall_power_w: Option<f64>,
    /// How late the harness's event loops ran what was due, 99th percentile, milliseconds.
    pub loop_lag_ms_p99: Option<f64>,
    /// Where the server is.
    pub place: ServerPlace,
}

/// The figures of one level. Names and units are those of the results file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Length of the window, seconds.
    pub window_s: f64,
    /// One entry a device.
    pub gpus: Vec<GpuFigures>,
    /// Why there is none.
    pub gpu_reason: Option<String>,
    /// Each metric that was probed, by its path (`gpus.0.power_w`, `server.pss_bytes`).
    pub capabilities: BTreeMap<String, Capability>,
    /// How well each source was sampled: `gpu`, `host`.
    pub sources: BTreeMap<&'static str, SourceFigures>,
    /// Where device memory is from: `nvml`; `meminfo` where a device cannot tell, as one that
    /// shares the system's memory; `None` without a device, or where it was not read.
    pub memory_source: Option<&'static str>,
    /// The server's process tree, where it is known.
    pub server: Option<ServerFigures>,
    /// The harness itself.
    pub harness: Option<HarnessFigures>,
    /// The whole machine.
    pub host: Option<HostFigures>,
    /// Joules over the window, by `energy_source`.
    pub energy_j: Option<f64>,
    /// Where it is from.
    pub energy_source: Option<EnergySource>,
    /// Per output token.
    pub joules_per_output_token: Option<f64>,
    /// Per prompt or output token.
    pub joules_per_total_token: Option<f64>,
    /// Per output token, above the power before the level.
    pub joules_per_output_token_above_idle: Option<f64>,
    /// Why a value is missing or partial, by its path.
    pub reasons: BTreeMap<String, String>,
}

impl Figures {
    /// The source that was sampled worst: what the level's own sample figures quote.
    pub fn worst_source(&self) -> Option<&SourceFigures> {
        worst_source(&self.sources)
    }
}

/// Reduces what was sampled to the figures of one window.
pub fn figures(samples: &Samples, window: Window, load: &Load) -> Figures {
    let mut reasons = samples.host_reasons.clone();
    let mut out = Figures {
        window_s: window.length().as_secs_f64(),
        gpu_reason: samples.gpu_reason.clone(),
        capabilities: samples.host_capabilities.clone(),
        ..Figures::default()
    };
    for track in &samples.gpus {
        let path = format!("gpus.{}", track.info.index);
        for (metric, capability) in &track.info.capabilities {
            out.capabilities.insert(format!("{path}.{metric}"), capability.clone());
        }
        let mut gpu = gpu::reduce(track, window, &mut reasons);
        if load.place == ServerPlace::Elsewhere {
            gpu.used_by_server = Some(false);
            reasons.remove(&format!("{path}.used_by_server"));
        }
        out.gpus.push(gpu);
    }
    if !samples.gpus.is_empty() {
        let rows = series::source_figures(&samples.gpu_rows, window, samples.period);
        out.sources.insert("gpu", rows);
    }
    let host_rows = series::source_figures(&samples.host.rows, window, samples.period);
    out.sources.insert("host", host_rows);
    host::reduce(&samples.host.readings, window, load, &mut out, &mut reasons);
    sources(&out.sources, &mut reasons);
    match memory_source(samples, &out.gpus) {
        Ok(source) => out.memory_source = Some(source),
        Err(why) => {
            reasons.insert("memory_source".to_owned(), why);
        }
    }
    energy::per_token(samples, window, load, &mut out, &mut reasons);
    out.reasons = reasons;
    out
}

/// Where device memory is from.
///
/// # Errors
/// In words, where there is no device, or its memory was not read although it can be.
fn memory_source(samples: &Samples, gpus: &[GpuFigures]) -> Result<&'static str, String> {
    if gpus.is_empty() {
        let why = samples.gpu_reason.as_ref();
        return Err(why.map_or_else(|| "no GPU".to_owned(), |why| format!("no GPU: {why}")));
    }
    if gpus.iter().any(|gpu| gpu.memory_used_bytes_max.is_some()) {
        return Ok("nvml");
    }
    let cannot = |track: &GpuTrack| {
        let capability = track.info.capabilities.get(GpuMetric::MemoryUsed.key());
        matches!(capability, None | Some(Capability::NotSupported))
    };
    if samples.gpus.iter().all(cannot) {
        return Ok("meminfo");
    }
    Err("no device's memory was read in the window".to_owned())
}

/// Says why figures of how the sources kept time are missing.
fn sources(
    sources: &BTreeMap<&'static str, SourceFigures>,
    reasons: &mut BTreeMap<String, String>,
) {
    let mut because = |key: String, missing: bool, why: &str| {
        if missing {
            reasons.insert(key, why.to_owned());
        }
    };
    let too_few = "no two samples around the window";
    for (name, source) in sources {
        let (median, largest) = (source.period_ms_p50, source.period_ms_max);
        because(format!("sources.{name}.period_ms_p50"), median.is_none(), too_few);
        because(format!("sources.{name}.period_ms_max"), largest.is_none(), too_few);
        let none = source.read_ms_max.is_none();
        because(format!("sources.{name}.read_ms_max"), none, "no sample in the window");
        let none = source.cpu_share.is_none();
        because(format!("sources.{name}.cpu_share"), none, "fewer than two samples in the window");
    }
    let worst = worst_source(sources);
    let none = worst.is_none_or(|source| source.period_ms_p50.is_none());
    because("period_ms_p50".to_owned(), none, too_few);
    let none = worst.is_none_or(|source| source.period_ms_max.is_none());
    because("period_ms_max".to_owned(), none, too_few);
}

fn worst_source<'a>(
    sources: &'a BTreeMap<&'static str, SourceFigures>,
) -> Option<&'a SourceFigures> {
    sources.values().min_by(|a, b| a.coverage.total_cmp(&b.coverage))
}

#[cfg(test)]
mod tests;
