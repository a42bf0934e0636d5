//! One HTTP connection, driven by whoever waits on it.
//!
//! hyper's connection is a future beside the request's; it is polled here, in the request's own
//! task, and not spawned: no hop between tasks lies between the socket and the stamp. That holds
//! for HTTP/2 too, whose connection is several futures ([`side_tasks`](super::side_tasks)).

use std::future::Future;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite};

use super::endpoint::HttpVersion;
use super::failure::{Failure, chain};
use super::reading::ReadStamp;
use super::side_tasks::SideTasks;
use super::wire::{Gated, Wire, WireEnd};
use crate::bench::sys::{TcpInfo, tcp_info};
use crate::measure::trace::FailureClass;

/// The longest response head, and how much of a body waits in memory: what hyper keeps for one
/// connection. Four times the 16 KiB that servers commonly accept for a head.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// The same for HTTP/2, uncompressed.
const HEADER_LIST_BYTES_MAX: u32 = 64 << 10;
/// More response headers than this are an attack.
const HEADERS_MAX: usize = 256;
/// Round trips that a close may take to be seen which was on its way when the request was sent. It
/// needs one; the second is for one that is longer than they are by and large.
const CLOSE_ROUND_TRIPS: u32 = 2;
/// The kernel's clock of a socket ticks at 1 to 10 ms: what it says may be off by two ticks.
const KERNEL_TICKS: Duration = Duration::from_millis(20);

/// How much has gone over a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>>>>;

