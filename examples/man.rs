//! The man pages of both programs, from their own command lines: `scripts/man` runs it.
//!
//! usage: man FOLDER

use std::path::PathBuf;

use clap::CommandFactory as _;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(std::io::Error::other("usage: man FOLDER"));
    };
    std::fs::create_dir_all(&folder)?;
    for command in [spark::bench::cli::Cli::command(), spark::serve::cli::Cli::command()] {
        clap_mangen::generate_to(command.version(env!("CARGO_PKG_VERSION")), &folder)?;
    }
    Ok(())
}
