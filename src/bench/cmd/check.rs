//! `spark-bench check CONFIG`: is each target what its config says? Start, one request, stop.

use std::path::PathBuf;

use super::measuring::{Common, Session, block_on};
use super::{BadInput, answer};
use crate::bench::engine::Kind;
use crate::bench::plan::{Plan, Selection};
use crate::bench::prompts::SentPrompts;
use crate::bench::runner::{Work, check_target};
use crate::exit_codes;

/// Flags of `spark-bench check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configs; one whose name is engines.toml is the engines file.
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<PathBuf>,
    /// The engines file [default: engines.toml beside each config].
    #[arg(long, value_name = "FILE")]
    engines: Option<PathBuf>,
}

/// Checks each target and prints a line for it; writes no results.
///
/// # Errors
/// A bad engines file.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = Plan::read(&args.configs, args.engines.as_deref(), &Selection::default())
        .map_err(|error| BadInput(error.to_string()))?;
    block_on(async move {
        let session = Session::start(&Common::quiet()).await?;
        let mut codes: Vec<u8> = plan.bad.iter().map(|_| exit_codes::USAGE).collect();
        for bad in &plan.bad {
            answer(&format!("bad: {}\n", bad.text))?;
        }
        for target in plan.targets {
            let name = target.config.target.name.clone();
            let sent = SentPrompts::default();
            let work = Work { config: target.config, spec: target.spec, repeat: 1, sent };
            match check_target(&session.harness, &work).await {
                Ok(said) => answer(&format!("{name}: ok, it says {said:?}\n"))?,
                Err(why) => {
                    let how = if why.kind == Kind::Skipped { "skipped" } else { "failed" };
                    answer(&format!("{name}: {how}: {why}\n"))?;
                    codes.push(why.exit_code());
                }
            }
        }
        Ok(exit_codes::worst(codes))
    })
}
