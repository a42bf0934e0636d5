//! One target, one pass over its ladder: its turns, each one life of its server, and one results
//! file for each prompts file.

use std::collections::HashMap;
use std::path::PathBuf;

use super::drafts::Drafts;
use super::earlier::Identity;
use super::ladder::{Ladder, Run, Step};
use super::prompts::{self, Prompts};
use super::server::{build_endpoint, start};
use super::{Harness, memory, meta, probe};
use crate::bench::client;
use crate::bench::config::{Config, EndpointKind, EngineSpec};
use crate::bench::engine::{Kind, NotMeasured, RunningServer, program_sha256};
use crate::bench::prompt_tokens::PromptTokens;
use crate::bench::prompts::SentPrompts;
use crate::bench::secrets::Secrets;
use crate::exit_codes;
use crate::results::record::{ResultsFile, ServerMeta};
use crate::results::store;

/// What is measured of one target.
#[derive(Debug, Clone)]
pub struct Work {
    /// The target and its work.
    pub config: Config,
    /// Its engine's entry, where we start the server.
    pub spec: Option<EngineSpec>,
    /// Which pass over the ladder this is, from 1.
    pub repeat: u32,
    /// What the server has been sent; nothing, if it is started for this pass.
    pub sent: SentPrompts,
}

/// What the servers that run already, and that we do not restart, have been sent.
#[derive(Debug, Default)]
pub struct SentByServer(HashMap<(String, String), SentPrompts>);

impl SentByServer {
    /// What a target's server has been sent: nothing, if it is yet to be started.
    pub fn of(&mut self, config: &Config) -> SentPrompts {
        if config.engine.is_some() {
            return SentPrompts::default();
        }
        let target = &config.target;
        let server = (target.base_url.as_str().to_owned(), target.model.to_string());
        self.0.entry(server).or_default().clone()
    }
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

/// Measures a target in one turn. Whatever goes wrong is a results file that says so; a resumed
/// target whose files are complete gives none.
///
/// # Errors
/// Only if results cannot be written.
pub async fn run_target(harness: &Harness, work: &Work) -> Result<Vec<Outcome>, store::StoreError> {
    let mut run = TargetRun::new(harness, work).await;
    run.turn(&steps(&work.config)).await;
    run.finish()
}

/// Every level of every prompts file of a config, in their order.
pub fn steps(config: &Config) -> Vec<Step> {
    let levels = config.workload.concurrency.levels();
    let of_file = |file| levels.iter().map(move |&concurrency| Step { file, concurrency });
    (0..config.workload.sources().len()).flat_map(of_file).collect()
}

/// The measuring of one target, turn by turn.
pub struct TargetRun<'a> {
    harness: &'a Harness,
    work: &'a Work,
    drafts: Drafts,
    state: State,
    turns: u32,
}

enum State {
    /// Earlier results hold all of it.
    Known,
    /// Levels may be measured.
    Open(Box<Material>),
    /// Nothing more will be measured.
    Over(NotMeasured),
}

/// What every turn needs.
struct Material {
    ladders: Vec<Ladder>,
    /// The ladders' prompts, until they have been made.
    prompts: Option<Vec<Prompts>>,
    tokens: Option<PromptTokens>,
}

impl<'a> TargetRun<'a> {
    /// Reads what the turns need; starts nothing.
    pub async fn new(harness: &'a Harness, work: &'a Work) -> Self {
        let mut drafts = Drafts::new(harness, work);
        let state = match Material::read(harness, work, &mut drafts).await {
            Ok(material) if material.is_known(harness, work) => State::Known,
            Ok(material) => State::Open(Box::new(material)),
            Err(why) => State::Over(why),
        };
        Self { harness, work, drafts, state, turns: 0 }
    }

    /// Says in the results with whom this target takes turns.
    pub fn interleaved_with(&mut self, other: &str) {
        for draft in &mut self.drafts.all {
            draft.file.meta.interleaved_with = Some(other.to_owned());
        }
    }

