//! What the host and the processes can tell, by what the first reading of them told.

use crate::measure::hardware::{Capability, HostReading, TreeReading};

use super::{CPU_ENERGY, HWMON_ENERGY, Notes};

/// Whether a reading told a metric.
type Told<T> = fn(&T) -> bool;

/// The machine's metrics: path, and the figure whose reason speaks of it.
const HOST: [(&str, &str, Told<HostReading>); 7] = [
    ("host.cpu_pct", "host.cpu_pct_mean", |r| r.cpu_busy_s.is_some() && r.cpu_total_s.is_some()),
    ("host.load_1m", "host.load_1m", |r| r.load_1m.is_some()),
    ("host.mem_available_bytes", "host.mem_available_bytes_min", |r| {
        r.mem_available_bytes.is_some()
    }),
    ("host.mem_total_bytes", "host.mem_used_bytes_max", |r| r.mem_total_bytes.is_some()),
    ("host.swap_used_bytes", "host.swap_used_bytes_max", |r| r.swap_used_bytes.is_some()),
    (CPU_ENERGY, CPU_ENERGY, |r| r.cpu_energy_j.is_some()),
    (HWMON_ENERGY, HWMON_ENERGY, |r| r.hwmon_energy_j.is_some()),
];

/// A process tree's metrics, below its own path: the metric, and the figure.
const TREE: [(&str, &str, Told<TreeReading>); 4] = [
    ("cpu_s", "cpu_s", |tree| tree.cpu_s.is_some()),
    ("rss_bytes", "rss_bytes_max", |tree| tree.rss_bytes.is_some()),
    ("pss_bytes", "pss_bytes_max", |tree| tree.pss_bytes.is_some()),
    ("major_faults", "major_faults", |tree| tree.major_faults.is_some()),
];
/// The harness's own proportional set and faults are not read.
const OF_HARNESS: usize = 2;

/// Notes what this reading, the first one, can tell.
pub(super) fn probe(reading: &HostReading, notes: &Notes) {
    for (metric, figure, told) in HOST {
        note(metric, figure, told(reading), notes);
    }
    tree("harness", &reading.harness, &TREE[..OF_HARNESS], notes);
    if let Some(server) = &reading.server {
        tree("server", server, &TREE, notes);
    }
}

fn tree(
    path: &str,
    reading: &TreeReading,
    metrics: &[(&str, &str, Told<TreeReading>)],
    notes: &Notes,
) {
    for (metric, figure, told) in metrics {
        let metric = format!("{path}.{metric}");
        if reading.processes == 0 {
            notes.found(&metric, Capability::Error("no process of it was seen".to_owned()));
        } else {
            note(&metric, &format!("{path}.{figure}"), told(reading), notes);
        }
    }
}

/// What was told is there; for what was not there may be a reason already.
fn note(metric: &str, figure: &str, told: bool, notes: &Notes) {
    let why = notes.get().reasons.get(figure).cloned();
    let missing = || why.map_or(Capability::NotSupported, Capability::Error);
    notes.found(metric, if told { Capability::Ok } else { missing() });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(notes: &Notes, metric: &str) -> Option<String> {
        notes.get().capabilities.get(metric).map(Capability::to_string)
    }

    #[test]
    fn what_was_not_told_is_not_supported_or_the_error_that_was_noted() {
        let notes = Notes::default();
        notes.because("server.pss_bytes_max", "smaps_rollup: permission denied");
        let tree = TreeReading { cpu_s: Some(0.0), processes: 1, ..TreeReading::default() };
        let reading = HostReading {
            load_1m: Some(0.1),
            server: Some(tree),
            harness: tree,
            ..HostReading::default()
        };
        probe(&reading, &notes);
        assert_eq!(of(&notes, "host.load_1m").as_deref(), Some("ok"));
        assert_eq!(of(&notes, "host.swap_used_bytes").as_deref(), Some("not_supported"));
        assert_eq!(of(&notes, "server.cpu_s").as_deref(), Some("ok"));
        let denied = Some("smaps_rollup: permission denied");
        assert_eq!(of(&notes, "server.pss_bytes").as_deref(), denied);
        assert_eq!(of(&notes, "harness.pss_bytes"), None);
    }

    #[test]
    fn a_server_that_is_not_there_or_not_ours_is_not_said_to_lack_anything() {
        let notes = Notes::default();
        probe(&HostReading::default(), &notes);
        assert_eq!(of(&notes, "server.pss_bytes"), None);
        let gone = HostReading { server: Some(TreeReading::default()), ..HostReading::default() };
        probe(&gone, &notes);
        assert_eq!(of(&notes, "server.pss_bytes").as_deref(), Some("no process of it was seen"));
    }
}
