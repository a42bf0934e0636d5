//! One file a subcommand: its `Args`, its `run`, then what only it needs.
//!
//! `run` returns an exit code; the answer goes to stdout, everything else to stderr.

mod announce;
pub mod bandwidth;
pub mod check;
pub mod compare;
pub mod completions;
pub mod cost;
pub mod crossover;
pub mod csv;
pub mod doctor;
pub mod drill;
pub mod goodput;
pub mod matrix;
pub mod measuring;
pub mod null_engine;
mod percent;
pub mod plan;
pub mod predict;
pub mod recover;
pub mod report;
pub mod run;
pub mod schema;
pub mod scoreboard;
pub mod self_test;
pub mod supervise;
pub mod verify_tokens;
pub mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::exit_codes;
use crate::results::brief::Gaps;
use crate::results::store::{self, Part, StoreError, StoredRun};

/// What the user gave is wrong (a flag, a file, a variable): exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// Prints a command's answer. A reader that went away (`| head`) wants no more of it: no error.
///
/// # Errors
/// If stdout cannot be written for any other reason.
pub fn answer(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Reads results files and folders that the user named, each request in brief.
fn read_runs(paths: &[PathBuf], gaps: Gaps) -> anyhow::Result<Vec<StoredRun>> {
    Ok(store::read_many(paths, Part::Records(gaps)).map_err(unreadable)?)
}

/// The same without the requests' records, of which a long run has more than memory holds.
fn read_summaries(paths: &[PathBuf]) -> anyhow::Result<Vec<StoredRun>> {
    Ok(store::read_many(paths, Part::Summaries).map_err(unreadable)?)
}

/// A results file that cannot be read is the user's to mend.
fn unreadable(error: StoreError) -> BadInput {
    BadInput(format!("failed to {:#}", anyhow::Error::from(error)))
}

/// Replaces a file in one step: a reader sees the old text or the new one.
fn replace_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_file(path, |out| out.write_all(bytes))
}

/// The same for a file that is written piece by piece. Where it goes is the user's to mend; a folder
/// that is missing is made, as for every output that a command takes a place for.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        make_folder(dir)?;
    }
    Ok(store::replace_with(path, write).map_err(unreadable)?)
}

/// Makes a folder that the user named, and those above it.
fn make_folder(dir: &Path) -> anyhow::Result<()> {
    Ok(std::fs::create_dir_all(dir).map_err(|error| {
        BadInput(format!("failed to make the folder {}: {error}", dir.display()))
    })?)
}

/// A flag's number of at least one thing: clap's own words for it are those of Rust's types.
fn at_least_one<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| no_number(text, "must be a whole number, 1 or more"))
}

/// The same where 0 is a number too.
fn whole_number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| no_number(text, "must be a whole number, 0 or more"))
}

/// Why a text is no number of a flag's: it is none at all, or there are not so many.
fn no_number(text: &str, allowed: &str) -> String {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_large = is_number && text.bytes().any(|byte| byte != b'0');
    if is_large { "is too large a number".into() } else { allowed.into() }
}

/// The exit code of a command that ended in `error`.
pub fn exit_code_of(error: &anyhow::Error) -> u8 {
    let bad_input = error.chain().any(|cause| cause.is::<BadInput>());
    if bad_input { exit_codes::USAGE } else { exit_codes::UNEXPECTED }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn bad_input_is_exit_code_2_whatever_was_added_to_it() {
        let error = Err::<(), _>(BadInput("--n is 0".into())).context("reading flags").unwrap_err();
        assert_eq!(exit_code_of(&error), exit_codes::USAGE);
        assert_eq!(exit_code_of(&anyhow::anyhow!("the disk is full")), exit_codes::UNEXPECTED);
    }
}
