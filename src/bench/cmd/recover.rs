//! `spark-bench recover`: the results file of a run that was killed.

use std::path::{Path, PathBuf};

use super::{BadInput, answer};
use crate::exit_codes;
use crate::results::journal::recover;
use crate::results::store::{self, Written};

/// Flags of `spark-bench recover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The journal that the run left behind (`….journal.jsonl`).
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Folder for the results file; without it the journal's own.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the results file, unless the same one is there, and prints its path; the journal stays.
///
/// # Errors
/// If nothing can be made of the journal, or the file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let recovered =
        recover(&args.journal).map_err(|error| BadInput(format!("failed to {error}")))?;
    for warning in &recovered.warnings {
        eprintln!("warning: {}: {warning}", args.journal.display());
    }
    let beside = args.journal.parent().unwrap_or(Path::new("."));
    let folder = args.out.as_deref().unwrap_or(beside);
    let written = store::write_unless_there(folder, &recovered.file)
        .map_err(|error| anyhow::anyhow!("failed to {:#}", anyhow::Error::from(error)))?;
    if let Written::Before(path) = &written {
        eprintln!("already recovered into {}: nothing was written", path.display());
    }
    answer(&format!("{}\n", written.path().display()))?;
    Ok(exit_codes::OK)
}
