//! Which processes belong to a server: all descendants of its supervisor, which adopts orphans.

use std::collections::BTreeMap;

/// A living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its group's id.
    pub group: u32,
}

/// The living descendants of a process, as the system tells now. Zombies are no longer alive.
///
/// Empty where there is no `/proc`.
pub fn descendants(of: u32) -> Vec<Process> {
    let mut children = BTreeMap::<u32, Vec<Process>>::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some((parent, group)) = parse_stat(&stat) {
            children.entry(parent).or_default().push(Process { pid, group });
        }
    }
    let mut found = Vec::new();
    let mut unseen = vec![of];
    while let Some(pid) = unseen.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        unseen.extend(own.iter().map(|process| process.pid));
        found.extend(own);
    }
    found
}

/// Parent and group in a line of `/proc/PID/stat`; `None` for a zombie. The name before them stands
/// in parentheses and may itself hold spaces and parentheses.
fn parse_stat(stat: &str) -> Option<(u32, u32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        assert_eq!(parse_stat("12 (a) b) S 7 11 12 0"), Some((7, 11)));
        assert_eq!(parse_stat("12 (a) Z 7 11 12 0"), None);
        assert_eq!(parse_stat(""), None);
    }
}
