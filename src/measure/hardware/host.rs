//! The host's readings → its figures, the server's and the harness's.

use std::collections::BTreeMap;

use super::energy::{counter_delta, energy_delta};
use super::reading::{HostReading, TreeReading};
use super::series::{Point, Window, whole};
use super::{Figures, Load};

/// The server's process tree over a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerFigures {
    /// CPU seconds.
    pub cpu_s: Option<f64>,
    /// CPU seconds per output token delivered.
    pub cpu_s_per_output_token: Option<f64>,
    /// Bytes.
    pub rss_bytes_max: Option<u64>,
    /// Bytes.
    pub pss_bytes_max: Option<u64>,
    /// Page faults that read from a disk.
    pub major_faults: Option<u64>,
}

/// The harness over a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HarnessFigures {
    /// CPU seconds.
    pub cpu_s: Option<f64>,
    /// Bytes.
    pub rss_bytes_max: Option<u64>,
    /// Milliseconds.
    pub loop_lag_ms_p99: Option<f64>,
}

/// The machine over a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostFigures {
    /// Percent of all CPUs.
    pub cpu_pct_mean: Option<f64>,
    /// At the window's end.
    pub load_1m: Option<f64>,
    /// Bytes.
    pub mem_available_bytes_min: Option<u64>,
    /// Bytes: all − available, so without the page cache.
    pub mem_used_bytes_max: Option<u64>,
    /// Bytes.
    pub swap_used_bytes_max: Option<u64>,
    /// Joules of the CPU packages.
    pub cpu_energy_j: Option<f64>,
    /// Joules of what one hardware monitor covers.
    pub hwmon_energy_j: Option<f64>,
}

/// One value of the host over time.
pub(super) fn points(
    readings: &[HostReading],
    value: impl Fn(&HostReading) -> Option<f64>,
) -> Vec<Point> {
    let told = readings.iter().filter_map(|row| value(row).map(|value| (row.at, value)));
    told.map(|(at, value)| Point { at, value }).collect()
}

/// Fills in `server`, `harness` and `host`.
pub(super) fn reduce(
    readings: &[HostReading],
    window: Window,
    load: &Load,
    out: &mut Figures,
    reasons: &mut BTreeMap<String, String>,
) {
    let inside: Vec<&HostReading> = readings.iter().filter(|r| window.holds(r.at)).collect();
    let hwmon = points(readings, |row| row.hwmon_energy_j);
    let hwmon_energy = energy_delta(&hwmon, window);
    if let Some(error) = hwmon_energy.err().filter(|_| !hwmon.is_empty()) {
        // Its name, which stood there, belongs to a figure.
        reasons.insert("host.hwmon_energy_j".to_owned(), error.to_string());
    }
    let mut because = |key: &str, why: String| {
        reasons.entry(key.to_owned()).or_insert(why);
    };
    let grown = |value: &dyn Fn(&HostReading) -> Option<f64>| {
        counter_delta(&points(readings, value), window)
    };
    let busy = grown(&|row| row.cpu_busy_s);
    let total = grown(&|row| row.cpu_total_s);
    let cpu_pct = busy.and_then(|busy| total.map(|total| 100.0 * busy / total));
    match &cpu_pct {
        Ok(pct) if pct.is_finite() => {}
        Ok(_) => because("host.cpu_pct_mean", "no CPU time passed in the window".to_owned()),
        Err(error) => because("host.cpu_pct_mean", error.to_string()),
    }
    let cpu_energy = energy_delta(&points(readings, |row| row.cpu_energy_j), window);
    if let Err(error) = &cpu_energy {
        because("host.cpu_energy_j", error.to_string());
    }
    let host = HostFigures {
        cpu_pct_mean: cpu_pct.ok().filter(|pct| pct.is_finite()),
        load_1m: inside.last().and_then(|row| row.load_1m),
        mem_available_bytes_min: inside.iter().filter_map(|row| row.mem_available_bytes).min(),
        mem_used_bytes_max: inside.iter().filter_map(|row| used(row)).max(),
        swap_used_bytes_max: inside.iter().filter_map(|row| row.swap_used_bytes).max(),
        cpu_energy_j: cpu_energy.ok(),
        hwmon_energy_j: hwmon_energy.ok(),
    };
    let harness_cpu = grown(&|row| row.harness.cpu_s);
    if let Err(error) = &harness_cpu {
        because("harness.cpu_s", error.to_string());
    }
    let harness = HarnessFigures {
        cpu_s: harness_cpu.ok(),
        rss_bytes_max: inside.iter().filter_map(|row| row.harness.rss_bytes).max(),
        loop_lag_ms_p99: load.loop_lag_ms_p99,
    };
    for (key, missing) in [
        ("host.load_1m", host.load_1m.is_none()),
        ("host.mem_available_bytes_min", host.mem_available_bytes_min.is_none()),
        ("host.mem_used_bytes_max", host.mem_used_bytes_max.is_none()),
        ("host.swap_used_bytes_max", host.swap_used_bytes_max.is_none()),
        ("host.hwmon_energy_j", host.hwmon_energy_j.is_none()),
        ("harness.rss_bytes_max", harness.rss_bytes_max.is_none()),
    ] {
        if missing {
            because(key, untold(&inside));
        }
    }
    if harness.loop_lag_ms_p99.is_none() {
        because("harness.loop_lag_ms_p99", "the lag was not measured in this level".to_owned());
    }
    (out.host, out.harness) = (Some(host), Some(harness));
    out.server = server(readings, &inside, window, load, &mut because);
}

