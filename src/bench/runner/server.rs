//! The server of one turn: started with a log of its own, checked, probed.

use std::path::{Path, PathBuf};

use super::target::Work;
use super::{Harness, probe, prompts};
use crate::bench::client::Endpoint;
use crate::bench::config::{Config, EngineSpec};
use crate::bench::engine::{Kind, NotMeasured, RunningServer, StartPlan};
use crate::bench::http::Http;
use crate::bench::process::LogFate;
use crate::bench::secrets::Secrets;
use crate::results::store;

/// Starts a target's server; its log's folder lives as long as the second value. `turn` counts the
/// lives of a target's server, from 1.
pub async fn start(
    harness: &Harness,
    work: &Work,
    spec: &EngineSpec,
    turn: u32,
) -> Result<(RunningServer, LogFolder), NotMeasured> {
    let name = work.config.target.name.as_str();
    let logs = LogFolder::new(harness)?;
    let turn = if turn > 1 { format!("-{turn}") } else { String::new() };
    let log = logs.path().join(format!("{}-{}{turn}.log", store::slug(name), work.repeat));
    let plan = StartPlan {
        config: &work.config,
        spec,
        harness: &harness.exe,
        log: &log,
        log_fate: logs.fate(),
    };
    let http = untimed(&work.config)?;
    harness.progress.say(&format!("{name}: starting"));
    let server = RunningServer::start(plan, &http, &harness.cancel).await?;
    let ready = server.ready.as_secs_f64();
    harness.progress.say(&format!("{name}: ready after {ready:.1} s ({})", server.version));
    Ok((server, logs))
}

/// A client for what is not timed.
///
/// # Errors
/// If the config's certificates cannot be used.
pub fn untimed(config: &Config) -> Result<Http, NotMeasured> {
    let bad_tls = |text| NotMeasured::new(Kind::BadInput, "ca_file", text);
    Http::new(config.target.ca_file.as_deref()).map_err(bad_tls)
}

/// Starts a target's server, sends one known request, stops it; gives what the model said.
///
/// # Errors
/// What is wrong with it.
pub async fn check_target(harness: &Harness, work: &Work) -> Result<String, NotMeasured> {
    prompts::read(&work.config)?;
    let secrets = Secrets::read(&work.config.target)?;
    let Some(spec) = &work.spec else {
        let base_url = work.config.target.base_url.as_str();
        let endpoint = build_endpoint(&work.config, base_url, &secrets)?;
        probe::check(&work.config.target, &endpoint, &harness.cancel).await?;
        return Ok(secrets.scrub(&probe::coherence(&endpoint, &harness.cancel).await));
    };
    let (server, _logs) = start(harness, work, spec, 1).await?;
    let answered = async {
        let endpoint = build_endpoint(&work.config, &server.base_url, &secrets)?;
        probe::check(&work.config.target, &endpoint, &harness.cancel).await?;
        Ok(secrets.scrub(&probe::coherence(&endpoint, &harness.cancel).await))
    };
    let answered: Result<String, NotMeasured> = answered.await;
    let differing = server.settings.differing.join("; ");
    server.stop().await;
    let answer = answered?;
    if differing.is_empty() {
        Ok(answer)
    } else {
        Err(NotMeasured::new(Kind::CheckFailed, "settings_not_applied", differing))
    }
}

/// The endpoint of a target that answers under `base_url`.
pub fn build_endpoint(
    config: &Config,
    base_url: &str,
    secrets: &Secrets,
) -> Result<Endpoint, NotMeasured> {
    super::endpoint::endpoint(config, base_url, secrets).map_err(|error| {
        NotMeasured::new(Kind::BadInput, "bad_endpoint", format!("failed to {error}"))
    })
}

/// Where logs go: the folder that was asked for, or one that goes away with this value.
pub enum LogFolder {
    /// The folder that was asked for.
    Kept(PathBuf),
    /// One of our own.
    Temporary(tempfile::TempDir),
}

impl LogFolder {
    fn new(harness: &Harness) -> Result<Self, NotMeasured> {
        let failed = |error: std::io::Error| {
            NotMeasured::new(
                Kind::NotStarted,
                "no_log",
                format!("failed to make a log folder: {error}"),
            )
        };
        match &harness.logs {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(failed)?;
                Ok(Self::Kept(folder.clone()))
            }
            None => tempfile::tempdir().map(Self::Temporary).map_err(failed),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    fn fate(&self) -> LogFate {
        match self {
            Self::Kept(_) => LogFate::Keep,
            Self::Temporary(_) => LogFate::Remove,
        }
    }
}
