//! Accepts connections, serves each on its own task, and closes them all at the end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::head::HEADERS_READ_MAX;
use super::patience::Patient;
use super::peer::Peer;

/// A connection without a request is closed after this, be it new, idle or half a request: as long
/// as llama-server waits. Benchmarks open connections long before they use them.
const HEADERS_DEADLINE: Duration = Duration::from_secs(600);
/// A reader that takes not one byte for so long has gone away in all but name; as long as a benchmark
/// client waits for a server that says nothing.
const WRITE_PATIENCE: Duration = Duration::from_secs(120);
/// After an accept that failed (no file descriptors, for example) others would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for the last bytes to reach slow readers when everything else has ended.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// A client that has vanished without a word (a cable, a power cut) is found out by the kernel's own
/// questions, although nobody writes to it while it waits in the queue: after 60 s, in steps of 15 s,
/// four of them unanswered, so within two minutes.
#[cfg(target_os = "linux")]
const PROBE_AFTER_S: u32 = 60;
#[cfg(target_os = "linux")]
const PROBE_EVERY_S: u32 = 15;
#[cfg(target_os = "linux")]
const PROBES: u32 = 4;

/// All connections of a server.
pub struct Connections {
    address: SocketAddr,
    /// No new connections, no further request on those that are open.
    closing: CancellationToken,
    /// Cut what is still open.
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Connections {
    /// Starts to accept.
    ///
    /// # Errors
    /// When the listener has no address, which is the system's failure.
    pub fn start(listener: TcpListener, router: Router) -> io::Result<Self> {
        let connections = Self {
            address: listener.local_addr()?,
            closing: CancellationToken::new(),
            cut: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        connections.tasks.spawn(accept(
            listener,
            router,
            connections.closing.clone(),
            connections.cut.clone(),
            connections.tasks.clone(),
        ));
        Ok(connections)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more; lets what was answered reach its readers; cuts the rest after 2 s.
    pub async fn close(self) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_DEADLINE, self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    closing: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            () = closing.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (closing, cut) = (closing.clone(), cut.clone());
                tasks.spawn(serve_one(stream, router.clone(), closing, cut));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_one(
    stream: TcpStream,
    router: Router,
    closing: CancellationToken,
    cut: CancellationToken,
) {
    // Without it each token waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    if let Err(error) = probe(&stream) {
        tracing::debug!(%error, "failed to set SO_KEEPALIVE");
    }
    let peer = Peer::of(&stream).inspect_err(|error| {
        tracing::debug!(%error, "failed to watch a connection");
    });
    let peer = peer.ok();
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        router.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_DEADLINE);
    builder.max_headers(HEADERS_READ_MAX);
    let connection =
        builder.serve_connection(TokioIo::new(Patient::new(stream, WRITE_PATIENCE)), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = cut.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Has the kernel ask whether a silent peer is still there.
fn probe(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    #[cfg(target_os = "linux")]
    {
        setsockopt(stream, sockopt::TcpKeepIdle, &PROBE_AFTER_S)?;
        setsockopt(stream, sockopt::TcpKeepInterval, &PROBE_EVERY_S)?;
        setsockopt(stream, sockopt::TcpKeepCount, &PROBES)?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn a_peer_that_vanished_is_asked_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            probe(&stream).unwrap();
            assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
            assert_eq!(getsockopt(&stream, sockopt::TcpKeepIdle), Ok(PROBE_AFTER_S));
        });
    }
}
