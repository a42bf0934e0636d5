//! The machine by `sysinfo`, where there is no `/proc`: no proportional set, no page faults.

use std::collections::BTreeSet;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::measure::hardware::{Capability, HostReading, TreeReading};

use super::super::clock::Clock;
use super::{Notes, ServerProcesses, SystemPaths};

/// What is read of the machine.
pub struct Machine {
    /// `None` where the system cannot be asked at all.
    system: Option<System>,
    server: Option<ServerProcesses>,
    notes: Notes,
    /// CPU seconds of all CPUs until the last reading, by integration of what they were busy.
    busy_s: f64,
    last_s: f64,
}

impl Machine {
    /// A machine that has not been read.
    pub fn open(_paths: &SystemPaths, server: Option<ServerProcesses>, notes: Notes) -> Self {
        if server.is_some() {
            for (metric, figure) in
                [("pss_bytes", "pss_bytes_max"), ("major_faults", "major_faults")]
            {
                notes.because(&format!("server.{figure}"), "this system does not tell it");
                notes.found(&format!("server.{metric}"), Capability::NotSupported);
            }
        }
        let system = System::new().ok();
        Self { system, server, notes, busy_s: 0.0, last_s: 0.0 }
    }

    /// Reads it.
    pub fn read(&mut self, clock: &Clock) -> HostReading {
        let at = clock.now();
        let Some(system) = &mut self.system else {
            return HostReading { at, ..HostReading::default() };
        };
        system.refresh_memory();
        system.refresh_cpu_usage();
        let kind = ProcessRefreshKind::nothing().with_memory().with_cpu();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
        let system = &*system;
        let cpus = system.cpus().len() as f64;
        let passed = at.as_secs_f64() - self.last_s;
        self.last_s = at.as_secs_f64();
        self.busy_s += passed * cpus * f64::from(system.global_cpu_usage()) / 100.0;
        let own = Pid::from_u32(std::process::id());
        HostReading {
            at,
            cpu_busy_s: Some(self.busy_s),
            cpu_total_s: Some(self.last_s * cpus),
            load_1m: System::load_average().ok().map(|load| load.one),
            mem_total_bytes: Some(system.total_memory()),
            mem_free_bytes: Some(system.free_memory()),
            mem_cached_bytes: None,
            mem_available_bytes: Some(system.available_memory()),
            swap_used_bytes: Some(system.used_swap()),
            cpu_energy_j: None,
            hwmon_energy_j: None,
            server: self.server.map(|server| tree(system, server, &self.notes)),
            harness: of(system, &BTreeSet::from([own])),
        }
    }
}

fn tree(system: &System, server: ServerProcesses, notes: &Notes) -> TreeReading {
    let mut pids = BTreeSet::from([Pid::from_u32(server.root)]);
    loop {
        let before = pids.len();
        for (pid, process) in system.processes() {
            if process.parent().is_some_and(|parent| pids.contains(&parent)) {
                pids.insert(*pid);
            }
        }
        if pids.len() == before {
            break;
        }
    }
    notes.lock().server_pids.extend(pids.iter().map(|pid| pid.as_u32()));
    of(system, &pids)
}

fn of(system: &System, pids: &BTreeSet<Pid>) -> TreeReading {
    let alive: Vec<_> = pids.iter().filter_map(|pid| system.process(*pid)).collect();
    let cpu_ms: u64 = alive.iter().map(|process| process.accumulated_cpu_time()).sum();
    let rss: u64 = alive.iter().map(|process| process.memory()).sum();
    TreeReading {
        cpu_s: Some(cpu_ms as f64 / 1e3),
        rss_bytes: (!alive.is_empty()).then_some(rss),
        pss_bytes: None,
        major_faults: None,
        minor_faults: None,
        processes: u32::try_from(alive.len()).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read_and_what_cannot_be_told_has_its_reason() {
        let notes = Notes::default();
        let server = ServerProcesses { root: std::process::id(), group: None };
        let mut machine = Machine::open(&SystemPaths::default(), Some(server), notes.clone());
        let reading = machine.read(&Clock::new());
        assert!(reading.harness.rss_bytes.unwrap() > 0);
        assert!(reading.server.unwrap().processes >= 1);
        assert!(reading.mem_total_bytes.unwrap() > reading.mem_available_bytes.unwrap());
        assert!(notes.get().reasons.contains_key("server.pss_bytes_max"));
        assert!(notes.get().server_pids.contains(&std::process::id()));
    }
}
