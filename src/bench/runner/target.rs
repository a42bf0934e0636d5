//! One target, one pass over its ladder: one life of its server, one results file for each prompts
//! file.

use std::path::{Path, PathBuf};

use super::drafts::Drafts;
use super::earlier::Identity;
use super::endpoint::endpoint;
use super::ladder::Run;
use super::prompts::{self, Prompts};
use super::{Harness, meta, probe};
use crate::bench::client::Endpoint;
use crate::bench::config::{Config, EngineSpec};
use crate::bench::engine::{Kind, NotMeasured, RunningServer, StartPlan, program_sha256};
use crate::bench::http::Http;
use crate::bench::process::LogFate;
use crate::bench::prompts::PromptFile;
use crate::bench::secrets::Secrets;
use crate::exit_codes;
use crate::results::record::{ResultsFile, ServerMeta};
use crate::results::store;

/// What is measured in one life of a server.
#[derive(Debug, Clone)]
pub struct Work {
    /// The target and its work.
    pub config: Config,
    /// Its engine's entry, where we start the server.
    pub spec: Option<EngineSpec>,
    /// Which pass over the ladder this is, from 1.
    pub repeat: u32,
}

/// A results file that was written, and what it makes the exit code.
#[derive(Debug)]
pub struct Outcome {
    /// Where it lies.
    pub path: PathBuf,
    /// What stands in it.
    pub file: ResultsFile,
    /// The exit code that this file alone would give.
    pub code: u8,
}

/// Measures a target. Whatever goes wrong is a results file that says so; a resumed target whose
/// files are complete gives none.
///
/// # Errors
/// Only if results cannot be written.
pub async fn run_target(harness: &Harness, work: &Work) -> Result<Vec<Outcome>, store::StoreError> {
    let mut drafts = Drafts::new(harness, work);
    if is_measured_already(harness, work, &drafts).await {
        harness.progress.say(&format!("{}: measured already", work.config.target.name));
        return Ok(Vec::new());
    }
    let code = match measure_target(harness, work, &mut drafts).await {
        Ok(()) => exit_codes::OK,
        Err(why) => {
            drafts.put_reason(&why);
            why.exit_code()
        }
    };
    drafts.write(harness, code)
}

/// Whether earlier results hold every level of every prompts file.
async fn is_measured_already(harness: &Harness, work: &Work, drafts: &Drafts) -> bool {
    let Ok(prompts) = prompts::read(&work.config) else { return false };
    let binary_sha256 = match &work.spec {
        Some(spec) => program_sha256(&work.config, spec, &harness.exe).await,
        None => None,
    };
    let levels = work.config.workload.concurrency.levels();
    drafts.all.iter().zip(&prompts).all(|(draft, prompts)| {
        let mut meta = draft.file.meta.clone();
        meta.prompts_sha256 = Some(prompts.sha256());
        let server = ServerMeta { binary_sha256: binary_sha256.clone(), ..ServerMeta::default() };
        meta.server = Some(server);
        harness.earlier.is_complete(&Identity::of(&meta), levels)
    })
}

async fn measure_target(
    harness: &Harness,
    work: &Work,
    drafts: &mut Drafts,
) -> Result<(), NotMeasured> {
    let prompts = prompts::read(&work.config)?;
    for (draft, prompts) in drafts.all.iter_mut().zip(&prompts) {
        draft.file.meta.prompts_sha256 = Some(prompts.sha256());
        draft.file.client_floor.clone_from(&harness.floor);
    }
    drafts.secrets = Secrets::read(&work.config.target)?;
    let Some(spec) = &work.spec else {
        let base_url = work.config.target.base_url.as_str().to_owned();
        let endpoint = build_endpoint(&work.config, &base_url, &drafts.secrets)?;
        let run = Run { harness, work, endpoint: &endpoint, server: None };
        let prompts = made(harness, work, prompts, &endpoint, &base_url, drafts).await?;
        return run.ladders(prompts, drafts).await;
    };
    let (server, _logs) = start(harness, work, spec).await?;
    let result = with_server(harness, work, &server, prompts, drafts).await;
    let ended = server.ended();
    let stopped = server.stop().await;
    drafts.update_server(|about| about.stopped = Some(stopped.to_string()));
    if !stopped.port_free {
        harness.progress.warn(&format!("{}: its port is still taken", work.config.target.name));
    }
    match (result, ended) {
        (Err(why), None) => Err(match stopped.report {
            Some(report) if why.kind != Kind::Interrupted => why.with_log(report.log_tail),
            _ => why,
        }),
        (Err(_), Some(ended)) | (Ok(()), Some(ended)) => {
            let how = ended.exit.map_or("an unknown end".to_owned(), |exit| exit.to_string());
            let text = format!("the server ended while it was measured: {how}");
            Err(NotMeasured::new(Kind::NotStarted, "server_died", text).with_log(ended.log_tail))
        }
        (Ok(()), None) => Ok(()),
    }
}

