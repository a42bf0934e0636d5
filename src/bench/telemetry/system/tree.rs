//! A process tree over time: CPU time, faults and memory of everybody who belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::measure::hardware::TreeReading;

use super::proc::{self, Stat};
use super::{Notes, ServerProcesses};

/// How often `/proc` is searched for new members: a look at every process of the machine.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// Reading the proportional set walks the process's whole page table under a lock that its own page
/// faults need, so it is read at most this often …
const PSS_EVERY: Duration = Duration::from_secs(1);

/// … and after a reading that took long, only when this many times as long has passed.
const PSS_REST: u32 = 200;

/// What a member had used when it was last seen.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    cpu_s: f64,
    major_faults: u64,
    minor_faults: u64,
}

/// A member: its start tells it from a later process with the same id.
struct Member {
    started: u64,
    used: Used,
}

/// Units of the kernel's figures.
#[derive(Debug, Clone, Copy)]
pub struct KernelUnits {
    /// Ticks in a second.
    pub ticks_per_s: f64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// Whose processes these are.
#[derive(Debug, Clone, Copy)]
pub enum Whose {
    /// A server's: the root, everything below it, its group.
    Server(ServerProcesses),
    /// One process and nothing below it.
    Single(u32),
}

/// A process tree, read again and again.
pub struct Tree {
    whose: Whose,
    proc: PathBuf,
    units: KernelUnits,
    members: BTreeMap<u32, Member>,
    /// What members had used that are gone.
    gone: Used,
    search_at: Duration,
    pss_at: Duration,
}

impl Tree {
    /// A tree that has not been read.
    pub fn new(whose: Whose, proc: &Path, units: KernelUnits) -> Self {
        Self {
            whose,
            proc: proc.to_owned(),
            units,
            members: BTreeMap::new(),
            gone: Used::default(),
            search_at: Duration::ZERO,
            pss_at: Duration::ZERO,
        }
    }

    /// Reads it. `now` is the sampler's time.
    pub fn read(&mut self, now: Duration, notes: &Notes) -> TreeReading {
        self.search(now, notes);
        let mut used = self.gone;
        let (mut rss_pages, mut alive) = (0, 0);
        let mut ended = Vec::new();
        for (pid, member) in &mut self.members {
            let Some(stat) = read_stat(&self.proc, *pid).filter(|s| s.started == member.started)
            else {
                ended.push(*pid);
                continue;
            };
            member.used = use_of(&stat, self.units);
            rss_pages += stat.rss_pages;
            alive += u32::from(!stat.is_zombie);
        }
        for pid in ended {
            if let Some(member) = self.members.remove(&pid) {
                add(&mut self.gone, member.used);
                add(&mut used, member.used);
            }
        }
        self.members.values().for_each(|member| add(&mut used, member.used));
        TreeReading {
            cpu_s: Some(used.cpu_s),
            rss_bytes: (!self.members.is_empty()).then(|| rss_pages * self.units.page_bytes),
            pss_bytes: self.pss(now, notes),
            major_faults: Some(used.major_faults),
            minor_faults: Some(used.minor_faults),
            processes: alive,
        }
    }

    /// Finds new members.
    fn search(&mut self, now: Duration, notes: &Notes) {
        if now < self.search_at {
            return;
        }
        self.search_at = now + SEARCH_EVERY;
        let found: Vec<Stat> = match self.whose {
            Whose::Single(pid) => read_stat(&self.proc, pid).into_iter().collect(),
            Whose::Server(server) => belonging(&all(&self.proc), server),
        };
        for stat in &found {
            let known = self.members.get(&stat.pid).is_some_and(|m| m.started == stat.started);
            if !known {
                let member = Member { started: stat.started, used: Used::default() };
                if let Some(before) = self.members.insert(stat.pid, member) {
                    add(&mut self.gone, before.used);
                }
            }
        }
        if let Whose::Server(_) = self.whose {
            notes.lock().server_pids.extend(found.iter().map(|stat| stat.pid));
        }
    }

    /// The proportional set, where it is due; `None` otherwise.
    fn pss(&mut self, now: Duration, notes: &Notes) -> Option<u64> {
        if now < self.pss_at || self.members.is_empty() || matches!(self.whose, Whose::Single(_)) {
            return None;
        }
        let start = std::time::Instant::now();
        let mut total = 0;
        for pid in self.members.keys() {
            let path = self.proc.join(pid.to_string()).join("smaps_rollup");
            match fs::read_to_string(&path) {
                Ok(text) => total += proc::kilobytes(&text, "Pss").unwrap_or(0),
                // It ended meanwhile: the next search takes it out.
                Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    notes.because("server.pss_bytes_max", format!("smaps_rollup: {error}"));
                    self.pss_at = Duration::MAX;
                    return None;
                }
            }
        }
        self.pss_at = now + PSS_EVERY.max(start.elapsed() * PSS_REST);
        (total > 0).then_some(total)
    }
}

fn add(sum: &mut Used, used: Used) {
    sum.cpu_s += used.cpu_s;
    sum.major_faults += used.major_faults;
    sum.minor_faults += used.minor_faults;
}

