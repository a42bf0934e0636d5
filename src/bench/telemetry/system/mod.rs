//! The host, the server's process tree and the harness itself, as one source.
//!
//! On Linux everything is read from `/proc` and `/sys`, where it is cheapest and says the most
//! (proportional set, page faults, page cache). Elsewhere `sysinfo` tells what it can.

mod capabilities;
mod hwmon;
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

/// Whether the energy of the CPU, or of what another sensor covers, can be read here.
///
/// # Errors
/// In words, why it cannot.
pub fn energy_counter(paths: &SystemPaths) -> Result<(), String> {
    match rapl::Packages::open(&paths.sys.join(POWERCAP)) {
        Ok(_) => Ok(()),
        Err(error @ rapl::RaplError::Absent) => {
            let sensor = hwmon::Sensor::open(&paths.sys.join(HWMON)).map(drop);
            sensor.map_err(|other| format!("{error}; {other}"))
        }
        Err(error) => Err(error.to_string()),
    }
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

/// The path of the energy by a hardware monitor.
const HWMON_ENERGY: &str = "host.hwmon_energy_j";

/// Where the hardware monitors are, below `/sys`.
const HWMON: &str = "class/hwmon";

/// Reads the host and the processes.
pub struct SystemSource {
    machine: Machine,
    rapl: Option<rapl::Packages>,
    /// Read only where there is no RAPL: what it covers may hold the packages.
    hwmon: Option<hwmon::Sensor>,
    /// Where the first reading notes what can be told; `None` after it.
    to_probe: Option<Notes>,
}

impl SystemSource {
    /// Opens it; what cannot be read goes into the notes and is missing from the readings.
    pub fn open(paths: &SystemPaths, server: Option<ServerProcesses>, notes: Notes) -> Self {
        let rapl = rapl::Packages::open(&paths.sys.join(POWERCAP));
        let hwmon = match &rapl {
            Err(error @ rapl::RaplError::Absent) => {
                notes.because(CPU_ENERGY, error.to_string());
                notes.found(CPU_ENERGY, Capability::NotSupported);
                sensor(paths, &notes)
            }
            other => {
                let why = "the CPU packages have counters (RAPL): no sensor is read beside them";
                notes.because(HWMON_ENERGY, why);
                if let Err(error) = other {
                    notes.because(CPU_ENERGY, error.to_string());
                }
                None
            }
        };
        let machine = Machine::open(paths, server, notes.clone());
        Self { machine, rapl: rapl.ok(), hwmon, to_probe: Some(notes) }
    }
}

/// The sensor of a machine without RAPL; its name is noted, or why there is none.
fn sensor(paths: &SystemPaths, notes: &Notes) -> Option<hwmon::Sensor> {
    match hwmon::Sensor::open(&paths.sys.join(HWMON)) {
        Ok(sensor) => {
            notes.because(HWMON_ENERGY, format!("by the sensor {} alone", sensor.name()));
            Some(sensor)
        }
        Err(error) => {
            notes.because(HWMON_ENERGY, error.to_string());
            if matches!(error, hwmon::HwmonError::Absent) {
                notes.found(HWMON_ENERGY, Capability::NotSupported);
            }
            None
        }
    }
}

impl Source for SystemSource {
    type Header = ();
    type Reading = HostReading;

    fn header(&self) {}

    fn read(&mut self, clock: &Clock) -> HostReading {
        let cpu_energy_j = self.rapl.as_mut().and_then(rapl::Packages::joules);
        let hwmon_energy_j = self.hwmon.as_mut().and_then(|sensor| sensor.joules(clock.now()));
        let reading = HostReading { cpu_energy_j, hwmon_energy_j, ..self.machine.read(clock) };
        if let Some(notes) = self.to_probe.take() {
            capabilities::probe(&reading, &notes);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a machine with these files below `/sys` tells of its energy: values, capabilities,
    /// reasons; RAPL first.
    fn energy_of(files: &[(&str, &str)]) -> [(Option<f64>, String, Option<String>); 2] {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths { proc: root.path().join("proc"), sys: root.path().join("sys") };
        for (path, text) in files {
            let path = paths.sys.join("class").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let notes = Notes::default();
        let reading = SystemSource::open(&paths, None, notes.clone()).read(&Clock::new());
        let found = notes.get();
        let of = |key: &str, value| {
            (value, found.capabilities[key].to_string(), found.reasons.get(key).cloned())
        };
        let either = reading.cpu_energy_j.or(reading.hwmon_energy_j).is_some();
        assert_eq!(energy_counter(&paths).is_ok(), either);
        [of(CPU_ENERGY, reading.cpu_energy_j), of(HWMON_ENERGY, reading.hwmon_energy_j)]
    }

    #[test]
    fn a_sensor_is_read_only_where_there_is_no_rapl() {
        const SENSOR: [(&str, &str); 3] = [
            ("hwmon/hwmon0/name", "ina"),
            ("hwmon/hwmon0/power1_label", "VDD_IN"),
            ("hwmon/hwmon0/power1_input", "5000000"),
        ];
        const RAPL: [(&str, &str); 2] =
            [("powercap/intel-rapl:0/name", "package-0"), ("powercap/intel-rapl:0/energy_uj", "7")];
        let [rapl, sensor] = energy_of(&SENSOR);
        assert_eq!((rapl.0, rapl.1.as_str()), (None, "not_supported"));
        let named = Some("by the sensor ina VDD_IN alone".to_owned());
        assert_eq!(sensor, (Some(0.0), "ok".to_owned(), named));

        let [rapl, sensor] = energy_of(&[&SENSOR[..], &RAPL].concat());
        assert_eq!((rapl.0, rapl.1.as_str()), (Some(0.0), "ok"));
        assert!(sensor.0.is_none() && sensor.2.unwrap().contains("RAPL"));

        let unreadable = ("powercap/intel-rapl:0/energy_uj", "?");
        let [rapl, sensor] = energy_of(&[&SENSOR[..], &RAPL[..1], &[unreadable]].concat());
        assert_eq!((rapl.0, sensor.0), (None, None), "it would be the packages' energy again");

        let [_, sensor] = energy_of(&[]);
        assert_eq!((sensor.0, sensor.1.as_str()), (None, "not_supported"));
        assert!(sensor.2.unwrap().contains("no hardware monitor"));
    }
}
