//! `GET /v1/models`: what is served.

use serde::{Deserialize, Serialize};

/// The list; here always of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelList {
    /// `list`.
    pub object: String,
    /// The models.
    pub data: Vec<ModelCard>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCard {
    /// The name to ask for.
    pub id: String,
    /// `model`.
    pub object: String,
    /// Seconds since 1970: when it was loaded.
    pub created: u64,
    /// `spark-serve`.
    pub owned_by: String,
    /// Tokens that prompt and answer may have together (vLLM's name).
    pub max_model_len: u32,
    /// What is known of it.
    pub meta: ModelMeta,
}

/// Facts of the model and of how it is served; llama-server's names where it has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMeta {
    /// Number of weights.
    pub n_params: u64,
    /// Bytes of all tensors.
    pub size_bytes: u64,
    /// What most weights are stored as: `BF16`, `Q4_1`, …
    pub file_type: String,
    /// Layers.
    pub n_layer: u32,
    /// Width.
    pub n_embd: u32,
    /// Attention heads.
    pub n_head: u32,
    /// Heads of the KV cache.
    pub n_head_kv: u32,
    /// Context in tokens, as applied.
    pub n_ctx: u32,
    /// Context in tokens that the model was trained for.
    pub n_ctx_train: u32,
    /// Tokens in the vocabulary.
    pub n_vocab: u32,
    /// Bytes of the KV cache for each token of context.
    pub kv_bytes_per_token: u64,
    /// Bytes of weights that one decode step reads: all tensors, but of the table of input
    /// embeddings one row, unless it also serves as the output.
    pub bytes_read_per_token: u64,
}
