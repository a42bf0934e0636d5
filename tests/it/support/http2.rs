//! A scripted HTTP/2 server, with TLS or without. It speaks the protocol properly (hyper's own
//! server), so what is scripted is what happens to a stream, not its bytes.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;

/// What happens to one request.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// A status and a `Retry-After`.
    Refused(u16),
    /// These pieces, then the end.
    Answered(Vec<String>),
    /// The same, and a farewell to the connection (GOAWAY).
    AnsweredLast(Vec<String>),
    /// These pieces, then the stream is reset.
    Reset(Vec<String>),
    /// These pieces, then the connection is closed.
    Cut(Vec<String>),
    /// These pieces, then nothing.
    Stalled(Vec<String>),
}

/// A running server; stops when it is dropped.
pub(crate) struct Http2Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Http2Server {
    /// Deals out fates in the order of requests; the last one is for all that follow.
    pub(crate) fn start(fates: Vec<Fate>, tls: Option<TlsAcceptor>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let script = Arc::new(Script { fates, requests: Arc::clone(&requests) });
        let counted = Arc::clone(&connections);
        let accept = async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let (script, tls) = (Arc::clone(&script), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, script).await;
                            }
                        }
                    }
                });
            }
        };
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, connections, requests, stop: Some(stop), thread: Some(thread) }
    }

    /// The heads of the requests so far: method, URI, version.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Http2Server {
    fn drop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        let _ = self.thread.take().unwrap().join();
    }
}

struct Script {
    fates: Vec<Fate>,
    requests: Arc<Mutex<Vec<String>>>,
}

/// Serves one connection until it ends, or a fate ends it.
async fn serve<S>(stream: S, script: Arc<Script>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ends = Ends::default();
    let Ends { cut, farewell, bidden } = ends.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (script, ends) = (Arc::clone(&script), ends.clone());
        async move { Ok::<_, Infallible>(respond(&script, ends, &request)) }
    });
    let connection =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = cut.notified() => return,
        () = farewell.notified() => {
            connection.as_mut().graceful_shutdown();
            bidden.notify_one();
        }
    }
    let _ = connection.await;
}

#[derive(Clone, Default)]
struct Ends {
    cut: Arc<Notify>,
    farewell: Arc<Notify>,
    /// The farewell stands in front of all that is sent from now on.
    bidden: Arc<Notify>,
}

fn respond(script: &Script, ends: Ends, request: &Request<Incoming>) -> Response<Pieces> {
    let head = format!("{} {} {:?}", request.method(), request.uri(), request.version());
    let number = {
        let mut requests = script.requests.lock().unwrap();
        requests.push(head);
        requests.len() - 1
    };
    let fate = script.fates[number.min(script.fates.len() - 1)].clone();
    let (pieces, then) = match fate {
        Fate::Refused(status) => {
            let body = Pieces::new(Vec::new(), Then::End, ends);
            let response = Response::builder().status(status).header("retry-after", "0");
            return response.body(body).unwrap();
        }
        Fate::Answered(pieces) => (pieces, Then::End),
        Fate::AnsweredLast(pieces) => (pieces, Then::Farewell),
        Fate::Reset(pieces) => (pieces, Then::Reset),
        Fate::Cut(pieces) => (pieces, Then::Cut),
        Fate::Stalled(pieces) => (pieces, Then::Stall),
    };
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(Pieces::new(pieces, then, ends)).unwrap()
}

/// What follows the pieces of a body.
#[derive(Clone, Copy)]
enum Then {
    End,
    Farewell,
    Reset,
    Cut,
    Stall,
}

/// A body, the last piece first.
struct Pieces {
    left: Vec<String>,
    then: Then,
    ends: Ends,
    /// Between the last piece and what follows it, so that both do not arrive in one read.
    pause: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Pieces {
    fn new(pieces: Vec<String>, then: Then, ends: Ends) -> Self {
        let left = pieces.into_iter().rev().collect();
        let Ends { farewell, bidden, .. } = ends.clone();
        let apart = || tokio::time::sleep(Duration::from_millis(30));
        let pause: Pin<Box<dyn Future<Output = ()> + Send>> = match then {
            Then::Reset | Then::Cut => Box::pin(apart()),
            Then::Farewell => Box::pin(async move {
                farewell.notify_one();
                bidden.notified().await;
                apart().await;
            }),
            Then::End | Then::Stall => Box::pin(std::future::ready(())),
        };
        Self { left, then, ends, pause }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        if let Some(piece) = self.left.pop() {
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        if matches!(self.then, Then::Reset | Then::Cut | Then::Farewell) {
            std::task::ready!(self.pause.as_mut().poll(cx));
        }
        match self.then {
            Then::End | Then::Farewell => Poll::Ready(None),
            Then::Reset => Poll::Ready(Some(Err(std::io::Error::other("as the script says")))),
            Then::Cut => {
                self.ends.cut.notify_one();
                Poll::Pending // The connection is dropped, and this with it.
            }
            Then::Stall => Poll::Pending, // No waker: nothing ever comes.
        }
    }
}
