//! The machine by the kernel's own files.

use std::fs;
use std::path::PathBuf;

use nix::unistd::{SysconfVar, sysconf};

use crate::measure::hardware::HostReading;

use super::super::clock::Clock;
use super::proc;
use super::tree::{KernelUnits, Tree, Whose};
use super::{Notes, ServerProcesses, SystemPaths};

/// What is read of the machine.
pub struct Machine {
    proc: PathBuf,
    units: KernelUnits,
    server: Option<Tree>,
    harness: Tree,
    notes: Notes,
}

impl Machine {
    /// A machine that has not been read.
    pub fn open(paths: &SystemPaths, server: Option<ServerProcesses>, notes: Notes) -> Self {
        let units = units();
        let tree = |whose| Tree::new(whose, &paths.proc, units);
        Self {
            proc: paths.proc.clone(),
            units,
            server: server.map(|server| tree(Whose::Server(server))),
            harness: tree(Whose::Single(std::process::id())),
            notes,
        }
    }

    /// Reads it.
    pub fn read(&mut self, clock: &Clock) -> HostReading {
        let at = clock.now();
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let cpu = proc::cpu_ticks(&text("stat"));
        let seconds = |ticks: u64| ticks as f64 / self.units.ticks_per_s;
        let meminfo = text("meminfo");
        let memory = |key: &str| proc::kilobytes(&meminfo, key);
        let swap_used = memory("SwapTotal").zip(memory("SwapFree"));
        HostReading {
            at,
            cpu_busy_s: cpu.map(|(busy, _)| seconds(busy)),
            cpu_total_s: cpu.map(|(_, total)| seconds(total)),
            load_1m: proc::load_1m(&text("loadavg")),
            mem_total_bytes: memory("MemTotal"),
            mem_free_bytes: memory("MemFree"),
            mem_cached_bytes: memory("Cached"),
            mem_available_bytes: memory("MemAvailable"),
            swap_used_bytes: swap_used.and_then(|(total, free)| total.checked_sub(free)),
            cpu_energy_j: None,
            hwmon_energy_j: None,
            server: self.server.as_mut().map(|tree| tree.read(at, &self.notes)),
            harness: self.harness.read(at, &self.notes),
        }
    }
}

/// The units of this kernel; the values that nearly all have where it does not say.
fn units() -> KernelUnits {
    let ask = |what| sysconf(what).ok().flatten().and_then(|n| u32::try_from(n).ok());
    KernelUnits {
        ticks_per_s: ask(SysconfVar::CLK_TCK).map_or(100.0, f64::from),
        page_bytes: ask(SysconfVar::PAGE_SIZE).map_or(4096, u64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_this_process_are_read() {
        let server = ServerProcesses { root: std::process::id(), group: None };
        let paths = SystemPaths::default();
        let mut machine = Machine::open(&paths, Some(server), Notes::default());
        let reading = machine.read(&Clock::new());
        assert!(reading.mem_available_bytes.unwrap() < reading.mem_total_bytes.unwrap());
        assert!(reading.cpu_busy_s.unwrap() < reading.cpu_total_s.unwrap());
        assert!(reading.harness.rss_bytes.unwrap() > 0);
        let server = reading.server.unwrap();
        // Not every kernel tells.
        let told = std::path::Path::new("/proc/self/smaps_rollup").exists();
        assert_eq!(server.pss_bytes.is_some_and(|pss| pss > 0), told);
        assert!(server.cpu_s.unwrap() > 0.0);
        assert!(reading.load_1m.is_some() && reading.swap_used_bytes.is_some());
    }

    #[test]
    fn a_machine_without_these_files_has_no_figures_and_no_zeros() {
        let empty = tempfile::tempdir().unwrap();
        let folder = empty.path().to_owned();
        let paths = SystemPaths { proc: folder.clone(), sys: folder };
        let reading = Machine::open(&paths, None, Notes::default()).read(&Clock::new());
        assert_eq!((reading.cpu_busy_s, reading.mem_available_bytes), (None, None));
        assert_eq!((reading.harness.rss_bytes, reading.server), (None, None));
    }
}
