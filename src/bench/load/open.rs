//! The open loop: requests are sent by the clock, whatever the server does.
//!
//! A pacing thread sleeps from one intended time to the next; each arrival gets an idle connection,
//! or a new one. Latencies count from the intended time, so a harness that is late hides nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::io_threads::IoThreads;
use super::level::Led;
use super::tally::Refused;
use super::worker::{Shared, Worker};
use super::{Arrivals, Schedule};
use crate::bench::client::AnswerHeaders;
use crate::measure::level::StartMode;

/// What an open loop is asked to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenLoop {
    pub(super) rate: f64,
    pub(super) arrivals: Arrivals,
    pub(super) seed: u64,
    pub(super) warmup: u32,
}

/// Arrivals that may wait for the event loop: if it is that far behind, pacing has lost its sense.
const ARRIVALS_WAITING_MAX: usize = 4096;
/// How soon the pacing thread notices that the level has ended.
const PACER_NAP: Duration = Duration::from_millis(50);

/// Warms up and sets the clock going.
pub(super) async fn lead(
    shared: Arc<Shared>,
    wanted: OpenLoop,
    threads: &mut IoThreads,
) -> std::io::Result<Led> {
    let start_mode = match wanted.arrivals {
        Arrivals::Poisson => StartMode::OpenPoisson,
        Arrivals::Constant => StartMode::OpenConstant,
    };
    let (warm, warmed) = oneshot::channel();
    let (arrivals, arrived) = mpsc::channel(ARRIVALS_WAITING_MAX);
    let stop = shared.cancel.clone();
    threads.start(async move || work(shared, wanted.warmup, warm, arrived).await)?;
    // Nobody answers if the level was cancelled meanwhile.
    if warmed.await.is_err() || stop.is_cancelled() {
        return Ok(Led { start_mode, measuring_from: None });
    }
    let start = Instant::now();
    let schedule = Schedule::new(wanted.rate, wanted.arrivals, wanted.seed);
    let pacer = move || pace(schedule, start, &arrivals, &stop);
    std::thread::Builder::new().name("pacer".to_owned()).spawn(pacer)?;
    Ok(Led { start_mode, measuring_from: Some(start) })
}

/// Sends each intended time on its way when it has come, until nobody wants any more.
///
/// A thread of its own, since a runtime's timers tick at 1 ms and this one wakes within 0.1 ms.
fn pace(
    schedule: Schedule,
    start: Instant,
    arrivals: &mpsc::Sender<Instant>,
    stop: &CancellationToken,
) {
    for after in schedule {
        let Some(due) = start.checked_add(after) else { return };
        loop {
            if stop.is_cancelled() || arrivals.is_closed() {
                return;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(PACER_NAP));
        }
        if arrivals.blocking_send(due).is_err() {
            return;
        }
    }
}

/// What the load thread does: the warm-up, then every arrival.
async fn work(
    shared: Arc<Shared>,
    warmup: u32,
    warm: oneshot::Sender<()>,
    mut arrived: mpsc::Receiver<Instant>,
) -> Option<AnswerHeaders> {
    let stop = shared.cancel.clone();
    let mut idle = vec![Worker::new(&shared, 0)];
    let mut n_workers = 1;
    for _ in 0..warmup {
        if stop.is_cancelled() {
            return None;
        }
        idle[0].warm_up().await;
    }
    if warm.send(()).is_err() {
        return None;
    }
    let mut in_flight: JoinSet<Worker> = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = in_flight.join_next() => idle.push(returned(ended)),
            arrival = arrived.recv() => {
                let Some(intended_at) = arrival else { break };
                match shared.tally.admit() {
                    Ok(admitted) => {
                        let mut worker = idle.pop().unwrap_or_else(|| {
                            n_workers += 1;
                            Worker::new(&shared, n_workers - 1)
                        });
                        in_flight.spawn_local(async move {
                            worker.send_measured(admitted, Some(intended_at)).await;
                            worker
                        });
                    }
                    Err(Refused::Attempts | Refused::Cost | Refused::ForGood) => break,
                    // Nobody sends this one: it would be one too many.
                    Err(Refused::Enough) => {}
                }
            }
            () = stop.cancelled() => break,
        }
        if shared.tally.is_reached() {
            break;
        }
    }
    drop(arrived);
    while let Some(ended) = in_flight.join_next().await {
        idle.push(returned(ended));
    }
    let headers = idle.into_iter().map(|worker| worker.client.first_headers);
    headers.fold(None, AnswerHeaders::better)
}

fn returned(ended: Result<Worker, tokio::task::JoinError>) -> Worker {
    match ended {
        Ok(worker) => worker,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
