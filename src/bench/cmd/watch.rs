//! `spark-bench watch`: the sampler of the runs, live in the terminal; a line each interval.

use std::time::Duration;

use serde_json::json;

use super::{BadInput, answer};
use crate::bench::config::duration::TimeSpan;
use crate::bench::telemetry::{
    Latest, NvmlLibrary, Sampler, SamplerConfig, ServerProcesses, SystemPaths,
};
use crate::exit_codes;
use crate::measure::hardware::{GpuMetric, GpuReading, HostReading};

/// The header is repeated after so many lines.
const HEADER_EVERY: usize = 20;
/// Shortest interval: below it, percentages of CPU time are mostly rounding.
const SHORTEST: Duration = Duration::from_millis(50);
/// How long the GPU driver may take to say what there is.
const DRIVER_DEADLINE: Duration = Duration::from_secs(15);

/// Flags of `spark-bench watch`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between lines.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: TimeSpan,
    /// End after so many lines (default: when interrupted).
    #[arg(long, value_name = "N", value_parser = super::whole_number::<usize>)]
    lines: Option<usize>,
    /// Watch this process and everything below it as the server.
    #[arg(long, value_name = "PID", value_parser = super::whole_number::<u32>)]
    pid: Option<u32>,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Watches until the lines are printed or the process has ended; an interrupt ends it as it ends
/// any program.
///
/// # Errors
/// If there is no such process, the sampler cannot be started or the answer cannot be written.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let interval = args.interval.0;
    if interval < SHORTEST {
        return Err(BadInput(format!("--interval: {interval:?} is under {SHORTEST:?}")).into());
    }
    let sampler = Sampler::start(SamplerConfig {
        period: interval,
        server: args.pid.map(|root| ServerProcesses { root, group: None }),
        nvml: NvmlLibrary::from_environment(),
        paths: SystemPaths::default(),
    })?;
    if let Some(pid) = args.pid {
        sampler.wait_for_host(1, interval + DRIVER_DEADLINE);
        if sampler.latest().host.is_some_and(|host| has_ended(&host)) {
            return Err(BadInput(format!("--pid {pid}: no such process is running")).into());
        }
    }
    match sampler.devices(DRIVER_DEADLINE) {
        Ok(_) => drop(sampler.wait_for_gpu(1, DRIVER_DEADLINE)),
        Err(why) => eprintln!("no GPU to watch: {why}"),
    }
    let mut before: Option<HostReading> = None;
    let mut lines = 0;
    while args.lines.is_none_or(|most| lines < most) {
        let latest = sampler.latest();
        let Some(now) =
            latest.host.clone().filter(|now| Some(now.at) != before.as_ref().map(|b| b.at))
        else {
            sampler.wait_for_next_host_reading(interval * 10);
            continue;
        };
        if has_ended(&now) {
            let pid = args.pid.unwrap_or_default();
            eprintln!("process {pid} has ended, and everything below it");
            break;
        }
        if let Some(before) = &before {
            answer(&line(args, &latest, before, &now, lines)?)?;
            lines += 1;
        }
        before = Some(now);
    }
    Ok(exit_codes::OK)
}

/// Whether nothing lives any more of what is watched.
fn has_ended(now: &HostReading) -> bool {
    now.server.is_some_and(|server| server.processes == 0)
}

fn line(
    args: &Args,
    latest: &Latest,
    before: &HostReading,
    now: &HostReading,
    lines: usize,
) -> serde_json::Result<String> {
    let devices = latest.gpu.as_ref().map(|gpu| gpu.devices.as_slice()).unwrap_or_default();
    if args.json {
        return Ok(as_json(devices, before, now)?.to_string() + "\n");
    }
    let header =
        lines.is_multiple_of(HEADER_EVERY).then(|| header(devices.len(), args.pid.is_some()));
    Ok(header.unwrap_or_default() + &as_text(devices, before, now) + "\n")
}

fn header(devices: usize, server: bool) -> String {
    let mut out = "    t_s  cpu_%  mem_avail_GB".to_owned();
    if server {
        out.push_str("  server_cpu_%  server_rss_GB");
    }
    for index in 0..devices {
        out.push_str(&format!("  gpu{index}: util_%  power_W  sm_MHz  temp_C  mem_GB"));
    }
    out + "\n"
}

