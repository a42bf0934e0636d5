//! One target, one pass over its ladder: one life of its server, one results file for each prompts
//! file.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::endpoint::{endpoint, prompt_reuse};
use super::level::{self, Measured, Surroundings};
use super::meta::{self, PromptsName};
use super::{Harness, probe};
use crate::bench::client::Endpoint;
use crate::bench::config::{Config, EngineSpec};
use crate::bench::engine::{Kind, NotMeasured, RunningServer, StartPlan};
use crate::bench::http::Http;
use crate::bench::process::LogFate;
use crate::bench::prompts::{PromptCursor, PromptFile};
use crate::bench::secrets::Secrets;
use crate::exit_codes;
use crate::measure::level::EndedBy;
use crate::results::record::{ResultsFile, ServerMeta, Verdict};
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

/// Measures a target. Whatever goes wrong is a results file that says so.
///
/// # Errors
/// Only if results cannot be written.
pub async fn run_target(harness: &Harness, work: &Work) -> Result<Vec<Outcome>, store::StoreError> {
    let mut drafts = Drafts::new(harness, work);
    let code = match measure_target(harness, work, &mut drafts).await {
        Ok(()) => exit_codes::OK,
        Err(why) => {
            drafts.put_reason(&why);
            why.exit_code()
        }
    };
    drafts.write(harness, code)
}

/// The results files of one life of a server, before they are written.
struct Drafts {
    files: Vec<ResultsFile>,
    /// The counters over time, of the levels that asked for them, by file.
    series: Vec<Vec<(u32, String)>>,
    /// Levels that a complete file has.
    levels: usize,
    secrets: Secrets,
}

async fn measure_target(
    harness: &Harness,
    work: &Work,
    drafts: &mut Drafts,
) -> Result<(), NotMeasured> {
    let prompts = read_prompts(&work.config)?;
    for (file, prompts) in drafts.files.iter_mut().zip(&prompts) {
        file.meta.prompts_sha256 = Some(prompts.sha256.clone());
    }
    drafts.secrets = Secrets::read(&work.config.target)?;
    let Some(spec) = &work.spec else {
        let base_url = work.config.target.base_url.as_str().to_owned();
        let endpoint = build_endpoint(&work.config, &base_url, &drafts.secrets)?;
        let run = Run { harness, work, endpoint: &endpoint, server: None };
        return run.ladders(prompts, drafts).await;
    };
    let logs = LogFolder::new(harness)?;
    let log = logs.path().join(format!(
        "{}-{}.log",
        store::slug(work.config.target.name.as_str()),
        work.repeat
    ));
    let plan = StartPlan {
        config: &work.config,
        spec,
        harness: &harness.exe,
        log: &log,
        log_fate: logs.fate(),
    };
    let bad_tls = |text| NotMeasured::new(Kind::BadInput, "ca_file", text);
    let http = Http::new(work.config.target.ca_file.as_deref()).map_err(bad_tls)?;
    harness.progress.say(&format!("{}: starting", work.config.target.name));
    let server = RunningServer::start(plan, &http, &harness.cancel).await?;
    harness.progress.say(&format!(
        "{}: ready after {:.1} s ({})",
        work.config.target.name,
        server.ready.as_secs_f64(),
        server.version
    ));
    let result = with_server(harness, work, &server, prompts, drafts).await;
    let ended = server.ended();
    let stopped = server.stop().await;
    for file in &mut drafts.files {
        if let Some(meta) = &mut file.meta.server {
            meta.stopped = Some(stopped.to_string());
        }
    }
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

/// Check, probe, ladders, probe.
async fn with_server(
    harness: &Harness,
    work: &Work,
    server: &RunningServer,
    prompts: Vec<PromptFile>,
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
    run.ladders(prompts, drafts).await?;
    let after = drafts.secrets.scrub(&probe::coherence(&endpoint, cancel).await);
    for file in &mut drafts.files {
        if let Some(meta) = &mut file.meta.server {
            meta.probe_after = Some(after.clone());
        }
    }
    Ok(())
}

/// The levels of one life of a server.
struct Run<'a> {
    harness: &'a Harness,
    work: &'a Work,
    endpoint: &'a Endpoint,
    server: Option<&'a RunningServer>,
}

