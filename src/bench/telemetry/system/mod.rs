//! The host, the server's process tree and the harness itself, as one source.
//!
//! On Linux everything is read from `/proc` and `/sys`, where it is cheapest and says the most
//! (proportional set, page faults, page cache). Elsewhere `sysinfo` tells what it can.

mod capabilities;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
mod portable;
#[cfg(target_os = "linux")]
pub(super) mod proc;
mod rapl;
#[cfg(target_os = "linux")]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::measure::hardware::{Capability, HostReading};

use super::clock::Clock;
use super::source::Source;

#[cfg(target_os = "linux")]
use linux::Machine;
#[cfg(not(target_os = "linux"))]
use portable::Machine;

/// The processes of the server under test: the root with everything below it, and every member of
/// its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerProcesses {
    /// The process that was started as the server.
    pub root: u32,
    /// Its process group, where it leads one.
    pub group: Option<u32>,
}

/// Where the kernel's files are; tests name other folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPaths {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for SystemPaths {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}

/// What the source has learned beside its readings.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<NotesInner>>);

/// See [`Notes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotesInner {
    /// Every process that has belonged to the server.
    pub server_pids: BTreeSet<u32>,
    /// Why something could not be read, by the key of the figure that lacks it.
    pub reasons: BTreeMap<String, String>,
    /// What can be read, by the metric's path: known once the first reading is there.
    pub capabilities: BTreeMap<String, Capability>,
}

impl Notes {
    /// What has been noted so far.
    pub fn get(&self) -> NotesInner {
        self.lock().clone()
    }

    /// Notes why a figure is missing; the first reason stays.
    fn because(&self, key: &str, why: impl Into<String>) {
        self.lock().reasons.entry(key.to_owned()).or_insert_with(|| why.into());
    }

    /// Notes what the probe of a metric found; the first finding stays.
    fn found(&self, metric: &str, capability: Capability) {
        self.lock().capabilities.entry(metric.to_owned()).or_insert(capability);
    }

    fn lock(&self) -> MutexGuard<'_, NotesInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the CPU's energy can be read here.
///
/// # Errors
/// In words, why it cannot.
pub fn cpu_energy_counter(paths: &SystemPaths) -> Result<(), String> {
    rapl::Packages::open(&paths.sys.join(POWERCAP)).map(drop).map_err(|error| error.to_string())
}

/// What the host can tell, and of this process as it would of a server's, by the metric's path.
pub fn host_capabilities(paths: &SystemPaths) -> BTreeMap<String, Capability> {
    let notes = Notes::default();
    let this = ServerProcesses { root: std::process::id(), group: None };
    SystemSource::open(paths, Some(this), notes.clone()).read(&Clock::new());
    notes.get().capabilities
}

/// The path of the CPU packages' energy.
const CPU_ENERGY: &str = "host.cpu_energy_j";

/// Where the kernel's energy counters are, below `/sys`.
const POWERCAP: &str = "class/powercap";

/// Reads the host and the processes.
pub struct SystemSource {
    machine: Machine,
    rapl: Option<rapl::Packages>,
    /// Where the first reading notes what can be told; `None` after it.
    to_probe: Option<Notes>,
}

impl SystemSource {
    /// Opens it; what cannot be read goes into the notes and is missing from the readings.
    pub fn open(paths: &SystemPaths, server: Option<ServerProcesses>, notes: Notes) -> Self {
        let rapl = rapl::Packages::open(&paths.sys.join(POWERCAP))
            .inspect_err(|error| {
                notes.because(CPU_ENERGY, error.to_string());
                if matches!(error, rapl::RaplError::Absent) {
                    notes.found(CPU_ENERGY, Capability::NotSupported);
                }
            })
            .ok();
        let machine = Machine::open(paths, server, notes.clone());
        Self { machine, rapl, to_probe: Some(notes) }
    }
}

impl Source for SystemSource {
    type Header = ();
    type Reading = HostReading;

    fn header(&self) {}

    fn read(&mut self, clock: &Clock) -> HostReading {
        let cpu_energy_j = self.rapl.as_mut().and_then(rapl::Packages::joules);
        let reading = HostReading { cpu_energy_j, ..self.machine.read(clock) };
        if let Some(notes) = self.to_probe.take() {
            capabilities::probe(&reading, &notes);
        }
        reading
    }
}