fn as_text(devices: &[GpuReading], before: &HostReading, now: &HostReading) -> String {
    let gb = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e9);
    let mut out = format!(
        "{:>7.1}  {}  {}",
        now.at.as_secs_f64(),
        number(cpu_pct(before, now), 5, 1),
        number(gb(now.mem_available_bytes), 12, 2)
    );
    if let Some(server) = &now.server {
        let cpu = number(server_cpu_pct(before, now), 12, 1);
        out.push_str(&format!("  {cpu}  {}", number(gb(server.rss_bytes), 13, 2)));
    }
    for device in devices {
        let get = |metric| device.get(metric);
        out.push_str(&format!(
            "  {}  {}  {}  {}  {}",
            number(get(GpuMetric::Util), 12, 0),
            number(get(GpuMetric::Power), 7, 1),
            number(get(GpuMetric::SmClock), 6, 0),
            number(get(GpuMetric::Temperature), 6, 0),
            number(get(GpuMetric::MemoryUsed).map(|bytes| bytes / 1e9), 6, 2)
        ));
    }
    out
}

/// A number, or a dash where there is none.
fn number(value: Option<f64>, width: usize, digits: usize) -> String {
    value.map_or_else(|| format!("{:>width$}", "-"), |v| format!("{v:>width$.digits$}"))
}

/// Percent of all CPUs between two readings.
fn cpu_pct(before: &HostReading, now: &HostReading) -> Option<f64> {
    let busy = now.cpu_busy_s? - before.cpu_busy_s?;
    let total = now.cpu_total_s? - before.cpu_total_s?;
    (total > 0.0).then(|| 100.0 * busy / total)
}

/// Percent of one CPU that the server used between two readings.
fn server_cpu_pct(before: &HostReading, now: &HostReading) -> Option<f64> {
    let used = now.server?.cpu_s? - before.server?.cpu_s?;
    let passed = now.at.checked_sub(before.at)?.as_secs_f64();
    (passed > 0.0).then(|| 100.0 * used / passed)
}

fn as_json(
    devices: &[GpuReading],
    before: &HostReading,
    now: &HostReading,
) -> serde_json::Result<serde_json::Value> {
    let device = |device: &GpuReading| {
        let values =
            GpuMetric::ALL.map(|metric| (metric.key().to_owned(), json!(device.get(metric))));
        let mut values: serde_json::Map<_, _> = values.into_iter().collect();
        let names = device.throttle.map(|throttle| throttle.names().collect::<Vec<_>>());
        values.insert("throttle".to_owned(), json!(names));
        values.insert("error".to_owned(), json!(device.error));
        serde_json::Value::Object(values)
    };
    Ok(json!({
        "t_s": now.at.as_secs_f64(),
        "cpu_pct": cpu_pct(before, now),
        "load_1m": now.load_1m,
        "mem_available_bytes": now.mem_available_bytes,
        "swap_used_bytes": now.swap_used_bytes,
        "cpu_energy_j": now.cpu_energy_j,
        "server": now.server.map(|server| json!({
            "cpu_pct": server_cpu_pct(before, now),
            "rss_bytes": server.rss_bytes,
            "pss_bytes": server.pss_bytes,
            "major_faults": server.major_faults,
            "processes": server.processes,
        })),
        "gpus": devices.iter().map(device).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::hardware::TreeReading;

    fn reading(s: u64, busy: f64, server_cpu: f64) -> HostReading {
        HostReading {
            at: Duration::from_secs(s),
            cpu_busy_s: Some(busy),
            cpu_total_s: Some(s as f64 * 4.0),
            mem_available_bytes: Some(17_000_000_000),
            server: Some(TreeReading {
                cpu_s: Some(server_cpu),
                processes: 1,
                ..TreeReading::default()
            }),
            ..HostReading::default()
        }
    }

    #[test]
    fn percentages_are_of_the_interval_and_what_is_not_told_is_a_dash() {
        let (before, now) = (reading(1, 1.0, 3.0), reading(3, 5.0, 6.0));
        let mut gpu = GpuReading::default();
        gpu.set(GpuMetric::Power, Some(41.54));
        let text = as_text(&[gpu.clone()], &before, &now);
        let cells: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(cells, ["3.0", "50.0", "17.00", "150.0", "-", "-", "41.5", "-", "-", "-"]);
        let names = header(1, true).split_whitespace().count();
        assert_eq!(names, cells.len() + 1, "gpu0: is a word of its own");
        let json = as_json(&[gpu], &before, &now).unwrap();
        assert_eq!(json["gpus"][0]["power_w"], 41.54);
        assert_eq!(json["gpus"][0]["util_pct"], serde_json::Value::Null);
        assert_eq!(json["server"]["cpu_pct"], 150.0);
    }
}
