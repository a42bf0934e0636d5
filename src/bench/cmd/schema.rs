//! `spark-bench schema`: the JSON Schema of a file, for editors that complete and check TOML.

use anyhow::Context as _;
use schemars::schema_for;

use crate::bench::config::{ConfigFile, EnginesFile};
use crate::exit_codes;
use crate::results::schema::results_schema;

/// Which file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kind of file.
    #[arg(value_enum, default_value_t = Kind::Config)]
    kind: Kind,
}

/// The kinds of files that have a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A target's config.
    Config,
    /// engines.toml.
    Engines,
    /// A results file.
    Results,
}

/// Prints the schema on stdout.
///
/// # Errors
/// None in practice: schemas are plain data.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let schema: serde_json::Value = match args.kind {
        Kind::Config => schema_for!(ConfigFile).into(),
        Kind::Engines => schema_for!(EnginesFile).into(),
        Kind::Results => results_schema(),
    };
    println!("{}", serde_json::to_string_pretty(&schema).context("writing the schema")?);
    Ok(exit_codes::OK)
}
