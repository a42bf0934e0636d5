//! `spark-bench drill`: four ways to be wrong about a server, shown on small servers of ours.

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::answer;
use crate::bench::drill::server::{Kind, serve};
use crate::bench::drill::{self, Drill};
use crate::exit_codes;

/// Flags of `spark-bench drill`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which one; each takes less than two minutes.
    #[arg(value_enum)]
    drill: Drill,
}

/// Flags of the hidden server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// How it behaves.
    #[arg(value_enum)]
    kind: Kind,
}

/// Runs a drill and prints what happened and why.
///
/// # Errors
/// If its servers do not start or answer.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let harness = std::env::current_exe().context("failed to find spark-bench itself")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let text = runtime.block_on(drill::run(args.drill, &harness))?;
    answer(&text)?;
    Ok(exit_codes::OK)
}

/// Serves until stdin closes, which it does when the drill ends, however it ends.
///
/// # Errors
/// If no port can be listened on.
pub fn run_server(args: &ServerArgs) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        answer(&format!("listening on http://{}\n", listener.local_addr()?))?;
        tokio::select! {
            () = serve(listener, args.kind) => {}
            () = super::null_engine::stdin_closed() => {}
        }
        Ok(exit_codes::OK)
    })
}
