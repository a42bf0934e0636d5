//! What a sampler saw, and the figures of a window of it.

use std::time::Instant;

use crate::measure::hardware::{
    self, Figures, GpuProcess, GpuTrack, Load, Owner, Samples, ServerPlace, Track, Window,
};
use crate::results::record;

use super::clock::Clock;
use super::nvml::{DeviceProcess, NvmlHeader, NvmlReading};
use super::source::Log;
use super::system::NotesInner;
use super::{SamplerConfig, convert, series};
use crate::measure::hardware::HostReading;

/// A window of a level, and what the level says about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowFacts {
    /// Start of the steady window.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// A span without load before the level, for the power at rest; at least a second of it counts
    /// for something.
    pub idle: Option<(Instant, Instant)>,
    /// Output tokens delivered in the window.
    pub output_tokens: Option<f64>,
    /// Prompt and output tokens of the window's requests.
    pub total_tokens: Option<f64>,
    /// The config's `wall_power_w`: the whole box under load.
    pub wall_power_w: Option<f64>,
    /// How late the event loops ran what was due, 99th percentile.
    pub loop_lag_ms_p99: Option<f64>,
    /// Where the server is.
    pub place: ServerPlace,
}

impl WindowFacts {
    /// A window of which nothing else is known.
    pub fn new(from: Instant, to: Instant) -> Self {
        Self {
            from,
            to,
            idle: None,
            output_tokens: None,
            total_tokens: None,
            wall_power_w: None,
            loop_lag_ms_p99: None,
            place: ServerPlace::Here,
        }
    }
}

/// Everything that a sampler saw.
#[derive(Debug, Clone)]
pub struct Recording {
    clock: Clock,
    samples: Samples,
    driver: NvmlHeader,
}

impl Recording {
    pub(super) fn new(
        clock: Clock,
        config: &SamplerConfig,
        gpu: Log<NvmlHeader, NvmlReading>,
        host: Log<(), HostReading>,
        notes: &NotesInner,
    ) -> Self {
        let mut samples = Samples {
            period: config.period,
            host: Track { rows: host.rows, readings: host.readings },
            host_capabilities: notes.capabilities.clone(),
            host_reasons: notes.reasons.clone(),
            ..Samples::default()
        };
        let hangs = gpu.reading_since.map(|at| format!("a call into NVML hangs since {at:.1?}"));
        let driver = match gpu.header {
            Some(Ok(header)) => header,
            Some(Err(why)) => {
                samples.gpu_reason = Some(why);
                NvmlHeader::default()
            }
            None => {
                let text = format!("NVML has not answered for {:.1?}", clock.now());
                samples.gpu_reason = Some(text);
                NvmlHeader::default()
            }
        };
        if let Some(hangs) = hangs {
            samples.host_reasons.insert("gpus".to_owned(), hangs);
        }
        if gpu.dropped + host.dropped > 0 {
            let text = format!("{} readings found no room", gpu.dropped + host.dropped);
            samples.host_reasons.insert("samples".to_owned(), text);
        }
        samples.gpu_rows = gpu.rows;
        let owner = |process: &DeviceProcess| owner(process, config.server.is_some(), notes);
        samples.gpus = tracks(&driver, &gpu.readings, &owner);
        Self { clock, samples, driver }
    }

    /// The figures of a window, pure of the file format.
    pub fn figures(&self, facts: &WindowFacts) -> Figures {
        let window = |(from, to): (Instant, Instant)| Window {
            from: self.clock.since_epoch(from),
            to: self.clock.since_epoch(to),
        };
        let load = Load {
            output_tokens: facts.output_tokens,
            total_tokens: facts.total_tokens,
            idle: facts.idle.map(window),
            wall_power_w: facts.wall_power_w,
            loop_lag_ms_p99: facts.loop_lag_ms_p99,
            place: facts.place,
        };
        hardware::figures(&self.samples, window((facts.from, facts.to)), &load)
    }

    /// The figures of a window, as a results file holds them.
    pub fn hardware(&self, facts: &WindowFacts) -> record::Hardware {
        convert::hardware(&self.figures(facts))
    }

    /// The time series as CSV (RFC 4180): one row a reading, seconds since `zero`, a column for
    /// each value of each device, the host, the server and the harness; empty where not told.
    pub fn series_csv(&self, zero: Instant) -> String {
        series::csv(&self.samples, self.clock.since_epoch(zero))
    }

    /// The instant from which the samples count.
    pub fn epoch(&self) -> Instant {
        self.clock.epoch()
    }

    /// What the driver said of itself and its devices.
    pub fn driver(&self) -> &NvmlHeader {
        &self.driver
    }

    /// The samples themselves.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }
}

/// Readings of all devices at an instant → one track a device.
fn tracks(
    driver: &NvmlHeader,
    readings: &[NvmlReading],
    owner: &dyn Fn(&DeviceProcess) -> Owner,
) -> Vec<GpuTrack> {
    let track = |(place, info): (usize, &hardware::GpuInfo)| {
        let lists = readings.iter().filter_map(|reading| reading.processes.as_ref());
        let told = lists.filter_map(|(at, lists)| Some((*at, lists.get(place)?.as_ref()?)));
        let process = |raw: &DeviceProcess| GpuProcess {
            pid: raw.pid,
            name: raw.name.clone(),
            kind: raw.kind,
            memory_bytes: raw.memory_bytes,
            owner: owner(raw),
        };
        GpuTrack {
            info: info.clone(),
            readings: readings.iter().filter_map(|r| r.devices.get(place).cloned()).collect(),
            processes: told.map(|(at, list)| (at, list.iter().map(process).collect())).collect(),
        }
    };
    driver.devices.iter().enumerate().map(track).collect()
}

/// Whose a process on a device is. A server that we did not start may be any of them, and an id
/// that cannot be seen here is of another PID namespace.
fn owner(process: &DeviceProcess, server_known: bool, notes: &NotesInner) -> Owner {
    if notes.server_pids.contains(&process.pid) {
        Owner::Server
    } else if process.pid == std::process::id() {
        Owner::Harness
    } else if server_known && process.name.is_some() {
        Owner::Other
    } else {
        Owner::Unknown
    }
}
