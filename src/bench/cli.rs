//! spark-bench's command line: one subcommand a file in [`super::cmd`].

use clap::{Parser, Subcommand};

use super::cmd;

/// Measures OpenAI-compatible endpoints, and says when a number is not to be believed.
#[derive(Debug, Parser)]
#[command(name = "spark-bench", version = env!("SPARK_VERSION"), about, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, in the order in which they are listed.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure one target that is already running.
    Run(Box<cmd::run::Args>),
    /// Measure every target of the configs, and start their servers.
    Matrix(cmd::matrix::Args),
    /// Start each server, send one known request, stop it.
    Check(cmd::check::Args),
    /// Print every level of results files and their scoreboard rows; keep a scoreboard up to date.
    Scoreboard(cmd::scoreboard::Args),
    /// Write levels.csv and requests.csv for spreadsheets.
    Csv(cmd::csv::Args),
    /// Make the results file of a run that was killed from its journal.
    Recover(cmd::recover::Args),
    /// Measure the harness itself: how late it sees what a server with a known schedule sends.
    SelfTest(cmd::self_test::Args),
    /// Serve a known schedule without a model: what is measured of it is the harness's own error.
    NullEngine(cmd::null_engine::Args),
    /// Set the speed measured against what the machine's memory allows, and check Little's law.
    Predict(cmd::predict::Args),
    /// Say whether anything changed between two runs.
    Compare(cmd::compare::Args),
    /// Say from which prompt length on one target's first token comes sooner.
    Crossover(cmd::crossover::Args),
    /// Say how many requests a wanted precision takes, and how long that is.
    Plan(cmd::plan::Args),
    /// Set own hardware by the month against an API by the token.
    Cost(cmd::cost::Args),
    /// Say how many requests kept a promise on time to first token and time per token.
    Goodput(cmd::goodput::Args),
    /// Count saved answers' tokens again with the model's own tokenizer.
    VerifyTokens(cmd::verify_tokens::Args),
    /// Write one HTML page with tables, plots and the explorer.
    Report(cmd::report::Args),
    /// Show one of four ways to be wrong about a server, on small servers of ours.
    Drill(cmd::drill::Args),
    /// The servers of the drills; the harness starts itself with it.
    #[command(hide = true)]
    DrillServer(cmd::drill::ServerArgs),
    /// Print the JSON Schema of a config, for editors.
    Schema(cmd::schema::Args),
    /// Say what this machine has, what a benchmark will lack, and how to get it.
    Doctor(cmd::doctor::Args),
    /// Watch CPU, memory and GPUs with the sampler that runs use.
    Watch(cmd::watch::Args),
    /// Measure how fast this machine's memory can be read.
    Bandwidth(cmd::bandwidth::Args),
    /// Watch over one server; the harness starts itself with it.
    #[command(hide = true)]
    Supervise,
    /// Print the completions of a shell, to be sourced by it.
    Completions(cmd::completions::Args),
}

impl Command {
    /// Does it. The value is an exit code of [`crate::exit_codes`].
    ///
    /// # Errors
    /// What stopped the command as a whole; [`cmd::BadInput`] among the causes means exit code 2.
    pub fn run(self) -> anyhow::Result<u8> {
        match self {
            Self::Run(args) => cmd::run::run(*args),
            Self::Matrix(args) => cmd::matrix::run(args),
            Self::Check(args) => cmd::check::run(&args),
            Self::Scoreboard(args) => cmd::scoreboard::run(&args),
            Self::Csv(args) => cmd::csv::run(&args),
            Self::Recover(args) => cmd::recover::run(&args),
            Self::SelfTest(args) => cmd::self_test::run(&args),
            Self::NullEngine(args) => cmd::null_engine::run(&args),
            Self::Predict(args) => cmd::predict::run(&args),
            Self::Compare(args) => cmd::compare::run(&args),
            Self::Crossover(args) => cmd::crossover::run(args),
            Self::Plan(args) => cmd::plan::run(&args),
            Self::Cost(args) => cmd::cost::run(&args),
            Self::Goodput(args) => cmd::goodput::run(&args),
            Self::VerifyTokens(args) => cmd::verify_tokens::run(&args),
            Self::Report(args) => cmd::report::run(&args),
            Self::Drill(args) => cmd::drill::run(&args),
            Self::DrillServer(args) => cmd::drill::run_server(&args),
            Self::Schema(args) => cmd::schema::run(&args),
            Self::Doctor(args) => cmd::doctor::run(args),
            Self::Watch(args) => cmd::watch::run(&args),
            Self::Bandwidth(args) => cmd::bandwidth::run(&args),
            Self::Supervise => cmd::supervise::run(),
            Self::Completions(args) => cmd::completions::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
