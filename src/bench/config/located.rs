//! Errors of TOML files that say where: the file, the line, and the nearest valid key.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Largest config that is read: a thousand times what one needs.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What is wrong with a config, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {message}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong, and the way out.
    pub message: String,
}

/// The kinds of TOML files that commands take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What is to be measured.
    Target,
    /// How engines are started.
    Engines,
    /// What machines and tokens cost.
    Costs,
}

impl Kind {
    /// By the tables that only one kind has; `None` where there is none of them.
    fn of(table: &toml::Table) -> Option<Self> {
        let is_entries = |engine: &toml::Value| {
            engine.as_table().is_some_and(|engine| engine.values().all(toml::Value::is_table))
        };
        if table.contains_key("target") {
            Some(Self::Target)
        } else if table.contains_key("own") || table.contains_key("api") {
            Some(Self::Costs)
        } else {
            table.get("engine").filter(|engine| is_entries(engine)).map(|_| Self::Engines)
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Target => "a target's config, which has [target], as configs/quickstart.toml",
            Self::Engines => "an engines file, which has [engine.NAME] and goes to --engines",
            Self::Costs => "a cost config, which has [own] and [api], as those in configs/costs/",
        }
    }
}

/// The text of a config, and where it is from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's path as it was named.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Source {
    /// A text that is already in memory.
    pub fn new(path: PathBuf, text: String) -> Self {
        Self { path, text }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is far too large, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let error = |message: String| ConfigError { path: path.into(), line: None, message };
        let unreadable = |io: std::io::Error| match io.kind() {
            std::io::ErrorKind::NotFound => error("there is no such file".into()),
            _ => error(io.to_string()),
        };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.is_dir() {
            let text =
                format!("is a folder: name its files, such as {}", path.join("*.toml").display());
            return Err(error(text));
        }
        let size = metadata.len();
        if size > FILE_BYTES_MAX {
            return Err(error(format!("is no config: {size} bytes, over {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        if text.trim_start().starts_with('{') {
            return Err(error("is JSON (a results file?), and TOML is wanted".into()));
        }
        Ok(Self::new(path.into(), text))
    }

    /// Refuses a file of another kind, which would else be told of by its first key.
    ///
    /// # Errors
    /// If it is surely another one; the text says what is wanted and where this one goes.
    pub fn is_to_be(&self, wanted: Kind) -> Result<(), ConfigError> {
        // What is no TOML is told by whoever reads it.
        let found = toml::from_str(&self.text).ok().and_then(|table| Kind::of(&table));
        match found.filter(|found| *found != wanted) {
            Some(found) => {
                let message = format!("is {}; wanted is {}", found.name(), wanted.name());
                Err(ConfigError { path: self.path.clone(), line: None, message })
            }
            None => Ok(()),
        }
    }

    /// Reads the text as a `T`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line, its key, and the nearest valid one.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let at = |span: Option<Range<usize>>, message: String| ConfigError {
            path: self.path.clone(),
            line: span.map(|span| self.line(&span)),
            message,
        };
        let toml = toml::Deserializer::parse(&self.text)
            .map_err(|error| at(error.span(), error.message().trim_end().to_owned()))?;
        serde_path_to_error::deserialize(toml)
            .map_err(|error| at(error.inner().span(), explain_at(&error)))
    }

    /// An error at the value under `keys`, or at the nearest table around it that exists.
    pub fn error_at(&self, keys: &[&str], message: impl Into<String>) -> ConfigError {
        let line = self.span_of(keys).map(|span| self.line(&span));
        ConfigError { path: self.path.clone(), line, message: message.into() }
    }

    /// Where the deepest of `keys` that exists stands.
    fn span_of(&self, keys: &[&str]) -> Option<Range<usize>> {
        let parsed = DeTable::parse(&self.text).ok()?;
        let mut table = parsed.get_ref();
        let mut span = None;
        for key in keys {
            let Some((name, value)) = table.get_key_value(*key) else { break };
            span = Some(name.span());
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        span
    }

    /// The line on which a span begins, from 1.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }
}

/// What is wrong with the value of a key, with the key.
pub fn explain_at(error: &serde_path_to_error::Error<toml::de::Error>) -> String {
    let key = error.path().to_string();
    explain(if key == "." { "" } else { &key }, error.inner().message())
}

/// TOML's message in our words: the key, what was found, and what is allowed.
fn explain(key: &str, message: &str) -> String {
    let message = message.trim_end();
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        return unknown(key, message);
    }
    if let Some(name) = message.strip_prefix("missing field `").and_then(|m| m.strip_suffix('`')) {
        let table = if key.is_empty() { "the file".to_owned() } else { format!("[{key}]") };
        return format!("{table} lacks the key {name:?}");
    }
    let mismatch =
        message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        // A secret in the place of its variable's name is not repeated.
        let is_secret = key.contains("key_env") || key.contains("headers_env");
        let found = if is_secret { "of another kind".into() } else { in_toml(found) };
        return format!("{key} is {found}; allowed is {}", allowed(wanted));
    }
    let last = key.rsplit('.').next().unwrap_or(key).split('[').next().unwrap_or(key);
    if key.is_empty() || message.contains(last) {
        message.to_owned()
    } else if message.starts_with("is ") {
        format!("{key} {message}")
    } else {
        format!("{key}: {message}")
    }
}

