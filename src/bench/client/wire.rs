//! One socket, with a record of what went over it and when.
//!
//! Two layers share the record: [`Stamped`] right above the socket stamps each read and write, and
//! [`Gated`] right below hyper lets one read through at a time. So whatever hyper hands up after a
//! read came with that read or an earlier one, and one stamp belongs to each read. A connection
//! lives on one thread: the record is made of plain cells.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// How a socket's incoming side ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireEnd {
    /// The peer closed it.
    Eof,
    /// It failed.
    Failed(io::ErrorKind),
}

/// What went over one socket, and when.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: TcpStream,
    /// The last read that brought bytes or the end.
    pub(super) read_at: Cell<Option<Instant>>,
    /// Reads that brought bytes.
    pub(super) n_reads: Cell<u64>,
    /// The last write that the kernel took.
    pub(super) written_at: Cell<Option<Instant>>,
    /// The last write before the last read.
    pub(super) written_before_read: Cell<Option<Instant>>,
    pub(super) end: Cell<Option<WireEnd>>,
    /// Bytes of HTTP, without TLS.
    pub(super) bytes_in: Cell<u64>,
    pub(super) bytes_out: Cell<u64>,
    gate: Cell<Gate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    /// One read may pass.
    Open,
}

impl Wire {
    pub(super) fn new(socket: TcpStream) -> Rc<Self> {
        Rc::new(Self {
            socket,
            read_at: Cell::new(None),
            n_reads: Cell::new(0),
            written_at: Cell::new(None),
            written_before_read: Cell::new(None),
            end: Cell::new(None),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            gate: Cell::new(Gate::Closed),
        })
    }

    /// Lets the next read through.
    pub(super) fn open_gate(&self) {
        self.gate.set(Gate::Open);
    }

    /// Lets no read through; says whether one has passed since the gate was opened.
    pub(super) fn close_gate(&self) -> bool {
        self.gate.replace(Gate::Closed) == Gate::Closed
    }

    fn note_read(&self, bytes: usize) {
        self.read_at.set(Some(Instant::now()));
        self.written_before_read.set(self.written_at.get());
        if bytes == 0 {
            self.end.set(Some(WireEnd::Eof));
        } else {
            self.n_reads.set(self.n_reads.get() + 1);
        }
    }

    /// A read that left room has emptied the socket: the next one waits for the next event of the
    /// kernel's instead of asking in vain, which would be a system call for each event of a stream.
    /// What arrives meanwhile is such an event, and an end that was told already stays told.
    fn note_drained(&self) {
        let nothing = || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) };
        let _ = self.socket.try_io(Interest::READABLE, nothing);
    }

    fn note_failure(&self, error: &io::Error) {
        self.read_at.set(Some(Instant::now()));
        self.written_before_read.set(self.written_at.get());
        self.end.set(Some(WireEnd::Failed(error.kind())));
    }
}

/// The socket itself: stamps each read and write.
#[derive(Debug)]
pub(super) struct Stamped(pub(super) Rc<Wire>);

impl AsyncRead for Stamped {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &self.0;
        loop {
            ready!(wire.socket.poll_read_ready(cx))?;
            let room = buf.remaining();
            match wire.socket.try_read_buf(buf) {
                Ok(bytes) => {
                    wire.note_read(bytes);
                    if 0 < bytes && bytes < room {
                        wire.note_drained();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    wire.note_failure(&error);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = &self.0;
        loop {
            ready!(wire.socket.poll_write_ready(cx))?;
            match wire.socket.try_write(bytes) {
                Ok(written) => {
                    wire.written_at.set(Some(Instant::now()));
                    return Poll::Ready(Ok(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // What the peer had sent before is still to be read: no end of the reading.
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        use std::os::fd::AsRawFd as _;
        let fd = self.0.socket.as_raw_fd();
        let done = nix::sys::socket::shutdown(fd, nix::sys::socket::Shutdown::Write);
        Poll::Ready(done.map_err(io::Error::from))
    }
}

/// What hyper reads from and writes to: TLS or not, one read at a time.
#[derive(Debug)]
pub(super) struct Gated<S> {
    pub(super) stream: S,
    pub(super) wire: Rc<Wire>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.wire.gate.get() == Gate::Closed {
            // No waker is left behind: whoever closed the gate opens it before it sleeps.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let done = ready!(Pin::new(&mut this.stream).poll_read(cx, buf));
        this.wire.gate.set(Gate::Closed);
        let bytes = (buf.filled().len() - before) as u64;
        this.wire.bytes_in.set(this.wire.bytes_in.get() + bytes);
        Poll::Ready(done)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.wire.bytes_out.set(this.wire.bytes_out.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