impl Run<'_> {
    async fn ladders(
        &self,
        prompts: Vec<PromptFile>,
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        for (index, prompts) in prompts.into_iter().enumerate() {
            let seed = self.work.config.workload.shuffle_seed;
            let mut cursor = PromptCursor::new(prompts, seed, prompt_reuse(&self.work.config));
            drafts.files[index].meta.date = meta::now();
            let (file, series) = (&mut drafts.files[index], &mut drafts.series[index]);
            let result = self.ladder(&mut cursor, file, series).await;
            drafts.files[index].meta.date_end = Some(meta::now());
            result?;
        }
        Ok(())
    }

    async fn ladder(
        &self,
        cursor: &mut PromptCursor,
        file: &mut ResultsFile,
        series: &mut Vec<(u32, String)>,
    ) -> Result<(), NotMeasured> {
        let mut single = None;
        for &concurrency in self.work.config.workload.concurrency.levels() {
            if self.harness.cancel.is_cancelled() {
                return Err(NotMeasured::interrupted());
            }
            let around = Surroundings {
                config: &self.work.config,
                endpoint: self.endpoint,
                server_pid: self.server.map(RunningServer::pid),
                settings_not_applied: self
                    .server
                    .map_or(&[], |server| server.settings.differing.as_slice()),
                floor: file.client_floor.as_ref(),
                single,
            };
            let measured = self.level(around, concurrency, cursor).await?;
            single = single.or(measured.single);
            let ended_by = measured.ended_by;
            put_headers(file, measured.headers);
            series.extend(measured.series.map(|csv| (concurrency, csv)));
            file.levels.push(measured.level);
            if ended_by == EndedBy::Interrupted {
                return Err(NotMeasured::interrupted());
            }
        }
        Ok(())
    }

    /// One level; it ends early if the server does.
    async fn level(
        &self,
        around: Surroundings<'_>,
        concurrency: u32,
        cursor: &mut PromptCursor,
    ) -> Result<Measured, NotMeasured> {
        let config = &self.work.config;
        let n_ok = config.workload.requests_at(concurrency);
        let name = config.target.name.as_str();
        let progress = self.harness.progress.level(name, concurrency, n_ok);
        let stop: CancellationToken = self.harness.cancel.child_token();
        let measuring = level::measure(around, concurrency, cursor, &progress, &stop);
        let watched = async {
            match self.server {
                Some(server) => {
                    server.wait_for_end().await;
                    stop.cancel();
                    std::future::pending().await
                }
                None => std::future::pending::<()>().await,
            }
        };
        let measured = tokio::select! {
            measured = measuring => measured,
            () = watched => unreachable!("watching never ends before the level does"),
        };
        let measured = measured.map_err(|error| {
            NotMeasured::new(
                Kind::NotStarted,
                "no_threads",
                format!("failed to run a level: {error}"),
            )
        })?;
        progress.done(&verdict_text(&measured));
        Ok(measured)
    }
}

fn verdict_text(measured: &Measured) -> String {
    let names: Vec<&str> = measured.level.flags.iter().map(|flag| flag.name.as_str()).collect();
    match measured.level.verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Flagged => format!("flagged: {}", names.join(", ")),
        Verdict::Invalid => format!("INVALID: {}", names.join(", ")),
    }
}

fn put_headers(file: &mut ResultsFile, headers: std::collections::BTreeMap<String, String>) {
    let headers = meta::telling_headers(headers);
    let server = file.meta.server.get_or_insert_with(ServerMeta::default);
    // A later level's values win: limits count down.
    server.headers.extend(headers);
}

fn read_prompts(config: &Config) -> Result<Vec<PromptFile>, NotMeasured> {
    let bad = |error: crate::bench::prompts::PromptsError| {
        NotMeasured::new(Kind::BadInput, "bad_prompts", format!("failed to {error}"))
    };
    config.workload.prompts.iter().map(|path| PromptFile::read(path).map_err(bad)).collect()
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

impl Drafts {
    fn new(harness: &Harness, work: &Work) -> Self {
        let file = |path: &PathBuf| {
            let name = PromptsName { path: path.display().to_string(), sha256: None };
            meta::empty_file(harness, &work.config, work.spec.as_ref(), &name, work.repeat)
        };
        let files: Vec<_> = work.config.workload.prompts.iter().map(file).collect();
        let levels = work.config.workload.concurrency.levels().len();
        Self { series: vec![Vec::new(); files.len()], files, levels, secrets: Secrets::default() }
    }

    fn put_server(&mut self, about: &ServerMeta, base_url: &str) {
        for file in &mut self.files {
            file.meta.server = Some(about.clone());
            base_url.clone_into(&mut file.meta.base_url);
        }
    }

    /// Says in each file that is not complete why it is not.
    fn put_reason(&mut self, why: &NotMeasured) {
        let tail = self.secrets.scrub_lines(&why.log_tail);
        for file in &mut self.files {
            if file.levels.len() == self.levels && !was_cut_short(file) {
                continue;
            }
            match why.kind {
                Kind::Skipped => file.skipped = Some(why.record()),
                Kind::Interrupted => file.interrupted = true,
                _ => file.failed = Some(why.record()),
            }
            if !tail.is_empty() {
                file.engine_log_tail = Some(tail.clone());
            }
        }
    }

    fn write(self, harness: &Harness, code: u8) -> Result<Vec<Outcome>, store::StoreError> {
        let write = |(file, series): (ResultsFile, Vec<(u32, String)>)| {
            let path = store::write_new(&harness.out, &file)?;
            if !series.is_empty() {
                let csv = join_series(&series);
                store::replace(&path.with_extension("series.csv"), csv.as_bytes())?;
            }
            let invalid = file.levels.iter().any(|level| level.verdict == Verdict::Invalid);
            let not_applied = file
                .levels
                .iter()
                .flat_map(|level| &level.flags)
                .any(|flag| flag.name == "settings_not_applied" || flag.name == "wrong_model");
            let codes = [
                code,
                if invalid { exit_codes::INVALID_LEVELS } else { exit_codes::OK },
                if not_applied { exit_codes::CHECK_FAILED } else { exit_codes::OK },
            ];
            Ok(Outcome { path, file, code: exit_codes::worst(codes) })
        };
        self.files.into_iter().zip(self.series).map(write).collect()
    }
}

/// The levels' tables as one, with the concurrency in front of each row.
fn join_series(series: &[(u32, String)]) -> String {
    let mut joined = String::new();
    for (index, (concurrency, csv)) in series.iter().enumerate() {
        for (line, row) in csv.lines().enumerate() {
            match line {
                0 if index == 0 => joined.push_str(&format!("concurrency,{row}\r\n")),
                0 => {}
                _ => joined.push_str(&format!("{concurrency},{row}\r\n")),
            }
        }
    }
    joined
}

fn was_cut_short(file: &ResultsFile) -> bool {
    file.levels.iter().any(|level| level.summary.ended_by == EndedBy::Interrupted.name())
}
