//! What every request passes first: its size, the key, the state of the server, and a net under its handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::api::error::kind;

use super::app::App;
use super::head;
use super::refusal::Refusal;

/// Lets a request in, or refuses it. A handler that panics is a bug of ours: a 500, and no more.
pub async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Err(refusal) = head::check(request.uri(), request.headers()) {
        return refusal.into_response();
    }
    if request.uri().path() != "/health" {
        if !app.lets_in(key(request.headers())) {
            return wrong_key().into_response();
        }
        if let Err(refusal) = app.loaded() {
            return refusal.into_response();
        }
    }
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        let message = "Failed to answer because of a bug in the server.";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, kind::SERVER, message).into_response()
    })
}

/// The key that a request shows: `Authorization: Bearer KEY`.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

fn wrong_key() -> Refusal {
    let message = "Incorrect API key provided: send 'Authorization: Bearer KEY'.";
    Refusal::new(StatusCode::UNAUTHORIZED, kind::AUTHENTICATION, message).code("invalid_api_key")
}
