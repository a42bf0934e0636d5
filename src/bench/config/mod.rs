//! Config files: what is to be measured. Everything is read and checked before anything starts.
//!
//! Two kinds: targets ([`Config`], one a file, more with a sweep) and the engines file
//! ([`EnginesFile`]). A config starts programs, so it is read from the disk only, never from the
//! network. API keys never stand in one: it names the variables that hold them.

pub mod costs;
pub mod duration;
pub mod engines;
pub mod located;
pub mod shape;
mod sweep;
pub mod target;
pub mod values;
pub mod workload;

pub use costs::CostConfig;
pub use duration::{TimeLimit, TimeSpan};
pub use engines::{EngineSpec, EnginesFile};
pub use located::ConfigError;
pub use shape::{PromptSource, ShapePoint};
pub use target::{EndpointKind, EngineUse, HardwareFacts, ModelFacts, Price, Slo, Target};
pub use workload::{Arrivals, PromptReuse, StartMode, Workload};

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::digest;
use located::{Kind, Source};
use values::Ladder;

/// A target's file, as it stands on disk.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// What the row is about.
    target: Target,
    /// How its server is started; absent: it is running already.
    #[serde(default)]
    engine: Option<EngineUse>,
    /// What is asked of it.
    #[serde(default)]
    workload: Workload,
    /// What the machine can do.
    #[serde(default)]
    hardware: HardwareFacts,
    /// What the server cannot tell of its model.
    #[serde(default)]
    model: ModelFacts,
    /// What counts as good enough.
    #[serde(default)]
    slo: Slo,
    /// Lists that multiply the config out: `engine.args.--ubatch = [256, 512]`.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    sweep: Table,
}

/// One target and its work, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The file that it is from, as it was named; `None` for a run from flags.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// The file's text.
    #[serde(skip)]
    pub text: Option<String>,
    /// What the row is about.
    pub target: Target,
    /// How its server is started.
    pub engine: Option<EngineUse>,
    /// What is asked of it.
    pub workload: Workload,
    /// What the machine can do.
    pub hardware: HardwareFacts,
    /// What the server cannot tell of its model.
    pub model: ModelFacts,
    /// What counts as good enough.
    pub slo: Slo,
}

