//! `spark-bench`: parse, dispatch, map the outcome to an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use spark::bench::{cli::Cli, cmd};
use spark::results::escape::terminal;

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Foreign text in it (an error body, a path) must not draw on the terminal.
            eprintln!("error: {}", terminal(&format!("{error:#}")));
            ExitCode::from(cmd::exit_code_of(&error))
        }
    }
}
