//! The closed loop: c workers, each of which sends its next request when the last one has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};

use super::io_threads::IoThreads;
use super::level::Led;
use super::worker::{Order, Shared, Worker};
use super::{LevelSpec, Start};
use crate::bench::client::AnswerHeaders;
use crate::measure::level::StartMode;

/// Connections that are opened at once: more would queue up in a server's backlog.
const OPENING_MAX: usize = 64;

/// Warms up, opens every connection, and sets the workers going.
pub(super) async fn lead(
    shared: Arc<Shared>,
    spec: &LevelSpec,
    threads: &mut IoThreads,
) -> std::io::Result<Led> {
    let n_workers = spec.concurrency.max(1);
    let workers = start_workers(&shared, n_workers, threads)?;
    let stop = shared.cancel.clone();
    drop(shared); // From here on only workers hold the record channel open.

    let mut last_ok = None;
    for turn in 0..spec.warmup {
        if stop.is_cancelled() {
            break;
        }
        let worker = &workers[(turn % n_workers) as usize];
        last_ok = ask(worker, Order::Warmup).await.flatten().or(last_ok);
    }
    let unused = workers.iter().skip(spec.warmup as usize);
    let opening = unused.map(|worker| ask(worker, Order::Open));
    futures_util::stream::iter(opening).buffer_unordered(OPENING_MAX).count().await;

    let (start_mode, step) = match (spec.start, last_ok) {
        (Start::Staggered, Some(took)) => (StartMode::Staggered, took / n_workers),
        _ => (StartMode::Simultaneous, Duration::ZERO),
    };
    if stop.is_cancelled() {
        return Ok(Led { start_mode, measuring_from: None });
    }
    let now = Instant::now();
    for (turn, worker) in (0..).zip(&workers) {
        // A worker that is gone has nothing to send.
        let _ = worker.send(Order::Loop(now + step * turn)).await;
    }
    Ok(Led { start_mode, measuring_from: Some(now) })
}

/// Starts the workers, spread over the threads.
fn start_workers(
    shared: &Arc<Shared>,
    n_workers: u32,
    threads: &mut IoThreads,
) -> std::io::Result<Vec<mpsc::Sender<Order>>> {
    let mut workers = Vec::new();
    let mut crew = Vec::new();
    for number in 0..n_workers {
        let (orders, received) = mpsc::channel(1);
        workers.push(orders);
        crew.push((number, received));
    }
    let shared = Arc::clone(shared);
    threads.start(async move || work(shared, crew).await)?;
    Ok(workers)
}

/// What one thread does: its workers, until none is left.
async fn work(
    shared: Arc<Shared>,
    crew: Vec<(u32, mpsc::Receiver<Order>)>,
) -> Option<AnswerHeaders> {
    let mut tasks = tokio::task::JoinSet::new();
    for (number, orders) in crew {
        let mut worker = Worker::new(&shared, number);
        tasks.spawn_local(async move {
            worker.obey(orders).await;
            worker.client.first_headers
        });
    }
    drop(shared);
    let mut headers = None;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(found) => headers = AnswerHeaders::better(headers, found),
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    headers
}

/// Gives an order that has an answer; `None` if the worker has gone.
async fn ask<T>(
    worker: &mpsc::Sender<Order>,
    order: impl FnOnce(oneshot::Sender<T>) -> Order,
) -> Option<T> {
    let (done, answer) = oneshot::channel();
    worker.send(order(done)).await.ok()?;
    answer.await.ok()
}
