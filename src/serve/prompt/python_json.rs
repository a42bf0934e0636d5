//! JSON with Python's spaces: `{"a": 1, "b": [1, 2]}`. Templates were trained on it.

use std::io;

use minijinja::value::{Value, ValueKind};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Writes a value on one line, or with `indent` spaces for each level.
pub fn write(value: &Json, indent: Option<usize>) -> String {
    let mut bytes = Vec::new();
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine)),
        Some(n) => {
            let spaces = " ".repeat(n.min(INDENT_MAX));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        }
    };
    written.expect("a JSON value has a JSON form");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// No template indents more.
const INDENT_MAX: usize = 16;

/// A template's value as JSON.
///
/// # Errors
/// When it is something that JSON has no form for.
pub fn to_json(value: &Value) -> Result<Json, minijinja::Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => Ok(i64::try_from(value.clone())?.into()),
        ValueKind::Number => Ok(f64::try_from(value.clone())?.into()),
        ValueKind::Map => {
            let entry = |key: Value| Ok((key.to_string(), to_json(&value.get_item(&key)?)?));
            value.try_iter()?.map(entry).collect::<Result<_, minijinja::Error>>().map(Json::Object)
        }
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| to_json(&item)).collect::<Result<_, _>>().map(Json::Array)
        }
        _ => Ok(Json::String(value.to_string())),
    }
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

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_stand_where_python_puts_them() {
        let value = serde_json::json!({ "a": [1, "<é>"], "b": {} });
        assert_eq!(write(&value, None), r#"{"a": [1, "<é>"], "b": {}}"#);
        assert_eq!(to_json(&from_json(&value)).unwrap(), value);
        assert_eq!(write(&serde_json::json!([1]), Some(4)), "[\n    1\n]");
    }
}
