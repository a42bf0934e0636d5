//! Values that cannot be impossible: each type refuses what makes no sense, so that whoever holds
//! one need not check again, and TOML's own error says on which line it stood.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Most streams at once that are accepted: as many as there are ports on one address.
const CONCURRENCY_MAX: u32 = 65_535;

/// A text that is not empty and stands on one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Name(String);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("is empty".into());
        }
        if text.chars().any(char::is_control) {
            return Err(format!("{text:?} holds a control character"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Where the API answers: an `http` or `https` URL, in which `{port}` may stand for the port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BaseUrl(String);

/// What stands for the port of a server that we start.
pub const PORT: &str = "{port}";

impl BaseUrl {
    /// The URL as it was written, without a final slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the port is ours to choose.
    pub fn has_port_placeholder(&self) -> bool {
        self.0.contains(PORT)
    }

    /// The URL with `port` in its place.
    pub fn with_port(&self, port: u16) -> String {
        self.0.replace(PORT, &port.to_string())
    }

    /// The port that stands in it, or that its scheme implies; `None` if it is ours to choose.
    pub fn port(&self) -> Option<u16> {
        if self.has_port_placeholder() {
            return None;
        }
        let uri: hyper::Uri = self.0.parse().ok()?;
        let implied = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        Some(uri.port_u16().unwrap_or(implied))
    }
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: hyper::Uri = text
            .replace(PORT, "1")
            .parse()
            .map_err(|error| format!("{text:?} is not a URL: {error}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(format!("{text:?} does not begin with http:// or https://"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("a URL must not carry a user or a password: use key_env".into());
        }
        if uri.query().is_some() {
            return Err(format!("{text:?} has a query: it is the part before /chat/completions"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// A finite number over zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Positive(f64);

/// A finite number that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
pub struct NonNegative(f64);

impl Positive {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl NonNegative {
    /// Zero.
    pub const ZERO: Self = Self(0.0);

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Positive {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let fits = number.is_finite() && number > 0.0;
        fits.then_some(Self(number))
            .ok_or_else(|| format!("{number} is not a finite number over 0"))
    }
}

impl TryFrom<f64> for NonNegative {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        let fits = number.is_finite() && number >= 0.0;
        fits.then_some(Self(number))
            .ok_or_else(|| format!("{number} is not a finite number, 0 or more"))
    }
}

/// The concurrencies of a run, in the order in which they are measured: at least one, each over 0,
/// none twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ladder(Vec<u32>);

impl Ladder {
    /// The one level of a single stream, and of an open loop.
    pub fn one() -> Self {
        Self(vec![1])
    }

    /// The levels.
    pub fn levels(&self) -> &[u32] {
        &self.0
    }

    /// The largest.
    pub fn max(&self) -> u32 {
        self.0.iter().copied().max().expect("a ladder has at least one level")
    }
}

impl TryFrom<Vec<u32>> for Ladder {
    type Error = String;

    fn try_from(levels: Vec<u32>) -> Result<Self, String> {
        if levels.is_empty() {
            return Err("concurrency needs at least one level".into());
        }
        if let Some(level) = levels.iter().find(|&&level| level == 0 || level > CONCURRENCY_MAX) {
            return Err(format!("concurrency {level} is not in 1..={CONCURRENCY_MAX}"));
        }
        let twice =
            levels.iter().enumerate().find(|(index, level)| levels[..*index].contains(level));
        match twice {
            Some((_, level)) => Err(format!("concurrency {level} stands there twice")),
            None => Ok(Self(levels)),
        }
    }
}

impl FromStr for Ladder {
    type Err = String;

    /// Reads `1,4,16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let level = |part: &str| {
            part.trim().parse::<u32>().map_err(|_| format!("{part:?} is not a concurrency"))
        };
        Self::try_from(text.split(',').map(level).collect::<Result<Vec<_>, _>>()?)
    }
}

/// How many ok requests a level needs: one number, with exceptions for single levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Where no exception applies.
    pub default: NonZeroU32,
    /// By concurrency.
    pub exceptions: BTreeMap<u32, NonZeroU32>,
}

/// The default of [`Requests`].
const REQUESTS: NonZeroU32 = NonZeroU32::new(200).expect("200 is not zero");

impl Requests {
    /// The same number for each level.
    pub fn each(default: NonZeroU32) -> Self {
        Self { default, exceptions: BTreeMap::new() }
    }

    /// The number for one level.
    pub fn at(&self, concurrency: u32) -> u32 {
        self.exceptions.get(&concurrency).unwrap_or(&self.default).get()
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self::each(REQUESTS)
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrTable;

        impl<'de> de::Visitor<'de> for NumberOrTable {
            type Value = Requests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a whole number from 1 to 4294967295, or a table such as { default = 200, \"1\" = 50 }",
                )
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Requests, E> {
                let unexpected = |this| E::invalid_value(de::Unexpected::Signed(number), &this);
                let number = u32::try_from(number).ok().and_then(NonZeroU32::new);
                number.map(Requests::each).ok_or_else(|| unexpected(self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Requests, E> {
                match i64::try_from(number) {
                    Ok(number) => self.visit_i64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Requests, A::Error> {
                let mut requests = Requests::default();
                while let Some(key) = map.next_key::<String>()? {
                    let number = map.next_value::<NonZeroU32>()?;
                    if key == "default" {
                        requests.default = number;
                    } else {
                        let level = key.parse::<u32>().map_err(|_| {
                            let text = "is neither \"default\" nor a concurrency";
                            de::Error::custom(format!("{key:?} {text}"))
                        })?;
                        requests.exceptions.insert(level, number);
                    }
                }
                Ok(requests)
            }
        }
        deserializer.deserialize_any(NumberOrTable)
    }
}

/// `Deserialize` by way of another type's: `$kind` is read, then converted.
macro_rules! deserialize_by {
    ($($name:ident from $kind:ty: $convert:expr;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = <$kind>::deserialize(deserializer)?;
                let convert: fn($kind) -> Result<Self, String> = $convert;
                convert(raw).map_err(de::Error::custom)
            }
        }
    )*};
}

deserialize_by! {
    Name from String: |text| text.parse();
    BaseUrl from String: |text| text.parse();
    Positive from f64: Self::try_from;
    NonNegative from f64: Self::try_from;
    Ladder from Vec<u32>: Self::try_from;
}

/// `FromStr` for command lines.
macro_rules! number_from_str {
    ($($name:ident: $allowed:literal;)*) => {$(
        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let number = text.parse::<f64>().ok().and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| $allowed.to_owned())
            }
        }
    )*};
}

number_from_str! {
    Positive: "must be a number over 0, such as 2.5";
    NonNegative: "must be a number, 0 or more, such as 2.5";
}

/// `JsonSchema` from a literal.
macro_rules! schema {
    ($($name:ident $schema:tt)*) => {$(
        impl schemars::JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

schema! {
    Name { "type": "string", "minLength": 1 }
    BaseUrl { "type": "string", "pattern": "^https?://" }
    Positive { "type": "number", "exclusiveMinimum": 0 }
    NonNegative { "type": "number", "minimum": 0 }
    Ladder {
        "type": "array", "minItems": 1, "uniqueItems": true,
        "items": { "type": "integer", "minimum": 1, "maximum": 65535 }
    }
    Requests {
        "oneOf": [
            { "type": "integer", "minimum": 1 },
            {
                "type": "object",
                "propertyNames": { "pattern": "^(default|[1-9][0-9]*)$" },
                "additionalProperties": { "type": "integer", "minimum": 1 }
            }
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused() {
        for text in ["", "1,0", "1,1", "1,x", "70000"] {
            assert!(text.parse::<Ladder>().is_err(), "{text}");
        }
        assert_eq!("1, 4,16".parse::<Ladder>().unwrap().levels(), [1, 4, 16]);
        for text in ["localhost:80", "ftp://x", "http://", "http://me:pw@x/v1", "http://x/v1?a=b"] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
        for text in ["nan", "inf", "0", "-1"] {
            assert!(text.parse::<Positive>().is_err(), "{text}");
        }
        assert!("a\nb".parse::<Name>().is_err());
    }

    #[test]
    fn a_base_url_knows_its_port() {
        let url: BaseUrl = "http://127.0.0.1:{port}/v1/".parse().unwrap();
        assert_eq!((url.port(), url.with_port(8000)), (None, "http://127.0.0.1:8000/v1".into()));
        assert_eq!("https://x/v1".parse::<BaseUrl>().unwrap().port(), Some(443));
        assert_eq!("http://x:81/v1".parse::<BaseUrl>().unwrap().port(), Some(81));
    }

    #[test]
    fn requests_are_a_number_or_a_table() {
        #[derive(Deserialize)]
        struct File {
            requests: Requests,
        }
        let read = |text: &str| toml::from_str::<File>(text).map(|file| file.requests);
        let requests = read("requests = { default = 10, \"1\" = 5 }").unwrap();
        assert_eq!((requests.at(1), requests.at(4)), (5, 10));
        assert_eq!(read("requests = { \"1\" = 50 }").unwrap().at(4), 200);
        assert_eq!(read("requests = 7").unwrap().at(1), 7);
        for text in ["requests = 0", "requests = { one = 1 }", "requests = \"7\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
