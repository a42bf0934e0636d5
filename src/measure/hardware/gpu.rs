//! One device's readings → its figures.

use std::collections::{BTreeMap, BTreeSet};

use super::energy::{self, Power};
use super::reading::{Capability, GpuMetric, GpuProcess, GpuReading, Owner};
use super::series::{Point, Window, max, mean, min, whole};
use super::{EnergySource, GpuTrack};

/// Share of samples in which each throttle reason stood, by its name.
pub type ThrottleShares = BTreeMap<String, f64>;

/// A sample is "under load" from this utilisation on, percent: a kernel ran for at least half of
/// the driver's own sampling period. Clocks at rest say nothing about the level.
const LOAD_PCT: f64 = 50.0;

/// One device's figures over a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuFigures {
    /// The driver's index.
    pub index: u32,
    /// Identity that survives a reboot.
    pub uuid: Option<String>,
    /// Product name.
    pub name: Option<String>,
    /// Percent of time with a kernel running.
    pub util_pct_mean: Option<f64>,
    /// Its largest sample.
    pub util_pct_max: Option<f64>,
    /// Percent of time in which memory was accessed.
    pub memory_util_pct_mean: Option<f64>,
    /// Watts.
    pub power_w_mean: Option<f64>,
    /// Watts.
    pub power_w_max: Option<f64>,
    /// MHz, under load.
    pub sm_clock_mhz_mean: Option<f64>,
    /// MHz, under load.
    pub sm_clock_mhz_min: Option<f64>,
    /// MHz: the most that the device can have.
    pub sm_clock_mhz_limit: Option<f64>,
    /// MHz.
    pub memory_clock_mhz_mean: Option<f64>,
    /// Degrees Celsius.
    pub temp_c_max: Option<f64>,
    /// Bytes.
    pub memory_used_bytes_max: Option<u64>,
    /// Bytes.
    pub memory_total_bytes: Option<u64>,
    /// Joules over the window.
    pub energy_j: Option<f64>,
    /// Where they are from.
    pub energy_source: Option<EnergySource>,
    /// Share of samples for each throttle reason.
    pub throttle_share: ThrottleShares,
    /// Whether the server holds memory on it; `None` where that cannot be told.
    pub used_by_server: Option<bool>,
    /// Who holds memory on it, with the most that each held in the window.
    pub processes: Vec<GpuProcess>,
}

impl GpuFigures {
    /// Processes that are known to be somebody else's.
    pub fn foreign(&self) -> impl Iterator<Item = &GpuProcess> {
        self.processes.iter().filter(|process| process.owner == Owner::Other)
    }
}

/// One metric of a device over time.
fn points(readings: &[GpuReading], metric: GpuMetric) -> Vec<Point> {
    let told = readings.iter().filter_map(|r| r.get(metric).map(|value| (r.at, value)));
    told.map(|(at, value)| Point { at, value }).collect()
}

/// Its power, as it tells it.
fn power(track: &GpuTrack) -> Power {
    Power {
        instant_w: points(&track.readings, GpuMetric::PowerInstant),
        average_w: points(&track.readings, GpuMetric::Power),
    }
}

/// Mean watts of a device over a span without load.
///
/// # Errors
/// In words, where the readings do not reach over enough of it.
pub(super) fn power_at_rest(track: &GpuTrack, span: Window) -> Result<f64, String> {
    let energy_j = points(&track.readings, GpuMetric::Energy);
    energy::power_at_rest(&energy_j, &power(track), span)
        .map_err(|why| format!("GPU {}: {why}", track.info.index))
}

