//! `spark-bench matrix`: every target of the configs, one after the other: server up, ladder, server
//! down, files, tables.

use std::path::PathBuf;
use std::time::Instant;

use super::announce::announce;
use super::measuring::{Common, Session};
use super::plan as precision;
use super::{BadInput, answer};
use crate::bench::config::{CostConfig, PromptSource};
use crate::bench::plan::{Plan, PlannedTarget, Selection};
use crate::bench::progress::{counted, round};
use crate::bench::runner::{
    Earlier, Harness, Outcome, SentByServer, Work, mismatch, put_bad_config, run_interleaved,
    run_target,
};
use crate::exit_codes;
use crate::results::store::StoreError;

/// Flags of `spark-bench matrix`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configs; one whose name is engines.toml is the engines file.
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<PathBuf>,
    /// The engines file [default: engines.toml beside each config].
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
    /// Only the target of this name (with its sweep); may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Not the target of this name; may be given more than once.
    #[arg(long, value_name = "NAME")]
    skip: Vec<String>,
    /// Print what would run, and start nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take up an interrupted matrix: finished levels whose config, prompts and program have the
    /// same hash are not measured again.
    #[arg(long)]
    resume: bool,
    /// Let two targets take turns, level by level (A B B A), each turn on a server of its own.
    #[arg(long)]
    interleave: bool,
    /// What a machine of your own costs (see configs/costs/): tokens per dollar of the servers that
    /// are started here, beside those of targets with a price.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Keep the servers' logs in this folder.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Measures everything that the configs name.
///
/// # Errors
/// A bad engines file, no target at all, or results that cannot be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let selection = Selection { only: args.only, skip: args.skip };
    let plan = Plan::read(&args.configs, args.engines.as_deref(), &selection)
        .map_err(|error| BadInput(error.to_string()))?;
    if plan.targets.is_empty() && plan.bad.is_empty() {
        return Err(BadInput("--only and --skip leave no target of these configs".into()).into());
    }
    let costs = args.costs.as_deref().map(CostConfig::load).transpose();
    let costs = costs.map_err(|error| BadInput(error.to_string()))?;
    let order = if args.interleave { Order::Interleaved } else { Order::OneByOne };
    // One bad config of several is a row with its error; nothing but bad ones is a mistake.
    if plan.targets.is_empty() && !args.dry_run {
        let texts: Vec<&str> = plan.bad.iter().map(|bad| bad.text.as_str()).collect();
        return Err(BadInput(texts.join("; ")).into());
    }
    if order == Order::Interleaved {
        pair(&plan)?;
    }
    if args.dry_run {
        answer(&describe(&plan))?;
        return Ok(if plan.bad.is_empty() { exit_codes::OK } else { exit_codes::USAGE });
    }
    args.common.make_out()?;
    super::measuring::block_on(async move {
        let mut session = Session::start(&args.common).await?;
        session.harness.logs = args.logs;
        session.costs = costs;
        if args.resume {
            let harness = &mut session.harness;
            harness.earlier = Earlier::read(&harness.out, &harness.progress)?;
        }
        let mut levels: Vec<u32> = plan
            .targets
            .iter()
            .flat_map(|target| target.config.workload.concurrency.levels())
            .copied()
            .collect();
        levels.sort_unstable();
        levels.dedup();
        if !levels.is_empty() {
            session.measure_floor(&levels).await;
        }
        run_plan(&session, plan, order).await
    })
}

/// In which order targets are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    OneByOne,
    Interleaved,
}

/// The two targets that take turns.
fn pair(plan: &Plan) -> Result<[&PlannedTarget; 2], BadInput> {
    let [a, b] = plan.targets.as_slice() else {
        let n = plan.targets.len();
        return Err(BadInput(format!("--interleave takes two targets, and the configs name {n}")));
    };
    match mismatch(&a.config, &b.config) {
        Some(text) => Err(BadInput(format!("--interleave: {text}"))),
        None => Ok([a, b]),
    }
}

