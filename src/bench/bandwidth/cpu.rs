//! Reading from the CPU: threads sum arrays that no cache holds.
//!
//! Decode only reads its weights, so the kernel is a sum, with eight vectors of accumulators: one
//! would wait for the addition before, not for memory. One thread measures a core, not the memory,
//! so the number of threads is swept and the best kept. Each thread has an array of its own and touches
//! it first, so that it lies in its own node's memory. Threads are not pinned.

use std::hint::black_box;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use super::best_and_median;
use super::caches::last_level_bytes;

/// Lanes of accumulators: eight vectors of eight 64-bit lanes (AVX-512); narrower vectors make it
/// sixteen or thirty-two, which is as good.
const LANES: usize = 64;
/// Smallest array of a thread: below it, start and end of the threads would be part of the figure.
const MIN_BYTES: u64 = 256 << 20;
/// All arrays together are so many times the last-level caches.
const CACHES: u64 = 4;
/// A last-level cache that the kernel does not name is taken as this large.
const UNKNOWN_CACHE: u64 = 64 << 20;
/// The arrays take at most this part of the memory that is free: the rest is for everybody else.
const MEMORY_PART: u64 = 2;
/// No array is smaller, whatever the memory: without bytes there is no rate.
const LEAST_BYTES: u64 = 1 << 20;
/// Passes that count, after one that does not.
const PASSES: usize = 7;

/// What will be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuPlan {
    /// All last-level caches together, bytes, where the kernel names them.
    pub cache_bytes: Option<u64>,
    /// Free memory, bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// Each number of threads, in order.
    pub arrays: Vec<Arrays>,
}

/// One number of threads and what they read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrays {
    /// Threads, each with an array of its own.
    pub threads: usize,
    /// Bytes of each array.
    pub bytes: u64,
}

impl Arrays {
    /// Bytes that all threads read together in one pass.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.threads as u64)
    }
}

impl CpuPlan {
    /// 1, 2, 4 … threads up to all of them, with arrays of at least 256 MiB each and of four times
    /// the caches in all, as far as the memory holds them.
    pub fn new(cache_bytes: Option<u64>, memory_bytes: Option<u64>, most_threads: usize) -> Self {
        let powers = std::iter::successors(Some(1), |n| Some(n * 2));
        let mut threads: Vec<usize> = powers.take_while(|n| *n < most_threads).collect();
        threads.push(most_threads.max(1));
        let mut plan = Self { cache_bytes, memory_bytes, arrays: Vec::new() };
        let arrays = |threads: usize| {
            let most = memory_bytes.map_or(u64::MAX, |free| free / MEMORY_PART / threads as u64);
            Arrays { threads, bytes: plan.wanted(threads).min(most).max(LEAST_BYTES) }
        };
        plan.arrays = threads.into_iter().map(arrays).collect();
        plan
    }

    /// Bytes that each of so many threads should read.
    fn wanted(&self, threads: usize) -> u64 {
        let caches = self.cache_bytes.unwrap_or(UNKNOWN_CACHE).saturating_mul(CACHES);
        MIN_BYTES.max(caches.div_ceil(threads as u64))
    }

    /// What it means where the memory does not hold the arrays; `None` where it does.
    pub fn shortfall(&self) -> Option<String> {
        let short = |arrays: &&Arrays| arrays.bytes < self.wanted(arrays.threads);
        let arrays = self.arrays.iter().rfind(short)?;
        let caches = self.cache_bytes.unwrap_or(UNKNOWN_CACHE).max(1);
        let times = arrays.total_bytes() as f64 / caches as f64;
        let mib = |bytes: u64| bytes >> 20;
        let doubt = if arrays.total_bytes() < caches.saturating_mul(CACHES) {
            ": the figure may be a cache's, not the memory's"
        } else {
            ""
        };
        Some(format!(
            "the memory holds no larger arrays: {} threads read {} MiB each instead of {}, \
             {} MiB in all, {times:.1} times the last-level caches{doubt}",
            arrays.threads,
            mib(arrays.bytes),
            mib(self.wanted(arrays.threads)),
            mib(arrays.total_bytes()),
        ))
    }
}

/// A plan for this machine. `sys` is `/sys`; `memory_bytes` is what is free.
pub fn plan(sys: &Path, memory_bytes: Option<u64>, most_threads: usize) -> CpuPlan {
    CpuPlan::new(last_level_bytes(sys), memory_bytes, most_threads)
}

/// One number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRow {
    /// Threads, and what each read.
    pub arrays: Arrays,
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

/// Measures each number of threads.
pub fn sweep(plan: CpuPlan) -> CpuBandwidth {
    let rows = plan.arrays.iter().map(|arrays| measure(*arrays)).collect();
    CpuBandwidth { method: "read (sum of 64-bit words)", plan, passes: PASSES, rows }
}

fn measure(arrays: Arrays) -> CpuRow {
    let Arrays { threads, bytes } = arrays;
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
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
    CpuRow { arrays, best_gb_s, median_gb_s }
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

    const MIB: u64 = 1 << 20;

    fn array_mib(plan: &CpuPlan) -> Vec<(usize, u64)> {
        plan.arrays.iter().map(|arrays| (arrays.threads, arrays.bytes / MIB)).collect()
    }

    #[test]
    fn arrays_are_larger_than_all_caches_and_each_has_its_least_size() {
        let found = CpuPlan::new(Some(300 * MIB), None, 6);
        assert_eq!(array_mib(&found), [(1, 1200), (2, 600), (4, 300), (6, 256)]);
        assert_eq!(found.shortfall(), None);
        let unknown = CpuPlan::new(None, Some(1 << 40), 1);
        assert_eq!((array_mib(&unknown), unknown.shortfall()), (vec![(1, 256)], None));
    }

    #[test]
    fn arrays_that_the_memory_does_not_hold_are_smaller_and_it_says_so() {
        let found = CpuPlan::new(Some(200 * MIB), Some(2000 * MIB), 8);
        assert_eq!(array_mib(&found), [(1, 800), (2, 400), (4, 250), (8, 125)]);
        let said = found.shortfall().unwrap();
        assert!(said.contains("8 threads read 125 MiB each instead of 256"), "{said}");
        assert!(said.contains("1000 MiB in all, 5.0 times the last-level caches"), "{said}");
        let tiny = CpuPlan::new(Some(200 * MIB), Some(100 * MIB), 1);
        assert!(tiny.shortfall().unwrap().contains("may be a cache's"), "{tiny:?}");
        let none = CpuPlan::new(None, Some(0), 64);
        assert!(none.arrays.iter().all(|arrays| arrays.bytes > 0));
    }

    #[test]
    fn every_thread_reads_its_part() {
        let arrays = [1, 3].map(|threads| Arrays { threads, bytes: 1 << 20 });
        let plan = CpuPlan { arrays: arrays.to_vec(), ..CpuPlan::new(None, None, 1) };
        let found = sweep(plan);
        assert_eq!(found.rows.iter().map(|row| row.arrays.threads).collect::<Vec<_>>(), [1, 3]);
        assert!(found.rows.iter().all(|row| row.best_gb_s >= row.median_gb_s));
        assert!(found.rows.iter().all(|row| row.median_gb_s > 0.0));
        assert!(found.best().is_some());
    }
}
