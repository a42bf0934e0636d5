//! Lengths of time as people write them: `250ms`, `10s`, `12h`, or `none`. A bare number is refused:
//! nobody remembers whether it was seconds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Units from the shortest to the longest, with their length in seconds.
const UNITS: [(&str, f64); 6] =
    [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// Longest length of time that is accepted: ten years, far below what overflows.
const LONGEST_S: f64 = 10.0 * 365.0 * 86_400.0;

/// What is accepted, in words.
const EXPECTED: &str = "a duration such as \"250ms\", \"10s\" or \"12h\"";

/// A text that is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It has no unit.
    #[error("{0:?} has no unit: write {0}s, or {0}ms")]
    NoUnit(String),
    /// It is something else.
    #[error("{0:?} is not {EXPECTED}")]
    Malformed(String),
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

/// A length of time, or none: the absence of a limit is a decision that is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit(pub Option<Duration>);

impl TimeLimit {
    /// No limit.
    pub const NONE: Self = Self(None);

    /// A limit of so many whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Some(Duration::from_secs(seconds)))
    }
}

impl FromStr for TimeSpan {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let digits_end =
            text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits_end);
        let number: f64 = number.parse().map_err(|_| malformed())?;
        if unit.is_empty() {
            return Err(DurationError::NoUnit(text.to_owned()));
        }
        let (_, seconds) =
            UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?;
        let total = number * seconds;
        if total > LONGEST_S {
            return Err(malformed());
        }
        Ok(Self(Duration::from_secs_f64(total)))
    }
}

impl FromStr for TimeLimit {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        text.parse::<TimeSpan>().map(|span| Self(Some(span.0)))
    }
}

impl fmt::Display for TimeSpan {
    /// In the longest unit that leaves a whole number, so that it reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_micros();
        let whole = [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000)]
            .into_iter()
            .chain([("s", 1_000_000), ("ms", 1_000)])
            .find(|(_, length)| us > 0 && us.is_multiple_of(*length));
        match whole {
            Some((unit, length)) => write!(f, "{}{unit}", us / length),
            None => write!(f, "{us}us"),
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(span) => TimeSpan(span).fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Reads a `T` from a string, and says what was expected when it finds something else.
struct FromText<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = DurationError>> de::Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FromText(std::marker::PhantomData, EXPECTED))
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const OR_NONE: &str = "a duration such as \"250ms\", \"10s\" or \"12h\", or \"none\"";
        deserializer.deserialize_str(FromText(std::marker::PhantomData, OR_NONE))
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)?(us|ms|s|m|h|d)$",
            "examples": ["250ms", "10s", "12h"],
        })
    }
}

impl schemars::JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "DurationOrNone".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d)|none)$",
            "examples": ["250ms", "10s", "12h", "none"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_written_back() {
        for (text, ms) in [("250ms", 250), ("10s", 10_000), ("12h", 43_200_000), ("2m", 120_000)] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(ms), "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("1.5s".parse::<TimeSpan>().unwrap().to_string(), "1500ms");
        assert_eq!("none".parse(), Ok(TimeLimit::NONE));
        assert_eq!(TimeLimit::NONE.to_string(), "none");
        assert_eq!("0s".parse::<TimeSpan>().unwrap().to_string(), "0us");
    }

    #[test]
    fn a_bare_number_and_nonsense_are_refused() {
        assert_eq!("10".parse::<TimeSpan>(), Err(DurationError::NoUnit("10".into())));
        for text in ["", "s", "-1s", "10 s", "1e9s", "10S", "ten", "1.2.3s", "99999999h", "none"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        let error = toml::from_str::<std::collections::BTreeMap<String, TimeLimit>>("a = 10");
        let message = error.unwrap_err().message().to_owned();
        assert!(message.contains("invalid type: integer `10`, expected a duration"), "{message}");
    }
}
