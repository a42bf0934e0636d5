//! Durations on the command line and in config files: a number with its unit, or `none`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// How long to wait for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(Option<Duration>);

/// Longer than any machine runs, and short enough that adding it to a clock can't overflow.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Wait {
    /// A limited wait.
    pub const fn of(duration: Duration) -> Self {
        Self(Some(duration))
    }

    /// How long, at most; ten years for `none`.
    pub fn at_most(self) -> Duration {
        self.0.map_or(FOR_EVER, |limit| limit.min(FOR_EVER))
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let wrong = || format!("expected a duration like 250ms, 10s, 5m or 12h, or none: '{text}'");
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit_s = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        Duration::try_from_secs_f64(number * unit_s).map(Self::of).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Wait;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter
                    .write_str("a duration like \"250ms\", \"10s\", \"5m\" or \"12h\", or \"none\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Wait, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_needs_its_unit() {
        let parse = |text: &str| text.parse::<Wait>().map(Wait::at_most).ok();
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("10s"), Some(Duration::from_secs(10)));
        assert_eq!(parse("1.5h"), Some(Duration::from_secs(5400)));
        assert_eq!(parse("0s"), Some(Duration::ZERO));
        assert_eq!(parse("none"), Some(FOR_EVER));
        for text in ["", "10", "s", "-1s", "1d", "1e99h", "10 s", "ten"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
