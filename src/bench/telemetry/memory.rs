//! How much memory is in use where models live: before a server's start and after its stop.

use std::time::Duration;

use sysinfo::System;

use crate::measure::hardware::GpuMetric;

use super::clock::Clock;
use super::nvml::{NvmlLibrary, NvmlSource};
use super::source::SourceThread;

/// How long the driver may take.
const NVML_DEADLINE: Duration = Duration::from_secs(15);

/// Memory in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInUse {
    /// Bytes: of all devices, or of the machine without the page cache.
    pub bytes: u64,
    /// `nvml` or `meminfo`.
    pub source: &'static str,
}

/// Bytes that a program could still have here: of the machine, and of what its control group allows.
pub fn memory_available() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory();
    let machine = Some(system.available_memory()).filter(|bytes| *bytes > 0);
    let group = system.cgroup_limits();
    let group = group.map(|limits| limits.total_memory.saturating_sub(limits.rss));
    machine.into_iter().chain(group).min()
}

/// Device memory in use; the machine's where no device tells. `None` where neither does. Blocks for
/// as long as the GPU driver takes to load, at most fifteen seconds.
pub fn memory_in_use(library: &NvmlLibrary) -> Option<MemoryInUse> {
    on_devices(library).or_else(of_machine)
}

fn on_devices(library: &NvmlLibrary) -> Option<MemoryInUse> {
    let library = library.clone();
    let open = move || NvmlSource::open(&library);
    let thread = SourceThread::spawn("gpu-memory", Clock::new(), NVML_DEADLINE, open).ok()?;
    thread.wait_for(NVML_DEADLINE, |log| !log.readings.is_empty());
    let reading = thread.latest()?;
    let each = reading.devices.iter().map(|device| device.get(GpuMetric::MemoryUsed));
    let bytes = each.sum::<Option<f64>>()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
    Some(MemoryInUse { bytes: bytes as u64, source: "nvml" })
}

fn of_machine() -> Option<MemoryInUse> {
    let mut system = System::new().ok()?;
    system.refresh_memory();
    let bytes = system.total_memory().checked_sub(system.available_memory())?;
    (bytes > 0).then_some(MemoryInUse { bytes, source: "meminfo" })
}