/// An unknown key or value, with the nearest one that is known.
fn unknown(key: &str, message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((unknown, known)) = quoted.split_first() else { return message.to_owned() };
    let hint = did_you_mean(unknown, known.iter().copied());
    let hint = if hint.is_empty() { format!("; known: {}", known.join(", ")) } else { hint };
    if message.starts_with("unknown field") {
        format!("unknown key {unknown:?}{hint}")
    } else {
        let place = if key.is_empty() { String::new() } else { format!("{key}: ") };
        format!("{place}unknown value {unknown:?}{hint}")
    }
}

/// "integer `5`" as it stands in the file.
fn in_toml(found: &str) -> String {
    let quoted = || found.split('`').nth(1).unwrap_or(found).to_owned();
    match found.split(' ').next() {
        Some("integer" | "floating" | "boolean") => quoted(),
        Some("string") => found.replacen("string", "the text", 1),
        Some("map") => "a table".into(),
        Some("sequence") => "a list".into(),
        _ => found.to_owned(),
    }
}

/// Serde's name of a type as somebody who writes a config knows it.
fn allowed(wanted: &str) -> String {
    let (from, kind) = match wanted.strip_prefix("a nonzero ") {
        Some(kind) => (1, kind),
        None => (0, wanted),
    };
    let most = match kind {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" | "usize" => return format!("a whole number, {from} or more"),
        "i32" | "i64" => return "a whole number".into(),
        "f32" | "f64" => return "a number".into(),
        "a string" => return "a text in quotes".into(),
        "a sequence" => return "a list, [ … ]".into(),
        "a boolean" => return "true or false".into(),
        "a map" => return "a table".into(),
        kind if kind.starts_with("struct ") => return "a table".into(),
        kind => return kind.to_owned(),
    };
    let most: u64 = most;
    format!("a whole number from {from} to {most}")
}

/// `; did you mean "…"?` if one of `known` is near, else nothing.
pub fn did_you_mean<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> String {
    /// Jaro–Winkler similarity from which a name is taken to be meant; two swapped or missing
    /// letters in a word of six stay above it.
    const NEAR: f64 = 0.8;
    let scored = known.map(|name| (strsim::jaro_winkler(unknown, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, name)) if score >= NEAR => format!("; did you mean {name:?}?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_nearest_name_is_proposed_only_if_it_is_near() {
        let known = ["concurrency", "requests", "warmup"];
        assert_eq!(did_you_mean("reqests", known.into_iter()), "; did you mean \"requests\"?");
        assert_eq!(did_you_mean("zzz", known.into_iter()), "");
        let message = "unknown field `zzz`, expected one of `a`, `b`";
        assert_eq!(explain("", message), "unknown key \"zzz\"; known: a, b");
    }

    #[test]
    fn messages_name_the_key_what_was_found_and_what_is_allowed() {
        let said = |message: &str| explain("workload.warmup", message);
        assert_eq!(
            said("invalid value: integer `99999999999`, expected u32"),
            "workload.warmup is 99999999999; allowed is a whole number from 0 to 4294967295"
        );
        assert_eq!(
            said("invalid type: string \"hot\", expected f64"),
            "workload.warmup is the text \"hot\"; allowed is a number"
        );
        assert_eq!(explain("target", "missing field `name`"), "[target] lacks the key \"name\"");
        assert_eq!(explain("target.name", "is empty"), "target.name is empty");
        assert_eq!(
            explain("a.b", "unknown variant `x`, expected `y`"),
            "a.b: unknown value \"x\"; known: y"
        );
        let secret = explain("target.headers_env", "invalid type: string \"sk-1\", expected a map");
        assert_eq!(secret, "target.headers_env is of another kind; allowed is a table");
    }

    #[test]
    fn a_file_of_another_kind_is_told_as_such() {
        let is = |text: &str, wanted| {
            Source::new("c.toml".into(), text.into()).is_to_be(wanted).map_err(|e| e.to_string())
        };
        let (target, engines) =
            ("[target]\nname = 1\n[engine]\nuse = \"e\"", "[engine.e]\nstart = []");
        assert_eq!(is(target, Kind::Target), Ok(()));
        assert_eq!(is(engines, Kind::Engines), Ok(()));
        assert_eq!(is("[targt]", Kind::Target), Ok(()), "the key is what is wrong");
        let said = is(engines, Kind::Target).unwrap_err();
        assert!(
            said.starts_with("c.toml: is an engines file") && said.contains("[target]"),
            "{said}"
        );
        assert!(is(target, Kind::Engines).unwrap_err().contains("wanted is an engines file"));
        assert!(is("[own]\n[api]", Kind::Target).unwrap_err().contains("is a cost config"));
    }

    #[test]
    fn an_error_stands_at_the_deepest_key_that_exists() {
        let source = Source::new("c.toml".into(), "[a]\nb = 1\n[c]\nd = { e = 2 }\n".into());
        let line = |keys: &[&str]| source.error_at(keys, "x").line;
        assert_eq!(line(&["a", "b"]), Some(2));
        assert_eq!(line(&["c", "d", "e"]), Some(4));
        assert_eq!(line(&["c", "nothing"]), Some(3));
        assert_eq!(line(&["nothing"]), None);
        assert_eq!(source.error_at(&["a", "b"], "is odd").to_string(), "c.toml:2: is odd");
    }

    #[test]
    fn broken_toml_says_where() {
        let source = Source::new("c.toml".into(), "a = 1\nb = [\n".into());
        let error = source.parse::<BTreeMap<String, toml::Value>>().unwrap_err();
        assert!(error.line.is_some_and(|line| line >= 2), "{error}");
    }
}
