//! What this machine has, what a benchmark on it will lack, and how to get that.
//!
//! It measures nothing and changes nothing. API keys are looked at for whether they are there, and
//! never read further.

mod engines;
mod lacking;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::bench::config::Config;
use crate::bench::config::engines::ENGINES_FILE_NAME;
use crate::bench::telemetry::{
    NvmlLibrary, SystemPaths, energy_counter, gpu_facts, host_capabilities, host_facts,
};
use crate::results::record::Host;

pub use engines::EngineFound;
pub use lacking::Lacking;

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// This build.
    pub build: Build,
    /// The machine.
    pub host: Host,
    /// Why there is no GPU, where there is none.
    pub gpu_reason: Option<String>,
    /// What each GPU (`gpus.INDEX.METRIC`), the host and a process can tell: `ok`, `not_supported`
    /// or an error.
    pub capabilities: BTreeMap<String, String>,
    /// Why the CPU's energy cannot be read; null where it can.
    pub cpu_energy_reason: Option<String>,
    /// The engines file that was read.
    pub engines_file: PathBuf,
    /// Why it could not be read.
    pub engines_reason: Option<String>,
    /// Its entries.
    pub engines: Vec<EngineFound>,
    /// API keys that the configs name, and whether they are set.
    pub keys: BTreeMap<String, KeyState>,
    /// Configs that cannot be read.
    pub bad_configs: Vec<String>,
    /// What will be missing, and how to get it.
    pub lacking: Vec<Lacking>,
}

/// This build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// `release` or `debug`.
    pub profile: &'static str,
    /// Whether spark-serve is built with it.
    pub llama: bool,
    /// Whether spark-serve can use an NVIDIA GPU.
    pub cuda: bool,
}

impl Build {
    /// The build that is running.
    pub fn this() -> Self {
        Self {
            version: env!("SPARK_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            llama: cfg!(feature = "llama"),
            cuda: cfg!(feature = "cuda"),
        }
    }
}

/// Whether a variable is set. Its value is nobody's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It is set.
    Set,
    /// It is not, or it is empty.
    Unset,
}

/// Looks at everything. Engines' version commands are run, all at once and with a deadline.
pub async fn examine(configs: &Path, engines: Option<PathBuf>) -> Report {
    let engines_file = engines.unwrap_or_else(|| configs.join(ENGINES_FILE_NAME));
    let facts = tokio::task::spawn_blocking(|| {
        let driver = gpu_facts(&NvmlLibrary::from_environment());
        let paths = SystemPaths::default();
        (host_facts(), driver, energy_counter(&paths), host_capabilities(&paths))
    });
    let (engines, engines_reason) = match engines::found(&engines_file).await {
        Ok(found) => (found, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let (host, driver, cpu_energy, told) =
        facts.await.expect("looking at the machine does not panic");
    let (keys, bad_configs) = keys(configs);
    let mut report = Report {
        build: Build::this(),
        host,
        gpu_reason: driver.as_ref().err().cloned(),
        capabilities: told.iter().map(|(path, told)| (path.clone(), told.to_string())).collect(),
        cpu_energy_reason: cpu_energy.err(),
        engines_file,
        engines_reason,
        engines,
        keys,
        bad_configs,
        lacking: Vec::new(),
    };
    for device in driver.iter().flat_map(|driver| &driver.devices) {
        let told = device.capabilities.iter().map(|(metric, capability)| {
            (format!("gpus.{}.{metric}", device.index), capability.to_string())
        });
        report.capabilities.extend(told);
    }
    report.lacking = lacking::of(&report);
    report
}

/// The variables that the folder's configs name, and the configs that cannot be read.
fn keys(folder: &Path) -> (BTreeMap<String, KeyState>, Vec<String>) {
    let mut keys = BTreeMap::new();
    let mut bad = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        let is_config = path.extension().is_some_and(|ending| ending == "toml")
            && path.file_name().is_some_and(|name| name != ENGINES_FILE_NAME);
        if !is_config {
            continue;
        }
        match Config::load(&path) {
            Ok(configs) => {
                for config in configs {
                    let target = &config.target;
                    let names = target.key_env().into_iter();
                    let names = names.chain(target.headers_env.values().map(String::as_str));
                    keys.extend(names.map(|name| (name.to_owned(), state_of(name))));
                }
            }
            Err(error) => bad.push(error.to_string()),
        }
    }
    (keys, bad)
}

fn state_of(variable: &str) -> KeyState {
    let set = std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    if set { KeyState::Set } else { KeyState::Unset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_and_a_config_that_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let target = "[target]\nname = \"t\"\nchange = \"c\"\nprecision = \"p\"\n\
                      base_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";
        write("a.toml", &format!("{target}key_env = \"NO_SUCH_KEY_OF_OURS\"\n"));
        write("b.toml", &format!("{target}headers_env = {{ \"X-Y\" = \"PATH\" }}\n"));
        write("bad.toml", "[target]\nname = 3\n");
        write(ENGINES_FILE_NAME, "");
        write("notes.txt", "no config");
        let (keys, bad) = keys(folder.path());
        let expected = [
            ("NO_SUCH_KEY_OF_OURS".to_owned(), KeyState::Unset),
            ("PATH".to_owned(), KeyState::Set),
        ];
        assert_eq!(keys, BTreeMap::from(expected));
        assert_eq!(bad.len(), 1, "{bad:?}");
        assert!(bad[0].contains("bad.toml"), "{bad:?}");
    }
}