async fn run_plan(session: &Session, plan: Plan, order: Order) -> anyhow::Result<u8> {
    let harness = &session.harness;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for bad in &plan.bad {
        let outcome = put_bad_config(harness, &bad.path, &bad.text)?;
        session.tell(&outcome);
        outcomes.push(outcome);
    }
    announce(harness, &plan.targets)?;
    let (levels, requests) = plan.size();
    harness.progress.plan(levels, requests);
    let (levels, requests) = (counted(levels as u64, "level"), counted(requests, "request"));
    harness.progress.say(&format!("{levels}, {requests} in all"));
    let groups: Vec<Vec<&PlannedTarget>> = match order {
        Order::OneByOne => plan.targets.iter().map(|target| vec![target]).collect(),
        Order::Interleaved => vec![pair(&plan)?.to_vec()],
    };
    let mut servers = SentByServer::default();
    'all: for group in &groups {
        let started = Instant::now();
        for repeat in 1..=group[0].config.workload.repeats.get() {
            wait_for_turn(session, group[0], started, repeat).await;
            if harness.cancel.is_cancelled() {
                break 'all;
            }
            let written = measure(harness, group, repeat, &mut servers).await?;
            for outcome in &written {
                session.tell(outcome);
            }
            outcomes.extend(written);
        }
    }
    let code = session.answer(&outcomes)?;
    let interrupted = harness.cancel.is_cancelled().then_some(exit_codes::INTERRUPTED);
    Ok(exit_codes::worst(interrupted.into_iter().chain([code])))
}

/// One pass over the ladder of a target, or of two that take turns.
async fn measure(
    harness: &Harness,
    group: &[&PlannedTarget],
    repeat: u32,
    servers: &mut SentByServer,
) -> Result<Vec<Outcome>, StoreError> {
    let work = |target: &&PlannedTarget| Work {
        config: target.config.clone(),
        spec: target.spec.clone(),
        repeat,
        sent: servers.of(&target.config),
    };
    let works: Vec<Work> = group.iter().map(work).collect();
    match works.as_slice() {
        [a, b] => run_interleaved(harness, [a, b]).await,
        [one] => run_target(harness, one).await,
        _ => unreachable!("a group is one target or a pair"),
    }
}

/// Waits until a repeat may begin: its config's spacing after the start of the one before.
async fn wait_for_turn(session: &Session, target: &PlannedTarget, started: Instant, repeat: u32) {
    let Some(spacing) = target.config.workload.spacing.0 else { return };
    let begin = started + spacing * (repeat - 1);
    let left = begin.saturating_duration_since(Instant::now());
    let progress = &session.harness.progress;
    if !left.is_zero() {
        let name = &target.config.target.name;
        progress.say(&format!("{name}: repeat {repeat} begins in {}", round(left)));
    }
    tokio::select! {
        () = tokio::time::sleep(left) => {}
        () = session.harness.cancel.cancelled() => {}
    }
}

/// What would run, a line each.
fn describe(plan: &Plan) -> String {
    let mut text = String::new();
    for target in &plan.targets {
        text.push_str(&describe_target(target));
    }
    for bad in &plan.bad {
        text.push_str(&format!("cannot run: {}\n", bad.text));
    }
    let (levels, requests) = plan.size();
    let tokens: u64 = plan.targets.iter().map(PlannedTarget::output_tokens).sum();
    text.push_str(&format!(
        "{}, {}, {}, up to {}\n",
        counted(plan.targets.len() as u64, "target"),
        counted(levels as u64, "level"),
        counted(requests, "request"),
        counted(tokens, "output token")
    ));
    text
}

fn describe_target(target: &PlannedTarget) -> String {
    let (config, work) = (&target.config, &target.config.workload);
    let engine = config.engine.as_ref().map_or("already running", |engine| engine.name.as_str());
    let levels: Vec<String> = work
        .concurrency
        .levels()
        .iter()
        .map(|&level| format!("c={level} n={}", work.requests_at(level)))
        .collect();
    let prompts: Vec<String> = work.sources().iter().map(PromptSource::name).collect();
    format!(
        "{} ({engine}, {}): {}; {} of up to {} tokens; repeats {}\n",
        config.target.name,
        config.target.base_url.as_str(),
        levels.join(", "),
        prompts.join(", "),
        work.max_tokens,
        work.repeats
    ) + &precision::sentences(&precision::plan(config, None, &precision::WANTED)).join("\n")
        + "\n"
}