/// Why a value that every reading should hold is in none of the window's.
fn untold(inside: &[&HostReading]) -> String {
    let why =
        if inside.is_empty() { "no sample in the window" } else { "this system does not tell" };
    why.to_owned()
}

fn used(row: &HostReading) -> Option<u64> {
    row.mem_total_bytes?.checked_sub(row.mem_available_bytes?)
}

fn server(
    readings: &[HostReading],
    inside: &[&HostReading],
    window: Window,
    load: &Load,
    because: &mut impl FnMut(&str, String),
) -> Option<ServerFigures> {
    if readings.iter().all(|row| row.server.is_none()) {
        because("server", "the server's process is not known: it was not started here".to_owned());
        return None;
    }
    let trees = || inside.iter().filter_map(|row| row.server);
    let of = |value: fn(&TreeReading) -> Option<f64>| {
        points(readings, move |row| row.server.as_ref().and_then(value))
    };
    let cpu = counter_delta(&of(|tree| tree.cpu_s), window);
    let faults = counter_delta(&of(|tree| tree.major_faults.map(|n| n as f64)), window);
    for (key, grown) in [("server.cpu_s", &cpu), ("server.major_faults", &faults)] {
        if let Err(error) = grown {
            because(key, error.to_string());
        }
    }
    let figures = ServerFigures {
        cpu_s: cpu.ok(),
        cpu_s_per_output_token: cpu
            .ok()
            .zip(load.output_tokens)
            .and_then(|(cpu, tokens)| (tokens > 0.0).then(|| cpu / tokens)),
        rss_bytes_max: trees().filter_map(|tree| tree.rss_bytes).max(),
        pss_bytes_max: trees().filter_map(|tree| tree.pss_bytes).max(),
        major_faults: faults.ok().map(whole),
    };
    if figures.cpu_s_per_output_token.is_none() {
        let no_tokens = || "the number of tokens in the window is not known, or 0".to_owned();
        let why = cpu.err().map_or_else(no_tokens, |error| error.to_string());
        because("server.cpu_s_per_output_token", why);
    }
    if figures.rss_bytes_max.is_none() {
        because("server.rss_bytes_max", "no sample of it in the window".to_owned());
    }
    if figures.pss_bytes_max.is_none() {
        let ever = readings.iter().any(|row| row.server.is_some_and(|s| s.pss_bytes.is_some()));
        let why = if ever { "not read in the window" } else { "this system does not tell" };
        because("server.pss_bytes_max", why.to_owned());
    }
    Some(figures)
}
