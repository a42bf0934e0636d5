//! spark-bench's command line: one subcommand a file in [`super::cmd`].

use clap::Parser;

/// Measures OpenAI-compatible endpoints, and says when a number is not to be believed.
#[derive(Debug, Parser)]
#[command(name = "spark-bench", version, about)]
pub struct Cli {}
