//! Reads a request's body: the right type, within the limit, in time.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};

use crate::api::error::kind;

use super::refusal::Refusal;

/// Bytes of a body at most: far more than any context holds as text.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Time for a body at most: 32 MiB at 3 Mbit/s.
const BODY_DEADLINE: Duration = Duration::from_secs(90);

/// The body of a request that says that it is JSON.
///
/// # Errors
/// 415 for another type, 413 for a body over the limit, 408 for one that does not come, 400 for one
/// that breaks off.
pub async fn read_json(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    if !says_json(headers) {
        let message = "The request's body must be JSON: send 'Content-Type: application/json'.";
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            kind::INVALID_REQUEST,
            message,
        ));
    }
    if declared_length(headers).is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_DEADLINE, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(Refusal::bad_request(format!("The request's body could not be read: {error}.")))
        }
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            kind::INVALID_REQUEST,
            format!("The request's body did not come within {} s.", BODY_DEADLINE.as_secs()),
        )),
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
