//! What this process itself uses: CPU time, and memory at its peak.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// CPU time of all threads so far.
pub(super) fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let time = |of: nix::sys::time::TimeVal| {
        let micros = u64::try_from(of.tv_usec()).unwrap_or(0);
        Duration::from_secs(u64::try_from(of.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
    };
    Some(time(usage.user_time()) + time(usage.system_time()))
}

/// Watches the resident memory from a thread of its own.
pub(super) struct PeakMemory {
    before: Option<u64>,
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl PeakMemory {
    /// Often enough to see the full load, which lasts for most of a level.
    const PERIOD: Duration = Duration::from_millis(50);

    pub(super) fn watch() -> Self {
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watching = {
            let (peak, stop) = (Arc::clone(&peak), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    peak.fetch_max(resident_bytes().unwrap_or(0), Ordering::Relaxed);
                    std::thread::sleep(Self::PERIOD);
                }
            })
        };
        Self { before: resident_bytes(), peak, stop, watching }
    }

    /// How far it rose above where it began, in bytes; `None` where the system does not tell.
    pub(super) fn growth(self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.watching.join(); // It cannot fail.
        Some(self.peak.load(Ordering::Relaxed).saturating_sub(self.before?) as f64)
    }
}

/// Resident memory by `/proc`; `None` elsewhere. Its shortest file: it is read often, and what that
/// costs is in the CPU time.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(resident * u64::try_from(page).ok()?)
}
