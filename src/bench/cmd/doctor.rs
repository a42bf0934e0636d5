//! `spark-bench doctor`: what this machine has, what will be missing, and how to get it.

use std::path::PathBuf;

use super::answer;
use crate::bench::doctor::{KeyState, Report, examine};
use crate::exit_codes;

/// Flags of `spark-bench doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the configs.
    #[arg(long, value_name = "DIR", default_value = "configs")]
    configs: PathBuf,
    /// The engines file (default: engines.toml in the configs' folder).
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Looks and tells. Missing things are no failure.
///
/// # Errors
/// If the answer cannot be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let report = super::measuring::block_on(async move {
        let report = examine(&args.configs, args.engines).await;
        Ok(if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { text(&report) })
    })?;
    answer(&report)?;
    Ok(exit_codes::OK)
}

fn text(report: &Report) -> String {
    let mut out = Lines::default();
    let build = &report.build;
    let with = [(build.llama, "llama"), (build.cuda, "cuda")];
    let with: Vec<&str> = with.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    let with = if with.is_empty() { "no server".to_owned() } else { with.join(", ") };
    out.row("build", &format!("spark-bench {}, {}, with {with}", build.version, build.profile));
    machine(report, &mut out);
    counters(report, &mut out);
    gpus(report, &mut out);
    out.heading(&format!("engines ({})", report.engines_file.display()));
    for engine in &report.engines {
        let said = engine.version.as_ref().or(engine.reason.as_ref());
        out.row(&engine.name, said.map_or("?", String::as_str));
    }
    out.0.extend(report.engines_reason.iter().map(|why| format!("  {why}")));
    if !report.keys.is_empty() {
        out.heading("API keys, by the variable's name");
    }
    for (name, state) in &report.keys {
        out.row(name, if *state == KeyState::Set { "set" } else { "not set" });
    }
    out.heading("what will be missing");
    for lacking in &report.lacking {
        out.0.push(format!("  {}", lacking.what));
        out.0.push(format!("      → {}", lacking.cure));
    }
    if report.lacking.is_empty() {
        out.0.push("  nothing".to_owned());
    }
    out.0.join("\n") + "\n"
}

/// The answer, line by line.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn heading(&mut self, text: &str) {
        self.0.push(String::new());
        self.0.push(text.to_owned());
    }

    fn row(&mut self, name: &str, value: &str) {
        self.0.push(format!("  {name:<18} {value}"));
    }

    /// A row, where there is something to say.
    fn row_of<T: ToString>(&mut self, name: &str, value: &Option<T>) {
        if let Some(value) = value {
            self.row(name, &value.to_string());
        }
    }
}

fn machine(report: &Report, out: &mut Lines) {
    let host = &report.host;
    out.heading("machine");
    out.row_of("system", &host.os);
    out.row_of("kernel", &host.kernel);
    let cpu = host.cpu.as_deref().unwrap_or("unknown");
    let arch = host.arch.as_deref().unwrap_or("");
    out.row("CPU", &format!("{cpu} ({arch})"));
    let cores = |n: Option<u32>| n.map_or("?".to_owned(), |n| n.to_string());
    let (physical, logical) = (cores(host.cores_physical), cores(host.cores_logical));
    out.row("cores", &format!("{physical}; threads that may be used: {logical}"));
    out.row_of("CPU quota", &host.cgroup_cpu_quota);
    let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    out.row_of("memory", &host.memory_total_bytes.map(gb));
    out.row_of("governor", &host.governor);
    out.row_of("turbo", &host.turbo);
    out.row_of("power supply", &host.power_supply);
    out.row_of("virtual machine", &host.virtual_machine);
    let energy = report.cpu_energy_reason.as_deref().unwrap_or("ok");
    out.row("CPU energy", energy);
}

/// What the kernel tells of the machine, and of this process as it would of a server's.
fn counters(report: &Report, out: &mut Lines) {
    out.heading("counters");
    for (path, said) in &report.capabilities {
        if !path.starts_with("gpus.") {
            out.row(path, said);
        }
    }
}

fn gpus(report: &Report, out: &mut Lines) {
    out.heading("GPU");
    if let Some(why) = &report.gpu_reason {
        out.0.push(format!("  none: {why}"));
    }
    out.row_of("driver", &report.host.driver);
    out.row_of("CUDA of the driver", &report.host.cuda);
    for gpu in &report.host.gpus {
        let name = gpu.name.as_deref().unwrap_or("unknown");
        let compute = gpu.compute_capability.as_deref().unwrap_or("?");
        out.row(&format!("GPU {}", gpu.index), &format!("{name}, compute capability {compute}"));
        let prefix = format!("gpus.{}.", gpu.index);
        for (path, said) in &report.capabilities {
            if let Some(metric) = path.strip_prefix(&prefix) {
                out.row(&format!("  {metric}"), said);
            }
        }
    }
}
