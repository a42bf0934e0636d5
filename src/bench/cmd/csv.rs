//! `spark-bench csv`: results for spreadsheets.

use std::path::PathBuf;

use super::{answer, read_runs, replace_file};
use crate::exit_codes;
use crate::results::csv::{Encoding, write_levels, write_requests};

/// Flags of `spark-bench csv`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for levels.csv and requests.csv; made if it is missing.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Begins the files with a byte order mark, without which Excel misreads them.
    #[arg(long)]
    excel: bool,
}

/// Writes both files, in place of older ones.
///
/// # Errors
/// If a results file cannot be read or a CSV file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let runs = read_runs(&args.files)?;
    let encoding = if args.excel { Encoding::Utf8WithBom } else { Encoding::Utf8 };
    std::fs::create_dir_all(&args.out)?;
    let levels = args.out.join("levels.csv");
    let mut bytes = Vec::new();
    write_levels(&runs, encoding, &mut bytes)?;
    replace_file(&levels, &bytes)?;
    bytes.clear();
    let requests = args.out.join("requests.csv");
    write_requests(&runs, encoding, &mut bytes)?;
    replace_file(&requests, &bytes)?;
    answer(&format!("{}\n{}\n", levels.display(), requests.display()))?;
    Ok(exit_codes::OK)
}
