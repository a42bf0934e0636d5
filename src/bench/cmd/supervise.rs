//! `spark-bench supervise`: hidden. The harness starts itself with it, once for each server; see
//! [`crate::bench::process`].

use anyhow::Context as _;

use crate::bench::process::supervisor;
use crate::exit_codes;

/// Reads a command from stdin and watches over what it starts.
///
/// # Errors
/// If stdin holds no command, or the system refuses.
pub fn run() -> anyhow::Result<u8> {
    supervisor::supervise().context("supervising a server")?;
    Ok(exit_codes::OK)
}
