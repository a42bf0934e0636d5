//! API keys: read from the environment, held here, printed nowhere.

use super::config::Target;
use super::engine::{Kind, NotMeasured};

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";
/// A shorter text cannot be told from ordinary words, and is no key.
const SECRET_CHARS_MIN: usize = 4;

/// The headers of a target that must stay secret, with their values.
#[derive(Clone, Default)]
pub struct Secrets {
    key: Option<String>,
    headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Reads what a target's config names from the environment.
    ///
    /// # Errors
    /// The name of a variable that is not set: the target cannot be measured here.
    pub fn read(target: &Target) -> Result<Self, NotMeasured> {
        let read = |name: &str| match std::env::var(name) {
            Ok(value) if !value.trim().is_empty() => Ok(value.trim().to_owned()),
            _ => {
                let text =
                    format!("the environment variable {name} is not set: it holds the API key");
                Err(NotMeasured::new(Kind::Skipped, "no_key", text))
            }
        };
        let key = target.key_env().map(read).transpose()?;
        let headers = target.headers_env.iter();
        let headers = headers.map(|(header, name)| Ok((header.clone(), read(name)?)));
        Ok(Self { key, headers: headers.collect::<Result<_, NotMeasured>>()? })
    }

    /// The API key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Further headers: name and value.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A text of somebody else's, with every secret in it blacked out.
    pub fn scrub(&self, text: &str) -> String {
        let values = self.headers.iter().map(|(_, value)| value).chain(&self.key);
        let long = values.filter(|value| value.chars().count() >= SECRET_CHARS_MIN);
        long.fold(text.to_owned(), |text, value| text.replace(value.as_str(), REDACTED))
    }

    /// [`Self::scrub`] for each line.
    pub fn scrub_lines(&self, lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| self.scrub(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_blacked_out_and_never_printed() {
        let secrets = Secrets {
            key: Some("sk-123".into()),
            headers: vec![("x-a".into(), "hush-hush".into())],
        };
        assert_eq!(secrets.scrub("bad sk-123, hush-hush"), "bad [redacted], [redacted]");
        assert_eq!(format!("{secrets:?}"), "Secrets");
    }
}