/// Starts a target's server; its log's folder lives as long as the second value.
async fn start(
    harness: &Harness,
    work: &Work,
    spec: &EngineSpec,
) -> Result<(RunningServer, LogFolder), NotMeasured> {
    let name = work.config.target.name.as_str();
    let logs = LogFolder::new(harness)?;
    let log = logs.path().join(format!("{}-{}.log", store::slug(name), work.repeat));
    let plan = StartPlan {
        config: &work.config,
        spec,
        harness: &harness.exe,
        log: &log,
        log_fate: logs.fate(),
    };
    let bad_tls = |text| NotMeasured::new(Kind::BadInput, "ca_file", text);
    let http = Http::new(work.config.target.ca_file.as_deref()).map_err(bad_tls)?;
    harness.progress.say(&format!("{name}: starting"));
    let server = RunningServer::start(plan, &http, &harness.cancel).await?;
    let ready = server.ready.as_secs_f64();
    harness.progress.say(&format!("{name}: ready after {ready:.1} s ({})", server.version));
    Ok((server, logs))
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
        probe::check(&endpoint, &harness.cancel).await?;
        return Ok(secrets.scrub(&probe::coherence(&endpoint, &harness.cancel).await));
    };
    let (server, _logs) = start(harness, work, spec).await?;
    let answered = async {
        let endpoint = build_endpoint(&work.config, &server.base_url, &secrets)?;
        probe::check(&endpoint, &harness.cancel).await?;
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

/// Check, probe, ladders, probe.
async fn with_server(
    harness: &Harness,
    work: &Work,
    server: &RunningServer,
    prompts: Vec<Prompts>,
    drafts: &mut Drafts,
) -> Result<(), NotMeasured> {
    let endpoint = build_endpoint(&work.config, &server.base_url, &drafts.secrets)?;
    let mut about = meta::server_meta(&work.config, server);
    let cancel = &harness.cancel;
    drafts.put_server(&about, &server.base_url);
    for setting in &server.settings.differing {
        harness.progress.warn(&format!("{}: {setting}", work.config.target.name));
    }
    probe::check(&endpoint, cancel).await?;
    about.probe_before = Some(drafts.secrets.scrub(&probe::coherence(&endpoint, cancel).await));
    drafts.put_server(&about, &server.base_url);
    let run = Run { harness, work, endpoint: &endpoint, server: Some(server) };
    let prompts = made(harness, work, prompts, &endpoint, &server.base_url, drafts).await?;
    run.ladders(prompts, drafts).await?;
    let after = drafts.secrets.scrub(&probe::coherence(&endpoint, cancel).await);
    drafts.update_server(|about| about.probe_after = Some(after.clone()));
    Ok(())
}

/// The prompts, those of a shape made to the server's count.
async fn made(
    harness: &Harness,
    work: &Work,
    prompts: Vec<Prompts>,
    endpoint: &Endpoint,
    base_url: &str,
    drafts: &Drafts,
) -> Result<Vec<PromptFile>, NotMeasured> {
    let (secrets, cancel) = (&drafts.secrets, &harness.cancel);
    prompts::make(prompts, &work.config, endpoint, base_url, secrets, cancel).await
}

fn build_endpoint(
    config: &Config,
    base_url: &str,
    secrets: &Secrets,
) -> Result<Endpoint, NotMeasured> {
    endpoint(config, base_url, secrets).map_err(|error| {
        NotMeasured::new(Kind::BadInput, "bad_endpoint", format!("failed to {error}"))
    })
}

/// Where logs go: the folder that was asked for, or one that goes away with this value.
enum LogFolder {
    Kept(PathBuf),
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
