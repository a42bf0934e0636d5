//! `engines.toml`: how each engine is started, checked and stopped. The harness knows no engine but
//! by this file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::{TimeLimit, TimeSpan};
use super::located::{ConfigError, Kind, Source};
use super::values::Name;

/// The entries by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnginesFile {
    /// One engine each.
    pub engine: BTreeMap<String, EngineSpec>,
}

/// One engine: how it lives.
///
/// `{port}`, `{model}`, `{bin_dir}` (the folder of the running harness) and `{concurrency_max}` are
/// filled in wherever a command, an URL or a variable holds them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// Prints the version. No version, no measurement.
    pub version: Program,
    /// Starts the server; a config's `args` follow.
    pub start: Program,
    /// When it can be used.
    pub ready: Ready,
    /// Where it says which model it serves.
    #[serde(default)]
    pub model_check: Option<ModelCheck>,
    /// Where it says which settings it applied.
    #[serde(default)]
    pub props: Option<Props>,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// A page of Prometheus metrics, for the difference over a level.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Variables that pass from the harness to the server, whose environment is empty otherwise.
    #[serde(default = "inherit_env")]
    pub inherit_env: Vec<String>,
    /// Exit codes before readiness that mean "cannot run here", with the reason.
    #[serde(default)]
    pub skip_exit_codes: BTreeMap<ExitCode, String>,
}

/// What a program needs to run at all on Linux.
fn inherit_env() -> Vec<String> {
    ["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH"].map(str::to_owned).to_vec()
}

/// A command: a program and its arguments; no shell is involved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Program {
    /// A name to be found in `PATH`, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl TryFrom<Vec<String>> for Program {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => Ok(Self { program, args: words.collect() }),
            _ => Err("a command needs at least a program".into()),
        }
    }
}

impl From<Program> for Vec<String> {
    fn from(command: Program) -> Self {
        std::iter::once(command.program).chain(command.args).collect()
    }
}

impl JsonSchema for Program {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Program".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "array", "minItems": 1, "items": { "type": "string" }
        })
    }
}

/// An exit code as TOML's keys hold it: as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExitCode(pub i32);

impl TryFrom<String> for ExitCode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let code = text.parse::<u8>().map_err(|_| format!("{text:?} is no exit code (0..=255)"))?;
        Ok(Self(i32::from(code)))
    }
}

impl From<ExitCode> for String {
    fn from(code: ExitCode) -> Self {
        code.0.to_string()
    }
}

impl JsonSchema for ExitCode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExitCode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]+$" })
    }
}

/// When a server can be used: an URL that answers 200 while the process lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The URL.
    pub url: String,
    /// Longest time from the start until then.
    pub deadline: TimeSpan,
}

/// Where a server says which model it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelCheck {
    /// An URL that answers with JSON.
    pub url: String,
    /// The path of the id in it: `data.0.id`.
    pub id: String,
}

/// Where a server says which settings it applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Props {
    /// An URL that answers with JSON.
    pub url: String,
    /// Path in the answer → the flag whose value it must equal, where that flag was given.
    #[serde(default)]
    pub equals: BTreeMap<String, String>,
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// Sent to the whole process group.
    pub signal: StopSignal,
    /// How long it may take before it is killed.
    pub grace: TimeSpan,
}

impl Default for Stop {
    fn default() -> Self {
        const GRACE: TimeSpan = TimeSpan(std::time::Duration::from_secs(10));
        Self { signal: StopSignal::Term, grace: GRACE }
    }
}

/// A signal that asks a server to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hup,
    /// SIGKILL.
    Kill,
}

impl EnginesFile {
    /// Reads an engines file.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let source = Source::read(path)?;
        source.is_to_be(Kind::Engines)?;
        let file: Self = source.parse()?;
        for (name, spec) in &file.engine {
            spec.check(&source, name)?;
        }
        Ok(file)
    }

    /// The entry of that name.
    ///
    /// # Errors
    /// In words, with the nearest name, if there is none.
    pub fn entry(&self, name: &Name, path: &Path) -> Result<&EngineSpec, String> {
        self.engine.get(name.as_str()).ok_or_else(|| {
            let names = self.engine.keys().map(String::as_str);
            let hint = super::located::did_you_mean(name.as_str(), names);
            format!("no engine {:?} in {}{hint}", name.as_str(), path.display())
        })
    }
}

impl EngineSpec {
    /// What its types cannot say.
    fn check(&self, source: &Source, name: &str) -> Result<(), ConfigError> {
        let urls = [
            (["ready", "url"], Some(&self.ready.url)),
            (["model_check", "url"], self.model_check.as_ref().map(|check| &check.url)),
            (["props", "url"], self.props.as_ref().map(|props| &props.url)),
        ];
        for (place, url) in urls {
            if let Some(url) = url
                && !url.starts_with("http://")
                && !url.starts_with("https://")
            {
                let text = format!("{url:?} does not begin with http:// or https://");
                return Err(source.error_at(&["engine", name, place[0], place[1]], text));
            }
        }
        Ok(())
    }
}

/// Where the engines file is if no flag says so: beside the configs.
pub fn engines_path(config: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(ENGINES_FILE_NAME)
}

/// The file name that makes an argument the engines file.
pub const ENGINES_FILE_NAME: &str = "engines.toml";

/// The deadline of a command that prints a version. Python engines import their whole framework
/// first, which takes most of a minute on a slow disk.
pub const VERSION_DEADLINE: TimeLimit = TimeLimit::seconds(120);

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"
[engine.e]
version     = ["e", "--version"]
start       = ["e", "--port", "{port}"]
ready       = { url = "http://127.0.0.1:{port}/health", deadline = "120s" }
props       = { url = "http://127.0.0.1:{port}/props", equals = { "a.n_ctx" = "-c" } }
stop        = { signal = "INT", grace = "250ms" }
skip_exit_codes = { "3" = "does not fit in memory" }
"#;

    fn read(text: &str) -> Result<EnginesFile, ConfigError> {
        Source::new("engines.toml".into(), text.to_owned()).parse()
    }

    #[test]
    fn an_entry_is_read_with_its_defaults() {
        let file = read(ENTRY).unwrap();
        let spec = &file.engine["e"];
        assert_eq!(spec.start.program, "e");
        assert_eq!(spec.stop.signal, StopSignal::Int);
        assert_eq!(spec.skip_exit_codes[&ExitCode(3)], "does not fit in memory");
        assert_eq!(spec.inherit_env[0], "PATH");
        let missing = file.entry(&"ee".parse().unwrap(), Path::new("x.toml")).unwrap_err();
        assert_eq!(missing, "no engine \"ee\" in x.toml; did you mean \"e\"?");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let cases = [
            ("version     = [\"e\"", "version = [] #", 3),
            ("\"3\" =", "\"x\" =", 8),
            ("\"INT\"", "\"STOP\"", 7),
            ("grace", "grce", 7),
        ];
        for (from, to, line) in cases {
            let error = read(&ENTRY.replace(from, to)).unwrap_err();
            assert_eq!(error.line, Some(line), "{error}");
        }
    }
}
