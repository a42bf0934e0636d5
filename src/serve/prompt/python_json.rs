//! JSON as Python's `json.dumps` writes it: `{"a": 1, "b": [1, 2]}`. Templates were trained on it.

use std::io;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{Formatter, Serializer};

/// The arguments of `json.dumps` that change what it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// Everything beyond ASCII as `\u` escapes.
    pub ensure_ascii: bool,
    /// What each level is indented with, on lines of their own; `None` is one line.
    pub indent: Option<String>,
    /// Between two items, and between a key and its value.
    pub separators: (String, String),
    /// Keys in the order of their code points.
    pub sort_keys: bool,
}

impl Style {
    /// What Hugging Face's `tojson` writes with this `indent`, unless told otherwise.
    pub fn indented(indent: Option<String>) -> Self {
        let between_items = if indent.is_some() { "," } else { ", " };
        let separators = (between_items.to_owned(), ": ".to_owned());
        Self { ensure_ascii: false, indent, separators, sort_keys: false }
    }
}

/// Writes a value.
pub fn write(value: &Json, style: &Style) -> String {
    let sorted;
    let value = if style.sort_keys {
        sorted = with_sorted_keys(value);
        &sorted
    } else {
        value
    };
    let mut bytes = Vec::new();
    let python = Python { style, level: 0, has_value: false };
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, python));
    written.expect("a JSON value has a JSON form");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

fn with_sorted_keys(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(with_sorted_keys).collect(),
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let sorted = |(key, value): (&String, &Json)| (key.clone(), with_sorted_keys(value));
            Json::Object(entries.into_iter().map(sorted).collect())
        }
        other => other.clone(),
    }
}

/// A template's value as JSON.
///
/// # Errors
/// When it is something that JSON has no form for.
pub fn to_json(value: &Value) -> Result<Json, Error> {
    match value.kind() {
        ValueKind::None => Ok(Json::Null),
        ValueKind::Undefined => {
            let message = "an undefined value is not JSON serializable";
            Err(Error::new(ErrorKind::BadSerialization, message))
        }
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => match u64::try_from(value.clone()) {
            Ok(whole) => Ok(whole.into()),
            Err(_) => Ok(i64::try_from(value.clone())?.into()),
        },
        ValueKind::Number => Ok(f64::try_from(value.clone())?.into()),
        ValueKind::Map => {
            let entry = |key: Value| Ok((key_text(&key)?, to_json(&value.get_item(&key)?)?));
            value.try_iter()?.map(entry).collect::<Result<_, Error>>().map(Json::Object)
        }
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| to_json(&item)).collect::<Result<_, _>>().map(Json::Array)
        }
        _ => Ok(Json::String(value.to_string())),
    }
}

/// Keys that are no strings become some.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Number if !key.is_integer() => float(f64::try_from(key.clone())?),
        _ => key.to_string(),
    })
}

/// JSON as a template's value.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => Value::from(whole),
            (_, Some(whole), _) => Value::from(whole),
            (_, _, decimal) => Value::from(decimal.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (key.as_str(), from_json(value))))
        }
    }
}

/// A number as Python's `repr` writes it: the fewest digits that are that number, with an exponent
/// of at least two digits below 10⁻⁴ and from 10¹⁶ on.
fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("that is what `e` writes");
    let exponent: i32 = exponent.parse().expect("a small whole number");
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Writes in a style.
struct Python<'a> {
    style: &'a Style,
    level: usize,
    /// Whether the list or object that was written last has anything in it.
    has_value: bool,
}

impl Python<'_> {
    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.has_value = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.has_value {
            self.new_line(out)?;
        }
        out.write_all(bracket)
    }

    fn new_line<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        let Some(indent) = &self.style.indent else { return Ok(()) };
        out.write_all(b"\n")?;
        (0..self.level).try_for_each(|_| out.write_all(indent.as_bytes()))
    }

    fn between<W: ?Sized + io::Write>(&self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(self.style.separators.0.as_bytes())?;
        }
        self.new_line(out)
    }
}

impl Formatter for Python<'_> {
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !self.style.ensure_ascii {
            return out.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        fragment.chars().try_for_each(|character| match character {
            ' '..='~' => write!(out, "{character}"),
            _ => {
                let mut units = character.encode_utf16(&mut units).iter();
                units.try_for_each(|unit| write!(out, "\\u{unit:04x}"))
            }
        })
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.between(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.between(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.style.separators.1.as_bytes())
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_stand_where_python_puts_them() {
        let value = serde_json::json!({ "a": [1, "<é>"], "b": {} });
        let one_line = Style::indented(None);
        assert_eq!(write(&value, &one_line), r#"{"a": [1, "<é>"], "b": {}}"#);
        assert_eq!(to_json(&from_json(&value)).unwrap(), value);
        let indented = |indent: &str| Style::indented(Some(indent.to_owned()));
        assert_eq!(write(&serde_json::json!([1]), &indented("    ")), "[\n    1\n]");
        assert_eq!(write(&serde_json::json!([[], 1]), &indented("")), "[\n[],\n1\n]");
    }

    #[test]
    fn numbers_are_pythons() {
        for (number, wanted) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-2.5e300, "-2.5e+300"),
        ] {
            assert_eq!(float(number), wanted);
        }
    }
}
