//! The command line of `spark-serve`, which is also its environment and its config file: one list of
//! settings, three places to say them.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use serde::Deserialize;

use super::duration::Wait;

/// Serves one GGUF model behind an OpenAI-compatible streaming API.
///
/// Each setting may be given as a flag, as an environment variable, or in the file named by
/// --config (TOML; keys are flag names with underscores). Flags win over the environment, the
/// environment over the file.
#[derive(Debug, Parser)]
#[command(name = "spark-serve", disable_version_flag = true, max_term_width = 100)]
pub struct Cli {
    /// A TOML file with settings
    #[arg(long, value_name = "PATH", env = "SPARK_SERVE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Print our version, the git commit, llama.cpp's version and the backends compiled in
    #[arg(long, short = 'V')]
    pub version: bool,
    /// Everything else.
    #[command(flatten)]
    pub settings: Settings,
}

/// The settings, each absent until somebody says something.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The model's file (required)
    #[arg(long, value_name = "PATH", env = "SPARK_SERVE_GGUF")]
    pub gguf: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, env = "SPARK_SERVE_HOST")]
    pub host: Option<String>,
    /// The port to listen on; 0 picks a free one [default: 8000]
    #[arg(long, env = "SPARK_SERVE_PORT")]
    pub port: Option<u16>,
    /// Context in tokens [default: the model's own, at most 8192]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_CTX")]
    pub ctx: Option<u32>,
    /// Layers on the GPU [default: all]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_GPU_LAYERS")]
    pub gpu_layers: Option<u32>,
    /// Threads that decode [default: physical cores]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_THREADS")]
    pub threads: Option<u32>,
    /// Threads that compute prompts [default: physical cores]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_THREADS_BATCH")]
    pub threads_batch: Option<u32>,
    /// Tokens in one call of llama.cpp at most [default: 2048]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_BATCH")]
    pub batch: Option<u32>,
    /// Tokens computed at once; a prompt is left within as many when its client hangs up
    /// [default: 512]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_UBATCH")]
    pub ubatch: Option<u32>,
    /// Flash attention [default: auto]
    #[arg(long, env = "SPARK_SERVE_FLASH_ATTN")]
    pub flash_attn: Option<Switch>,
    /// Type of the KV cache's elements [default: f16]
    #[arg(long, env = "SPARK_SERVE_KV_TYPE")]
    pub kv_type: Option<KvType>,
    /// Map the model's file instead of reading it; auto is off on integrated GPUs [default: auto]
    #[arg(long, env = "SPARK_SERVE_MMAP")]
    pub mmap: Option<Switch>,
    /// The model id that is served [default: the file's name without its ending]
    #[arg(long, value_name = "NAME", env = "SPARK_SERVE_ALIAS")]
    pub alias: Option<String>,
    /// A Jinja chat template that replaces the model's own
    #[arg(long, value_name = "PATH", env = "SPARK_SERVE_CHAT_TEMPLATE_FILE")]
    pub chat_template_file: Option<PathBuf>,
    /// Requests that may wait; past it they get a 429 [default: 1024]
    #[arg(long, value_name = "N", env = "SPARK_SERVE_MAX_QUEUE")]
    pub max_queue: Option<u32>,
    /// The environment variable that holds the API key [default: none: everybody is let in]
    #[arg(long, value_name = "VAR", env = "SPARK_SERVE_API_KEY_ENV")]
    pub api_key_env: Option<String>,
    /// Time that the running request gets when the server is told to stop [default: 10s]
    #[arg(long, value_name = "DURATION", env = "SPARK_SERVE_DRAIN_TIMEOUT")]
    pub drain_timeout: Option<Wait>,
    /// Reuse the KV cache of a prompt's beginning; this falsifies benchmarks [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", env = "SPARK_SERVE_PROMPT_CACHE")]
    pub prompt_cache: Option<bool>,
    /// How log lines are written [default: text]
    #[arg(long, env = "SPARK_SERVE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// On, off, or what suits the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// What suits the machine.
    #[default]
    Auto,
    /// On.
    On,
    /// Off.
    Off,
}

/// The type of the KV cache's elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// 16 bits, 2 bytes each.
    #[default]
    F16,
    /// 16 bits with a wider range.
    Bf16,
    /// 8 bits in blocks of 32: 34/32 bytes each.
    #[value(name = "q8_0")]
    #[serde(rename = "q8_0")]
    Q8_0,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Settings {
    /// These, completed by `others` where nothing was said.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            gguf: self.gguf.or(others.gguf),
            host: self.host.or(others.host),
            port: self.port.or(others.port),
            ctx: self.ctx.or(others.ctx),
            gpu_layers: self.gpu_layers.or(others.gpu_layers),
            threads: self.threads.or(others.threads),
            threads_batch: self.threads_batch.or(others.threads_batch),
            batch: self.batch.or(others.batch),
            ubatch: self.ubatch.or(others.ubatch),
            flash_attn: self.flash_attn.or(others.flash_attn),
            kv_type: self.kv_type.or(others.kv_type),
            mmap: self.mmap.or(others.mmap),
            alias: self.alias.or(others.alias),
            chat_template_file: self.chat_template_file.or(others.chat_template_file),
            max_queue: self.max_queue.or(others.max_queue),
            api_key_env: self.api_key_env.or(others.api_key_env),
            drain_timeout: self.drain_timeout.or(others.drain_timeout),
            prompt_cache: self.prompt_cache.or(others.prompt_cache),
            log_format: self.log_format.or(others.log_format),
        }
    }
}

#[cfg(test)]
pub(in crate::serve) mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    /// What these flags say, whatever the environment does.
    pub(in crate::serve) fn of_flags(args: &[&str]) -> Cli {
        let command = Cli::command().mut_args(|arg| arg.env(clap::builder::Resettable::Reset));
        let matches = command.try_get_matches_from(["spark-serve"].iter().chain(args)).unwrap();
        Cli::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_flag_without_a_value_is_true_and_can_be_taken_back() {
        let cache = |args: &[&str]| of_flags(args).settings.prompt_cache;
        assert_eq!(cache(&[]), None);
        assert_eq!(cache(&["--prompt-cache"]), Some(true));
        assert_eq!(cache(&["--prompt-cache=false"]), Some(false));
    }

    #[test]
    fn every_setting_is_a_flag_an_environment_variable_and_a_key() {
        for argument in Cli::command().get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            if ["config", "version", "help"].contains(&long) {
                continue;
            }
            let key = long.replace('-', "_");
            let variable = argument.get_env().and_then(|name| name.to_str());
            assert_eq!(variable, Some(format!("SPARK_SERVE_{}", key.to_uppercase()).as_str()));
            // An array suits no setting, so an unknown key fails in another way than a known one.
            let error = toml::from_str::<Settings>(&format!("{key} = []")).unwrap_err();
            assert!(!error.to_string().contains("unknown field"), "{key}: {error}");
        }
    }
}
