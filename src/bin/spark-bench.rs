//! `spark-bench`: parse, dispatch, map the outcome to an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use spark::bench::{cli::Cli, cmd};

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(cmd::exit_code_of(&error))
        }
    }
}