    /// Starts the server, measures these levels, stops it. Does nothing once something went wrong,
    /// and starts nothing for levels that earlier results hold.
    pub async fn turn(&mut self, steps: &[Step]) {
        if let State::Open(material) = &mut self.state {
            self.turns += 1;
            let turn = Turn { harness: self.harness, work: self.work, number: self.turns };
            let measured = turn.measure(material, steps, &mut self.drafts).await;
            if let Err(why) = measured {
                self.state = State::Over(why);
            }
        }
        for step in steps.iter().filter(|step| !self.drafts.hold(**step)) {
            let requests = self.work.config.workload.requests_at(step.concurrency);
            self.harness.progress.pass_over(u64::from(requests));
        }
    }

    /// Writes the results files.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(mut self) -> Result<Vec<Outcome>, store::StoreError> {
        let code = match &self.state {
            State::Known => {
                let name = &self.work.config.target.name;
                self.harness.progress.say(&format!("{name}: measured already"));
                return Ok(Vec::new());
            }
            State::Open(_) => exit_codes::OK,
            State::Over(why) => {
                self.drafts.put_reason(why);
                why.exit_code()
            }
        };
        self.drafts.write(self.harness, code)
    }
}

impl Material {
    async fn read(
        harness: &Harness,
        work: &Work,
        drafts: &mut Drafts,
    ) -> Result<Self, NotMeasured> {
        let prompts = prompts::read(&work.config)?;
        for (draft, prompts) in drafts.all.iter_mut().zip(&prompts) {
            draft.file.meta.prompts_sha256 = Some(prompts.sha256());
            draft.file.client_floor.clone_from(&harness.floor);
        }
        drafts.secrets = Secrets::read(&work.config.target)?;
        let tokens = read_tokenizer(&work.config)?;
        let binary_sha256 = match &work.spec {
            Some(spec) => program_sha256(&work.config, spec, &harness.exe).await,
            None => None,
        };
        let ladder = |draft: &super::drafts::Draft| {
            let mut meta = draft.file.meta.clone();
            let binary_sha256 = binary_sha256.clone();
            meta.server = Some(ServerMeta { binary_sha256, ..ServerMeta::default() });
            Ladder::new(Identity::of(&meta))
        };
        let ladders = drafts.all.iter().map(ladder).collect();
        Ok(Self { ladders, prompts: Some(prompts), tokens })
    }

    /// Whether earlier results hold every level of every prompts file.
    fn is_known(&self, harness: &Harness, work: &Work) -> bool {
        let levels = work.config.workload.concurrency.levels();
        let known = |ladder: &Ladder| harness.earlier.is_complete(&ladder.identity, levels);
        self.ladders.iter().all(known)
    }
}

fn read_tokenizer(config: &Config) -> Result<Option<PromptTokens>, NotMeasured> {
    let kind = match config.target.endpoint {
        EndpointKind::Chat => client::EndpointKind::Chat,
        EndpointKind::Completions => client::EndpointKind::Completions,
    };
    let bad = |text| NotMeasured::new(Kind::BadInput, "bad_tokenizer", format!("failed to {text}"));
    let path = config.target.tokenizer.as_ref();
    path.map(|path| PromptTokens::read(path, kind).map_err(bad)).transpose()
}

/// One life of a target's server.
struct Turn<'a> {
    harness: &'a Harness,
    work: &'a Work,
    number: u32,
}

