//! One device: what it is, what it can tell, and a reading of it.

use std::collections::BTreeMap;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock as ClockDomain, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};

use crate::measure::hardware::{Capability, GpuInfo, GpuMetric, GpuReading, Throttle, Use};

use super::super::clock::Clock;
use super::{DeviceProcess, capability, name_of};

/// `NVML_FI_DEV_POWER_INSTANT` of nvml.h: milliwatts at this instant, not averaged over a second.
const POWER_INSTANT: FieldId = FieldId(186);

/// One call into the driver; some tell two metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Energy,
    Utilization,
    Memory,
    SmClock,
    MemoryClock,
    Power,
    PowerInstant,
    Temperature,
    Throttle,
}

impl Call {
    /// In the order in which they are made: the counter first, since its instant is the reading's.
    const ALL: [Self; 9] = [
        Self::Energy,
        Self::Utilization,
        Self::Memory,
        Self::SmClock,
        Self::MemoryClock,
        Self::Power,
        Self::PowerInstant,
        Self::Temperature,
        Self::Throttle,
    ];

    /// The names of what it tells, in capability maps.
    fn keys(self) -> Vec<&'static str> {
        match self {
            Self::Energy => vec![GpuMetric::Energy.key()],
            Self::Utilization => vec![GpuMetric::Util.key(), GpuMetric::MemoryUtil.key()],
            Self::Memory => vec![GpuMetric::MemoryUsed.key()],
            Self::SmClock => vec![GpuMetric::SmClock.key()],
            Self::MemoryClock => vec![GpuMetric::MemoryClock.key()],
            Self::Power => vec![GpuMetric::Power.key()],
            Self::PowerInstant => vec![GpuMetric::PowerInstant.key()],
            Self::Temperature => vec![GpuMetric::Temperature.key()],
            Self::Throttle => vec!["throttle"],
        }
    }

    /// Makes it, and puts what it told into the reading.
    fn make(self, device: &Device<'_>, reading: &mut GpuReading) -> Result<(), NvmlError> {
        match self {
            Self::Energy => {
                let joules = device.total_energy_consumption()? as f64 / 1e3;
                reading.set(GpuMetric::Energy, Some(joules));
            }
            Self::Utilization => {
                let rates = device.utilization_rates()?;
                reading.set(GpuMetric::Util, Some(f64::from(rates.gpu)));
                reading.set(GpuMetric::MemoryUtil, Some(f64::from(rates.memory)));
            }
            Self::Memory => {
                reading.set(GpuMetric::MemoryUsed, Some(device.memory_info()?.used as f64));
            }
            Self::SmClock => {
                let mhz = f64::from(device.clock_info(ClockDomain::SM)?);
                reading.set(GpuMetric::SmClock, Some(mhz));
            }
            Self::MemoryClock => {
                let mhz = f64::from(device.clock_info(ClockDomain::Memory)?);
                reading.set(GpuMetric::MemoryClock, Some(mhz));
            }
            Self::Power => reading.set(GpuMetric::Power, Some(milli(device.power_usage()?))),
            Self::PowerInstant => {
                reading.set(GpuMetric::PowerInstant, Some(instant_power(device)?));
            }
            Self::Temperature => {
                let celsius = f64::from(device.temperature(TemperatureSensor::Gpu)?);
                reading.set(GpuMetric::Temperature, Some(celsius));
            }
            Self::Throttle => reading.throttle = Some(throttle(device)?),
        }
        Ok(())
    }
}

/// What a device answered when it was asked for everything once.
pub(super) struct Probed {
    index: u32,
    /// Calls that are worth making again.
    calls: Vec<Call>,
    /// Whether its processes are worth asking for again, and those that draw.
    processes: bool,
    graphics: bool,
}

/// Asks a device for everything once.
pub(super) fn probe(nvml: &Nvml, index: u32) -> (GpuInfo, Probed) {
    let mut info = GpuInfo { index, ..GpuInfo::default() };
    let mut probed = Probed { index, calls: Vec::new(), processes: false, graphics: false };
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => {
            let failed = Capability::Error(error.to_string());
            let keys = Call::ALL.into_iter().flat_map(Call::keys);
            let keys = keys.chain(["processes", "graphics_processes"]).chain(ONCE);
            info.capabilities = keys.map(|key| (key, failed.clone())).collect();
            return (info, probed);
        }
    };
    identify(&device, &mut info);
    let mut answer = GpuReading::default();
    for call in Call::ALL {
        let found = capability(&call.make(&device, &mut answer));
        if found != Capability::NotSupported {
            probed.calls.push(call);
        }
        info.capabilities.extend(call.keys().into_iter().map(|key| (key, found.clone())));
    }
    let processes = capability(&device.running_compute_processes());
    probed.processes = processes != Capability::NotSupported;
    info.capabilities.insert("processes", processes);
    let graphics = capability(&device.running_graphics_processes());
    probed.graphics = graphics != Capability::NotSupported;
    info.capabilities.insert("graphics_processes", graphics);
    (info, probed)
}

