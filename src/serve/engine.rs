//! From the configuration's words to the engine's: llama.cpp's options and its version.

use std::path::Path;

use super::cli::{KvType, Switch};
use super::config::{Config, EngineConfig};
use super::inference::llama;

/// How llama.cpp is to load the model of a configuration.
pub fn load_options(config: &Config) -> llama::LoadOptions {
    options(&config.gguf, config.engine)
}

fn options(path: &Path, engine: EngineConfig) -> llama::LoadOptions {
    llama::LoadOptions {
        path: path.to_owned(),
        ctx: engine.ctx,
        gpu_layers: engine.gpu_layers,
        threads: engine.threads,
        threads_batch: engine.threads_batch,
        batch: engine.batch,
        ubatch: engine.ubatch,
        flash_attn: match engine.flash_attn {
            Switch::Auto => llama::FlashAttn::Auto,
            Switch::On => llama::FlashAttn::On,
            Switch::Off => llama::FlashAttn::Off,
        },
        kv_type: match engine.kv_type {
            KvType::F16 => llama::KvType::F16,
            KvType::Bf16 => llama::KvType::Bf16,
            KvType::Q8_0 => llama::KvType::Q8_0,
        },
        mmap: match engine.mmap {
            Switch::Auto => llama::Mmap::Auto,
            Switch::On => llama::Mmap::On,
            Switch::Off => llama::Mmap::Off,
        },
        prompt_cache: engine.prompt_cache,
    }
}

/// What `--version` prints: ours, the commit, llama.cpp's version, the backends compiled in.
pub fn version() -> String {
    let commit = option_env!("SPARK_COMMIT").unwrap_or("not recorded in a debug build");
    format!(
        "spark-serve {}\ncommit: {commit}\nllama.cpp: {}\nbackends: {}",
        env!("CARGO_PKG_VERSION"),
        llama::engine_version(),
        llama::backends().join(", ")
    )
}
