//! What stands in a results file beside the levels: everything that is needed to repeat the run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::Harness;
use crate::bench::config::values::Positive;
use crate::bench::config::{Config, EngineSpec, PromptReuse, PromptSource, ShapePoint};
use crate::bench::engine::RunningServer;
use crate::bench::process::capture::capture;
use crate::results::convert;
use crate::results::record::{
    ConfigText, METRICS_VERSION, Meta, ResultsFile, SCHEMA_VERSION, ServerMeta,
};

/// The commit of the working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commit {
    /// Short; "unknown" outside a repository.
    pub sha: String,
    /// Whether there are uncommitted changes; `None` if that cannot be told.
    pub dirty: Option<bool>,
}

impl Commit {
    /// Asks git; a machine without it is no reason not to measure.
    pub async fn here() -> Self {
        const DEADLINE: Duration = Duration::from_secs(10);
        let env: BTreeMap<String, String> = ["PATH", "HOME"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .collect();
        let git = async |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            let captured = capture("git", &args, &env, DEADLINE).await.ok()?;
            (captured.code == Some(0)).then_some(captured.stdout)
        };
        let sha = git(&["rev-parse", "--short", "HEAD"]).await;
        let status = git(&["status", "--porcelain", "--untracked-files=no"]).await;
        Self {
            sha: sha.map_or("unknown".to_owned(), |sha| sha.trim().to_owned()),
            dirty: status.map(|status| !status.trim().is_empty()),
        }
    }
}

/// This moment, RFC 3339 in UTC, to the second.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The prompts of one results file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptsName {
    /// The file's path as it was named.
    pub path: String,
    /// SHA-256 of its bytes; `None` if it was not read.
    pub sha256: Option<String>,
}

/// A results file without levels.
pub fn empty_file(
    harness: &Harness,
    config: &Config,
    spec: Option<&EngineSpec>,
    prompts: &PromptsName,
    repeat: u32,
) -> ResultsFile {
    ResultsFile {
        schema_version: SCHEMA_VERSION,
        metrics_version: METRICS_VERSION,
        meta: meta(harness, config, spec, prompts, repeat),
        levels: Vec::new(),
        skipped: None,
        failed: None,
        interrupted: false,
        engine_log_tail: None,
        client_floor: None,
        definitions: convert::definitions(),
    }
}

fn meta(
    harness: &Harness,
    config: &Config,
    spec: Option<&EngineSpec>,
    prompts: &PromptsName,
    repeat: u32,
) -> Meta {
    let (target, work) = (&config.target, &config.workload);
    let sha256 = config.sha256(spec);
    let path = config.path.as_ref().map(|path| path.display().to_string());
    let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
    let timeouts = [
        ("connect", work.connect_timeout),
        ("first_token", work.first_token_timeout),
        ("stall", work.stall_timeout),
        ("request", work.request_timeout),
    ];
    let mut seeds = BTreeMap::new();
    seeds.extend(work.shuffle_seed.map(|seed| ("shuffle".to_owned(), seed)));
    seeds.extend(work.open_rate.map(|_| ("arrivals".to_owned(), work.seed)));
    Meta {
        target: target.name.to_string(),
        base_url: target.base_url.as_str().to_owned(),
        model: target.model.to_string(),
        base_model: Some(target.base_model().to_string()),
        precision: target.precision.to_string(),
        change: target.change.clone(),
        git_sha: harness.commit.sha.clone(),
        git_dirty: harness.commit.dirty,
        date: now(),
        date_end: None,
        max_tokens: u64::from(work.max_tokens.get()),
        ignore_eos: work.ignore_eos,
        prompts: prompts.path.clone(),
        prompts_sha256: prompts.sha256.clone(),
        n: u64::from(work.requests.default.get()),
        warmup: u64::from(work.warmup),
        client: work.client.to_string(),
        harness_version: Some(env!("SPARK_VERSION").to_owned()),
        argv: harness.argv.clone(),
        config: Some(ConfigText {
            path,
            text: config.text.clone(),
            sha256,
            effective: serde_json::to_value(config).ok(),
        }),
        repeat: Some(repeat),
        interleaved_with: None,
        resumed_from: Vec::new(),
        temperature: Some(work.temperature.get()),
        seeds,
        timeouts_s: timeouts.map(|(name, limit)| (name.to_owned(), seconds(limit.0))).into(),
        open_rate_per_s: work.open_rate.map(Positive::get),
        stutter_ms: Some(work.stutter_ms.get()),
        prompt_reuse: Some(match work.prompt_reuse {
            PromptReuse::Forbid => "forbid".to_owned(),
            PromptReuse::Allow => "allow".to_owned(),
        }),
        protocol: Some(if work.http2 { "h2" } else { "http/1.1" }.to_owned()),
        price: target.price.as_ref().and_then(|price| serde_json::to_value(price).ok()),
        extra_body: (!work.extra_body.is_empty()).then(|| Value::Object(work.extra_body.clone())),
        facts: facts(config),
        server: None,
        host: Some(harness.host.clone()),
    }
}

/// The config's tables of facts, as far as they say something.
fn facts(config: &Config) -> BTreeMap<String, Value> {
    let tables = [
        ("hardware", serde_json::to_value(&config.hardware)),
        ("model", serde_json::to_value(&config.model)),
        ("slo", serde_json::to_value(&config.slo)),
        ("shape", serde_json::to_value(shape_point(config))),
    ];
    let told = tables.into_iter().filter_map(|(name, table)| Some((name.to_owned(), table.ok()?)));
    told.filter(|(_, table)| table.as_object().is_some_and(|table| !table.is_empty())).collect()
}

/// The exact lengths of the prompts, where they have any.
fn shape_point(config: &Config) -> Option<ShapePoint> {
    match config.workload.sources()[..] {
        [PromptSource::Shape(point)] => Some(point),
        _ => None,
    }
}

/// What is known of a server that we started.
pub fn server_meta(config: &Config, server: &RunningServer) -> ServerMeta {
    ServerMeta {
        engine: config.engine.as_ref().map(|engine| engine.name.to_string()),
        version: Some(server.version.clone()),
        command: server.command.clone(),
        binary_sha256: server.binary_sha256.clone(),
        ready_s: Some(server.ready.as_secs_f64()),
        applied_settings: server.settings.applied.clone(),
        model_id: server.model_id.clone(),
        model_meta: server.model_meta.clone(),
        ..ServerMeta::default()
    }
}

/// Of an answer's headers, those that may name a region, a backend or a limit: not the ones that
/// every answer has.
pub fn telling_headers(headers: BTreeMap<String, String>) -> BTreeMap<String, String> {
    const ORDINARY: [&str; 12] = [
        "date",
        "content-type",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "cache-control",
        "vary",
        "alt-svc",
        "strict-transport-security",
        "x-content-type-options",
        "x-request-id",
    ];
    let telling = |name: &str| !ORDINARY.contains(&name) && !name.starts_with("access-control-");
    headers.into_iter().filter(|(name, _)| telling(name)).collect()
}
