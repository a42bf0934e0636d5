//! `--config`: what a target's config says of its model and machine, for results that do not.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::super::BadInput;
use crate::bench::config::Config;
use crate::report::evidence::ModelAndMachine;
use crate::results::record::Meta;
use crate::results::store::StoredRun;

/// Adds what the configs say to the runs of their targets, and gives for each run what was added.
/// What a server told, or the results hold, stays as it is.
///
/// # Errors
/// If a config cannot be read, or no run is of its target.
pub(super) fn add(runs: &mut [StoredRun], paths: &[PathBuf]) -> Result<Vec<Vec<String>>, BadInput> {
    let mut added = vec![Vec::new(); runs.len()];
    for path in paths {
        let configs = Config::load(path).map_err(|error| BadInput(error.to_string()))?;
        let mut found = false;
        for config in &configs {
            let name = config.target.name.as_str();
            let of_target = runs.iter_mut().zip(&mut added);
            for (run, added) in of_target.filter(|(run, _)| run.file.meta.target == name) {
                found = true;
                let keys = add_to(&mut run.file.meta, config);
                if !keys.is_empty() {
                    added.push(format!("{} ({})", keys.join(", "), path.display()));
                }
            }
        }
        if !found {
            let names: Vec<&str> = configs.iter().map(|c| c.target.name.as_str()).collect();
            let text = format!("{}: no run is of its target {}", path.display(), names.join(", "));
            return Err(BadInput(text));
        }
    }
    Ok(added)
}

/// The keys of a config's `[model]` and `[hardware]` that a run did not know yet.
fn add_to(meta: &mut Meta, config: &Config) -> Vec<String> {
    let known = ModelAndMachine::of(meta);
    let is_known = |key: &str| match key {
        "weight_bytes" => known.weight_bytes.is_some(),
        "bytes_read_per_token" => known.bytes_read_per_token.is_some(),
        "kv_bytes_per_token" => known.kv_bytes_per_token.is_some(),
        "n_params" => known.n_params.is_some(),
        "bandwidth_gb_s" => known.bandwidth_bytes_per_s.is_some(),
        "flops_bf16" => known.flops_per_s.is_some(),
        // Nothing that a prediction asks for.
        _ => true,
    };
    let tables = [
        ("model", serde_json::to_value(&config.model)),
        ("hardware", serde_json::to_value(&config.hardware)),
    ];
    let mut added = Vec::new();
    for (table, says) in tables {
        let Ok(Value::Object(says)) = says else { continue };
        for (key, value) in says.into_iter().filter(|(key, _)| !is_known(key)) {
            let facts =
                meta.facts.entry(table.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(facts) = facts {
                added.push(format!("{table}.{key}"));
                facts.insert(key, value);
            }
        }
    }
    added
}
