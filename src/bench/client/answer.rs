//! The answer to a request is read: an event stream, or whatever came instead of one.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::http::response::Parts;
use hyper::{Response, StatusCode, Version};

use super::connection::Connection;
use super::failure::Failure;
use super::trace::Seen;
use super::wait::{Stage, Wait};
use crate::api::chunk::{ERROR_BYTES_MAX, cut};
use crate::api::stream_error::stray_error;
use crate::measure::trace::FailureClass;

/// The longest stream that is read, in bytes: an endless one has to end somewhere.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// The longest body that is read where no stream is: an error object is far shorter.
const PLAIN_BYTES_MAX: usize = 64 << 10;
/// How long a refusal's body is waited for: the refusal stands without it.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);
/// How long the rest of a failed answer is waited for, so that its connection can be kept.
const DRAIN_WAIT: Duration = Duration::from_millis(100);

/// Reads an answer to its end. What was seen before a failure stays in `seen`.
pub(super) async fn read_answer(
    connection: &mut Connection,
    response: Response<Incoming>,
    seen: &mut Seen,
    wait: &mut Wait<'_>,
) -> Result<(), Failure> {
    let (head, body) = response.into_parts();
    seen.head_at = connection.wire.read_at.get();
    seen.status = Some(head.status.as_u16());
    seen.close_announced = closes_afterwards(&head);
    seen.unread = Some(body);
    let mut body = Unread { connection, wait, seen };
    let ended = if head.status != StatusCode::OK {
        Err(body.refusal(head.status).await)
    } else if is_event_stream(&head.headers) {
        body.stream(&[]).await
    } else {
        body.anything_else(&head.headers).await
    };
    seen.headers = Some(head.headers);
    ended
}

/// Reads what is left of an answer, for a short while. Whether it got to the end.
pub(super) async fn drain(connection: &mut Connection, body: &mut Incoming) -> bool {
    let rest = async {
        let mut left = PLAIN_BYTES_MAX;
        loop {
            match connection.frame(body).await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(less) => left = less,
                    None => return false,
                },
            }
        }
    };
    tokio::time::timeout(DRAIN_WAIT, rest).await.unwrap_or(false)
}

/// A body that is being read.
struct Unread<'a, 'w> {
    connection: &'a mut Connection,
    wait: &'a mut Wait<'w>,
    seen: &'a mut Seen,
}

impl Unread<'_, '_> {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let stage = match self.seen.reading.answer.last_text {
                Some(at) => Stage::Streaming(at),
                None => Stage::Waiting,
            };
            let Some(body) = &mut self.seen.unread else { return Ok(None) };
            match self.wait.until(stage, self.connection.frame(body)).await? {
                None => {
                    self.seen.unread = None;
                    self.seen.complete = true;
                    self.seen.end_at = self.connection.wire.read_at.get();
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    self.seen.unread = None;
                    return Err(Failure::of_exchange(&error, &self.connection.wire));
                }
            }
        }
    }

    /// Reads an event stream whose first bytes are already there.
    async fn stream(&mut self, first: &[u8]) -> Result<(), Failure> {
        let mut bytes_read = 0;
        self.seen.reading.push(first, self.connection.last_read())?;
        while let Some(bytes) = self.next().await? {
            self.seen.reading.push(&bytes, self.connection.last_read())?;
            bytes_read += bytes.len() as u64;
            if bytes_read > STREAM_BYTES_MAX {
                let text = format!("the stream is longer than {STREAM_BYTES_MAX} bytes");
                return Err(Failure::protocol(text));
            }
        }
        self.seen.reading.finish(self.connection.last_read())
    }

    /// Reads what is no stream: all of it, as far as it is of a sensible length.
    async fn plain(&mut self, held: &mut Vec<u8>) -> Result<(), Failure> {
        while held.len() < PLAIN_BYTES_MAX
            && let Some(bytes) = self.next().await?
        {
            held.extend_from_slice(&bytes);
        }
        held.truncate(PLAIN_BYTES_MAX);
        Ok(())
    }

    /// A status other than 200: the failure, with as much of the body as came.
    async fn refusal(&mut self, status: StatusCode) -> Failure {
        let mut body = Vec::new();
        // Whatever goes wrong now: the refusal came first.
        let _ = tokio::time::timeout(REFUSAL_WAIT, self.plain(&mut body)).await;
        let said = text_of(&body);
        Failure::new(FailureClass::Http(status.as_u16()), format!("{status}: {said}"))
    }

    /// A 200 that does not call itself an event stream: it may be one all the same, or an error.
    async fn anything_else(&mut self, headers: &HeaderMap) -> Result<(), Failure> {
        let mut held = Vec::new();
        while held.len() < LONGEST_FIELD
            && let Some(bytes) = self.next().await?
        {
            held.extend_from_slice(&bytes);
        }
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.map_or("none", |value| value.to_str().unwrap_or("odd"));
        if begins_like_a_stream(&held) {
            let note = format!("an event stream under the content type {content_type}");
            self.seen.reading.answer.notes.push(note);
            return self.stream(&held).await;
        }
        self.plain(&mut held).await?;
        match stray_error(&held) {
            Some(error) => Err(Failure::new(FailureClass::BodyError, error)),
            None => {
                let said = text_of(&held);
                let said = cut(&said, 200);
                let text = format!("neither an event stream nor an error ({content_type}): {said}");
                Err(Failure::protocol(text))
            }
        }
    }
}

/// The length of the longest field name that a stream may begin with, its colon included.
const LONGEST_FIELD: usize = "event:".len();

fn begins_like_a_stream(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    fields.iter().any(|field| bytes.starts_with(field))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes);
    let expected = b"text/event-stream";
    value.is_some_and(|value| {
        value.len() >= expected.len() && value[..expected.len()].eq_ignore_ascii_case(expected)
    })
}

/// Whether the server has said that it closes the connection after this answer: in words, by its
/// version, or by a body that only the close can end.
fn closes_afterwards(head: &Parts) -> bool {
    let says = |word: &str| {
        let values = head.headers.get_all(header::CONNECTION).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word)))
    };
    if head.version == Version::HTTP_2 {
        return false; // It says so in frames of its own.
    }
    let framed = head.headers.contains_key(header::CONTENT_LENGTH)
        || head.headers.contains_key(header::TRANSFER_ENCODING);
    says("close") || !framed || (head.version == Version::HTTP_10 && !says("keep-alive"))
}

/// A body as a text for people, cut to [`ERROR_BYTES_MAX`]; of an error object its message.
fn text_of(body: &[u8]) -> String {
    if let Some(error) = stray_error(body) {
        return error;
    }
    cut(String::from_utf8_lossy(body).trim(), ERROR_BYTES_MAX).to_owned()
}
