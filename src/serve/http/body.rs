//! Reads a request's body: the right type, within the limit, in time, and not too many at once.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::error::kind;

use super::refusal::Refusal;

/// Bytes of a body at most: far more than any context holds as text.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Time for a body at most: 32 MiB at 3 Mbit/s.
const BODY_DEADLINE: Duration = Duration::from_secs(90);
/// Up to this size a body needs no room: it is what a connection may take in any case.
const SMALL_BYTES_MAX: usize = 256 * 1024;
/// Bytes of all larger bodies together, from their first byte until they are understood.
const LARGE_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// Where bodies are read into: what they take together is bounded, however many clients send.
pub struct Bodies {
    /// A permit for each byte.
    room: Arc<Semaphore>,
}

/// A body, whole, and the room that it takes.
pub struct Whole {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(LARGE_BYTES_MAX)) }
    }
}

impl Bodies {
    /// The body of a request that says that it is JSON. A large one waits until there is room.
    ///
    /// # Errors
    /// 415 for another type, 413 for a body over the limit, 408 for one that does not come, 400 for
    /// one that breaks off.
    pub async fn read_json(&self, headers: &HeaderMap, body: Body) -> Result<Whole, Refusal> {
        let unsupported = |message| {
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind::INVALID_REQUEST, message))
        };
        if !says_json(headers) {
            let message = "The request's body must be JSON: send 'Content-Type: application/json'.";
            return unsupported(message);
        }
        if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return unsupported("The request's body must not be compressed.");
        }
        let declared = declared_length(headers);
        if declared.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
            return Err(too_large());
        }
        let read = self.read(body, declared.and_then(|length| usize::try_from(length).ok()));
        tokio::time::timeout(BODY_DEADLINE, read).await.unwrap_or_else(|_| {
            Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                kind::INVALID_REQUEST,
                format!("The request's body did not come within {} s.", BODY_DEADLINE.as_secs()),
            ))
        })
    }

    async fn read(&self, mut body: Body, declared: Option<usize>) -> Result<Whole, Refusal> {
        let mut bytes = BytesMut::new();
        let mut room = None;
        while let Some(frame) = body.frame().await {
            let broken =
                |error| Refusal::bad_request(format!("The request's body broke off: {error}."));
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            let n_bytes = bytes.len() + data.remaining();
            if n_bytes > BODY_BYTES_MAX {
                return Err(too_large());
            }
            if n_bytes > SMALL_BYTES_MAX && room.is_none() {
                // All at once: two that wait for each other's second half would wait for ever.
                let n_bytes = declared.unwrap_or(BODY_BYTES_MAX);
                room = Some(self.take_room(n_bytes).await);
                bytes.reserve(n_bytes.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Whole { bytes: bytes.freeze(), _room: room })
    }

    async fn take_room(&self, n_bytes: usize) -> OwnedSemaphorePermit {
        let n_bytes = u32::try_from(n_bytes.min(BODY_BYTES_MAX)).expect("32 MiB are below 2³²");
        let taken = Arc::clone(&self.room).acquire_many_owned(n_bytes).await;
        taken.expect("the room is never closed")
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let Ok(value) = value.to_str() else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large() -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        kind::INVALID_REQUEST,
        format!("The request's body is too large: at most {BODY_BYTES_MAX} bytes."),
    )
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn headers(length: usize) -> HeaderMap {
        let json = ("content-type", "application/json".to_owned());
        let pairs = [json, ("content-length", length.to_string())];
        pairs
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .into_iter()
            .collect()
    }

    fn read_now(bodies: &Bodies, n_bytes: usize) -> Option<Whole> {
        let headers = headers(n_bytes);
        let read = bodies.read_json(&headers, Body::from(vec![b' '; n_bytes]));
        read.now_or_never().map(|read| read.map_err(|refusal| refusal.detail.message).unwrap())
    }

    #[test]
    fn large_bodies_wait_for_each_other_and_small_ones_for_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let bodies = Bodies::default();
        let first = read_now(&bodies, BODY_BYTES_MAX).unwrap();
        let second = read_now(&bodies, BODY_BYTES_MAX).unwrap();
        assert!(read_now(&bodies, SMALL_BYTES_MAX + 1).is_none());
        assert_eq!(read_now(&bodies, SMALL_BYTES_MAX).unwrap().len(), SMALL_BYTES_MAX);
        drop(first);
        let third = read_now(&bodies, SMALL_BYTES_MAX + 1).unwrap();
        // A body of no declared length takes the room of the largest.
        let unknown = bodies.read(Body::from(vec![b' '; SMALL_BYTES_MAX + 1]), None);
        assert!(unknown.now_or_never().is_none());
        drop((second, third));
    }
}
