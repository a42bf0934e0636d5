//! A config that cannot be used is a row with its error, like any target that was not measured.

use std::path::Path;

use toml::{Table, Value};

use super::target::Outcome;
use super::{Harness, meta};
use crate::bench::config::Workload;
use crate::exit_codes;
use crate::results::convert;
use crate::results::record::{METRICS_VERSION, Meta, Reason, ResultsFile, SCHEMA_VERSION};
use crate::results::store;

/// Stands where the config does not say it, or says it in a way that cannot be read.
const UNKNOWN: &str = "unknown";

/// Writes the results file of a config that cannot be used, with `text` as the reason. Its row stands
/// where it would have stood, as far as the config says it.
///
/// # Errors
/// If it cannot be written.
pub fn put_bad_config(
    harness: &Harness,
    path: &Path,
    text: &str,
) -> Result<Outcome, store::StoreError> {
    let raw = std::fs::read_to_string(path).ok().and_then(|text| text.parse().ok());
    let file = ResultsFile {
        schema_version: SCHEMA_VERSION,
        metrics_version: METRICS_VERSION,
        meta: meta_of(harness, path, &raw.unwrap_or_default()),
        levels: Vec::new(),
        skipped: None,
        failed: Some(Reason { reason: "bad_config".to_owned(), text: text.to_owned() }),
        interrupted: false,
        engine_log_tail: None,
        client_floor: None,
        definitions: convert::definitions(),
    };
    let path = store::write_new(&harness.out, &file)?;
    Ok(Outcome { path, file, code: exit_codes::USAGE })
}

fn meta_of(harness: &Harness, path: &Path, raw: &Table) -> Meta {
    let said = |table: &str, key: &str| raw.get(table)?.get(key);
    let text = |table, key| said(table, key).and_then(Value::as_str).map(str::to_owned);
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let prompts = said("workload", "prompts").and_then(|list| list.get(0)?.as_str());
    let defaults = Workload::default();
    let default_prompts = || defaults.prompts[0].display().to_string();
    let count = |key, default| {
        let number = said("workload", key).and_then(Value::as_integer);
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or(default)
    };
    Meta {
        target: text("target", "name").unwrap_or_else(stem),
        model: text("target", "model").unwrap_or_else(|| UNKNOWN.to_owned()),
        base_model: text("target", "base_model"),
        precision: text("target", "precision").unwrap_or_else(|| UNKNOWN.to_owned()),
        change: text("target", "change").unwrap_or_default(),
        git_sha: harness.commit.sha.clone(),
        git_dirty: harness.commit.dirty,
        date: meta::now(),
        max_tokens: count("max_tokens", u64::from(defaults.max_tokens.get())),
        ignore_eos: said("workload", "ignore_eos").and_then(Value::as_bool).unwrap_or_default(),
        prompts: prompts.map_or_else(default_prompts, str::to_owned),
        n: count("requests", u64::from(defaults.requests.default.get())),
        warmup: count("warmup", u64::from(defaults.warmup)),
        client: text("workload", "client").unwrap_or_else(|| defaults.client.to_string()),
        harness_version: Some(env!("SPARK_VERSION").to_owned()),
        argv: harness.argv.clone(),
        ..Meta::default()
    }
}