fn use_of(stat: &Stat, units: KernelUnits) -> Used {
    Used {
        cpu_s: cpu_of(stat.pid).unwrap_or(stat.cpu_ticks as f64 / units.ticks_per_s),
        major_faults: stat.major_faults,
        minor_faults: stat.minor_faults,
    }
}

/// CPU time of a process to the nanosecond, where the kernel tells; ticks are 10 ms.
fn cpu_of(pid: u32) -> Option<f64> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let clock = ClockId::pid_cpu_clock_id(pid).ok()?;
    let time = clock_gettime(clock).ok()?;
    Some(Duration::from(time).as_secs_f64())
}

fn read_stat(proc: &Path, pid: u32) -> Option<Stat> {
    proc::stat(&fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?)
}

/// Every process that can be seen.
fn all(proc: &Path) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| read_stat(proc, pid)).collect()
}

/// Who belongs to the server: the root, its group, and everybody below one who belongs.
fn belonging(all: &[Stat], server: ServerProcesses) -> Vec<Stat> {
    let mut pids = BTreeSet::new();
    loop {
        let before = pids.len();
        for stat in all {
            let in_group = server.group == Some(stat.group);
            if stat.pid == server.root || in_group || pids.contains(&stat.parent) {
                pids.insert(stat.pid);
            }
        }
        if pids.len() == before {
            return all.iter().filter(|stat| pids.contains(&stat.pid)).copied().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, group: u32) -> Stat {
        Stat {
            pid,
            is_zombie: false,
            parent,
            group,
            minor_faults: 0,
            major_faults: 0,
            cpu_ticks: 0,
            started: 0,
            rss_pages: 0,
        }
    }

    #[test]
    fn a_server_is_its_root_all_below_it_and_its_group() {
        // A worker left the group (setsid), and has a child listed before it; a helper in the group
        // was adopted by init; the parent and a stranger do not belong.
        let all = [
            process(1, 0, 1),
            process(50, 1, 50),
            process(90, 120, 120),
            process(100, 50, 100),
            process(120, 100, 120),
            process(130, 1, 100),
            process(200, 1, 200),
        ];
        let server = ServerProcesses { root: 100, group: Some(100) };
        let pids: Vec<u32> = belonging(&all, server).iter().map(|stat| stat.pid).collect();
        assert_eq!(pids, [90, 100, 120, 130]);
    }

    fn write(proc: &Path, pid: u32, parent: u32, started: u64, ticks: u64) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!(
            "{pid} (x) S {parent} 9000001 0 0 -1 0 10 0 2 0 {ticks} 0 0 0 20 0 1 0 {started} 0 3 0"
        );
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("smaps_rollup"), "Rss: 12 kB\nPss: 5 kB\n").unwrap();
    }

    /// Ids above the kernel's largest, so that no real process answers for them.
    const ROOT: u32 = 9_000_001;
    const CHILD: u32 = 9_000_002;

    #[test]
    fn what_ended_members_used_stays_in_the_sum() {
        let proc = tempfile::tempdir().unwrap();
        let units = KernelUnits { ticks_per_s: 100.0, page_bytes: 4096 };
        let server = Whose::Server(ServerProcesses { root: ROOT, group: None });
        let mut tree = Tree::new(server, proc.path(), units);
        let notes = Notes::default();
        write(proc.path(), ROOT, 1, 5, 100);
        write(proc.path(), CHILD, ROOT, 6, 50);
        let first = tree.read(Duration::ZERO, &notes);
        assert_eq!((first.cpu_s, first.processes), (Some(1.5), 2));
        assert_eq!((first.rss_bytes, first.pss_bytes), (Some(6 * 4096), Some(10 * 1024)));
        assert_eq!((first.major_faults, first.minor_faults), (Some(4), Some(20)));
        fs::remove_dir_all(proc.path().join(CHILD.to_string())).unwrap();
        write(proc.path(), ROOT, 1, 5, 120);
        let second = tree.read(Duration::from_millis(100), &notes);
        assert_eq!((second.cpu_s, second.processes, second.pss_bytes), (Some(1.7), 1, None));
        assert_eq!(second.major_faults, Some(4));
        // Another process with the id of the one that ended.
        write(proc.path(), CHILD, ROOT, 77, 10);
        let third = tree.read(Duration::from_secs(2), &notes);
        assert_eq!((third.cpu_s, third.processes), (Some(1.8), 2));
        assert_eq!(notes.get().server_pids, BTreeSet::from([ROOT, CHILD]));
    }

    #[test]
    fn the_harness_alone_is_read_without_its_children() {
        let proc = tempfile::tempdir().unwrap();
        let units = KernelUnits { ticks_per_s: 100.0, page_bytes: 4096 };
        let mut tree = Tree::new(Whose::Single(ROOT), proc.path(), units);
        write(proc.path(), ROOT, 1, 5, 100);
        write(proc.path(), CHILD, ROOT, 6, 50);
        let reading = tree.read(Duration::ZERO, &Notes::default());
        assert_eq!((reading.cpu_s, reading.processes), (Some(1.0), 1));
    }
}
