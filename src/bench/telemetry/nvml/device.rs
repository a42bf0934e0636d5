//! One device: what it is, what it can tell, and a reading of it.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock as ClockDomain, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};

use crate::measure::hardware::{Capability, GpuInfo, GpuMetric, GpuReading, Throttle};

use super::super::clock::Clock;
use super::{DeviceProcess, capability, visible};

/// `NVML_FI_DEV_POWER_INSTANT` of nvml.h: milliwatts at this instant, not averaged over a second.
const POWER_INSTANT: FieldId = FieldId(186);

/// What a device answered when it was asked for everything once.
pub(super) struct Probed {
    index: u32,
    /// Metrics that are worth asking for again.
    metrics: Vec<GpuMetric>,
    throttle: bool,
    processes: bool,
}

/// Asks a device for everything once.
pub(super) fn probe(nvml: &Nvml, index: u32) -> (GpuInfo, Probed) {
    let mut info = GpuInfo { index, ..GpuInfo::default() };
    let mut probed = Probed { index, metrics: Vec::new(), throttle: false, processes: false };
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => {
            let failed = Capability::Error(error.to_string());
            let all = GpuMetric::ALL.map(GpuMetric::key);
            let all = all.into_iter().chain(["throttle", "processes"]);
            info.capabilities = all.map(|key| (key, failed.clone())).collect();
            return (info, probed);
        }
    };
    identify(&device, &mut info);
    for metric in GpuMetric::ALL {
        let found = capability(&read(&device, metric));
        if found != Capability::NotSupported {
            probed.metrics.push(metric);
        }
        info.capabilities.insert(metric.key(), found);
    }
    // The counter is read first, and its instant is the reading's.
    probed.metrics.sort_by_key(|metric| *metric != GpuMetric::Energy);
    let throttle = capability(&throttle(&device));
    probed.throttle = throttle != Capability::NotSupported;
    info.capabilities.insert("throttle", throttle);
    let processes = capability(&device.running_compute_processes());
    probed.processes = processes != Capability::NotSupported;
    info.capabilities.insert("processes", processes);
    (info, probed)
}

fn identify(device: &Device<'_>, info: &mut GpuInfo) {
    info.name = device.name().ok();
    info.uuid = device.uuid().ok();
    info.vbios = device.vbios_version().ok();
    info.power_limit_w = device.enforced_power_limit().ok().map(milli);
    info.sm_clock_limit_mhz = device.max_clock_info(ClockDomain::SM).ok().map(f64::from);
    info.memory_total_bytes = device.memory_info().ok().map(|memory| memory.total);
    info.compute_capability = device
        .cuda_compute_capability()
        .ok()
        .map(|version| format!("{}.{}", version.major, version.minor));
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
        for metric in &self.metrics {
            let value = keep(read(&device, *metric), &mut reading.error);
            reading.set(*metric, value);
            if *metric == GpuMetric::Energy {
                reading.at = clock.now();
            }
        }
        if self.throttle {
            reading.throttle = keep(throttle(&device), &mut reading.error);
        }
        reading
    }

    /// The processes on the device; `None` where it does not tell.
    pub(super) fn processes(&self, nvml: &Nvml) -> Option<Vec<DeviceProcess>> {
        if !self.processes {
            return None;
        }
        let list = nvml.device_by_index(self.index).ok()?.running_compute_processes().ok()?;
        let process = |process: ProcessInfo| DeviceProcess {
            pid: process.pid,
            memory_bytes: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
            visible: visible(process.pid),
        };
        Some(list.into_iter().map(process).collect())
    }
}

/// The value; the first error is kept.
fn keep<T>(outcome: Result<T, NvmlError>, first: &mut Option<String>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            first.get_or_insert_with(|| error.to_string());
            None
        }
    }
}

fn milli(value: u32) -> f64 {
    f64::from(value) / 1e3
}

fn read(device: &Device<'_>, metric: GpuMetric) -> Result<f64, NvmlError> {
    Ok(match metric {
        GpuMetric::Util => f64::from(device.utilization_rates()?.gpu),
        GpuMetric::MemoryUtil => f64::from(device.utilization_rates()?.memory),
        GpuMetric::MemoryUsed => device.memory_info()?.used as f64,
        GpuMetric::SmClock => f64::from(device.clock_info(ClockDomain::SM)?),
        GpuMetric::MemoryClock => f64::from(device.clock_info(ClockDomain::Memory)?),
        GpuMetric::Power => milli(device.power_usage()?),
        GpuMetric::PowerInstant => instant_power(device)?,
        GpuMetric::Energy => device.total_energy_consumption()? as f64 / 1e3,
        GpuMetric::Temperature => f64::from(device.temperature(TemperatureSensor::Gpu)?),
    })
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
