//! Figures → what stands in a results file.

use crate::measure::hardware::{Figures, GpuFigures, Owner};
use crate::results::record::{
    Gpu, GpuProcess, Hardware, HarnessUsage, HostUsage, ServerUsage, SourceUsage,
};

/// A level's figures, as a results file holds them.
pub fn hardware(figures: &Figures) -> Hardware {
    let worst = figures.worst_source();
    let capability = |(path, capability): (&String, &_)| (path.clone(), format!("{capability}"));
    Hardware {
        gpus: figures.gpus.iter().map(gpu).collect(),
        gpu_reason: figures.gpu_reason.clone(),
        capabilities: figures.capabilities.iter().map(capability).collect(),
        samples: worst.map_or(0, |source| source.samples),
        period_ms_p50: worst.and_then(|source| source.period_ms_p50),
        period_ms_max: worst.and_then(|source| source.period_ms_max),
        coverage: worst.map(|source| source.coverage),
        sources: figures
            .sources
            .iter()
            .map(|(name, source)| {
                let usage = SourceUsage {
                    samples: source.samples,
                    period_ms_p50: source.period_ms_p50,
                    period_ms_max: source.period_ms_max,
                    coverage: Some(source.coverage),
                    read_ms_max: source.read_ms_max,
                    cpu_share: source.cpu_share,
                };
                ((*name).to_owned(), usage)
            })
            .collect(),
        memory_source: figures.memory_source.map(str::to_owned),
        server: figures.server.map(|server| ServerUsage {
            cpu_s: server.cpu_s,
            cpu_s_per_output_token: server.cpu_s_per_output_token,
            rss_bytes_max: server.rss_bytes_max,
            pss_bytes_max: server.pss_bytes_max,
            major_faults: server.major_faults,
        }),
        harness: figures.harness.map(|harness| HarnessUsage {
            cpu_s: harness.cpu_s,
            rss_bytes_max: harness.rss_bytes_max,
            loop_lag_ms_p99: harness.loop_lag_ms_p99,
        }),
        host: figures.host.map(|host| HostUsage {
            cpu_pct_mean: host.cpu_pct_mean,
            load_1m: host.load_1m,
            mem_available_bytes_min: host.mem_available_bytes_min,
            mem_used_bytes_max: host.mem_used_bytes_max,
            swap_used_bytes_max: host.swap_used_bytes_max,
            cpu_energy_j: host.cpu_energy_j,
            hwmon_energy_j: host.hwmon_energy_j,
        }),
        joules_per_output_token: figures.joules_per_output_token,
        joules_per_total_token: figures.joules_per_total_token,
        joules_per_output_token_above_idle: figures.joules_per_output_token_above_idle,
        energy_j: figures.energy_j,
        energy_source: figures.energy_source.map(|source| source.name().to_owned()),
        reasons: figures.reasons.clone(),
    }
}

fn gpu(figures: &GpuFigures) -> Gpu {
    Gpu {
        index: figures.index,
        uuid: figures.uuid.clone(),
        name: figures.name.clone(),
        util_pct_mean: figures.util_pct_mean,
        util_pct_max: figures.util_pct_max,
        memory_util_pct_mean: figures.memory_util_pct_mean,
        power_w_mean: figures.power_w_mean,
        power_w_max: figures.power_w_max,
        sm_clock_mhz_mean: figures.sm_clock_mhz_mean,
        sm_clock_mhz_min: figures.sm_clock_mhz_min,
        sm_clock_mhz_limit: figures.sm_clock_mhz_limit,
        memory_clock_mhz_mean: figures.memory_clock_mhz_mean,
        temp_c_max: figures.temp_c_max,
        memory_used_bytes_max: figures.memory_used_bytes_max,
        memory_total_bytes: figures.memory_total_bytes,
        energy_j: figures.energy_j,
        throttle_share: figures.throttle_share.clone(),
        used_by_server: figures.used_by_server,
        processes: figures
            .processes
            .iter()
            .map(|process| GpuProcess {
                pid: process.pid,
                name: process.name.clone(),
                kind: Some(process.kind.name().to_owned()),
                memory_bytes: process.memory_bytes,
                ours: matches!(process.owner, Owner::Server | Owner::Harness),
            })
            .collect(),
    }
}
