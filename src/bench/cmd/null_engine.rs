//! `spark-bench null-engine`: a server with a known schedule and no model.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;

use super::answer;
use crate::bench::config::values::Positive;
use crate::bench::limits;
use crate::bench::null_engine::{Extras, NullSpec, serve};
use crate::exit_codes;

/// Flags of `spark-bench null-engine`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Port to listen on; 0 picks a free one, which is printed.
    #[arg(long, default_value_t = 0, value_parser = super::whole_number::<u16>)]
    port: u16,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// The model id that it answers to.
    #[arg(long, default_value = "null")]
    model: String,
    /// Milliseconds from a request to its first text.
    #[arg(long, value_name = "MS", default_value_t = 100.0)]
    ttft_ms: f64,
    /// Prompt tokens per second that come on top; each word is a token.
    #[arg(long, value_name = "TOK/S")]
    prefill_tps: Option<Positive>,
    /// Milliseconds from one text to the next.
    #[arg(long, value_name = "MS", default_value_t = 20.0)]
    gap_ms: f64,
    /// Tokens of each answer; without it as many as a request asks for.
    #[arg(long, value_name = "N", value_parser = super::whole_number::<u32>)]
    tokens: Option<u32>,
    /// Tokens in each event.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::whole_number::<u32>)]
    bundle: u32,
    /// Leaves out the first event, which carries nothing but the role.
    #[arg(long)]
    no_role_event: bool,
    /// Puts a comment before each text.
    #[arg(long)]
    comments: bool,
    /// Leaves out the usage.
    #[arg(long)]
    no_usage: bool,
    /// Ends when stdin is closed.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// Serves until it is stopped.
///
/// # Errors
/// If the port cannot be listened on.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let millis = |ms: f64, flag: &str| {
        Duration::try_from_secs_f64(ms / 1000.0)
            .map_err(|_| super::BadInput(format!("--{flag} {ms} is no time")))
    };
    let spec = NullSpec {
        model: args.model.clone(),
        ttft: millis(args.ttft_ms, "ttft-ms")?,
        prefill_tps: args.prefill_tps.map(Positive::get),
        gap: millis(args.gap_ms, "gap-ms")?,
        tokens: args.tokens,
        bundle: args.bundle.max(1),
        extras: Extras {
            role_event: !args.no_role_event,
            comments: args.comments,
            usage: !args.no_usage,
        },
    };
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = SocketAddr::new(args.host, args.port);
    runtime.block_on(async {
        let socket = match address {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address).with_context(|| format!("failed to listen on {address}"))?;
        let listener = socket.listen(BACKLOG)?;
        if !address.ip().is_loopback() {
            answer("open to the network, not to this machine alone\n")?;
        }
        answer(&format!("listening on http://{}\n", listener.local_addr()?))?;
        if args.until_stdin_closes {
            tokio::select! {
                served = serve(listener, spec) => served?,
                () = stdin_closed() => {}
            }
        } else {
            serve(listener, spec).await?;
        }
        Ok(exit_codes::OK)
    })
}

/// Connections that may wait to be accepted: thousands are opened at once.
const BACKLOG: u32 = 4096;

pub(super) async fn stdin_closed() {
    let (closed, seen) = tokio::sync::oneshot::channel::<()>();
    // A thread that the process does not wait for: its read has no end of its own.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(closed);
    });
    let _ = seen.await;
}