/// One connection, at most one request at a time.
pub(super) struct Connection {
    sender: Sender,
    /// hyper's side of it; `None` once it has ended.
    driver: Option<Driver>,
    pub(super) wire: Rc<Wire>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(super) async fn new<S>(stream: Gated<S>, version: HttpVersion) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let failed = |error| Failure::protocol(format!("start HTTP: {}", chain(&error)));
        let wire = Rc::clone(&stream.wire);
        let io = TokioIo::new(stream);
        let (sender, driver): (_, Driver) = match version {
            HttpVersion::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(BUFFER_BYTES_MAX).max_headers(HEADERS_MAX);
                let (sender, driver) = builder.handshake(io).await.map_err(failed)?;
                (Sender::Http1(sender), Box::pin(driver))
            }
            HttpVersion::Http2 => {
                let tasks = SideTasks::default();
                let mut builder = http2::Builder::new(tasks.clone());
                builder.max_header_list_size(HEADER_LIST_BYTES_MAX);
                let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
                (Sender::Http2(sender), Box::pin(tasks.beside(connection)))
            }
        };
        Ok(Self { sender, driver: Some(driver), wire })
    }

    fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// What the kernel knows of it.
    pub(super) fn tcp_info(&self) -> TcpInfo {
        tcp_info(self.wire.socket.as_fd())
    }

    /// How much has gone over it so far.
    pub(super) fn mark(&self) -> Mark {
        Mark { bytes_in: self.wire.bytes_in.get(), bytes_out: self.wire.bytes_out.get() }
    }

    /// The last read of the socket.
    pub(super) fn last_read(&self) -> ReadStamp {
        let at = self.wire.read_at.get().unwrap_or_else(Instant::now);
        ReadStamp { at, number: self.wire.n_reads.get() }
    }

    /// Whether a request may be sent on it. A server may have closed it since the last answer, and
    /// the event loop may not have noticed yet: so the socket itself is asked.
    pub(super) async fn is_alive(&mut self) -> bool {
        // What arrives between two answers is little: the end of TLS, a session ticket, a timeout's
        // farewell. Four looks are enough for all of them.
        for _ in 0..4 {
            self.poll_once().await;
            if self.driver.is_none() || !self.is_ready() {
                return false;
            }
            let socket = self.wire.socket.as_raw_fd();
            let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            match recv(socket, &mut [0], peek) {
                Err(nix::Error::EAGAIN) => return true,
                Ok(0) | Err(_) => return false,
                Ok(_) if self.wire.socket.readable().await.is_err() => return false,
                Ok(_) => {}
            }
        }
        false
    }

    /// Sends a request; resolves when the response's head is there.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let driver = &mut self.driver;
        let wire = &self.wire;
        let mut response: Pin<Box<dyn Future<Output = _>>> = match &mut self.sender {
            Sender::Http1(sender) => Box::pin(sender.send_request(request)),
            Sender::Http2(sender) => Box::pin(sender.send_request(request)),
        };
        std::future::poll_fn(|cx| poll_beside(driver, wire, cx, |cx| response.as_mut().poll(cx)))
            .await
    }

    /// The next piece of a response's body.
    pub(super) async fn frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<hyper::Result<Frame<Bytes>>> {
        let driver = &mut self.driver;
        let wire = &self.wire;
        std::future::poll_fn(|cx| {
            poll_beside(driver, wire, cx, |cx| Pin::new(&mut *body).poll_frame(cx))
        })
        .await
    }

    /// Lets hyper see what has arrived, without waiting for more.
    pub(super) async fn poll_once(&mut self) {
        let driver = &mut self.driver;
        let wire = &self.wire;
        std::future::poll_fn(|cx| {
            let _ = poll_beside(driver, wire, cx, |_| Poll::<()>::Pending);
            Poll::Ready(())
        })
        .await;
    }

    /// After a failed [`send`](Self::send): whether the connection had died rather than the request
    /// failed. So it is if the server closed or reset it without one byte of an answer, and so soon
    /// after the request (sent when the connection stood at `before`) that the close was on its way
    /// before the request was there: within two round trips and `slack`.
    ///
    /// Whether a program read the request cannot be known: what a kernel acknowledged may lie
    /// unread in its buffer for ever, and a reset that tells so need not follow the close.
    pub(super) fn had_died(
        &self,
        error: &hyper::Error,
        before: Mark,
        sent_at: Instant,
        slack: Duration,
    ) -> bool {
        let written_at = self.wire.written_at.get().filter(|at| *at >= sent_at);
        let info = self.tcp_info();
        let window = info.rtt.unwrap_or_default() * CLOSE_ROUND_TRIPS + slack;
        let is_closed = error.is_canceled()
            || matches!(
                Failure::of_exchange(error, &self.wire).class,
                FailureClass::IncompleteBody | FailureClass::ConnectionReset
            );
        is_closed
            && self.wire.bytes_in.get() == before.bytes_in
            && written_at.is_none_or(|at| self.closed_after(at, info) <= window)
    }

    /// How long after `written_at` the connection was closed: when that was read, or when the kernel
    /// had it, if the harness was late to read. Of a reset the kernel does not say when it came.
    fn closed_after(&self, written_at: Instant, info: TcpInfo) -> Duration {
        let read_at = self.wire.read_at.get().filter(|at| *at >= written_at);
        let read = read_at.map_or(Duration::ZERO, |at| at - written_at);
        let kernel = info.sent_ago.zip(info.heard_ago).filter(|(sent_ago, _)| {
            let is_eof = self.wire.end.get() == Some(WireEnd::Eof);
            is_eof && *sent_ago + KERNEL_TICKS >= written_at.elapsed()
        });
        kernel.map_or(read, |(sent_ago, heard_ago)| read.min(sent_ago.saturating_sub(heard_ago)))
    }
}

/// Polls `wanted` and hyper's side of the connection until `wanted` is there or neither moves.
///
/// `wanted` is asked before each further read of the socket, so that nothing is read on top of what
/// has not been taken yet.
fn poll_beside<T>(
    driver: &mut Option<Driver>,
    wire: &Wire,
    cx: &mut Context<'_>,
    mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    loop {
        if let Poll::Ready(value) = wanted(cx) {
            return Poll::Ready(value);
        }
        // hyper may hold more of an earlier read than it could hand up at once.
        poll_driver(driver, cx);
        if let Poll::Ready(value) = wanted(cx) {
            return Poll::Ready(value);
        }
        wire.open_gate();
        poll_driver(driver, cx);
        if !wire.close_gate() {
            return wanted(cx);
        }
    }
}

fn poll_driver(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(future) = driver
        && future.as_mut().poll(cx).is_ready()
    {
        *driver = None; // Errors reach the request's side as well.
    }
}
