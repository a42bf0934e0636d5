//! The committed configs are ones that the harness takes, and none of them asks for more prompts
//! than its file holds.

use std::fs;
use std::path::{Path, PathBuf};

use spark::bench::config::{Config, EnginesFile};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every target's config in `configs/` and the folders below it that hold targets.
fn targets() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["configs", "configs/cpu", "configs/crossover", "configs/cuda"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_config = path.extension().is_some_and(|extension| extension == "toml");
            if is_config && !path.ends_with("engines.toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_config_is_read_and_its_engine_is_known() {
    let engines_path = root().join("configs/engines.toml");
    let engines = EnginesFile::load(&engines_path).unwrap();
    let targets = targets();
    assert!(targets.len() >= 10, "{targets:?}");
    for path in targets {
        let configs = Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
        for config in configs {
            if let Some(engine) = config.engine {
                engines.entry(&engine.name, &engines_path).unwrap();
            }
        }
    }
}

/// Otherwise the last level would run on salted prompts, and each row would carry the flag.
#[test]
fn no_config_uses_its_prompts_up() {
    for path in targets() {
        for config in Config::load(&path).unwrap() {
            let work = &config.workload;
            let wanted: u32 = work
                .concurrency
                .levels()
                .iter()
                .map(|&level| work.requests_at(level) + work.warmup)
                .sum();
            for prompts in &work.prompts {
                let there = fs::read_to_string(root().join(prompts)).unwrap().lines().count();
                let name = path.display();
                assert!(
                    wanted as usize <= there,
                    "{name}: {wanted} of {there} in {}",
                    prompts.display()
                );
            }
        }
    }
}
