//! TCP ports of servers that we start: a free one before, ours while it runs, free again after.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// A port that nobody listens on now.
///
/// # Errors
/// If the system has none left.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether nobody listens on a port of this machine.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Waits until nobody listens on the port; false if that takes longer than `deadline`.
pub async fn wait_until_free(port: u16, deadline: Duration) -> bool {
    /// A port is free as soon as its process is gone: this is the exception.
    const AGAIN: Duration = Duration::from_millis(20);
    let wait = async {
        while !is_free(port) {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(deadline, wait).await.is_ok()
}

/// Who listens on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// One of the processes that were asked about.
    Ours,
    /// Somebody else.
    Foreign,
    /// Nobody listens there.
    Nobody,
    /// This system does not say.
    Unknown,
}

/// Whether one of `pids` listens on a port.
pub fn owner(port: u16, pids: &[u32]) -> Owner {
    let Some(inodes) = listening_inodes(port) else { return Owner::Unknown };
    if inodes.is_empty() {
        return Owner::Nobody;
    }
    let holds = |pid: &u32| socket_inodes(*pid).intersection(&inodes).next().is_some();
    if pids.iter().any(holds) { Owner::Ours } else { Owner::Foreign }
}

/// Inodes of the sockets that listen on a port; `None` where there is no `/proc/net`.
fn listening_inodes(port: u16) -> Option<BTreeSet<u64>> {
    let v4 = std::fs::read_to_string("/proc/self/net/tcp").ok()?;
    // A kernel without IPv6 has no such file.
    let v6 = std::fs::read_to_string("/proc/self/net/tcp6").unwrap_or_default();
    Some(v4.lines().chain(v6.lines()).filter_map(|line| listening_inode(line, port)).collect())
}

/// The inode in a line of `/proc/net/tcp`, if it is a socket that listens on `port`.
fn listening_inode(line: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTEN && u16::from_str_radix(local_port, 16) == Ok(port);
    if listens { fields.get(9)?.parse().ok() } else { None }
}

/// Inodes of the sockets that a process holds.
fn socket_inodes(pid: u32) -> BTreeSet<u64> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| {
            let target = std::fs::read_link(descriptor.path()).ok()?;
            let name = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            name.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_free_until_somebody_listens() {
        let port = free_port().unwrap();
        assert!(is_free(port));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(listener);
        // A child that another thread forks just now holds it until its exec.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !is_free(port) {
            assert!(std::time::Instant::now() < deadline);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_owner_of_a_port_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has nothing to show here.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert_eq!(owner(port, &[std::process::id()]), Owner::Ours);
            assert_eq!(owner(port, &[1]), Owner::Foreign);
        }
    }

    #[test]
    fn only_listening_sockets_count() {
        let line = |state: &str| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 \
                     00000000  1000        0 31337 1 0000000000000000 100 0 0 10 0"
            )
        };
        assert_eq!(listening_inode(&line("0A"), 8080), Some(31337));
        assert_eq!(listening_inode(&line("0A"), 8081), None);
        assert_eq!(listening_inode(&line("01"), 8080), None);
        assert_eq!(listening_inode("  sl  local_address rem_address   st", 8080), None);
    }
}
