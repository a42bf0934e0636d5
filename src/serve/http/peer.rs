//! Notices that a client has hung up while nothing is read from it.
//!
//! hyper notices as long as it reads, and it reads no further once a client has sent more than its
//! request: the next one, or a stray line end. So the kernel is asked, through a second descriptor
//! of the same socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

/// The other end of a connection.
#[derive(Clone)]
pub struct Peer(Arc<AsyncFd<OwnedFd>>);

impl Peer {
    /// Whoever is at the other end of `stream`.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        #[expect(deprecated, reason = "unsound where a descriptor may change; an OwnedFd's can't")]
        let watched = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self(Arc::new(watched)))
    }

    /// Ready once it has closed its side of the connection, or vanished. One task may wait at a time.
    pub fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.0.poll_read_ready(context) {
                Poll::Ready(Ok(ready)) if ready.ready().is_read_closed() => return Poll::Ready(()),
                // Bytes that hyper reads, or does not.
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                // The runtime is going away, and the connection with it.
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}
