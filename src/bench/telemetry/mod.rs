//! What the machine does while a level runs: a sampler on OS threads of its own.
//!
//! ```text
//! Sampler::start(config)  →  threads "sampler-gpu" and "sampler-host", a reading each period
//!        … at least 2 s without load, the level, its end …
//! sampler.stop()          →  Recording
//! recording.hardware(&facts)  →  results::record::Hardware, over the steady window
//! recording.series_csv(zero)  →  the time series for --save-series
//! ```
//!
//! For the flags of a level, `recording.figures(&facts)` has `gpu_facts()` and `measures_power()`;
//! [`memory_in_use`] before a server's start and ten seconds after its stop tells what it kept
//! ([`crate::measure::hardware::not_released`]); [`host_facts()`] is `meta.host`.
//!
//! Nothing of it runs on the runtime's threads, and a call into a driver that hangs stalls one
//! sampler thread and nothing else: the host goes on being sampled, and [`Sampler::stop`] waits for
//! a hung call no longer than [`STOP_DEADLINE`].
//! What a device cannot tell is missing with its reason, never 0. The figures themselves are
//! [`crate::measure::hardware`]'s, which knows no clock.

mod clock;
mod convert;
mod host_facts;
mod memory;
pub mod nvml;
mod recording;
mod series;
mod source;
pub mod system;

use std::time::{Duration, Instant};

pub use convert::hardware as hardware_record;
pub use host_facts::{gpu_facts, host_facts};
pub use memory::{MemoryInUse, memory_available, memory_in_use};
pub use nvml::NvmlLibrary;
pub use recording::{Recording, WindowFacts};
pub use system::{ServerProcesses, SystemPaths, energy_counter, host_capabilities};

use clock::Clock;
use nvml::{NvmlReading, NvmlSource};
use source::SourceThread;
use system::{Notes, SystemSource};

use crate::measure::hardware::HostReading;

/// How often everything is read, where nothing else is asked for.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(100);

/// How long [`Sampler::stop`] waits for a source's last reading: a reading takes milliseconds, and
/// a driver that takes longer than this is not coming back soon.
pub const STOP_DEADLINE: Duration = Duration::from_millis(1500);

/// What is sampled, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Time between readings.
    pub period: Duration,
    /// The server's processes, where we started it; without them no figure is the server's own and
    /// no process on a device can be called foreign.
    pub server: Option<ServerProcesses>,
    /// Where the GPU's counters come from.
    pub nvml: NvmlLibrary,
    /// Where the kernel's files are.
    pub paths: SystemPaths,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self {
            period: DEFAULT_PERIOD,
            server: None,
            nvml: NvmlLibrary::from_environment(),
            paths: SystemPaths::default(),
        }
    }
}

/// A running sampler. Dropped without [`Sampler::stop`] it ends by itself.
pub struct Sampler {
    clock: Clock,
    config: SamplerConfig,
    gpu: SourceThread<NvmlSource>,
    host: SourceThread<SystemSource>,
    notes: Notes,
}

/// The newest reading of each source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latest {
    /// The devices; `None` where there is none or none has answered yet.
    pub gpu: Option<NvmlReading>,
    /// The host.
    pub host: Option<HostReading>,
}

impl Sampler {
    /// Starts to sample; returns at once, since drivers may take seconds to load.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(config: SamplerConfig) -> std::io::Result<Self> {
        let clock = Clock::new();
        let library = config.nvml.clone();
        let open_gpu = move || NvmlSource::open(&library);
        let gpu = SourceThread::spawn("sampler-gpu", clock, config.period, open_gpu)?;
        let notes = Notes::default();
        let (paths, server, theirs) = (config.paths.clone(), config.server, notes.clone());
        let open_host = move || Ok(SystemSource::open(&paths, server, theirs));
        let host = SourceThread::spawn("sampler-host", clock, config.period, open_host)?;
        Ok(Self { clock, config, gpu, host, notes })
    }

    /// The instant from which the recording counts.
    pub fn epoch(&self) -> Instant {
        self.clock.epoch()
    }

    /// The newest readings, for a display.
    pub fn latest(&self) -> Latest {
        Latest { gpu: self.gpu.latest(), host: self.host.latest() }
    }

    /// What the driver says of itself and its devices; waits for it until the deadline.
    ///
    /// # Errors
    /// In words, where there is no library, driver or device, or it does not answer in time.
    pub fn devices(&self, deadline: Duration) -> Result<nvml::NvmlHeader, String> {
        let answer = self.gpu.header(deadline);
        answer.unwrap_or_else(|| Err(format!("NVML has not answered in {deadline:?}")))
    }

    /// Waits for the reading of the host that comes next, or until the deadline; false then.
    pub fn wait_for_next_host_reading(&self, deadline: Duration) -> bool {
        let now = self.host.count();
        self.host.wait_for(deadline, |log| log.readings.len() > now)
    }

    /// Waits until the devices have been read so often, or the deadline has passed; false then, and
    /// where there is no device. Blocks.
    pub fn wait_for_gpu(&self, readings: usize, deadline: Duration) -> bool {
        self.gpu.wait_for(deadline, |log| log.readings.len() >= readings)
    }

    /// Waits until the host has been read so often, or the deadline has passed; false then. Blocks.
    pub fn wait_for_host(&self, readings: usize, deadline: Duration) -> bool {
        self.host.wait_for(deadline, |log| log.readings.len() >= readings)
    }

    /// Waits until a reading of the devices is under way, or the deadline has passed; false then.
    pub fn wait_until_gpu_is_being_read(&self, deadline: Duration) -> bool {
        self.gpu.wait_for(deadline, |log| log.reading_since.is_some())
    }

    /// What has been recorded so far; the sampler goes on.
    pub fn snapshot(&self) -> Recording {
        let (gpu, host) = (self.gpu.snapshot(), self.host.snapshot());
        Recording::new(self.clock, &self.config, gpu, host, &self.notes.get())
    }

    /// Takes one last reading of each source, so that the recording reaches beyond the level, and
    /// ends. Blocks for milliseconds as a rule, and at most twice [`STOP_DEADLINE`] where a driver
    /// hangs: call it where blocking is allowed.
    pub fn stop(self) -> Recording {
        let host = self.host.stop(STOP_DEADLINE);
        let gpu = self.gpu.stop(STOP_DEADLINE);
        Recording::new(self.clock, &self.config, gpu, host, &self.notes.get())
    }
}
