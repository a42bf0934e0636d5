//! What the worker needs of a model, and what the HTTP side may know of it.
//!
//! [`Model`] is driven by one thread, token by token. [`Tokenizer`] is its other half: immutable,
//! shared with the HTTP side. llama.cpp stands behind both, or a script in tests.

use std::path::PathBuf;
use std::sync::Arc;

use super::params::Grammar;

/// A token's number in the vocabulary: from 0 to `n_vocab` − 1.
pub type TokenId = i32;

/// One sequence on one device. All calls come from the inference thread.
pub trait Model {
    /// Its shareable half.
    fn tokenizer(&self) -> Arc<dyn Tokenizer>;

    /// Forgets the sequence, except for its first `n_keep` tokens.
    ///
    /// Returns how many of them it could keep: `n_keep`, or 0 for a model that can't cut a sequence.
    ///
    /// # Errors
    /// When the engine fails; the model is then in an unknown state.
    fn rewind(&mut self, n_keep: usize) -> Result<usize, ModelError>;

    /// Appends `tokens` to the sequence and computes them; the logits that follow the last one can
    /// be read afterwards if `output` is [`Output::Logits`].
    ///
    /// At most `n_ubatch` tokens, and the sequence stays within `n_ctx`: the worker sees to both.
    /// `cancelled` may be asked at any time, from any thread; once it says yes, the model may give up.
    ///
    /// # Errors
    /// [`ModelError::Cancelled`] when it gave up, otherwise what the engine said. After an error the
    /// length of the sequence is unknown until the next [`Self::rewind`].
    fn eval(
        &mut self,
        tokens: &[TokenId],
        output: Output,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), ModelError>;

    /// The logits after the last `eval`, one for each token of the vocabulary. The sampler writes
    /// into them: they are good for one draw.
    fn logits(&mut self) -> &mut [f32];

    /// The state of a grammar at the start of an answer.
    ///
    /// # Errors
    /// When the grammar does not compile.
    fn matcher(&self, grammar: &Grammar) -> Result<Box<dyn GrammarMatcher>, ModelError>;
}

/// Whether the logits that follow a piece of the prompt are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// No: more of the prompt follows.
    None,
    /// Yes: the next token will be drawn.
    Logits,
}

/// Where an answer stands in its grammar.
pub trait GrammarMatcher {
    /// Whether the grammar allows this token next.
    fn allows(&mut self, token: TokenId) -> bool;

    /// Sets the logits of all tokens that the grammar does not allow next to −∞.
    fn mask(&mut self, logits: &mut [f32]);

    /// Moves on by a token.
    ///
    /// # Errors
    /// When the grammar did not allow it.
    fn accept(&mut self, token: TokenId) -> Result<(), ModelError>;
}

/// Why a model could not do a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It was told to stop.
    #[error("cancelled")]
    Cancelled,
    /// The engine said no.
    #[error("{0}")]
    Engine(String),
}

/// Text to tokens and back, and what is known of the model. Shared with the HTTP side.
pub trait Tokenizer: Send + Sync {
    /// What the model is.
    fn info(&self) -> &ModelInfo;

    /// What was made of the settings.
    fn settings(&self) -> &AppliedSettings;

    /// The tokens of a text. No BOS is added.
    fn tokenize(&self, text: &str, specials: Specials) -> Vec<TokenId>;

    /// Appends the bytes of a token to `out`; not necessarily whole characters. A control token has
    /// no text unless `specials` is [`Specials::Recognise`]. An id outside the vocabulary has none.
    fn piece(&self, token: TokenId, specials: Specials, out: &mut Vec<u8>);

    /// A grammar for a JSON Schema (its text).
    ///
    /// # Errors
    /// When the schema can't be made into one.
    fn grammar(&self, json_schema: &str) -> Result<Grammar, GrammarError>;

    /// Whether a token ends the answer.
    fn is_eog(&self, token: TokenId) -> bool {
        self.info().eog.binary_search(&token).is_ok()
    }

    /// The text of tokens; bytes that are no UTF-8 become U+FFFD.
    fn detokenize(&self, tokens: &[TokenId], specials: Specials) -> String {
        let mut bytes = Vec::new();
        for &token in tokens {
            self.piece(token, specials, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What the spelling of a special token, `<|im_end|>` for example, means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// Plain text, like everything else that a user types.
    AsText,
    /// The special token: for the parts that a chat template put there.
    Recognise,
}

/// A JSON Schema that can't be made into a grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrammarError(pub String);

/// What the model is: facts of its file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelInfo {
    /// The file.
    pub path: PathBuf,
    /// The name that the file gives itself.
    pub name: Option<String>,
    /// `llama`, `qwen2`, …
    pub architecture: String,
    /// What most weights are stored as: `BF16`, `Q4_1`, …
    pub file_type: String,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of all tensors.
    pub size_bytes: u64,
    /// Number of weights.
    pub n_params: u64,
    /// Layers.
    pub n_layer: u32,
    /// Width.
    pub n_embd: u32,
    /// Attention heads.
    pub n_head: u32,
    /// Heads of the KV cache.
    pub n_head_kv: u32,
    /// Context in tokens that the model was trained for.
    pub n_ctx_train: u32,
    /// Tokens in the vocabulary.
    pub n_vocab: u32,
    /// Bytes of weights read for each token of a decode: all tensors but the table of input
    /// embeddings, of which one row is read, unless it also serves as the output.
    pub bytes_read_per_token: u64,
    /// The model's Jinja template, if its file has one.
    pub chat_template: Option<String>,
    /// Beginning of sequence.
    pub bos: Option<TokenId>,
    /// End of sequence.
    pub eos: Option<TokenId>,
    /// The spelling of `bos`; empty if there is none.
    pub bos_text: String,
    /// The spelling of `eos`; empty if there is none.
    pub eos_text: String,
    /// Whether the file says that a prompt begins with BOS.
    pub adds_bos: bool,
    /// All tokens that end an answer, in ascending order.
    pub eog: Vec<TokenId>,
    /// Bytes of the longest token: a text of n bytes has at least n / this many tokens. 0 is unknown.
    pub longest_piece_bytes: u32,
}

/// What was made of the settings: what is applied, not what was asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppliedSettings {
    /// Context in tokens, as llama.cpp made it.
    pub n_ctx: u32,
    /// Most tokens of one call into llama.cpp.
    pub n_batch: u32,
    /// Most tokens computed at once: a prefill looks for a cancelled request after so many.
    pub n_ubatch: u32,
    /// Threads of a decode.
    pub threads: u32,
    /// Threads of a prefill.
    pub threads_batch: u32,
    /// Layers on a GPU.
    pub gpu_layers: u32,
    /// `CPU`, or the name of the GPU.
    pub device: String,
    /// `auto`, `on` or `off`.
    pub flash_attn: String,
    /// Type of the KV cache's elements: `f16`, `bf16` or `q8_0`.
    pub kv_type: String,
    /// Whether the file is mapped into memory rather than read.
    pub mmap: bool,
    /// Bytes of the whole KV cache.
    pub kv_bytes: u64,
    /// Bytes of the KV cache for each token of context.
    pub kv_bytes_per_token: u64,
    /// Bytes of llama.cpp's compute buffers.
    pub compute_bytes: u64,
    /// Whether a prefix that the KV cache still holds is reused.
    pub prompt_cache: bool,
    /// llama.cpp's version and the backends compiled in.
    pub engine: String,
}
