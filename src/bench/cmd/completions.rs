//! `spark-bench completions SHELL`: for example
//! `spark-bench completions bash > ~/.local/share/bash-completion/completions/spark-bench`.

use clap::CommandFactory as _;

use crate::bench::cli::Cli;
use crate::exit_codes;

/// Which shell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell whose completions to print.
    shell: clap_complete::Shell,
}

/// Prints the script on stdout.
///
/// # Errors
/// None; the signature is that of every command.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "spark-bench", &mut std::io::stdout());
    Ok(exit_codes::OK)
}
