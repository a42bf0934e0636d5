//! `spark-bench report`: one page to look at, and its plots as files.

use std::path::PathBuf;

use super::{answer, make_folder, read_runs, replace_file};
use crate::exit_codes;
use crate::report::{page, svg_files};
use crate::results::brief::Gaps;
use crate::results::series::{RunSeries, parse, path_beside};

/// Flags of `spark-bench report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results files, or folders of them; hardware series beside them are read too.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page; its folder is made if it is missing.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Also writes each plot as an SVG file into this folder, which is made if it is missing.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Writes the page.
///
/// # Errors
/// If a results file cannot be read or the page cannot be written.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let runs = read_runs(&args.files, Gaps::Keep)?;
    let series: Vec<_> = runs
        .iter()
        .map(|run| match std::fs::read_to_string(path_beside(&run.path)) {
            Ok(text) => parse(&text),
            // Most runs save no series; the page then has no hardware over time.
            Err(_) => RunSeries::new(),
        })
        .collect();
    if let Some(dir) = &args.svg {
        make_folder(dir)?;
        for (name, svg) in svg_files(&runs, series.clone()) {
            replace_file(&dir.join(name), svg.as_bytes())?;
        }
    }
    replace_file(&args.out, page(&runs, series).as_bytes())?;
    answer(&format!("{}\n", args.out.display()))?;
    Ok(exit_codes::OK)
}
