//! What the server says of itself: `/health`, `/metrics`, `/props`, `/v1/models`.
//!
//! None of these waits for the inference thread.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::api::error::kind;
use crate::api::models::{ModelCard, ModelList, ModelMeta};
use crate::serve::config::Config;
use crate::serve::inference::Tokenizer;

use super::app::App;
use super::refusal::Refusal;

/// 200 while requests are served, else 503.
pub async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    app.serving().map(|_| Json(json!({ "status": "ok" })))
}

/// Everything that is counted.
pub async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let loaded = app.loaded().ok();
    let occupancy = loaded.map(|loaded| (loaded.handle.occupancy(), loaded.n_ctx()));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], app.metrics.render(occupancy))
}

/// What is applied.
pub async fn show_props(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    Ok(Json(app.loaded()?.props.clone()))
}

/// The one model.
pub async fn list_models(State(app): State<Arc<App>>) -> Result<Json<ModelList>, Refusal> {
    let card = app.loaded()?.card.clone();
    Ok(Json(ModelList { object: "list".to_owned(), data: vec![card] }))
}

/// The one model, by its id.
pub async fn show_model(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, Refusal> {
    let unreadable = |error| Refusal::bad_request(format!("The URL can't be read: {error}."));
    let Path(id) = id.map_err(unreadable)?;
    let card = &app.loaded()?.card;
    if card.id == id {
        return Ok(Json(card.clone()));
    }
    let message = format!("The model '{id}' does not exist: '{}' is served.", card.id);
    Err(Refusal::new(StatusCode::NOT_FOUND, kind::INVALID_REQUEST, message)
        .code("model_not_found")
        .param("model"))
}

/// What `/v1/models` says of a model that was loaded at `created` (seconds since 1970).
pub fn model_card(tokenizer: &dyn Tokenizer, alias: &str, created: u64) -> ModelCard {
    let (info, settings) = (tokenizer.info(), tokenizer.settings());
    ModelCard {
        id: alias.to_owned(),
        object: "model".to_owned(),
        created,
        owned_by: "spark-serve".to_owned(),
        max_model_len: settings.n_ctx,
        meta: ModelMeta {
            n_params: info.n_params,
            size_bytes: info.size_bytes,
            file_type: info.file_type.clone(),
            n_layer: info.n_layer,
            n_embd: info.n_embd,
            n_head: info.n_head,
            n_head_kv: info.n_head_kv,
            n_ctx: settings.n_ctx,
            n_ctx_train: info.n_ctx_train,
            n_vocab: info.n_vocab,
            kv_bytes_per_token: settings.kv_bytes_per_token,
            bytes_read_per_token: info.bytes_read_per_token,
        },
    }
}

/// What `/props` says: what was made of the settings, under llama-server's names where it has them.
pub fn props(tokenizer: &dyn Tokenizer, template: &str, config: &Config) -> Value {
    let (info, settings) = (tokenizer.info(), tokenizer.settings());
    json!({
        "model_alias": config.alias,
        "model_path": info.path,
        "model_name": info.name,
        "architecture": info.architecture,
        "build_info": format!("spark-serve {}, {}", env!("SPARK_VERSION"), settings.engine),
        "total_slots": 1,
        "default_generation_settings": { "n_ctx": settings.n_ctx },
        "n_ctx": settings.n_ctx,
        "n_batch": settings.n_batch,
        "n_ubatch": settings.n_ubatch,
        "n_threads": settings.threads,
        "n_threads_batch": settings.threads_batch,
        "n_gpu_layers": settings.gpu_layers,
        "device": settings.device,
        "flash_attn": settings.flash_attn,
        "kv_type": settings.kv_type,
        "kv_bytes": settings.kv_bytes,
        "compute_bytes": settings.compute_bytes,
        "mmap": settings.mmap,
        "prompt_cache": settings.prompt_cache,
        "max_queue": config.max_queue,
        "bos_token": info.bos_text,
        "eos_token": info.eos_text,
        "chat_template": template,
    })
}
