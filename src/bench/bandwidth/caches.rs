//! The machine's last-level caches, by the kernel's files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Bytes of all last-level caches together: each socket, and on some machines each few cores, has
/// its own. `None` where the kernel names none. `sys` is `/sys`.
pub(super) fn last_level_bytes(sys: &Path) -> Option<u64> {
    let mut caches = BTreeMap::new();
    for entry in fs::read_dir(sys.join("devices/system/cpu")).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(cache) = last_of(&entry.path().join("cache")) {
            // Who shares it tells it from the others; one that does not say is its CPU's own.
            caches.insert(cache.shared_by.unwrap_or(name), cache.bytes);
        }
    }
    (!caches.is_empty()).then(|| caches.values().sum())
}

/// One cache of a CPU.
struct Cache {
    level: u32,
    bytes: u64,
    shared_by: Option<String>,
}

/// A CPU's cache of the highest level.
fn last_of(folder: &Path) -> Option<Cache> {
    let cache = |path: &Path| {
        let read = |name: &str| fs::read_to_string(path.join(name)).ok();
        Some(Cache {
            level: read("level").and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            bytes: bytes(read("size")?.trim())?,
            shared_by: read("shared_cpu_list"),
        })
    };
    let entries = fs::read_dir(folder).ok()?.flatten();
    let caches = entries.filter_map(|entry| cache(&entry.path()));
    caches.max_by_key(|cache| (cache.level, cache.bytes))
}

/// A size as the kernel writes it: `48K`, `2M`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a cache: of this CPU, at this index, with these files.
    fn cache(sys: &Path, cpu: u32, index: u32, files: &[(&str, &str)]) {
        let folder = sys.join(format!("devices/system/cpu/cpu{cpu}/cache/index{index}"));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn the_caches_of_all_sockets_count_and_each_one_once() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path();
        for (cpu, shared) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
            let own = cpu.to_string();
            cache(sys, cpu, 0, &[("level", "1"), ("size", "48K"), ("shared_cpu_list", &own)]);
            cache(sys, cpu, 3, &[("level", "3"), ("size", "102400K"), ("shared_cpu_list", shared)]);
            cache(sys, cpu, 2, &[("level", "2"), ("size", "2M"), ("shared_cpu_list", &own)]);
        }
        fs::create_dir_all(sys.join("devices/system/cpu/cpufreq")).unwrap();
        assert_eq!(last_level_bytes(sys), Some(200 << 20));
    }

    #[test]
    fn what_the_kernel_does_not_name_is_not_guessed() {
        assert_eq!(last_level_bytes(Path::new("/nonexistent")), None);
        let sys = tempfile::tempdir().unwrap();
        cache(sys.path(), 0, 0, &[("level", "3")]);
        cache(sys.path(), 0, 1, &[("level", "3"), ("size", "many")]);
        assert_eq!(last_level_bytes(sys.path()), None);
        // Caches that do not say who shares them are each their CPU's own.
        cache(sys.path(), 1, 0, &[("size", "1M")]);
        cache(sys.path(), 2, 0, &[("size", "1M")]);
        assert_eq!(last_level_bytes(sys.path()), Some(2 << 20));
    }
}
