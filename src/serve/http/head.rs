//! Refuses heads that are too large, with a body that says so. hyper refuses only much larger ones
//! itself, and says nothing.

use axum::http::{HeaderMap, StatusCode, Uri};

use crate::api::error::kind;

use super::refusal::Refusal;

/// Headers that hyper reads at most.
pub const HEADERS_READ_MAX: usize = 400;
/// Headers of one request at most.
const HEADERS_MAX: usize = 100;
/// Bytes of their names and values at most.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a URL at most.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Whether a request's head is of a size that clients have.
///
/// # Errors
/// 414 for the URL, 431 for the headers.
pub fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let refuse =
        |status, message: String| Err(Refusal::new(status, kind::INVALID_REQUEST, message));
    let url_bytes = uri.path_and_query().map_or(0, |whole| whole.as_str().len());
    if url_bytes > URL_BYTES_MAX {
        let message = format!("The URL is too long: at most {URL_BYTES_MAX} bytes.");
        return refuse(StatusCode::URI_TOO_LONG, message);
    }
    let too_large = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    if headers.len() > HEADERS_MAX {
        return refuse(too_large, format!("Too many headers: at most {HEADERS_MAX}."));
    }
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if bytes.sum::<usize>() > HEADER_BYTES_MAX {
        return refuse(
            too_large,
            format!("The headers are too large: at most {HEADER_BYTES_MAX} bytes."),
        );
    }
    Ok(())
}
