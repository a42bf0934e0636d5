//! As much of HTTP/1.1 as a client of ours sends: a head, and a body of a known length.

use std::io;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// The longest head and the longest body that are read.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 32 << 20;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct Request {
    pub(in crate::bench) method: String,
    pub(in crate::bench) path: String,
    pub(in crate::bench) body: Vec<u8>,
}

/// The next request; `held` keeps what was read beyond it. `None` once the client has gone.
pub(in crate::bench) async fn read_request(
    stream: &mut TcpStream,
    held: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    let head_end = loop {
        if let Some(at) = held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at;
        }
        if held.len() > HEAD_BYTES_MAX {
            return Err(invalid("the head is too long"));
        }
        if stream.read_buf(held).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&held[..head_end]).into_owned();
    let body_start = head_end + 4;
    let length = content_length(&head)?;
    while held.len() < body_start + length {
        if stream.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
    let body = held[body_start..body_start + length].to_vec();
    held.drain(..body_start + length);
    let mut words = head.split_ascii_whitespace().map(str::to_owned);
    match (words.next(), words.next()) {
        (Some(method), Some(path)) => Ok(Some(Request { method, path, body })),
        _ => Err(invalid("no request line")),
    }
}

fn content_length(head: &str) -> io::Result<usize> {
    let named = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    let length = named.unwrap_or("0").parse().map_err(|_| invalid("a strange length"))?;
    if length > BODY_BYTES_MAX { Err(invalid("the body is too long")) } else { Ok(length) }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
