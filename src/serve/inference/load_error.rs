//! Why a model could not be loaded, in a form that a caller can branch on.

use std::path::PathBuf;

/// Why a model could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is one, but it can't be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is something else.
    #[error("{}: not a GGUF file", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
    },
    /// It ends too early.
    #[error("{}: truncated: {actual_bytes} bytes, of at least {expected_bytes}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the last tensor ends.
        expected_bytes: u64,
        /// The file's size.
        actual_bytes: u64,
    },
    /// A model that makes embeddings and no text.
    #[error("{}: an embedding-only model ({architecture}), which generates no text", path.display())]
    EmbeddingOnly {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        architecture: String,
    },
    /// A GGUF file that llama.cpp can't use.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What llama.cpp said.
        reason: String,
    },
    /// Weights, KV cache and compute buffers need more memory than there is.
    #[error(
        "the model does not fit: it needs {} MB on {device}, {} MB are available",
        needed_bytes.div_ceil(1_000_000), available_bytes / 1_000_000
    )]
    DoesNotFit {
        /// What it needs, estimated from the file, the context and the batch sizes.
        needed_bytes: u64,
        /// What the device has free.
        available_bytes: u64,
        /// `CPU`, or the name of the GPU.
        device: String,
    },
    /// Settings that contradict each other or the model.
    #[error("{0}")]
    Settings(String),
    /// llama.cpp failed in a way that none of the others describes.
    #[error("{0}")]
    Engine(String),
    /// The server was told to stop while it was loading.
    #[error("stopped while loading")]
    Cancelled,
}

impl LoadError {
    /// Whether another file, or another setting, is what it takes: bad input, not an operating
    /// failure.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::Unreadable { .. }
            | Self::NotGguf { .. }
            | Self::Truncated { .. }
            | Self::EmbeddingOnly { .. }
            | Self::Unsupported { .. }
            | Self::Settings(_) => true,
            Self::DoesNotFit { .. } | Self::Engine(_) | Self::Cancelled => false,
        }
    }
}
