//! Values of foreign JSON that may have any type: what is not understood counts as absent.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::mended;

/// Reads as absent whatever is neither a list nor an object.
macro_rules! plain_values_are {
    ($absent:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($absent)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
}

/// An object of foreign JSON; `None` for anything else.
pub(super) fn object<'de, T: Deserialize<'de>>(json: &'de str) -> Option<T> {
    serde_json::from_str::<Lenient<T>>(json).ok()?.0
}

/// The same, [mended] if need be.
pub(super) fn object_mended<T: DeserializeOwned>(json: &str) -> Option<T> {
    object(json).or_else(|| object(&mended::json(json)?))
}

/// A text that may be absent, null, a list of parts, or something else altogether.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Text<'a>(Option<Cow<'a, str>>);

impl<'a> Text<'a> {
    /// The text, if there is any of it.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The same, for keeps.
    pub(super) fn into_text(self) -> Option<Cow<'a, str>> {
        self.0.filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(text.to_owned()))))
    }

    plain_values_are!(Text(None));

    /// A list of parts: their texts, one after the other.
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut whole = String::new();
        while let Some(part) = parts.next_element::<Text<'de>>()? {
            whole.push_str(part.get().unwrap_or_default());
        }
        Ok(Text(Some(Cow::Owned(whole))))
    }

    /// One part: `{"type": "text", "text": …}`.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut text = Text(None);
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            if key == "text" {
                text = fields.next_value()?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// An object; `None` where something else stands in its place.
#[derive(Debug)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Lenient<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            plain_values_are!(Lenient(None));

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|object| Lenient(Some(object)))
            }
        }
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

/// A list of objects that almost always has one entry: no allocation for it. What is no object is
/// no entry; an object in the list's place is its only one.
#[derive(Debug)]
pub(super) struct OneOrMore<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> OneOrMore<T> {
    pub(super) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            plain_values_are!(OneOrMore::default());

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(OneOrMore::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let first = T::deserialize(MapAccessDeserializer::new(map))?;
                Ok(OneOrMore { first: Some(first), rest: Vec::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let (mut first, mut rest) = (None, Vec::new());
                while let Some(Lenient(next)) = seq.next_element::<Lenient<T>>()? {
                    if first.is_none() {
                        first = next;
                    } else {
                        rest.extend(next);
                    }
                }
                Ok(OneOrMore { first, rest })
            }
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// A number that may be absent, null, or written as a string.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Number(pub(super) Option<f64>);

impl Number {
    /// As a count: whole and not negative.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number that an f64 holds exactly"
    )]
    pub(super) fn count(self) -> Option<u64> {
        let exact = 0.0..=9_007_199_254_740_992.0;
        self.0.filter(|n| exact.contains(n) && n.fract() == 0.0).map(|n| n as u64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let number = match &value {
            serde_json::Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        Ok(Self(number.filter(|n: &f64| n.is_finite())))
    }
}
