//! What a benchmark on this machine will lack, and the way to it.

use serde::Serialize;

use super::{KeyState, Report};

/// Something that will be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// What.
    pub what: String,
    /// How to get it, or why that is not to be had.
    pub cure: String,
}

fn lacking(what: impl Into<String>, cure: impl Into<String>) -> Lacking {
    Lacking { what: what.into(), cure: cure.into() }
}

/// Everything that the report shows to be missing.
pub(super) fn of(report: &Report) -> Vec<Lacking> {
    let mut all = build(report);
    all.extend(gpu(report));
    all.extend(host(report));
    all.extend(configs(report));
    all
}

fn build(report: &Report) -> Vec<Lacking> {
    let mut all = Vec::new();
    if report.build.profile == "debug" {
        let cure = "cargo build --release";
        all.push(lacking("figures worth quoting: this is a debug build", cure));
    }
    if !report.build.llama {
        let cure = "build without --no-default-features (cmake, a C++ compiler and libclang)";
        all.push(lacking("spark-serve: this build is the harness alone", cure));
    }
    if report.build.llama && !report.build.cuda && !report.host.gpus.is_empty() {
        let cure = "cargo build --release --features cuda; docs/hardware.md";
        all.push(lacking("spark-serve on the GPU: this build is for the CPU", cure));
    }
    all
}

fn gpu(report: &Report) -> Vec<Lacking> {
    let mut all = Vec::new();
    if let Some(why) = &report.gpu_reason {
        let cure = "a machine with an NVIDIA GPU needs its driver: nvidia-smi must work";
        all.push(lacking(format!("the GPU's counters: {why}"), cure));
    }
    for gpu in &report.host.gpus {
        let missing = |metric: &str| {
            let capability = report.capabilities.get(&format!("gpus.{}.{metric}", gpu.index));
            capability.is_some_and(|capability| capability != "ok")
        };
        let name = gpu.name.as_deref().unwrap_or("the GPU");
        if missing("memory_used_bytes") {
            let cure =
                "the machine's memory and the server's own stand in (memory_source: meminfo)";
            all.push(lacking(format!("memory of {name}"), cure));
        }
        if missing("energy_j") && missing("power_w") {
            let cure = "a meter at the wall: wall_power_w in the config's [hardware]";
            all.push(lacking(format!("power and energy of {name}"), cure));
        } else if missing("energy_j") {
            let cure = "power is integrated instead; levels of 40 s and more make that good enough";
            all.push(lacking(format!("the energy counter of {name}"), cure));
        }
    }
    all
}

fn host(report: &Report) -> Vec<Lacking> {
    let mut all = Vec::new();
    if let Some(why) = report.cpu_energy_reason.as_ref().filter(|_| report.host.gpus.is_empty()) {
        let cure = "root may read it where the kernel has it; or wall_power_w in [hardware]";
        all.push(lacking(format!("the CPU's energy: {why}"), cure));
    }
    if report.host.governor.as_ref().is_some_and(|governor| governor != "performance") {
        let cure = "sudo cpupower frequency-set -g performance, for the time of the benchmark";
        all.push(lacking("a steady CPU clock: the governor saves power", cure));
    }
    if report.host.power_supply.as_deref() == Some("battery") {
        all.push(lacking("full speed: the machine runs on its battery", "plug it in"));
    }
    all
}

fn configs(report: &Report) -> Vec<Lacking> {
    let mut all = Vec::new();
    if let Some(why) = &report.engines_reason {
        let cure = "--engines FILE, or run this from the project's folder";
        all.push(lacking(format!("engines: {why}"), cure));
    }
    for engine in &report.engines {
        if let Some(why) = &engine.reason {
            let cure = "scripts/engines has the set-ups; without it its rows are skipped";
            all.push(lacking(format!("engine {}: {why}", engine.name), cure));
        }
    }
    for (name, state) in &report.keys {
        if *state == KeyState::Unset {
            let cure = format!("export {name}=…; without it the targets that need it are skipped");
            all.push(lacking(format!("the API key {name}"), cure));
        }
    }
    let bad = report.bad_configs.iter().map(|why| lacking(why, "mend the file"));
    all.extend(bad);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::doctor::{Build, EngineFound};
    use crate::results::record::{Host, HostGpu};

    fn report() -> Report {
        Report {
            build: Build { version: "1", profile: "release", llama: true, cuda: true },
            host: Host { gpus: vec![HostGpu::default()], ..Host::default() },
            gpu_reason: None,
            capabilities: BTreeMap::new(),
            cpu_energy_reason: Some("root only".to_owned()),
            engines_file: "e.toml".into(),
            engines_reason: None,
            engines: Vec::new(),
            keys: BTreeMap::new(),
            bad_configs: Vec::new(),
            lacking: Vec::new(),
        }
    }

    #[test]
    fn a_machine_that_has_everything_lacks_nothing() {
        assert_eq!(of(&report()), []);
    }

    #[test]
    fn each_thing_that_is_missing_comes_with_a_way_out() {
        let mut report = report();
        let not = "not_supported".to_owned();
        report.capabilities.insert("gpus.0.memory_used_bytes".to_owned(), not.clone());
        report.capabilities.insert("gpus.0.energy_j".to_owned(), not.clone());
        report.build.cuda = false;
        report.keys.insert("SOME_KEY".to_owned(), KeyState::Unset);
        report.engines.push(EngineFound {
            name: "e".to_owned(),
            version: None,
            reason: Some("no program".to_owned()),
        });
        report.host.power_supply = Some("battery".to_owned());
        let found = of(&report);
        let whats: Vec<&str> = found.iter().map(|lacking| lacking.what.as_str()).collect();
        for part in ["CPU", "memory of", "energy counter", "battery", "engine e", "SOME_KEY"] {
            assert!(whats.iter().any(|what| what.contains(part)), "{part}: {whats:?}");
        }
        assert_eq!(found.len(), 6);
        report.capabilities.insert("gpus.0.power_w".to_owned(), not);
        assert!(of(&report).iter().any(|lacking| lacking.cure.contains("wall_power_w")));
        report.host.gpus.clear();
        report.gpu_reason = Some("no library".to_owned());
        assert!(of(&report).iter().any(|lacking| lacking.what.contains("root only")));
    }
}
