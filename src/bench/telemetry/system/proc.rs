//! Parsers of the kernel's `/proc` files. What is not as expected is `None`, never a guess.

/// One process, from `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its id.
    pub pid: u32,
    /// Whether it has ended, and only waits for its parent to ask how.
    pub is_zombie: bool,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Page faults without a disk.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
    /// CPU time, clock ticks.
    pub cpu_ticks: u64,
    /// When it started, ticks since boot: with the id, its identity.
    pub started: u64,
    /// Resident pages.
    pub rss_pages: u64,
}

/// Parses `/proc/PID/stat`. The name in it may hold spaces and parentheses.
pub fn stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(')')?;
    // Numbered as in proc_pid_stat(5), where the state is field 3.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid: pid.parse().ok()?,
        is_zombie: *fields.first()? == "Z",
        parent: u32::try_from(number(4)?).ok()?,
        group: u32::try_from(number(5)?).ok()?,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        cpu_ticks: number(14)?.checked_add(number(15)?)?,
        started: number(22)?,
        rss_pages: number(24)?,
    })
}

/// The value of a `Key:   123 kB` line, in bytes.
pub fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))?;
    let number = line.split_ascii_whitespace().nth(1)?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// Busy and all CPU time of all CPUs, in ticks, from `/proc/stat`. Time that a hypervisor took away
/// passed, but nobody here was busy with it.
pub fn cpu_ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is in user already.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk()?;
    let busy = user + nice + system + irq + softirq;
    Some((busy, busy + idle + iowait + steal))
}

/// The load average over a minute, from `/proc/loadavg`.
pub fn load_1m(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_anything() {
        let text = "42 (a) (b c) 7) S 7 40 1 0 -1 4194304 102 5 3 0 11 22 0 0 20 0 1 0 9001 \
                    3133440 398 18446744073709551615";
        let expected = Stat {
            pid: 42,
            is_zombie: false,
            parent: 7,
            group: 40,
            minor_faults: 102,
            major_faults: 3,
            cpu_ticks: 33,
            started: 9001,
            rss_pages: 398,
        };
        assert_eq!(stat(text), Some(expected));
        let ended = stat(&text.replace(" S ", " Z "));
        assert_eq!(ended, Some(Stat { is_zombie: true, ..expected }));
    }

    #[test]
    fn what_is_cut_short_or_foreign_is_not_guessed() {
        for text in ["", "42", "42 (x", "42 (x) S 1", "x (y) S 1 2 3", "42 (x) S -1 2 3"] {
            assert_eq!(stat(text), None, "{text:?}");
        }
        assert_eq!(cpu_ticks("cpu  1 2 3\n"), None);
        assert_eq!(cpu_ticks("intr 5\n"), None);
        assert_eq!(load_1m(""), None);
        assert_eq!(kilobytes("MemTotal: much kB", "MemTotal"), None);
    }

    #[test]
    fn memory_lines_are_found_by_their_whole_key() {
        let text =
            "MemTotal:       24684092 kB\nSwapCached:            3 kB\nCached:          7 kB\n";
        assert_eq!(kilobytes(text, "Cached"), Some(7 * 1024));
        assert_eq!(kilobytes(text, "MemTotal"), Some(24_684_092 * 1024));
        assert_eq!(kilobytes(text, "Mem"), None);
    }

    #[test]
    fn busy_leaves_out_idle_waiting_and_stolen_time() {
        let text = "cpu  100 20 30 400 50 6 7 80 9 9\ncpu0 1 2 3\n";
        assert_eq!(cpu_ticks(text), Some((163, 163 + 400 + 50 + 80)));
        assert_eq!(load_1m("2.31 3.65 3.09 4/122 23608\n"), Some(2.31));
    }
}