/// What is read once, by its name in capability maps.
const ONCE: [&str; 7] = [
    "name",
    "uuid",
    "vbios",
    "power_limit_w",
    "sm_clock_mhz_limit",
    "memory_total_bytes",
    "compute_capability",
];

fn identify(device: &Device<'_>, info: &mut GpuInfo) {
    let found = &mut info.capabilities;
    info.name = once(found, "name", device.name());
    info.uuid = once(found, "uuid", device.uuid());
    info.vbios = once(found, "vbios", device.vbios_version());
    info.power_limit_w = once(found, "power_limit_w", device.enforced_power_limit()).map(milli);
    let most = device.max_clock_info(ClockDomain::SM);
    info.sm_clock_limit_mhz = once(found, "sm_clock_mhz_limit", most).map(f64::from);
    let memory = once(found, "memory_total_bytes", device.memory_info());
    info.memory_total_bytes = memory.map(|memory| memory.total);
    let version = once(found, "compute_capability", device.cuda_compute_capability());
    info.compute_capability = version.map(|version| format!("{}.{}", version.major, version.minor));
}

/// An answer, and in the map whether there was one.
fn once<T>(
    found: &mut BTreeMap<&'static str, Capability>,
    key: &'static str,
    answer: Result<T, NvmlError>,
) -> Option<T> {
    found.insert(key, capability(&answer));
    answer.ok()
}

impl Probed {
    /// Reads the device.
    pub(super) fn read(&self, nvml: &Nvml, clock: &Clock) -> GpuReading {
        let mut reading = GpuReading { at: clock.now(), ..GpuReading::default() };
        let device = match nvml.device_by_index(self.index) {
            Ok(device) => device,
            Err(error) => {
                reading.error = Some(error.to_string());
                return reading;
            }
        };
        for call in &self.calls {
            if let Err(error) = call.make(&device, &mut reading) {
                reading.error.get_or_insert_with(|| error.to_string());
            }
            if *call == Call::Energy {
                reading.at = clock.now();
            }
        }
        reading
    }

    /// The processes on the device; `None` where it does not tell who computes.
    pub(super) fn processes(&self, nvml: &Nvml) -> Option<Vec<DeviceProcess>> {
        if !self.processes {
            return None;
        }
        let device = nvml.device_by_index(self.index).ok()?;
        let computing = device.running_compute_processes().ok()?;
        let drawing = self.graphics.then(|| device.running_graphics_processes().ok()).flatten();
        let mut found = BTreeMap::new();
        let lists = [(Use::Compute, computing), (Use::Graphics, drawing.unwrap_or_default())];
        for (kind, list) in lists {
            for raw in list {
                add(&mut found, kind, &raw);
            }
        }
        Some(found.into_values().collect())
    }
}

/// Adds a process of one list; one that is in both lists does both.
fn add(found: &mut BTreeMap<u32, DeviceProcess>, kind: Use, raw: &ProcessInfo) {
    let memory_bytes = match raw.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let process = found.entry(raw.pid).or_insert_with(|| DeviceProcess {
        pid: raw.pid,
        name: name_of(raw.pid),
        kind,
        memory_bytes,
    });
    if process.kind != kind {
        process.kind = Use::Both;
    }
    process.memory_bytes = process.memory_bytes.max(memory_bytes);
}

fn milli(value: u32) -> f64 {
    f64::from(value) / 1e3
}

fn instant_power(device: &Device<'_>) -> Result<f64, NvmlError> {
    let mut fields = device.field_values_for(&[POWER_INSTANT])?;
    let field = fields.pop().ok_or(NvmlError::NotFound)??;
    Ok(match field.value? {
        SampleValue::U32(milliwatts) => milli(milliwatts),
        SampleValue::U64(milliwatts) => milliwatts as f64 / 1e3,
        SampleValue::I64(milliwatts) => milliwatts as f64 / 1e3,
        SampleValue::F64(milliwatts) => milliwatts / 1e3,
    })
}

/// All bits, those without a name in the bindings too.
fn throttle(device: &Device<'_>) -> Result<Throttle, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(Throttle(reasons.bits())),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(Throttle(bits)),
        Err(NvmlError::IncorrectBits(Bits::U32(bits))) => Ok(Throttle(u64::from(bits))),
        Err(error) => Err(error),
    }
}

/// The bindings' bits are NVML's own, which [`Throttle`] names.
const _: () = assert!(ThrottleReasons::SW_POWER_CAP.bits() == 0x4);