impl Config {
    /// Reads a target's file: one config, or one for each combination of its sweep.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn load(path: &Path) -> Result<Vec<Self>, ConfigError> {
        Self::from_source(&Source::read(path)?)
    }

    fn from_source(source: &Source) -> Result<Vec<Self>, ConfigError> {
        source.is_to_be(Kind::Target)?;
        let file: ConfigFile = source.parse()?;
        let axes = sweep::axes(source, &file.sweep)?;
        let base = Self::checked(source, file)?;
        if axes.is_empty() {
            return Ok(vec![base]);
        }
        let raw: Table = source.parse()?;
        let at_point = |point: &sweep::Point<'_>| -> Result<Self, String> {
            let mut raw = raw.clone();
            sweep::apply(&mut raw, point)?;
            let file: ConfigFile = serde_path_to_error::deserialize(raw)
                .map_err(|error| located::explain_at(&error))?;
            let mut config = Self::checked(source, file).map_err(|error| error.message)?;
            let name = format!("{}{}", config.target.name, sweep::suffix(point));
            config.target.name = name.parse()?;
            Ok(config)
        };
        // Each value alone first, so that an error stands at the right line.
        for axis in &axes {
            for value in &axis.values {
                at_point(&vec![(axis, value)])
                    .map_err(|text| sweep::at(source, &axis.keys, text))?;
            }
        }
        let whole = |text| source.error_at(&["sweep"], text);
        sweep::points(&axes).iter().map(|point| at_point(point).map_err(whole)).collect()
    }

    /// The same target with one source of prompts: what one results file is about.
    pub fn of_source(&self, source: &PromptSource) -> Self {
        Self { workload: self.workload.of_source(source), ..self.clone() }
    }

    /// What the types cannot say.
    fn checked(source: &Source, mut file: ConfigFile) -> Result<Self, ConfigError> {
        let raw: Table = source.parse()?;
        let stands = |key: &str| raw.get("workload").and_then(|work| work.get(key)).is_some();
        if file.workload.shape.is_some() && stands("prompts") {
            let text = "shape makes the prompts: it cannot stand beside prompts";
            return Err(source.error_at(&["workload", "prompts"], text));
        }
        if file.workload.open_rate.is_some() && !stands("concurrency") {
            file.workload.concurrency = Ladder::one();
        }
        let config = Self {
            path: Some(source.path.clone()),
            text: Some(source.text.clone()),
            target: file.target,
            engine: file.engine,
            workload: file.workload,
            hardware: file.hardware,
            model: file.model,
            slo: file.slo,
        };
        config.check().map_err(|(keys, text)| source.error_at(&keys, text))?;
        Ok(config)
    }

    /// Checks what no single value can be blamed for.
    ///
    /// # Errors
    /// The place and what is wrong there.
    pub fn check(&self) -> Result<(), (Vec<&'static str>, String)> {
        let (target, work) = (&self.target, &self.workload);
        if target.base_url.has_port_placeholder() && self.engine.is_none() {
            let text = "base_url has {port}, but no [engine] is started that could listen on it";
            return Err((vec!["target", "base_url"], text.into()));
        }
        let variables = target.headers_env.values().map(String::as_str).chain(target.key_env());
        for name in variables {
            if !is_variable_name(name) {
                // The text may be the key itself: it is not repeated.
                let text = "key_env and headers_env take the NAME of an environment variable \
                            (capitals, digits and _), never the key";
                return Err((vec!["target", "key_env"], text.into()));
            }
        }
        if work.open_rate.is_some() && work.concurrency.levels().len() > 1 {
            let text = "with open_rate the rate alone decides how many are in flight, so each level \
                        would be the same one again: leave it out, or sweep open_rate";
            return Err((vec!["workload", "concurrency"], text.into()));
        }
        if self.slo.ttft.is_some() != self.slo.tpot.is_some() {
            let text = "[slo] takes both bounds, ttft and tpot: a request is good within both";
            let there = if self.slo.ttft.is_some() { "ttft" } else { "tpot" };
            return Err((vec!["slo", there], text.into()));
        }
        let shortest = HardwareFacts::SHORTEST_SAMPLE_PERIOD;
        if let Some(period) = self.hardware.sample_period.filter(|period| *period < shortest) {
            let text = format!("sample_period {period} is under {shortest}");
            return Err((vec!["hardware", "sample_period"], text));
        }
        if let Some(fault) = work.shape.as_ref().and_then(shape::Shape::fault) {
            return Err((vec!["workload", "shape"], fault));
        }
        if work.prompts.is_empty() {
            return Err((vec!["workload", "prompts"], "prompts names no file".into()));
        }
        for &level in work.concurrency.levels() {
            let (requests, attempts) = (work.requests_at(level), work.max_attempts_at(level));
            if attempts < requests {
                let text = format!("max_attempts {attempts} is under requests {requests}");
                return Err((vec!["workload", "max_attempts"], text));
            }
        }
        let unknown = work
            .requests
            .exceptions
            .keys()
            .find(|level| !work.concurrency.levels().contains(level));
        if let Some(level) = unknown {
            let text = format!("requests names the level {level}, which concurrency does not");
            return Err((vec!["workload", "requests"], text));
        }
        Ok(())
    }

    /// SHA-256 (hex) of everything that decides what is measured: the settings with their defaults,
    /// and the engine's entry.
    pub fn sha256(&self, engine: Option<&EngineSpec>) -> String {
        let identity = serde_json::to_vec(&(self, engine)).expect("configs are plain data");
        digest::sha256_hex(identity)
    }
}

