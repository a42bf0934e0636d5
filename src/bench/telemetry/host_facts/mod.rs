//! What the machine is: asked once for each run, without measuring anything.

mod cgroup;
mod power;
mod reasons;
mod virtual_machine;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::measure::hardware::GpuInfo;
use crate::results::record::{Host, HostGpu};

use super::SystemPaths;
use super::clock::Clock;
use super::nvml::{NvmlHeader, NvmlLibrary, NvmlSource};
use super::source::SourceThread;

/// How long the driver may take to say what there is: loading it with several devices at rest takes
/// seconds.
const NVML_DEADLINE: Duration = Duration::from_secs(15);

/// The facts of this machine. Blocks for as long as the GPU driver takes to load, at most
/// fifteen seconds.
pub fn host_facts() -> Host {
    let driver = gpu_facts(&NvmlLibrary::from_environment());
    host_facts_with(&SystemPaths::default(), driver.as_ref())
}

/// What the GPU driver says of itself and its devices.
///
/// # Errors
/// In words, where there is no library, driver or device, or it does not answer in time.
pub fn gpu_facts(library: &NvmlLibrary) -> Result<NvmlHeader, String> {
    let library = library.clone();
    let open = move || NvmlSource::open(&library);
    // The period does not matter: the thread is asked to end as soon as it has said what there is.
    let thread = SourceThread::spawn("gpu-facts", Clock::new(), NVML_DEADLINE, open)
        .map_err(|error| error.to_string())?;
    thread
        .header(NVML_DEADLINE)
        .unwrap_or_else(|| Err(format!("NVML has not answered in {NVML_DEADLINE:?}")))
}

/// The facts of a machine whose kernel's files are at `paths`.
pub(super) fn host_facts_with(paths: &SystemPaths, answer: Result<&NvmlHeader, &String>) -> Host {
    let driver = answer.ok();
    let cpu_only = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(cpu_only).ok();
    let cpu = system.as_ref().and_then(|system| system.cpus().first());
    let cpu_name = cpu.map(|cpu| cpu.brand().trim().to_owned()).filter(|name| !name.is_empty());
    let count = |n: usize| u32::try_from(n).ok();
    let text = |path: std::path::PathBuf| fs::read_to_string(path).ok();
    let host = Host {
        hostname_hash: System::host_name().ok().map(|name| short_hash(&name)),
        os: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpu: cpu_name,
        cores_physical: System::physical_core_count().ok().and_then(count),
        cores_logical: std::thread::available_parallelism().ok().and_then(|n| count(n.get())),
        memory_total_bytes: memory_total(),
        gpus: driver.iter().flat_map(|driver| &driver.devices).map(host_gpu).collect(),
        driver: driver.and_then(|driver| driver.driver.clone()),
        cuda: driver.and_then(|driver| driver.cuda.clone()),
        governor: text(paths.sys.join("devices/system/cpu/cpu0/cpufreq/scaling_governor"))
            .map(|governor| governor.trim().to_owned()),
        turbo: power::turbo(&paths.sys),
        power_supply: power::supply(&paths.sys).map(str::to_owned),
        cgroup_cpu_quota: cgroup::cpu_quota(paths),
        virtual_machine: virtual_machine::kind(paths),
        reasons: BTreeMap::new(),
    };
    Host { reasons: reasons::of(&host, answer), ..host }
}

fn memory_total() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory();
    Some(system.total_memory()).filter(|bytes| *bytes > 0)
}

fn host_gpu(info: &GpuInfo) -> HostGpu {
    HostGpu {
        index: info.index,
        name: info.name.clone(),
        uuid: info.uuid.clone(),
        vbios: info.vbios.clone(),
        power_limit_w: info.power_limit_w,
        compute_capability: info.compute_capability.clone(),
        memory_total_bytes: info.memory_total_bytes,
    }
}

/// The first 12 hex digits of the SHA-256: tells machines apart and names none.
fn short_hash(name: &str) -> String {
    Sha256::digest(name.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_cpu_memory_and_a_name_that_is_not_told() {
        let host = host_facts_with(&SystemPaths::default(), Err(&String::new()));
        assert!(host.cores_logical.unwrap() >= 1);
        assert!(host.memory_total_bytes.unwrap() > 1 << 20);
        assert_eq!(host.hostname_hash.as_ref().map(String::len), Some(12));
        assert!(host.os.is_some() && host.kernel.is_some());
        let name = System::host_name().unwrap();
        assert_ne!(host.hostname_hash, Some(name));
    }

    #[test]
    fn a_machine_without_a_driver_says_why_it_has_no_gpu() {
        let absent = NvmlLibrary::File("/nonexistent/libnvidia-ml.so".into());
        let error = gpu_facts(&absent).unwrap_err();
        assert!(error.contains("/nonexistent/libnvidia-ml.so"), "{error}");
    }

    #[test]
    fn a_name_is_hashed_to_twelve_digits() {
        assert_eq!(short_hash("abc"), "ba7816bf8f01");
    }
}
