//! Reading from the CPU: threads sum arrays that no cache holds.
//!
//! Decode only reads its weights, so the kernel is a sum, with eight vectors of accumulators: one
//! would wait for the addition before, not for memory. One thread measures a core, not the memory,
//! so the number of threads is swept and the best kept. Each thread touches its own part first, so
//! that the part lies in its own node's memory. Threads are not pinned.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use super::best_and_median;

/// Lanes of accumulators: eight vectors of eight 64-bit lanes (AVX-512); narrower vectors make it
/// sixteen or thirty-two, which is as good.
const LANES: usize = 64;
/// Smallest array: below it, start and end of the threads would be part of the figure.
const MIN_BYTES: u64 = 256 << 20;
/// The array is so many times the last-level cache.
const CACHES: u64 = 4;
/// A last-level cache that the kernel does not name is taken as this large.
const UNKNOWN_CACHE: u64 = 64 << 20;
/// Passes that count, after one that does not.
const PASSES: usize = 7;

/// What will be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuPlan {
    /// Bytes that all threads read together in one pass.
    pub bytes: u64,
    /// Last-level cache, where the kernel names it.
    pub cache_bytes: Option<u64>,
    /// Numbers of threads, in order.
    pub threads: Vec<usize>,
}

/// One number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRow {
    /// Threads.
    pub threads: usize,
    /// GB/s of the best pass.
    pub best_gb_s: f64,
    /// GB/s of the median pass.
    pub median_gb_s: f64,
}

/// The sweep over threads.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuBandwidth {
    /// What was done, in words.
    pub method: &'static str,
    /// What was planned.
    pub plan: CpuPlan,
    /// Passes that count for each row.
    pub passes: usize,
    /// One row for each number of threads.
    pub rows: Vec<CpuRow>,
}

impl CpuBandwidth {
    /// The row with the best pass.
    pub fn best(&self) -> Option<&CpuRow> {
        self.rows.iter().max_by(|a, b| a.best_gb_s.total_cmp(&b.best_gb_s))
    }
}

/// A plan for this machine: an array of at least four times the cache and 256 MiB, and
/// 1, 2, 4 … threads up to all of them. `sys` is `/sys`.
pub fn plan(sys: &Path, most_threads: usize) -> CpuPlan {
    let cache_bytes = last_level_cache(&sys.join("devices/system/cpu/cpu0/cache"));
    let bytes = MIN_BYTES.max(CACHES * cache_bytes.unwrap_or(UNKNOWN_CACHE));
    let mut threads: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most_threads).collect();
    threads.push(most_threads.max(1));
    CpuPlan { bytes, cache_bytes, threads }
}

/// Measures each number of threads.
pub fn sweep(plan: CpuPlan) -> CpuBandwidth {
    let rows = plan.threads.iter().map(|threads| measure(*threads, plan.bytes)).collect();
    CpuBandwidth { method: "read (sum of 64-bit words)", plan, passes: PASSES, rows }
}

fn measure(threads: usize, bytes: u64) -> CpuRow {
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).div_ceil(threads);
    let total = (words * 8 * threads) as f64;
    // Passes begin and end for all threads at once; the caller is one of them.
    let barrier = Barrier::new(threads);
    let mut rates = std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| passes(words, &barrier));
        }
        passes(words, &barrier).into_iter().map(|s| total / s / 1e9).collect::<Vec<_>>()
    });
    let (best_gb_s, median_gb_s) = best_and_median(&mut rates);
    CpuRow { threads, best_gb_s, median_gb_s }
}

/// Seconds of each pass that counts, as this thread saw them: from all ready to all done.
fn passes(words: usize, barrier: &Barrier) -> Vec<f64> {
    // Not zero: pages of zeros that were never written may all be the same one.
    let own: Vec<u64> = (0..words as u64).collect();
    let mut seconds = Vec::new();
    for pass in 0..=PASSES {
        barrier.wait();
        let start = Instant::now();
        black_box(sum(black_box(&own)));
        barrier.wait();
        if pass > 0 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    seconds
}

/// The sum of the words, wrapping.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0_u64; LANES];
    let (chunks, rest) = words.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word))
}

/// The largest cache of the first CPU.
fn last_level_cache(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let size = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("size")).ok()?;
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    };
    entries.filter_map(|entry| size(entry.path())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_sum_whatever_is_left_over() {
        let words: Vec<u64> = (0..1000).collect();
        assert_eq!(sum(&words), 499_500);
        assert_eq!(sum(&words[..3]), 3);
        assert_eq!(sum(&[u64::MAX, 2]), 1);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn the_array_is_larger_than_any_cache_and_all_threads_are_tried() {
        let sys = tempfile::tempdir().unwrap();
        let cache = sys.path().join("devices/system/cpu/cpu0/cache");
        for (index, size) in [("index0", "48K"), ("index3", "102400K"), ("index2", "2M")] {
            fs::create_dir_all(cache.join(index)).unwrap();
            fs::write(cache.join(index).join("size"), format!("{size}\n")).unwrap();
        }
        let found = plan(sys.path(), 6);
        assert_eq!((found.cache_bytes, found.bytes), (Some(100 << 20), 400 << 20));
        assert_eq!(found.threads, [1, 2, 4, 6]);
        let unknown = plan(Path::new("/nonexistent"), 1);
        assert_eq!((unknown.bytes, unknown.threads), (256 << 20, vec![1]));
    }

    #[test]
    fn every_thread_reads_its_part() {
        let plan = CpuPlan { bytes: 1 << 20, cache_bytes: None, threads: vec![1, 3] };
        let found = sweep(plan);
        assert_eq!(found.rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, 3]);
        assert!(found.rows.iter().all(|row| row.best_gb_s >= row.median_gb_s));
        assert!(found.rows.iter().all(|row| row.median_gb_s > 0.0));
        assert!(found.best().is_some());
    }
}