/// Whether this can be the name of an environment variable that holds a secret.
fn is_variable_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
[target]
name = "t"
change = ""
precision = "bf16"
base_url = "http://127.0.0.1:8000/v1"
model = "m"
"#;

    fn read(text: &str) -> Result<Vec<Config>, ConfigError> {
        Config::from_source(&Source::new("c.toml".into(), text.to_owned()))
    }

    fn read_error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_minimal_config_is_the_defaults() {
        let configs = read(MINIMAL).unwrap();
        assert_eq!(configs.len(), 1);
        assert_eq!(configs[0].workload, Workload::default());
        assert_eq!(configs[0].target.base_model().as_str(), "m");
        assert_eq!(configs[0].target.max_tokens_field.as_str(), "max_tokens");
    }

    #[test]
    fn errors_name_the_line_and_the_nearest_key() {
        let with = |tail: &str| read_error(&format!("{MINIMAL}{tail}"));
        assert_eq!(
            with("[workload]\nreqests = 3\n"),
            "c.toml:9: unknown key \"reqests\"; did you mean \"requests\"?"
        );
        assert!(
            with("[workload]\nwarmup = \"3\"\n")
                .starts_with("c.toml:9: workload.warmup is the text")
        );
        assert!(with("[workload]\nstall_timeout = 10\n").contains("c.toml:9: "));
        let half = with("[slo]\nttft = \"1s\"\n");
        assert!(half.starts_with("c.toml:9: ") && half.contains("both bounds"), "{half}");
        assert!(with("[workload]\nconcurrency = [1, 0]\n").starts_with("c.toml:9: concurrency 0"));
        assert!(with("[workload]\nmax_attempts = 3\n").starts_with("c.toml:9: max_attempts 3 is"));
        assert!(with("[worklod]\n").contains("did you mean \"workload\""));
        let empty = read_error(&MINIMAL.replace("name = \"t\"", "name = \"\""));
        assert_eq!(empty, "c.toml:3: target.name is empty");
        let large = with("[workload]\nrequests = 12345678901234567890\n");
        assert!(
            large.starts_with("c.toml:9: workload.requests is 12345678901234567890"),
            "{large}"
        );
        let bad_url = read_error(&MINIMAL.replace("8000", "{port}"));
        assert!(bad_url.starts_with("c.toml:6: base_url has {port}"), "{bad_url}");
        let missing = read_error(&MINIMAL.replace("precision", "#"));
        assert!(missing.contains("[target] lacks the key \"precision\""), "{missing}");
    }

    #[test]
    fn a_key_in_the_place_of_its_name_is_refused_and_not_repeated() {
        let error = read_error(&format!("{MINIMAL}key_env = \"fw_Secret123\"\n"));
        assert!(error.contains("never the key") && !error.contains("Secret"), "{error}");
    }

    #[test]
    fn an_open_loop_has_one_level() {
        let levels = |workload: &str| {
            let text = format!("{MINIMAL}[workload]\nopen_rate = 5.0\n{workload}");
            let configs = read(&text).map_err(|error| error.to_string())?;
            Ok::<_, String>(configs[0].workload.concurrency.levels().to_vec())
        };
        assert_eq!(levels(""), Ok(vec![1]));
        assert_eq!(levels("concurrency = [16]"), Ok(vec![16]));
        let refused = levels("concurrency = [1, 4]").unwrap_err();
        assert!(refused.contains("leave it out"), "{refused}");
    }

    /// A thread that is always due would take a core from what is measured.
    #[test]
    fn a_sample_period_under_a_millisecond_is_refused() {
        let with = |period: &str| {
            let text = format!("{MINIMAL}[hardware]\nsample_period = \"{period}\"\n");
            read(&text).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with("1ms"), Ok(()));
        for period in ["0s", "1us", "0.9ms"] {
            let refused = with(period).unwrap_err();
            assert!(
                refused.starts_with("c.toml:9: ") && refused.contains("under 1ms"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_sweep_gives_one_config_each() {
        let text = format!("{MINIMAL}[sweep]\nworkload.max_tokens = [8, 16]\n");
        let configs = read(&text).unwrap();
        let names: Vec<&str> = configs.iter().map(|c| c.target.name.as_str()).collect();
        assert_eq!(names, ["t max_tokens=8", "t max_tokens=16"]);
        assert_ne!(configs[0].sha256(None), configs[1].sha256(None));
        let wrong = read_error(&format!("{MINIMAL}[sweep]\nworkload.max_tokens = [8, 0]\n"));
        assert!(wrong.starts_with("c.toml:9: "), "{wrong}");
        let unknown = read_error(&format!("{MINIMAL}[sweep]\nworkload.max_token = [8]\n"));
        assert!(unknown.contains("did you mean \"max_tokens\""), "{unknown}");
    }

    #[test]
    fn comments_do_not_change_what_is_measured() {
        let same = |text: &str| read(text).unwrap()[0].sha256(None);
        assert_eq!(same(MINIMAL), same(&format!("# a comment\n{MINIMAL}")));
    }
}
