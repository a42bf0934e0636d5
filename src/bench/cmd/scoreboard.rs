//! `spark-bench scoreboard`: every level of a run, its row, and the board of all runs.

use std::path::PathBuf;

use super::{BadInput, answer, read_summaries, replace_file, unreadable};
use crate::exit_codes;
use crate::results::scoreboard::{HEADER, Row, levels_table, new_document, tables, update};
use crate::results::store;

/// Flags of `spark-bench scoreboard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them; files of the lesson's own bench.py are read too.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rewrites what stands between this document's scoreboard markers (made if it is missing).
    #[arg(long, value_name = "SCOREBOARD.md")]
    update: Option<PathBuf>,
}

/// Prints or updates.
///
/// # Errors
/// If a file cannot be read or written, or the document's markers are unclear.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let Some(document) = &args.update else { return print(args) };
    // A folder without results yet gives a board without rows.
    let mut runs = Vec::new();
    for path in &args.files {
        let found = if path.is_dir() {
            store::read_folder(path, store::Part::Summaries).map_err(unreadable)?
        } else {
            read_summaries(std::slice::from_ref(path))?
        };
        runs.extend(found);
    }
    let old = match std::fs::read_to_string(document) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => new_document(),
        Err(error) => {
            return Err(BadInput(format!("failed to read {}: {error}", document.display())).into());
        }
    };
    let new = update(&old, &runs).map_err(|error| {
        BadInput(format!("failed to update {}: failed to {error}", document.display()))
    })?;
    replace_file(document, new.as_bytes())?;
    answer(&format!(
        "{}: {} rows in {} tables\n",
        document.display(),
        runs.len(),
        tables(&runs).len()
    ))?;
    Ok(exit_codes::OK)
}

fn print(args: &Args) -> anyhow::Result<u8> {
    let runs = read_summaries(&args.files)?;
    let mut text = String::new();
    for run in &runs {
        text.push_str(&levels_table(&run.file));
        text.push('\n');
    }
    text.push_str("SCOREBOARD rows:\n");
    text.push_str(HEADER);
    text.push('\n');
    for run in &runs {
        text.push_str(&Row::of(&run.file).markdown());
        text.push('\n');
    }
    answer(&text)?;
    Ok(exit_codes::OK)
}
