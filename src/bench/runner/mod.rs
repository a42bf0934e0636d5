//! From a target to its results files: server up, levels, server down, files.

mod bad_config;
mod drafts;
mod earlier;
mod endpoint;
mod floor;
mod interleave;
mod ladder;
mod level;
mod level_head;
mod memory;
mod meta;
mod place;
mod probe;
mod prompts;
mod scrape;
mod server;
mod target;

pub use bad_config::put_bad_config;
pub use earlier::{Earlier, Identity};
pub use floor::client_floor;
pub use interleave::{mismatch, run_interleaved};
pub use ladder::Step;
pub use meta::{Commit, now};
pub use server::check_target;
pub use target::{Outcome, SentByServer, Work, run_target};

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::progress::Progress;
use super::telemetry::host_facts;
use crate::results::record::{ClientFloor, Host};

/// What all targets of one invocation share.
#[derive(Debug)]
pub struct Harness {
    /// The running program, which supervises servers too.
    pub exe: PathBuf,
    /// The command line.
    pub argv: Vec<String>,
    /// The working directory's commit.
    pub commit: Commit,
    /// The machine.
    pub host: Host,
    /// Where results go.
    pub out: PathBuf,
    /// Where servers' logs go and stay; `None`: somewhere, and they do not stay.
    pub logs: Option<PathBuf>,
    /// What a person sees.
    pub progress: Progress,
    /// Ctrl-C.
    pub cancel: CancellationToken,
    /// The harness's own error.
    pub floor: Option<ClientFloor>,
    /// Levels that need not be measured again.
    pub earlier: Earlier,
    /// What the requests may cost.
    pub budget: Budget,
}

impl Harness {
    /// Looks at the machine and the working directory.
    ///
    /// # Errors
    /// If the running program cannot be told.
    pub async fn new(
        out: PathBuf,
        progress: Progress,
        cancel: CancellationToken,
    ) -> std::io::Result<Self> {
        let host = tokio::task::spawn_blocking(host_facts).await.map_err(std::io::Error::other)?;
        Ok(Self {
            exe: std::env::current_exe()?,
            argv: std::env::args().collect(),
            commit: Commit::here().await,
            host,
            out,
            logs: None,
            progress,
            cancel,
            floor: None,
            earlier: Earlier::default(),
            budget: Budget::default(),
        })
    }
}
