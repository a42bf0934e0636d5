//! `/tokenize` and `/detokenize`: what the model would read, and what it means.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::chat;
use crate::api::completion::token_ids;
use crate::api::error::kind;
use crate::api::fields::Fields;
use crate::serve::inference::{Specials, TokenId, Tokenizer};
use crate::serve::prompt::Prompter;

use super::app::App;
use super::body::Whole;
use super::refusal::{self, Refusal};

/// Bytes of a text at most: some seconds of work.
const CONTENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// `POST /tokenize`: `{"content": …}` or `{"messages": […]}` to `{"tokens": […], "count": n}`.
///
/// With `content`, `add_special` (default false) puts a BOS in front where the model has one, and
/// `parse_special` (default true) reads the spellings of special tokens as such: llama-server's
/// names and defaults.
pub async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    off_the_reactor(&app, request, |body, prompter, tokenizer| {
        let mut fields = Fields::parse(&body)?;
        let tokens = match fields.text("content")? {
            Some(content) => tokens_of_content(&content, &mut fields, prompter, tokenizer)?,
            None => {
                let messages = chat::messages(&mut fields).map_err(|error| match error.param {
                    Some(param) if param == "messages" && error.code.is_some() => {
                        Refusal::bad_request("Missing required parameter: 'content' or 'messages'.")
                    }
                    param => Refusal::from(crate::api::error::RequestError { param, ..error }),
                })?;
                let n_ctx = tokenizer.settings().n_ctx;
                let prompt = prompter.chat(&messages);
                prompt.map_err(|error| refusal::of_prompt(&error, "messages", n_ctx))?
            }
        };
        Ok(json!({ "count": tokens.len(), "tokens": tokens }))
    })
    .await
}

fn tokens_of_content(
    content: &str,
    fields: &mut Fields,
    prompter: &Prompter,
    tokenizer: &dyn Tokenizer,
) -> Result<Vec<TokenId>, Refusal> {
    if content.len() > CONTENT_BYTES_MAX {
        let message = format!(
            "Invalid value for 'content': at most {CONTENT_BYTES_MAX} bytes, but got {}.",
            content.len()
        );
        return Err(Refusal::bad_request(message).param("content"));
    }
    let add_special = fields.flag("add_special")?.unwrap_or(false);
    let parse_special = fields.flag("parse_special")?.unwrap_or(true);
    let specials = if parse_special { Specials::Recognise } else { Specials::AsText };
    let tokens = tokenizer.tokenize(content, specials);
    Ok(if add_special { prompter.with_bos(tokens) } else { tokens })
}

/// `POST /detokenize`: `{"tokens": […]}` to `{"content": …}`, special tokens spelled out.
pub async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    off_the_reactor(&app, request, |body, _, tokenizer| {
        let mut fields = Fields::parse(&body)?;
        let items = fields.list("tokens")?.ok_or_else(|| fields.missing("tokens"))?;
        let tokens = token_ids(&items, "tokens")?;
        let n_vocab = tokenizer.info().n_vocab;
        let known = |id: TokenId| u32::try_from(id).is_ok_and(|id| id < n_vocab);
        if let Some(id) = tokens.iter().find(|&&id| !known(id)) {
            let message =
                format!("Token id {id} is out of range: the vocabulary has {n_vocab} tokens.");
            return Err(Refusal::bad_request(message).param("tokens"));
        }
        Ok(json!({ "content": tokenizer.detokenize(&tokens, Specials::Recognise) }))
    })
    .await
}

/// Runs a handler that may take seconds where it keeps no other request waiting.
async fn off_the_reactor(
    app: &App,
    request: Request<Body>,
    work: fn(Whole, &Prompter, &dyn Tokenizer) -> Result<Value, Refusal>,
) -> Result<Json<Value>, Refusal> {
    let loaded = app.serving()?;
    let prompter = Arc::clone(&loaded.prompter);
    let tokenizer = Arc::clone(loaded.tokenizer());
    let (head, body) = request.into_parts();
    let body = app.bodies.read_json(&head.headers, body).await?;
    let done = tokio::task::spawn_blocking(move || work(body, &prompter, tokenizer.as_ref()));
    let bug = |_| {
        let message = "Failed to answer because of a bug in the server.";
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, kind::SERVER, message))
    };
    done.await.unwrap_or_else(bug).map(Json)
}
