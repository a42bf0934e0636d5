//! The prompts of each results file: read from files before anything starts, or made once the
//! server can be asked for its count.

use std::num::NonZeroU32;

use tokio_util::sync::CancellationToken;

use super::endpoint::for_probe;
use crate::bench::budget::Budget;
use crate::bench::client::Endpoint;
use crate::bench::config::{Config, PromptSource, ShapePoint, Workload};
use crate::bench::engine::{Kind, NotMeasured};
use crate::bench::exact_prompts::{CountingServer, PromptMaker, Spending};
use crate::bench::http::Http;
use crate::bench::prompts::{PromptFile, SentPrompts};
use crate::bench::secrets::Secrets;

/// The prompts of one results file.
pub enum Prompts {
    /// Read from a file.
    Read(PromptFile),
    /// Not made yet.
    Shaped(ShapePoint),
}

impl Prompts {
    /// What identifies them.
    pub fn sha256(&self) -> String {
        match self {
            Self::Read(file) => file.sha256.clone(),
            Self::Shaped(point) => point.sha256(),
        }
    }
}

/// Reads what can be read before a server is there.
///
/// # Errors
/// If a prompts file cannot be used.
pub fn read(config: &Config) -> Result<Vec<Prompts>, NotMeasured> {
    let bad = |error: crate::bench::prompts::PromptsError| {
        NotMeasured::new(Kind::BadInput, "bad_prompts", format!("failed to {error}"))
    };
    let prompts = |source| match source {
        PromptSource::File(path) => PromptFile::read(&path).map(Prompts::Read).map_err(bad),
        PromptSource::Shape(point) => Ok(Prompts::Shaped(point)),
    };
    config.workload.sources().into_iter().map(prompts).collect()
}

/// The server that the prompts are for.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// Where requests go.
    pub endpoint: &'a Endpoint,
    /// Its base URL.
    pub base_url: &'a str,
    /// Its API key.
    pub secrets: &'a Secrets,
    /// What it has been sent.
    pub sent: &'a SentPrompts,
    /// What the requests may cost.
    pub budget: &'a Budget,
}

/// Makes those that have to be made.
///
/// # Errors
/// If the server cannot be made to count, or a shape cannot be made for it.
pub async fn make(
    prompts: Vec<Prompts>,
    config: &Config,
    server: Server<'_>,
    cancel: &CancellationToken,
) -> Result<Vec<PromptFile>, NotMeasured> {
    let failed = |text: String| NotMeasured::new(Kind::CheckFailed, "no_exact_prompts", text);
    if prompts.iter().all(|prompts| matches!(prompts, Prompts::Read(_))) {
        return Ok(prompts.into_iter().filter_map(Prompts::into_file).collect());
    }
    let http = Http::new(config.target.ca_file.as_deref()).map_err(failed)?;
    let endpoint = for_probe(server.endpoint, NonZeroU32::MIN, false);
    let counting = CountingServer {
        endpoint: &endpoint,
        base_url: server.base_url,
        key: server.secrets.key(),
        http: &http,
        spending: Spending { budget: server.budget, config },
        cancel,
    };
    let maker =
        PromptMaker::new(counting).await.map_err(|error| failed(format!("failed to {error}")))?;
    let mut files = Vec::with_capacity(prompts.len());
    for prompts in prompts {
        files.push(match prompts {
            Prompts::Read(file) => file,
            Prompts::Shaped(point) => maker
                .make(&point, server.sent.made_before(point.sha256()), wanted(&config.workload))
                .await
                .map_err(|error| failed(format!("failed to {error}")))?,
        });
    }
    Ok(files)
}

impl Prompts {
    fn into_file(self) -> Option<PromptFile> {
        match self {
            Self::Read(file) => Some(file),
            Self::Shaped(_) => None,
        }
    }
}

/// Prompts that a ladder takes, and a tenth more (a handful at least) for what fails: beyond that
/// the rate of failures is what there is to see.
fn wanted(work: &Workload) -> usize {
    const SPARE_MIN: u32 = 8;
    let level = |&level: &u32| work.requests_at(level) + work.warmup;
    let ladder: u32 = work.concurrency.levels().iter().map(level).sum();
    (ladder + ladder.div_ceil(10).max(SPARE_MIN)) as usize
}
