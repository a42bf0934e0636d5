//! How a model is to be loaded.

use std::path::PathBuf;

use super::sys;

/// How a model is to be loaded. Where something is left open, the default of the server applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// The GGUF file.
    pub path: PathBuf,
    /// Context in tokens; default: 8192, or what the model was trained for if that is less.
    pub ctx: Option<u32>,
    /// Layers on the GPU; default: all.
    pub gpu_layers: Option<u32>,
    /// Threads of a decode; default: the physical cores that this process may use.
    pub threads: Option<u32>,
    /// Threads of a prefill; default: as many.
    pub threads_batch: Option<u32>,
    /// Most tokens of one call into llama.cpp; default 2048.
    pub batch: Option<u32>,
    /// Most tokens computed at once; default 512.
    pub ubatch: Option<u32>,
    /// Flash attention.
    pub flash_attn: FlashAttn,
    /// Element type of the KV cache.
    pub kv_type: KvType,
    /// Whether the file is mapped into memory.
    pub mmap: Mmap,
    /// Whether a prefix that the KV cache still holds is reused.
    pub prompt_cache: bool,
}

/// llama.cpp's own default.
const BATCH: u32 = 2048;
/// llama.cpp's own default.
const UBATCH: u32 = 512;
/// More than most answers need, and little memory.
const CTX: u32 = 8192;

impl LoadOptions {
    /// The server's defaults for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ctx: None,
            gpu_layers: None,
            threads: None,
            threads_batch: None,
            batch: None,
            ubatch: None,
            flash_attn: FlashAttn::Auto,
            kv_type: KvType::F16,
            mmap: Mmap::Auto,
            prompt_cache: false,
        }
    }

    /// Tokens of context for a model that was trained for `n_ctx_train`; 0 is unknown.
    pub(super) fn n_ctx(&self, n_ctx_train: u64) -> u32 {
        let trained = u32::try_from(n_ctx_train).ok().filter(|&n| n > 0).unwrap_or(CTX);
        self.ctx.unwrap_or(trained.min(CTX))
    }

    pub(super) fn n_batch(&self) -> u32 {
        self.batch.unwrap_or(BATCH)
    }

    /// Never more than a batch.
    pub(super) fn n_ubatch(&self) -> u32 {
        self.ubatch.unwrap_or(UBATCH).min(self.n_batch())
    }
}

/// When flash attention is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashAttn {
    /// Where the backend can.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl FlashAttn {
    pub(super) fn raw(self) -> sys::FlashAttnType {
        match self {
            Self::Auto => sys::FLASH_ATTN_AUTO,
            Self::On => sys::FLASH_ATTN_ON,
            Self::Off => sys::FLASH_ATTN_OFF,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Element type of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 2 bytes.
    F16,
    /// 2 bytes, with the range of a 32-bit float.
    Bf16,
    /// 34 bytes for 32 elements. It needs flash attention.
    Q8_0,
}

impl KvType {
    pub(super) fn raw(self) -> sys::GgmlType {
        match self {
            Self::F16 => sys::KV_F16,
            Self::Bf16 => sys::KV_BF16,
            Self::Q8_0 => sys::KV_Q8_0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// Bytes of this many elements.
    pub(super) fn bytes(self, elements: u64) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => elements.saturating_mul(2),
            Self::Q8_0 => elements.div_ceil(32).saturating_mul(34),
        }
    }
}

/// Whether the model's file is mapped into memory rather than read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mmap {
    /// Mapped, except for integrated GPUs, which are slow at mapped memory.
    Auto,
    /// Mapped.
    On,
    /// Read.
    Off,
}
