//! What the server is to do, after flags, environment and file were put together and checked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cli::{Cli, KvType, LogFormat, Settings, Switch};
use super::duration::Wait;

/// A complete configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The model's file.
    pub gguf: PathBuf,
    /// The address to listen on.
    pub host: String,
    /// The port; 0 picks a free one.
    pub port: u16,
    /// How the model is loaded.
    pub engine: EngineConfig,
    /// The model id that is served.
    pub alias: String,
    /// The text of a template that replaces the model's own.
    pub chat_template: Option<String>,
    /// Requests that may wait.
    pub max_queue: usize,
    /// The key that clients must show.
    pub api_key: Option<ApiKey>,
    /// Time that the running request gets when the server is told to stop.
    pub drain_timeout: Duration,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// How the model is loaded; `None` is the default, which depends on the model or the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineConfig {
    /// Context in tokens.
    pub ctx: Option<u32>,
    /// Layers on the GPU.
    pub gpu_layers: Option<u32>,
    /// Threads that decode.
    pub threads: Option<u32>,
    /// Threads that compute prompts.
    pub threads_batch: Option<u32>,
    /// Tokens in one call of llama.cpp at most.
    pub batch: Option<u32>,
    /// Tokens computed at once.
    pub ubatch: Option<u32>,
    /// Flash attention.
    pub flash_attn: Switch,
    /// Type of the KV cache's elements.
    pub kv_type: KvType,
    /// Whether the file is mapped.
    pub mmap: Switch,
    /// Whether the KV cache of a prompt's beginning is reused.
    pub prompt_cache: bool,
}

/// A secret. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ApiKey(…)")
    }
}

/// Why there is no configuration: bad usage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No model was named.
    #[error("no model: give its file with --gguf PATH")]
    NoModel,
    /// A file that a setting names can't be read.
    #[error("{what}: {}: {reason}", path.display())]
    File {
        /// Which setting names it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system or the parser said.
        reason: String,
    },
    /// A value that can't be.
    #[error("{0}")]
    Value(String),
    /// The environment variable that should hold the key is unset or empty.
    #[error("the environment variable {0}, which should hold the API key, is not set")]
    NoKey(String),
}

/// Requests that may wait at most: each holds its prompt in memory.
const MAX_QUEUE_MAX: u32 = 1_000_000;

impl Config {
    /// Puts command line, environment and file together.
    ///
    /// `variable` looks up the environment variable that holds the API key.
    ///
    /// # Errors
    /// The first thing that is missing or can't be.
    pub fn settle(
        cli: Cli,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut settings = cli.settings;
        if let Some(path) = &cli.config {
            settings = settings.or(read_settings(path)?);
        }
        let gguf = settings.gguf.clone().ok_or(ConfigError::NoModel)?;
        let alias = settings.alias.clone().or_else(|| stem(&gguf));
        let alias = alias.filter(|alias| !alias.is_empty());
        let template = settings.chat_template_file.as_deref();
        let max_queue = at_most("max-queue", settings.max_queue.unwrap_or(1024), MAX_QUEUE_MAX)?;
        Ok(Self {
            host: settings.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: settings.port.unwrap_or(8000),
            engine: engine(&settings)?,
            alias: alias.ok_or_else(|| ConfigError::Value("the alias is empty".to_owned()))?,
            chat_template: template.map(|path| read("chat-template-file", path)).transpose()?,
            max_queue: max_queue as usize,
            api_key: settings.api_key_env.as_deref().map(|name| key(name, variable)).transpose()?,
            drain_timeout: settings
                .drain_timeout
                .unwrap_or(Wait::of(Duration::from_secs(10)))
                .at_most(),
            log_format: settings.log_format.unwrap_or_default(),
            gguf,
        })
    }
}

fn engine(settings: &Settings) -> Result<EngineConfig, ConfigError> {
    let positive = [
        ("ctx", settings.ctx),
        ("threads", settings.threads),
        ("threads-batch", settings.threads_batch),
        ("batch", settings.batch),
        ("ubatch", settings.ubatch),
    ];
    if let Some((name, _)) = positive.into_iter().find(|&(_, value)| value == Some(0)) {
        return Err(ConfigError::Value(format!("--{name} is 0; it must be at least 1")));
    }
    if let (Some(batch), Some(ubatch)) = (settings.batch, settings.ubatch)
        && ubatch > batch
    {
        return Err(ConfigError::Value(format!(
            "--ubatch {ubatch} is larger than --batch {batch}"
        )));
    }
    Ok(EngineConfig {
        ctx: settings.ctx,
        gpu_layers: settings.gpu_layers,
        threads: settings.threads,
        threads_batch: settings.threads_batch,
        batch: settings.batch,
        ubatch: settings.ubatch,
        flash_attn: settings.flash_attn.unwrap_or_default(),
        kv_type: settings.kv_type.unwrap_or_default(),
        mmap: settings.mmap.unwrap_or_default(),
        prompt_cache: settings.prompt_cache.unwrap_or(false),
    })
}

