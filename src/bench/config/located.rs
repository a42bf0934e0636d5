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
        let size = std::fs::metadata(path).map_err(|io| error(io.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(error(format!("is no config: {size} bytes, over {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|io| error(io.to_string()))?;
        if text.trim_start().starts_with('{') {
            return Err(error("is JSON (a results file?), and a config is TOML".into()));
        }
        Ok(Self::new(path.into(), text))
    }

    /// Reads the text as a `T`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and the nearest valid key.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(&self.text).map_err(|error| self.error(&error))
    }

    /// Where TOML's own error stands in this text, in our words.
    pub fn error(&self, error: &toml::de::Error) -> ConfigError {
        let line = error.span().map(|span| self.line(&span));
        ConfigError { path: self.path.clone(), line, message: explain(error.message()) }
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

/// TOML's message, with the nearest valid name where one was unknown.
fn explain(message: &str) -> String {
    let message = message.trim_end();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let what = if message.starts_with("unknown field") {
        "key"
    } else if message.starts_with("unknown variant") {
        "value"
    } else {
        return message.to_owned();
    };
    let Some((unknown, known)) = quoted.split_first() else { return message.to_owned() };
    let hint = did_you_mean(unknown, known.iter().copied());
    let hint = if hint.is_empty() { format!("; known: {}", known.join(", ")) } else { hint };
    format!("unknown {what} {unknown:?}{hint}")
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
        assert_eq!(explain(message), "unknown key \"zzz\"; known: a, b");
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