/// Reduces one device.
pub(super) fn reduce(
    track: &GpuTrack,
    window: Window,
    reasons: &mut BTreeMap<String, String>,
) -> GpuFigures {
    let inside: Vec<&GpuReading> = track.readings.iter().filter(|r| window.holds(r.at)).collect();
    let values = |metric| inside.iter().filter_map(move |reading| reading.get(metric));
    let under_load = |metric| {
        let loaded = |r: &&&GpuReading| r.get(GpuMetric::Util).is_none_or(|pct| pct >= LOAD_PCT);
        inside.iter().filter(loaded).filter_map(move |reading| reading.get(metric))
    };
    let info = &track.info;
    let mut gpu = GpuFigures {
        index: info.index,
        uuid: info.uuid.clone(),
        name: info.name.clone(),
        util_pct_mean: mean(values(GpuMetric::Util)),
        util_pct_max: max(values(GpuMetric::Util)),
        memory_util_pct_mean: mean(values(GpuMetric::MemoryUtil)),
        power_w_mean: mean(values(GpuMetric::Power)),
        power_w_max: max(values(GpuMetric::Power)),
        sm_clock_mhz_mean: mean(under_load(GpuMetric::SmClock)),
        sm_clock_mhz_min: min(under_load(GpuMetric::SmClock)),
        sm_clock_mhz_limit: info.sm_clock_limit_mhz,
        memory_clock_mhz_mean: mean(values(GpuMetric::MemoryClock)),
        temp_c_max: max(values(GpuMetric::Temperature)),
        memory_used_bytes_max: max(values(GpuMetric::MemoryUsed)).map(whole),
        memory_total_bytes: info.memory_total_bytes,
        throttle_share: throttle_shares(&inside),
        ..GpuFigures::default()
    };
    let mut say = Reasons { track, inside: &inside, reasons };
    say.identity(&gpu);
    say.metrics(&gpu);
    say.stuck_memory_util(&mut gpu);
    let energy_j = points(&track.readings, GpuMetric::Energy);
    let untold = |metric: GpuMetric| say.of_capability(metric.key());
    let (energy, why) = energy::of_device(&energy_j, &power(track), window, untold);
    (gpu.energy_j, gpu.energy_source) = energy.unzip();
    say.because("energy_j", why);
    processes(track, window, &mut gpu, &mut say);
    gpu
}

fn throttle_shares(inside: &[&GpuReading]) -> ThrottleShares {
    let told: Vec<_> = inside.iter().filter_map(|reading| reading.throttle).collect();
    let mut shares = ThrottleShares::new();
    for throttle in &told {
        for name in throttle.names() {
            *shares.entry(name.to_owned()).or_insert(0.0) += 1.0;
        }
    }
    shares.values_mut().for_each(|share| *share /= told.len() as f64);
    shares
}

/// Says why figures of one device are missing or stand for less than the window.
struct Reasons<'a> {
    track: &'a GpuTrack,
    inside: &'a [&'a GpuReading],
    reasons: &'a mut BTreeMap<String, String>,
}

