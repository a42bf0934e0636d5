//! What neither std nor nix can do safely: to read what a socket knows (Linux's `TCP_INFO`), and to
//! have a child die with its parent.
//!
//! The first is unsafe because `getsockopt` writes into memory that we hand to it. The kernel's struct grows
//! with its version and returns how much of it was filled, so it is read as bytes at the offsets of
//! the kernel's own header (`include/uapi/linux/tcp.h`), which never change. The second is unsafe
//! because its call has to stand between fork and exec.

#![allow(
    unsafe_code,
    reason = "the socket options that nix lacks, and a call between fork and exec"
)]

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What the kernel knows of one TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// The smallest round trip that was seen (`tcpi_min_rtt`).
    pub rtt_min: Option<Duration>,
    /// The round trip as it is now, smoothed (`tcpi_rtt`).
    pub rtt: Option<Duration>,
    /// How long ago the last data was sent, to a few milliseconds (`tcpi_last_data_sent`).
    pub sent_ago: Option<Duration>,
    /// How long ago the peer was last heard of, be it by an acknowledgement or the end
    /// (`tcpi_last_ack_recv`).
    pub heard_ago: Option<Duration>,
}

/// What the kernel knows of a connection; all of it `None` where it does not say.
pub fn tcp_info(socket: BorrowedFd<'_>) -> TcpInfo {
    #[cfg(target_os = "linux")]
    {
        linux::tcp_info(socket)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        TcpInfo::default()
    }
}

/// Has the kernel kill the process of `command` when the thread that starts it ends, however that
/// happens: call it from a thread that lives as long as its process. Reaches the process itself and
/// no child of it. Does nothing where there is no such call.
pub fn die_with_parent(command: &mut std::process::Command) {
    #[cfg(target_os = "linux")]
    {
        use nix::errno::Errno;
        use std::os::unix::process::CommandExt as _;

        let parent = std::process::id();
        let tie = move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            // It may have died before the call.
            let alive = std::os::unix::process::parent_id() == parent;
            if alive { Ok(()) } else { Err(Errno::ESRCH.into()) }
        };
        // SAFETY: between fork and exec only calls are allowed that a signal handler may make too:
        // `prctl` and `getppid` are, and nothing here allocates or locks.
        unsafe { command.pre_exec(tie) };
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = command;
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsRawFd as _, BorrowedFd};
    use std::time::Duration;

    use super::TcpInfo;

    const LAST_DATA_SENT_AT: usize = 44;
    const LAST_ACK_RECV_AT: usize = 56;
    const RTT_AT: usize = 68;
    const MIN_RTT_AT: usize = 148;
    /// Larger than the struct of any kernel so far (248 bytes in 6.12).
    const INFO_BYTES: usize = 512;

    pub(super) fn tcp_info(socket: BorrowedFd<'_>) -> TcpInfo {
        let mut info = [0_u8; INFO_BYTES];
        let mut len: libc::socklen_t = 512;
        // SAFETY: `info` is writable for `len` bytes, and the kernel writes no more than that.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if rc != 0 {
            return TcpInfo::default();
        }
        let filled = &info[..(len as usize).min(INFO_BYTES)];
        let word = |at: usize| Some(u32::from_ne_bytes(filled.get(at..at + 4)?.try_into().ok()?));
        let micros = |us: u32| Duration::from_micros(us.into());
        let millis = |ms: u32| Duration::from_millis(ms.into());
        TcpInfo {
            // "Nothing measured yet" is all ones.
            rtt_min: word(MIN_RTT_AT).filter(|us| *us != u32::MAX).map(micros),
            rtt: word(RTT_AT).map(micros),
            sent_ago: word(LAST_DATA_SENT_AT).map(millis),
            heard_ago: word(LAST_ACK_RECV_AT).map(millis),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_loopback_connection_tells_its_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0; 1]).unwrap();
        let after = tcp_info(client.as_fd());
        assert!(after.rtt_min.unwrap() > Duration::ZERO);
        assert!(after.rtt.unwrap() >= after.rtt_min.unwrap());
    }

    #[test]
    fn the_kernel_knows_when_the_end_came_however_late_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 10]).unwrap();
        let sent_at = std::time::Instant::now();
        server.read_exact(&mut [0; 10]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let before_end = sent_at.elapsed();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        let info = tcp_info(client.as_fd());
        let (sent, heard) = (info.sent_ago.unwrap(), info.heard_ago.unwrap());
        // The kernel counts in ticks of up to 10 ms.
        let ticks = Duration::from_millis(20);
        assert!(sent - heard + ticks >= before_end, "{sent:?} {heard:?} {before_end:?}");
    }
}
