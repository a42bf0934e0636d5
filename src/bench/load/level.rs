//! A level is run: warm-up, connections, the loop, and the records of it all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hyper::header::SET_COOKIE;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::io_threads::IoThreads;
use super::tally::Tally;
use super::worker::{Finished, Shared};
use super::{LevelObserver, LevelRun, LevelSpec, Start, closed, open};
use crate::bench::client::{AnswerHeaders, Endpoint, Route};
use crate::bench::limits;
use crate::bench::prompts::PromptCursor;
use crate::measure::level::{EndedBy, StartMode, assign_phases};

/// Records that may wait for the observer: each worker has at most one, so this is more than there
/// are workers in any sensible level.
const RECORDS_WAITING_MAX: usize = 16_384;

/// How a level's measured part was begun.
pub(super) struct Led {
    pub(super) start_mode: StartMode,
    /// `None` if it was cancelled before.
    pub(super) measuring_from: Option<Instant>,
}

/// Runs one level to its end, and says what was seen.
///
/// Every finished request is handed to `observer` at once. When `cancel` is called, what is in
/// flight is recorded as cancelled and the level ends; dropping the future stops the load as well.
///
/// # Errors
/// Only if the operating system gives no thread or no event loop: whatever a server does is a
/// record.
pub async fn run_level(
    endpoint: &Endpoint,
    prompts: &mut PromptCursor,
    spec: &LevelSpec,
    observer: &dyn LevelObserver,
    cancel: &CancellationToken,
) -> std::io::Result<LevelRun> {
    limits::raise_open_files();
    let stop = cancel.child_token();
    let _stop_if_dropped = stop.clone().drop_guard();
    let epoch = Instant::now();
    let tally = Arc::new(Tally::new(prompts, spec));
    let (records, mut finished) = mpsc::channel(RECORDS_WAITING_MAX);
    let shared = Arc::new(Shared {
        route: Arc::new(Route::new(endpoint)),
        tally: Arc::clone(&tally),
        epoch,
        cancel: stop.clone(),
        records,
    });
    let mut threads = IoThreads::default();
    let mut traces = Vec::new();
    let mut keep = |Finished { trace, kept }: Finished| {
        observer.finished(&trace);
        drop(kept);
        traces.push(trace);
    };

    let led = lead_while(lead(shared, spec, &mut threads), &mut finished, &mut keep).await?;
    if led.measuring_from.is_some() {
        observer.measuring(led.start_mode);
    }
    let mut deadline = led.measuring_from.zip(spec.max_duration).map(|(from, max)| from + max);
    let mut timed_out = false;
    // The channel closes when the last worker has gone.
    loop {
        tokio::select! {
            record = finished.recv() => match record {
                Some(record) => keep(record),
                None => break,
            },
            () = at(deadline) => {
                (timed_out, deadline) = (true, None);
                stop.cancel();
            }
        }
    }

    let seen = threads.join();
    traces.sort_by_key(|trace| trace.index);
    let ended_by = match () {
        () if tally.is_reached() => EndedBy::NOk,
        () if cancel.is_cancelled() => EndedBy::Interrupted,
        () if timed_out => EndedBy::MaxDuration,
        () if tally.is_too_expensive() => EndedBy::MaxCost,
        () if tally.is_refused() => EndedBy::Refused,
        () => EndedBy::MaxAttempts,
    };
    assign_phases(spec.concurrency, led.start_mode, ended_by, &mut traces);
    let measured = traces.iter().filter(|trace| trace.is_measured());
    Ok(LevelRun {
        measured_from: measured.map(|trace| trace.start).min(),
        start_mode: led.start_mode,
        ended_by,
        epoch,
        loop_lag: seen.loop_lag,
        response_headers: telling_headers(endpoint, seen.headers),
        traces,
    })
}

/// Leads the level up to its measured part, and keeps what finishes meanwhile.
async fn lead_while(
    lead: impl Future<Output = std::io::Result<Led>>,
    finished: &mut mpsc::Receiver<Finished>,
    keep: &mut impl FnMut(Finished),
) -> std::io::Result<Led> {
    let mut lead = std::pin::pin!(lead);
    loop {
        tokio::select! {
            led = &mut lead => return led,
            Some(record) = finished.recv() => keep(record),
        }
    }
}

async fn lead(
    shared: Arc<Shared>,
    spec: &LevelSpec,
    threads: &mut IoThreads,
) -> std::io::Result<Led> {
    match spec.start {
        Start::Staggered | Start::Simultaneous => closed::lead(shared, spec, threads).await,
        Start::Open { rate, arrivals, seed } => {
            let loop_ = open::OpenLoop { rate, arrivals, seed, warmup: spec.warmup };
            open::lead(shared, loop_, threads).await
        }
    }
}

/// Resolves at a deadline; never, if there is none.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Response headers as text: without cookies, without what the request's secrets look like.
fn telling_headers(
    endpoint: &Endpoint,
    headers: Option<AnswerHeaders>,
) -> BTreeMap<String, String> {
    /// No header that names a server or a region is longer.
    const VALUE_CHARS_MAX: usize = 256;
    let headers = headers.map(AnswerHeaders::into_map).unwrap_or_default();
    let told = headers.iter().filter(|(name, _)| *name != SET_COOKIE);
    told.map(|(name, value)| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text: String = text.chars().take(VALUE_CHARS_MAX).collect();
        (name.as_str().to_owned(), endpoint.redact(&text))
    })
    .collect()
}
