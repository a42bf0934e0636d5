//! NVIDIA's counters, by a library that is loaded at run time.
//!
//! That it loads proves nothing: some devices initialise and then support nothing. So each metric
//! is probed once for each device; what says "not supported" is not asked again, what fails
//! otherwise is.

mod device;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use crate::measure::hardware::{Capability, GpuInfo, GpuReading, Use};

use super::clock::Clock;
use super::source::Source;
use device::Probed;

/// Names another library file than the driver's, for tests and unusual places.
pub const LIBRARY_VARIABLE: &str = "SPARK_NVML_LIB";

/// The driver's library: the first name is what every driver installs, the second what developers
/// have too.
const LIBRARY_NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// How often the processes on a device are listed.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);

/// Which library is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NvmlLibrary {
    /// The driver's own.
    #[default]
    System,
    /// This file.
    File(PathBuf),
    /// None: the devices are left alone.
    None,
}

impl NvmlLibrary {
    /// What [`LIBRARY_VARIABLE`] names, else the driver's own.
    pub fn from_environment() -> Self {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
        named.map_or(Self::System, |path| Self::File(PathBuf::from(path)))
    }
}

/// What the driver says of itself and its devices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvmlHeader {
    /// Driver version.
    pub driver: Option<String>,
    /// The newest CUDA version that the driver can run.
    pub cuda: Option<String>,
    /// One entry a device.
    pub devices: Vec<GpuInfo>,
}

/// A process on a device, as the driver tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProcess {
    /// Its id.
    pub pid: u32,
    /// Its program's name; `None` where no process of this id can be seen, as in a container.
    pub name: Option<String>,
    /// For what it uses the device.
    pub kind: Use,
    /// Bytes, where the driver says.
    pub memory_bytes: Option<u64>,
}

/// One reading of all devices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NvmlReading {
    /// One entry a device, in the header's order.
    pub devices: Vec<GpuReading>,
    /// When the processes were listed, and those of each device; `None` for a device that did not
    /// tell, or where they were not listed this time.
    pub processes: Option<(Duration, Vec<Option<Vec<DeviceProcess>>>)>,
}

/// The library with its devices.
pub struct NvmlSource {
    nvml: Nvml,
    header: NvmlHeader,
    probed: Vec<Probed>,
    processes_at: Duration,
}

impl NvmlSource {
    /// Loads the library, and probes each device.
    ///
    /// # Errors
    /// In words for people, where there is no library, no driver or no device.
    pub fn open(library: &NvmlLibrary) -> Result<Self, String> {
        let nvml = load(library)?;
        let count = nvml.device_count().map_err(|error| format!("NVML: {error}"))?;
        if count == 0 {
            return Err("NVML finds no GPU".to_owned());
        }
        let mut header = NvmlHeader {
            driver: nvml.sys_driver_version().ok(),
            cuda: nvml.sys_cuda_driver_version().ok().map(|version| {
                let major = cuda_driver_version_major(version);
                format!("{major}.{}", cuda_driver_version_minor(version))
            }),
            devices: Vec::new(),
        };
        let mut probed = Vec::new();
        for index in 0..count {
            let (info, device) = device::probe(&nvml, index);
            header.devices.push(info);
            probed.push(device);
        }
        Ok(Self { nvml, header, probed, processes_at: Duration::ZERO })
    }
}

impl Source for NvmlSource {
    type Header = NvmlHeader;
    type Reading = NvmlReading;

    fn header(&self) -> NvmlHeader {
        self.header.clone()
    }

    fn read(&mut self, clock: &Clock) -> NvmlReading {
        let now = clock.now();
        let devices = self.probed.iter().map(|device| device.read(&self.nvml, clock)).collect();
        let mut processes = None;
        if now >= self.processes_at {
            self.processes_at = now + PROCESSES_EVERY;
            let lists = self.probed.iter().map(|device| device.processes(&self.nvml)).collect();
            processes = Some((now, lists));
        }
        NvmlReading { devices, processes }
    }
}

fn load(library: &NvmlLibrary) -> Result<Nvml, String> {
    let from = |name: &OsStr| Nvml::builder().lib_path(name).init();
    match library {
        NvmlLibrary::None => Err("not asked for".to_owned()),
        NvmlLibrary::File(path) => from(path.as_os_str())
            .map_err(|error| format!("{}: {}", path.display(), in_words(&error))),
        NvmlLibrary::System => {
            let first = match from(OsStr::new(LIBRARY_NAMES[0])) {
                Err(NvmlError::LibloadingError(_)) => from(OsStr::new(LIBRARY_NAMES[1])),
                other => other,
            };
            first.map_err(|error| in_words(&error))
        }
    }
}

/// Why the library gave nothing.
fn in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            "no NVIDIA driver library (libnvidia-ml.so.1) on this machine".to_owned()
        }
        other => format!("NVML: {other}"),
    }
}

/// What a call's outcome says of the device.
fn capability<T>(outcome: &Result<T, NvmlError>) -> Capability {
    match outcome {
        Ok(_) => Capability::Ok,
        Err(
            NvmlError::NotSupported
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            // The driver has no such field at all.
            | NvmlError::InvalidArg,
        ) => Capability::NotSupported,
        Err(error) => Capability::Error(error.to_string()),
    }
}

/// The name of a process's program, where the process can be seen from here.
fn name_of(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
    name.ok().map(|name| name.trim().to_owned())
}
