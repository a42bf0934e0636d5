//! Four ways to be wrong about a server, each run against small servers of ours in processes of
//! their own, and each ending in a table that makes its point.

mod events;
mod hangup;
mod live;
pub mod server;
mod stall;
mod timeout;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::client::{BodyTemplate, Endpoint};
use super::load::{LevelSpec, Unobserved, run_level};
use super::process_own::OwnChild;
use super::prompts::{Prompt, PromptCursor, PromptFile, PromptReuse};
use crate::measure::sample::Sample;
use crate::measure::trace::RequestTrace;
pub use live::Live;
use server::Kind;

/// Which drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Drill {
    /// A short timeout makes the tail look good when errors are dropped.
    Timeout,
    /// A server that computes on its event loop.
    Stall,
    /// Counting events as tokens.
    Events,
    /// A client leaves, and the device goes on.
    Hangup,
}

/// Runs a drill with `harness`, the running spark-bench, and gives its text. `live` is a server of
/// somebody's for the hang-up.
///
/// # Errors
/// If a server does not start or does not answer.
pub async fn run(drill: Drill, harness: &Path, live: Option<Live>) -> anyhow::Result<String> {
    match drill {
        Drill::Timeout => timeout::run(harness).await,
        Drill::Stall => stall::run(harness).await,
        Drill::Events => events::run(harness).await,
        Drill::Hangup => hangup::run(harness, live).await,
    }
}

/// A server of a drill; it ends when this is dropped, or when this process ends.
struct Server {
    address: String,
    _child: OwnChild,
}

impl Server {
    fn start(harness: &Path, kind: Kind) -> anyhow::Result<Self> {
        let args = ["drill-server".to_owned(), kind.name().to_owned()];
        let child = OwnChild::start(harness, &args).context("failed to start a drill's server")?;
        let address = child.first_line.trim().rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self { address, _child: child })
    }

    fn endpoint(&self, tokens: u32) -> anyhow::Result<Endpoint> {
        let body = BodyTemplate::new("drill", tokens);
        Ok(Endpoint::new(&format!("http://{}/v1", self.address), body)?)
    }

    /// The measured requests of one level.
    async fn level(
        &self,
        endpoint: &Endpoint,
        spec: &LevelSpec,
    ) -> anyhow::Result<Vec<RequestTrace>> {
        let cancel = CancellationToken::new();
        let run = run_level(endpoint, &mut prompts(), spec, &Unobserved, &cancel).await?;
        Ok(run.traces.into_iter().filter(RequestTrace::is_measured).collect())
    }

    /// Asks for a small page, whole, within `deadline`; `None` if it does not come in time.
    async fn get(&self, path: &str, deadline: Duration) -> Option<String> {
        let page = async {
            let mut stream = TcpStream::connect(&self.address).await.ok()?;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: drill\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut text = vec![0; 4096];
            let read = stream.read(&mut text).await.ok().filter(|read| *read > 0)?;
            let text = String::from_utf8_lossy(&text[..read]).into_owned();
            text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
        };
        tokio::time::timeout(deadline, page).await.ok().flatten()
    }
}

fn prompts() -> PromptCursor {
    let file = PromptFile {
        path: "(none)".into(),
        prompts: vec![Prompt::Text("Tell me a story.".to_owned())],
        sha256: String::new(),
    };
    PromptCursor::new(file, None, PromptReuse::Allow)
}

/// A percentile of what the ok requests say; in seconds or tokens per second.
fn percentile(
    traces: &[RequestTrace],
    percent: f64,
    of: impl Fn(&RequestTrace) -> Option<f64>,
) -> Option<f64> {
    let ok = traces.iter().filter(|trace| trace.outcome.is_ok());
    Sample::new(ok.filter_map(of).collect()).percentile(percent)
}

fn ttft(trace: &RequestTrace) -> Option<f64> {
    trace.ttft().map(|time| time.as_secs_f64())
}

fn e2e(trace: &RequestTrace) -> Option<f64> {
    Some(trace.stamps.end.as_secs_f64())
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2} s"))
}

/// Columns as wide as their widest cell, the first one to the left.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            if column == 0 {
                text.push_str(&format!("{cell:<width$}"));
            } else {
                text.push_str(&format!("   {cell:>width$}"));
            }
        }
        text.push('\n');
    }
    text
}

/// A row of a table.
fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
