//! The HTTP side: bytes to typed requests, events to bytes. It knows tokens only as jobs and events.

mod answer;
pub mod app;
mod body;
mod chat;
mod completion;
mod connections;
mod facts;
mod gate;
mod generate;
mod head;
mod heard;
mod line;
mod params;
mod patience;
mod peer;
mod record;
mod refusal;
mod schema;
mod stream;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use axum::routing::{get, post};

use crate::api::error::kind;
use app::App;
pub use connections::Connections;
pub use facts::{model_card, props};
use refusal::Refusal;

/// All routes. A router is a function, so tests call it without a socket.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(facts::health))
        .route("/metrics", get(facts::metrics))
        .route("/props", get(facts::show_props))
        .route("/v1/models", get(facts::list_models))
        .route("/v1/models/{*id}", get(facts::show_model))
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate::pass))
        .with_state(app)
}

async fn no_such_path(method: Method, uri: Uri) -> Refusal {
    let message = format!("Unknown request URL: {method} {}.", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, kind::INVALID_REQUEST, message).code("unknown_url")
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let message = format!("{} does not take {method} requests.", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, kind::INVALID_REQUEST, message)
        .code("method_not_allowed")
}
