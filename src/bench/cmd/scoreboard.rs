//! `spark-bench scoreboard`: every level of a run, its row, and the board of all runs.

use std::path::PathBuf;

use super::{BadInput, answer, read_summaries, replace_file, unreadable};
use crate::exit_codes;
use crate::results::escape::terminal;
use crate::results::scoreboard::{HEADER, levels_table, new_document, rows_of, tables, update};
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
    if runs.is_empty() {
        let named: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        answer(&format!(
            "{}: no rows, since {} holds no run\n",
            document.display(),
            named.join(", ")
        ))?;
        return Ok(exit_codes::OK);
    }
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
    if runs.is_empty() {
        return Err(BadInput("no run stands in these files".into()).into());
    }
    let mut text = String::new();
    for run in &runs {
        text.push_str(&levels_table(&run.file));
        text.push('\n');
    }
    text.push_str("SCOREBOARD rows:\n");
    let tables = tables(&runs);
    for (work, rows) in &tables {
        // Rows of other work are not to be compared: each work has a table of its own.
        if tables.len() > 1 {
            text.push_str(&format!("\n{}\n", terminal(&work.title(&rows[0].file.meta))));
        }
        text.push_str(HEADER);
        text.push('\n');
        for row in rows_of(rows) {
            text.push_str(&row.markdown());
            text.push('\n');
        }
    }
    answer(&text)?;
    Ok(exit_codes::OK)
}
