//! `spark-bench csv`: results for spreadsheets.

use std::io::{self, Write};
use std::path::PathBuf;

use super::{answer, make_folder, read_summaries, unreadable, write_file};
use crate::exit_codes;
use crate::results::csv::{Encoding, RequestsTable, write_levels};
use crate::results::store::{self, StoreError, StoredRun};

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
    let runs = read_summaries(&args.files)?;
    let encoding = if args.excel { Encoding::Utf8WithBom } else { Encoding::Utf8 };
    make_folder(&args.out)?;
    let (levels, requests) = (args.out.join("levels.csv"), args.out.join("requests.csv"));
    // Records first: if one of them is bad, the two files of an earlier call stay a pair.
    let mut read = Ok(());
    let written = write_file(&requests, |out| {
        write_requests(&runs, encoding, out, &mut |error| read = Err(error))
    });
    read.map_err(unreadable)?;
    written?;
    write_file(&levels, |out| write_levels(&runs, encoding, out).map_err(io))?;
    answer(&format!("{}\n{}\n", levels.display(), requests.display()))?;
    Ok(exit_codes::OK)
}

/// Each record on its way from the results file to the table: memory does not grow with them.
/// `unread` is told why a results file cannot be read; the table is not finished then.
fn write_requests(
    runs: &[StoredRun],
    encoding: Encoding,
    out: &mut dyn Write,
    unread: &mut dyn FnMut(StoreError),
) -> io::Result<()> {
    let mut table = RequestsTable::new(encoding, out).map_err(io)?;
    for run in runs {
        let mut written = Ok(());
        let read = store::read_each_record(&run.path, |level, request| {
            // A file that somebody rewrote since its levels were read may hold more of them.
            if let (Ok(()), Some(level)) = (&written, run.file.levels.get(level)) {
                written = table.add(run, level, &request);
            }
        });
        written.map_err(io)?;
        if let Err(error) = read {
            unread(error);
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    table.finish().map_err(io)
}

/// What went wrong with the file, out of what went wrong with the table.
fn io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