impl Turn<'_> {
    async fn measure(
        &self,
        material: &mut Material,
        steps: &[Step],
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        if self.harness.cancel.is_cancelled() {
            return Err(NotMeasured::interrupted());
        }
        if self.work.spec.is_none() || self.knows(material, steps) {
            let base_url = self.work.config.target.base_url.as_str().to_owned();
            return self.levels(material, &base_url, None, steps, drafts).await;
        }
        self.with_server(material, steps, drafts).await
    }

    /// Whether earlier results hold all of these levels.
    fn knows(&self, material: &Material, steps: &[Step]) -> bool {
        let known = |step: &Step| {
            let identity = &material.ladders[step.file].identity;
            self.harness.earlier.level(identity, step.concurrency).is_some()
        };
        steps.iter().all(known)
    }

    /// Makes the prompts, those of a shape to the server's count, once for all turns.
    async fn make_prompts(
        &self,
        material: &mut Material,
        endpoint: &client::Endpoint,
        base_url: &str,
        secrets: &Secrets,
    ) -> Result<(), NotMeasured> {
        let Some(prompts) = material.prompts.take() else { return Ok(()) };
        let (config, cancel) = (&self.work.config, &self.harness.cancel);
        let server = prompts::Server {
            endpoint,
            base_url,
            secrets,
            sent: &self.work.sent,
            budget: &self.harness.budget,
        };
        let files = prompts::make(prompts, config, server, cancel).await?;
        for (ladder, file) in material.ladders.iter_mut().zip(files) {
            ladder.put_prompts(config, file, self.work.sent.clone());
        }
        Ok(())
    }

    async fn levels(
        &self,
        material: &mut Material,
        base_url: &str,
        server: Option<&RunningServer>,
        steps: &[Step],
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        let endpoint = build_endpoint(&self.work.config, base_url, &drafts.secrets)?;
        if !self.knows(material, steps) {
            self.make_prompts(material, &endpoint, base_url, &drafts.secrets).await?;
        }
        let Material { ladders, tokens, .. } = material;
        let (harness, work) = (self.harness, self.work);
        let run = Run { harness, work, endpoint: &endpoint, server, tokens: tokens.as_ref() };
        run.levels(steps, ladders, drafts).await
    }

    /// Start, levels, stop; how it ended, and whether its memory came back.
    async fn with_server(
        &self,
        material: &mut Material,
        steps: &[Step],
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        let spec = self.work.spec.as_ref().expect("a server is started by its engine's entry");
        let name = &self.work.config.target.name;
        let in_use_before = memory::in_use().await;
        let (server, _logs) = start(self.harness, self.work, spec, self.number).await?;
        drafts.begin_life();
        let result = self.between_probes(material, &server, steps, drafts).await;
        let ended = server.ended();
        let stopped = server.stop().await;
        drafts.update_server(|about| about.stopped = Some(stopped.to_string()));
        if !stopped.port_free {
            self.harness.progress.warn(&format!("{name}: its port is still taken"));
        }
        let (memory, flag) = memory::after_stop(in_use_before, &self.harness.cancel).await;
        drafts.update_server(|about| about.memory = Some(memory.clone()));
        if let Some(flag) = flag {
            self.harness.progress.warn(&format!("{name}: {}", flag.text));
            drafts.flag_this_life(&flag);
        }
        match (result, ended) {
            (Err(why), None) => Err(match stopped.report {
                Some(report) if why.wants_log() => why.with_log(report.log_tail),
                _ => why,
            }),
            (Err(_), Some(ended)) | (Ok(()), Some(ended)) => {
                let how = ended.exit.map_or("an unknown end".to_owned(), |exit| exit.to_string());
                let text = format!("the server ended while it was measured: {how}");
                let why = NotMeasured::new(Kind::NotStarted, "server_died", text);
                Err(why.with_log(ended.log_tail))
            }
            (Ok(()), None) => Ok(()),
        }
    }

    /// Check, probe, levels, probe.
    async fn between_probes(
        &self,
        material: &mut Material,
        server: &RunningServer,
        steps: &[Step],
        drafts: &mut Drafts,
    ) -> Result<(), NotMeasured> {
        let config = &self.work.config;
        let endpoint = build_endpoint(config, &server.base_url, &drafts.secrets)?;
        let mut about = meta::server_meta(config, server);
        let cancel = &self.harness.cancel;
        drafts.put_server(&about, &server.base_url);
        for setting in &server.settings.differing {
            self.harness.progress.warn(&format!("{}: {setting}", config.target.name));
        }
        probe::check(&config.target, &endpoint, cancel).await?;
        about.probe_before = Some(drafts.secrets.scrub(&probe::coherence(&endpoint, cancel).await));
        drafts.put_server(&about, &server.base_url);
        self.levels(material, &server.base_url, Some(server), steps, drafts).await?;
        let after = drafts.secrets.scrub(&probe::coherence(&endpoint, cancel).await);
        drafts.update_server(|about| about.probe_after = Some(after.clone()));
        Ok(())
    }
}
