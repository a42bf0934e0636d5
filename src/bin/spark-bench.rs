//! `spark-bench`: parse, dispatch, map the outcome to an exit code.

use clap::Parser;

fn main() {
    let _cli = spark::bench::cli::Cli::parse();
}