impl Reasons<'_> {
    fn because(&mut self, key: &str, why: Option<String>) {
        if let Some(why) = why {
            self.reasons.insert(format!("gpus.{}.{key}", self.track.info.index), why);
        }
    }

    /// What is read once.
    fn identity(&mut self, gpu: &GpuFigures) {
        let figures = [
            ("uuid", gpu.uuid.is_none()),
            ("name", gpu.name.is_none()),
            ("sm_clock_mhz_limit", gpu.sm_clock_mhz_limit.is_none()),
            ("memory_total_bytes", gpu.memory_total_bytes.is_none()),
        ];
        for (key, _) in figures.into_iter().filter(|(_, missing)| *missing) {
            let capability = self.track.info.capabilities.get(key);
            let why = capability.map_or_else(|| "not asked for".to_owned(), Capability::to_string);
            self.because(key, Some(why));
        }
    }

    fn metrics(&mut self, gpu: &GpuFigures) {
        let figures = [
            (GpuMetric::Util, "util_pct_mean", gpu.util_pct_mean),
            (GpuMetric::Util, "util_pct_max", gpu.util_pct_max),
            (GpuMetric::MemoryUtil, "memory_util_pct_mean", gpu.memory_util_pct_mean),
            (GpuMetric::Power, "power_w_mean", gpu.power_w_mean),
            (GpuMetric::Power, "power_w_max", gpu.power_w_max),
            (GpuMetric::SmClock, "sm_clock_mhz_mean", gpu.sm_clock_mhz_mean),
            (GpuMetric::SmClock, "sm_clock_mhz_min", gpu.sm_clock_mhz_min),
            (GpuMetric::MemoryClock, "memory_clock_mhz_mean", gpu.memory_clock_mhz_mean),
            (GpuMetric::Temperature, "temp_c_max", gpu.temp_c_max),
            (
                GpuMetric::MemoryUsed,
                "memory_used_bytes_max",
                gpu.memory_used_bytes_max.map(|b| b as f64),
            ),
        ];
        for (metric, key, value) in figures {
            let why = self.of_metric(metric, value);
            self.because(key, why);
        }
        let told = self.inside.iter().filter(|reading| reading.throttle.is_some()).count();
        if told == 0 {
            let why = self.of_capability("throttle");
            self.because("throttle_share", Some(why));
        }
    }

    /// Why a figure of this metric is missing, or partial; `None` where it is neither.
    fn of_metric(&self, metric: GpuMetric, value: Option<f64>) -> Option<String> {
        let n = self.inside.len();
        let told = self.inside.iter().filter(|reading| reading.get(metric).is_some()).count();
        let last_error = || self.inside.iter().rev().find_map(|reading| reading.error.clone());
        match value {
            Some(_) if told == n => None,
            Some(_) => {
                let error = last_error().unwrap_or_else(|| "not told".to_owned());
                Some(format!("{} of {n} readings failed ({error}): of the others", n - told))
            }
            None if n > 0 && told > 0 => Some("no sample under load".to_owned()),
            None => Some(self.of_capability(metric.key())),
        }
    }

    fn of_capability(&self, key: &str) -> String {
        match self.track.info.capabilities.get(key) {
            _ if self.inside.is_empty() => self.no_sample(),
            Some(Capability::Ok) => {
                let error = self.inside.iter().rev().find_map(|reading| reading.error.clone());
                error.unwrap_or_else(|| "told at the start, then no more".to_owned())
            }
            Some(capability) => capability.to_string(),
            None => "not asked for".to_owned(),
        }
    }

    fn no_sample(&self) -> String {
        match self.track.readings.last() {
            Some(last) => format!("no sample in the window; the last is of {:.1?}", last.at),
            None => "no sample at all".to_owned(),
        }
    }

    /// Some devices say 0 for ever instead of saying that they cannot tell.
    fn stuck_memory_util(&mut self, gpu: &mut GpuFigures) {
        let busy = gpu.util_pct_mean.is_some_and(|pct| pct >= LOAD_PCT);
        let stuck = self
            .track
            .readings
            .iter()
            .all(|reading| reading.get(GpuMetric::MemoryUtil).is_none_or(|pct| pct == 0.0));
        if busy && stuck && gpu.memory_util_pct_mean.is_some() {
            gpu.memory_util_pct_mean = None;
            let why = "reads 0 in every sample of a busy device: it does not tell";
            self.because("memory_util_pct_mean", Some(why.to_owned()));
        }
    }
}

/// Who held memory in the window: the readings inside, else the last one before it.
fn processes(track: &GpuTrack, window: Window, gpu: &mut GpuFigures, say: &mut Reasons<'_>) {
    let until = track.processes.partition_point(|(at, _)| *at <= window.to);
    let from = track.processes.partition_point(|(at, _)| *at < window.from);
    let lists = &track.processes[from.min(until.saturating_sub(1))..until];
    if lists.is_empty() {
        let why = say.of_capability("processes");
        say.because("processes", Some(why.clone()));
        say.because("used_by_server", Some(why));
        return;
    }
    let mut most: BTreeMap<u32, GpuProcess> = BTreeMap::new();
    for process in lists.iter().flat_map(|(_, list)| list) {
        let kept = most.entry(process.pid).or_insert_with(|| process.clone());
        kept.memory_bytes = kept.memory_bytes.max(process.memory_bytes);
    }
    gpu.processes = most.into_values().collect();
    for (place, process) in gpu.processes.iter().enumerate() {
        let why = "the driver does not tell what this process holds";
        let why = process.memory_bytes.is_none().then(|| why.to_owned());
        say.because(&format!("processes.{place}.memory_bytes"), why);
        let why = "no process of this id can be seen here";
        let why = process.name.is_none().then(|| why.to_owned());
        say.because(&format!("processes.{place}.name"), why);
    }
    let owners: BTreeSet<Owner> = gpu.processes.iter().map(|process| process.owner).collect();
    let hidden = owners.is_empty() && gpu.util_pct_mean.is_some_and(|pct| pct >= LOAD_PCT);
    let why = if owners.contains(&Owner::Server) {
        gpu.used_by_server = Some(true);
        return;
    } else if owners.contains(&Owner::Unknown) {
        "a process on it cannot be told from the server's: its id is not known here"
    } else if hidden {
        "it is busy, and the driver shows nobody on it: a container hides them"
    } else {
        gpu.used_by_server = Some(false);
        return;
    };
    say.because("used_by_server", Some(why.to_owned()));
}