fn read_settings(path: &Path) -> Result<Settings, ConfigError> {
    let text = read("config", path)?;
    toml::from_str(&text).map_err(|error| ConfigError::File {
        what: "config",
        path: path.to_owned(),
        reason: plain(error.to_string().trim_end()),
    })
}

/// A parser's complaint without its names of types.
fn plain(complaint: &str) -> String {
    let words = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number"),
        ("unknown variant", "unknown value"),
    ];
    words.iter().fold(complaint.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn read(what: &'static str, path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError::File {
        what,
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn stem(gguf: &Path) -> Option<String> {
    gguf.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

fn key(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<ApiKey, ConfigError> {
    if name.is_empty() {
        return Err(ConfigError::Value("--api-key-env names no variable".to_owned()));
    }
    let key = variable(name).filter(|key| !key.is_empty());
    key.map(ApiKey).ok_or_else(|| ConfigError::NoKey(name.to_owned()))
}

fn at_most(name: &str, value: u32, limit: u32) -> Result<u32, ConfigError> {
    if value > limit {
        return Err(ConfigError::Value(format!("--{name} {value} is more than {limit}")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::cli::tests::of_flags;

    fn settle(args: &[&str]) -> Result<Config, ConfigError> {
        Config::settle(of_flags(args), |name| (name == "KEY").then(|| "secret".to_owned()))
    }

    #[test]
    fn what_nobody_says_has_its_default() {
        let config = settle(&["--gguf", "models/a.b.gguf"]).unwrap();
        assert_eq!((config.host.as_str(), config.port), ("127.0.0.1", 8000));
        assert_eq!((config.alias.as_str(), config.max_queue), ("a.b", 1024));
        assert_eq!(config.drain_timeout, Duration::from_secs(10));
        assert_eq!(config.engine, EngineConfig::default());
        assert_eq!(config.api_key, None);
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.toml");
        std::fs::write(&file, "gguf = \"m.gguf\"\nport = 1\nctx = 512\nkv_type = \"q8_0\"\n")
            .unwrap();
        let config = settle(&["--config", file.to_str().unwrap(), "--port", "2"]).unwrap();
        assert_eq!((config.port, config.engine.ctx), (2, Some(512)));
        assert_eq!(config.engine.kv_type, KvType::Q8_0);
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.toml");
        std::fs::write(&file, "gguf = \"m.gguf\"\ncontext = 512\n").unwrap();
        let error = settle(&["--config", file.to_str().unwrap()]).unwrap_err().to_string();
        assert!(error.contains("unknown field `context`") && error.contains("line 2"), "{error}");
        for (line, part) in [
            ("port = \"x\"", "expected a whole number from 0 to 65535"),
            ("port = 70000", "expected a whole number from 0 to 65535"),
            ("ctx = -1", "expected a whole number"),
            ("mmap = \"maybe\"", "unknown value `maybe`, expected one of `auto`, `on`, `off`"),
            ("drain_timeout = 10", "expected a duration like \"250ms\""),
            ("drain_timeout = \"10\"", "expected a duration like"),
        ] {
            std::fs::write(&file, line).unwrap();
            let error = settle(&["--config", file.to_str().unwrap()]).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("line 1"), "{line}: {error}");
        }
        for (args, part) in [
            (&[][..], "--gguf"),
            (&["--gguf", "m", "--api-key-env", ""], "--api-key-env names no variable"),
            (&["--gguf", "m", "--threads", "0"], "--threads is 0"),
            (&["--gguf", "m", "--batch", "8", "--ubatch", "9"], "--ubatch 9"),
            (&["--gguf", "m", "--api-key-env", "UNSET"], "UNSET"),
            (&["--gguf", "m", "--chat-template-file", "/nowhere"], "/nowhere"),
            (&["--gguf", "m", "--max-queue", "9999999"], "--max-queue"),
        ] {
            let error = settle(args).unwrap_err().to_string();
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let config = settle(&["--gguf", "m", "--api-key-env", "KEY"]).unwrap();
        assert_eq!(config.api_key.as_ref().map(ApiKey::reveal), Some("secret"));
        assert!(!format!("{config:?}").contains("secret"));
    }
}
