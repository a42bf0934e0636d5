//! What all handlers share: who may come in, whether the model is there, and where requests go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::api::models::ModelCard;
use crate::serve::config::ApiKey;
use crate::serve::inference::{InferenceHandle, Tokenizer};
use crate::serve::metrics::Metrics;
use crate::serve::prompt::Prompter;

use super::body::Bodies;
use super::line::Line;
use super::refusal::Refusal;

/// One server.
pub struct App {
    /// The hash of the key, so that comparing takes the same time whatever its length is.
    key_hash: Option<[u8; 32]>,
    /// What `/metrics` says.
    pub metrics: Arc<Metrics>,
    /// Where bodies are read into.
    pub bodies: Bodies,
    /// Where requests stand until they are in the queue.
    pub line: Arc<Line>,
    loaded: OnceLock<Loaded>,
    draining: AtomicBool,
}

/// What there is once the model is loaded.
pub struct Loaded {
    /// The way to the inference thread.
    pub handle: InferenceHandle,
    /// From conversations to tokens.
    pub prompter: Arc<Prompter>,
    /// What `/v1/models` says.
    pub card: ModelCard,
    /// What `/props` says.
    pub props: serde_json::Value,
}

impl Loaded {
    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        self.handle.tokenizer()
    }

    /// Tokens that prompt and answer may have together.
    pub fn n_ctx(&self) -> u32 {
        self.tokenizer().settings().n_ctx
    }
}

impl App {
    /// A server whose model is not loaded yet.
    pub fn new(key: Option<&ApiKey>, metrics: Arc<Metrics>) -> Self {
        Self {
            key_hash: key.map(|key| hash(key.reveal().as_bytes())),
            metrics,
            bodies: Bodies::default(),
            line: Arc::default(),
            loaded: OnceLock::new(),
            draining: AtomicBool::new(false),
        }
    }

    /// The model is there: from now on requests are served.
    pub fn set_loaded(&self, loaded: Loaded) {
        let first_time = self.loaded.set(loaded).is_ok();
        assert!(first_time, "a model is loaded once");
    }

    /// No new work from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// What there is, while work is taken.
    ///
    /// # Errors
    /// 503 while loading, while draining, and after the inference thread has died.
    pub fn serving(&self) -> Result<&Loaded, Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::unavailable("The server is shutting down."));
        }
        let loaded = self.loaded()?;
        if !loaded.handle.is_serving() {
            return Err(Refusal::unavailable("The inference thread has ended."));
        }
        Ok(loaded)
    }

    /// What there is, whether work is taken or not.
    ///
    /// # Errors
    /// 503 while loading.
    pub fn loaded(&self) -> Result<&Loaded, Refusal> {
        let loading = || Refusal::unavailable("The model is loading.").retry_after(1);
        self.loaded.get().ok_or_else(loading)
    }

    /// Whether a request that shows `key` may come in. Takes the same time for any wrong key.
    pub fn lets_in(&self, key: Option<&[u8]>) -> bool {
        match &self.key_hash {
            None => true,
            Some(right) => hash(key.unwrap_or_default()).ct_eq(right).into(),
        }
    }
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}
