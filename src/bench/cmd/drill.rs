//! `spark-bench drill`: four ways to be wrong about a server, shown on small servers of ours.

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::{BadInput, answer};
use crate::bench::config::values::BaseUrl;
use crate::bench::drill::server::{Kind, serve};
use crate::bench::drill::{self, Drill, Live};
use crate::exit_codes;

/// Flags of `spark-bench drill`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which one; each takes less than two minutes.
    #[arg(value_enum)]
    drill: Drill,
    /// hangup: leave this running server too, and watch its /metrics.
    #[arg(long, value_name = "URL")]
    server: Option<BaseUrl>,
    /// hangup: the model id to ask that server for.
    #[arg(long, value_name = "ID", default_value = "drill", requires = "server")]
    model: String,
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
    let live = args.server.as_ref().map(|server| {
        let root = server.as_str();
        Live {
            root: root.strip_suffix("/v1").unwrap_or(root).to_owned(),
            model: args.model.clone(),
        }
    });
    if live.is_some() && args.drill != Drill::Hangup {
        return Err(BadInput("--server is for the drill hangup".into()).into());
    }
    // What the user named is looked at before anything starts.
    if let Some(live) = &live {
        let checked = runtime.block_on(live.check());
        checked.map_err(|error| BadInput(format!("--server {error:#}")))?;
    }
    let text = runtime.block_on(drill::run(args.drill, &harness, live))?;
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
