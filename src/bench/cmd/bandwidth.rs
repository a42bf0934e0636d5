//! `spark-bench bandwidth`: how fast this machine's memory can be read, in seconds.

use std::path::Path;

use serde_json::json;

use super::answer;
use crate::bench::bandwidth::{self, Arrays, CpuBandwidth, CpuRow, GpuBandwidth};
use crate::bench::telemetry::memory_available;
use crate::exit_codes;

/// Flags of `spark-bench bandwidth`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Most threads that read at once (default: all that this process may use).
    #[arg(long, value_name = "N", value_parser = super::at_least_one::<std::num::NonZeroUsize>)]
    threads: Option<std::num::NonZeroUsize>,
    /// Leave the CPU's memory alone.
    #[arg(long)]
    no_cpu: bool,
    /// Leave the GPUs alone.
    #[arg(long, conflicts_with = "no_cpu")]
    no_gpu: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// If the answer cannot be written.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if cfg!(debug_assertions) && !args.no_cpu {
        eprintln!("this is a debug build: the CPU's figures are far too low");
    }
    let cpu = (!args.no_cpu).then(|| cpu(args));
    let gpus = if args.no_gpu { Err("not asked for".to_owned()) } else { bandwidth::devices() };
    answer(&if args.json { as_json(cpu.as_ref(), &gpus)? } else { as_text(cpu.as_ref(), &gpus) })?;
    Ok(exit_codes::OK)
}

fn cpu(args: &Args) -> CpuBandwidth {
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let most = args.threads.map_or(all, std::num::NonZeroUsize::get);
    let plan = bandwidth::plan(Path::new("/sys"), memory_available(), most);
    let largest = plan.arrays.iter().map(bandwidth::Arrays::total_bytes).max().unwrap_or(0);
    let mib = largest >> 20;
    eprintln!(
        "reading up to {mib} MiB with up to {most} threads: a few seconds; nothing else should run"
    );
    bandwidth::sweep(plan)
}

fn as_text(cpu: Option<&CpuBandwidth>, gpus: &Result<Vec<GpuBandwidth>, String>) -> String {
    let mut out = String::new();
    if let Some(cpu) = cpu {
        out.push_str(&format!("CPU: {}, best of {}\n", cpu.method, cpu.passes));
        out.push_str("  threads   MiB each    best GB/s  median GB/s\n");
        let rows = cpu.rows.iter().map(|row| {
            let Arrays { threads, bytes } = row.arrays;
            let mib = bytes >> 20;
            format!("{threads:>9} {mib:>10} {:>12.1} {:>12.1}\n", row.best_gb_s, row.median_gb_s)
        });
        out.extend(rows);
        out.extend(cpu.plan.shortfall().map(|why| format!("  {why}\n")));
        let best = cpu.best().map(|best| format!("bandwidth_gb_s = {:.1}\n", best.best_gb_s));
        out.extend(best);
    }
    match gpus {
        Err(why) => out.push_str(&format!("GPU: none measured: {why}\n")),
        Ok(gpus) => gpus.iter().for_each(|gpu| {
            let said = match &gpu.outcome {
                Ok((best, median)) => format!("best {best:.1} GB/s, median {median:.1} GB/s"),
                Err(why) => why.clone(),
            };
            out.push_str(&format!("GPU {} {}: {}: {said}\n", gpu.index, gpu.name, gpu.method));
        }),
    }
    out
}

fn as_json(
    cpu: Option<&CpuBandwidth>,
    gpus: &Result<Vec<GpuBandwidth>, String>,
) -> serde_json::Result<String> {
    let row = |row: &CpuRow| {
        json!({
            "threads": row.arrays.threads,
            "array_bytes": row.arrays.bytes,
            "best_gb_s": row.best_gb_s,
            "median_gb_s": row.median_gb_s,
        })
    };
    let cpu = cpu.map(|cpu| {
        json!({
            "method": cpu.method,
            "cache_bytes": cpu.plan.cache_bytes,
            "memory_bytes": cpu.plan.memory_bytes,
            "shortfall": cpu.plan.shortfall(),
            "passes": cpu.passes,
            "rows": cpu.rows.iter().map(row).collect::<Vec<_>>(),
            "best_gb_s": cpu.best().map(|row| row.best_gb_s),
            "debug_build": cfg!(debug_assertions),
        })
    });
    let device = |gpu: &GpuBandwidth| {
        json!({
            "index": gpu.index,
            "name": gpu.name,
            "method": gpu.method,
            "buffer_bytes": gpu.buffer_bytes,
            "best_gb_s": gpu.outcome.as_ref().ok().map(|(best, _)| best),
            "median_gb_s": gpu.outcome.as_ref().ok().map(|(_, median)| median),
            "reason": gpu.outcome.as_ref().err(),
        })
    };
    let value = json!({
        "cpu": cpu,
        "gpus": gpus.as_ref().map(|gpus| gpus.iter().map(device).collect::<Vec<_>>()).ok(),
        "gpu_reason": gpus.as_ref().err(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::bandwidth::CpuPlan;

    #[test]
    fn a_device_without_a_figure_says_why_and_is_null_in_json() {
        let arrays = Arrays { threads: 1, bytes: 1 << 28 };
        let cpu = CpuBandwidth {
            method: "read",
            plan: CpuPlan::new(None, Some(1 << 20), 1),
            passes: 7,
            rows: vec![CpuRow { arrays, best_gb_s: 12.34, median_gb_s: 11.0 }],
        };
        let gpu = GpuBandwidth {
            index: 0,
            name: "G".to_owned(),
            method: "copy",
            buffer_bytes: 8,
            outcome: Err("out of memory".to_owned()),
        };
        let text = as_text(Some(&cpu), &Ok(vec![gpu.clone()]));
        assert!(text.contains("bandwidth_gb_s = 12.3\n"), "{text}");
        assert!(text.contains("may be a cache's"), "{text}");
        assert!(text.contains("GPU 0 G: copy: out of memory\n"), "{text}");
        let json = as_json(Some(&cpu), &Ok(vec![gpu])).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["gpus"][0]["best_gb_s"], serde_json::Value::Null);
        assert_eq!(json["gpus"][0]["reason"], "out of memory");
        let none = as_json(Some(&cpu), &Err("no driver".to_owned())).unwrap();
        assert!(none.contains("no driver"));
    }
}
