//! The harness's own error at the levels of a run, measured once for each boot and build.

use std::path::{Path, PathBuf};

use crate::bench::digest::sha256_hex;
use crate::bench::self_test;
use crate::results::record::ClientFloor;

/// The self-test's table, from the cache if this boot and build have it.
pub async fn client_floor(harness: &Path, concurrencies: &[u32]) -> ClientFloor {
    let cache = cache_path(harness, concurrencies);
    let cached = cache.as_ref().and_then(|path| std::fs::read(path).ok());
    if let Some(floor) = cached.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return floor;
    }
    let floor = self_test::client_floor(harness, concurrencies).await;
    if floor.reason.is_none()
        && let Some(path) = cache
        && let Some(folder) = path.parent()
    {
        // A cache that cannot be written costs five seconds next time.
        let bytes = serde_json::to_vec(&floor).expect("a table of numbers");
        let _ = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
    }
    floor
}

/// Where the table of this boot, this build and these levels is kept; `None` where the system does
/// not tell one boot from another.
fn cache_path(harness: &Path, concurrencies: &[u32]) -> Option<PathBuf> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let build = std::fs::metadata(harness).ok()?;
    let identity = (boot.trim(), build.modified().ok()?, build.len(), harness, concurrencies);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let name = &sha256_hex(format!("{identity:?}"))[..16];
    Some(folder.join("spark-bench").join(format!("client-floor-{name}.json")))
}
