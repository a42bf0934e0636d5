//! The sweep: both targets over the same prompt lengths, one request at a time, in the order
//! A B B A, so that a machine that drifts favours neither.

use std::num::NonZeroU32;
use std::path::Path;

use super::Args;
use crate::bench::cmd::BadInput;
use crate::bench::cmd::announce::announce_sweep;
use crate::bench::cmd::measuring::{Common, Session};
use crate::bench::config::engines::engines_path;
use crate::bench::config::shape::Shape;
use crate::bench::config::values::{Ladder, Requests};
use crate::bench::config::{Config, EnginesFile, Workload};
use crate::bench::plan::PlannedTarget;
use crate::bench::progress::counted;
use crate::bench::runner::{SentByServer, Work, run_target};
use crate::exit_codes;
use crate::results::store::StoredRun;

/// Two targets, each with the same work.
pub(super) struct Sweep {
    targets: [PlannedTarget; 2],
}

/// Who is measured when: each target twice, and neither always first.
const TURNS: [usize; 4] = [0, 1, 1, 0];

impl Sweep {
    /// Reads both configs and puts the sweep's work in the place of theirs.
    ///
    /// # Errors
    /// If a config is bad, names several targets, or both name the same one.
    pub(super) fn read(paths: [&Path; 2], args: &Args) -> anyhow::Result<Self> {
        let [a, b] = paths.map(|path| target_of(path, args));
        let targets = [a?, b?];
        let [a, b] = [&targets[0], &targets[1]].map(|target| &target.config.target.name);
        if a == b {
            return Err(BadInput(format!("both configs name the target {a}")).into());
        }
        Ok(Self { targets })
    }

    /// Measures; the runs of A and of B, and the worst exit code.
    ///
    /// # Errors
    /// If results cannot be written.
    pub(super) async fn run(self, common: &Common) -> anyhow::Result<([Vec<StoredRun>; 2], u8)> {
        let mut session = Session::start(common).await?;
        announce_sweep(&session.harness, &self.targets.clone().map(both_turns))?;
        session.measure_floor(&[1]).await;
        let (mut runs, mut codes) = ([Vec::new(), Vec::new()], Vec::new());
        let size = |target: &PlannedTarget| target.size();
        let (levels, requests) = TURNS.iter().fold((0, 0), |sum: (usize, u64), &turn| {
            let (levels, requests) = size(&self.targets[turn]);
            (sum.0 + levels, sum.1 + requests)
        });
        session.harness.progress.plan(levels, requests);
        let (levels, requests) = (counted(levels as u64, "level"), counted(requests, "request"));
        session.harness.progress.say(&format!("{levels}, {requests}"));
        // For both turns of a side: the second one gets other prompts, whoever serves it.
        let mut servers = SentByServer::default();
        let sent = [0, 1].map(|side| servers.of(&self.targets[side].config));
        for (turn, &side) in TURNS.iter().enumerate() {
            if session.harness.cancel.is_cancelled() {
                return Ok((runs, exit_codes::INTERRUPTED));
            }
            let PlannedTarget { config, spec } = self.targets[side].clone();
            let repeat = if turn < TURNS.len() / 2 { 1 } else { 2 };
            let work = Work { config, spec, repeat, sent: sent[side].clone() };
            for outcome in run_target(&session.harness, &work).await? {
                session.tell(&outcome);
                codes.push(outcome.code);
                runs[side].push(StoredRun { path: outcome.path, file: outcome.file.brief() });
            }
        }
        let interrupted = session.harness.cancel.is_cancelled().then_some(exit_codes::INTERRUPTED);
        // Ten requests are few for a level of its own, and no failure of the sweep.
        Ok((runs, exit_codes::worst(codes.into_iter().chain(interrupted))))
    }
}

/// All that a target is sent, for what is said before.
fn both_turns(mut target: PlannedTarget) -> PlannedTarget {
    target.config.workload.repeats = NonZeroU32::MIN.saturating_add(1);
    target
}

fn target_of(path: &Path, args: &Args) -> anyhow::Result<PlannedTarget> {
    let bad = |text: String| BadInput(text);
    // Not a plan: the config's own prompts are not needed, nor need they exist.
    let mut configs = Config::load(path).map_err(|error| bad(error.to_string()))?;
    let (Some(config), true) = (configs.pop(), configs.is_empty()) else {
        let text = format!("{}: a sweep of prompt lengths takes one target", path.display());
        return Err(bad(text).into());
    };
    let engines = args.engines.clone().unwrap_or_else(|| engines_path(path));
    let spec = match &config.engine {
        None => None,
        Some(engine) => {
            let file = EnginesFile::load(&engines).map_err(|error| bad(error.to_string()))?;
            let entry = file.entry(&engine.name, &engines);
            Some(entry.map_err(|text| bad(format!("{}: {text}", path.display())))?.clone())
        }
    };
    let mut target = PlannedTarget { config, spec };
    let work = &target.config.workload;
    target.config.workload = Workload {
        shape: Some(Shape {
            prompt_tokens: args.lengths.clone(),
            output_tokens: vec![args.output_tokens],
            depth: vec![0],
        }),
        concurrency: Ladder::one(),
        requests: Requests::each(args.n.div_ceil(NonZeroU32::MIN.saturating_add(1))),
        max_attempts: None,
        repeats: NonZeroU32::MIN,
        open_rate: None,
        warmup: work.warmup.max(1),
        ..work.clone()
    };
    target.config.check().map_err(|(_, text)| bad(text))?;
    Ok(target)
}
