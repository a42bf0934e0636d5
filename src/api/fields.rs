//! Reads the fields of a JSON object one by one: types and ranges are checked where a field is
//! read, and each mistake names the field, what was found and what would do.
//!
//! `null` means absent. Fields that nobody reads are ignored.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::RequestError;
use super::weight;

/// The fields of one object that were not read yet.
#[derive(Debug)]
pub struct Fields {
    map: Map<String, Value>,
    /// Where the object stands in the body: empty, or `messages[0]` for example.
    path: String,
}

impl Fields {
    /// The fields of a body.
    ///
    /// # Errors
    /// When it is not JSON, not an object, or one of more values than any request has.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        if std::str::from_utf8(body).is_err() {
            return Err(invalid_json("it is not UTF-8"));
        }
        if !weight::is_bearable(body) {
            return Err(RequestError::body("The request's body has far too many values."));
        }
        let value: Value =
            serde_json::from_slice(body).map_err(|error| invalid_json(&error.to_string()))?;
        match value {
            Value::Object(map) => Ok(Self { map, path: String::new() }),
            other => Err(RequestError::body(format!(
                "The request's body must be a JSON object, but it is {}.",
                describe(&other)
            ))),
        }
    }

    /// The fields of an object inside the body, at `path`.
    ///
    /// # Errors
    /// When the value is not an object.
    pub fn of(value: Value, path: &str) -> Result<Self, RequestError> {
        match value {
            Value::Object(map) => Ok(Self { map, path: path.to_owned() }),
            other => Err(wrong_type(path, "an object", &other)),
        }
    }

    /// A field's name as seen from the body: `messages[0].role`.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Any value but null.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// A text without NUL characters.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, RequestError> {
        let path = self.path_of(key);
        self.value(key).map(|value| text(value, &path)).transpose()
    }

    /// True or false.
    ///
    /// # Errors
    /// When it is something else.
    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, RequestError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong_type(&self.path_of(key), "a boolean", &other)),
        }
    }

    /// A whole number within `range`.
    ///
    /// # Errors
    /// When it is something else, or outside.
    pub fn integer(
        &mut self,
        key: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, RequestError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let path = self.path_of(key);
        // Whole numbers beyond 64 bits are out of any range, not of the wrong type.
        let whole = value.as_i64().map(Some).or_else(|| value.as_u64().map(|_| None));
        let Some(number) = whole else { return Err(wrong_type(&path, "an integer", &value)) };
        match number {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(out_of_range(&path, range.start(), range.end(), &value)),
        }
    }

    /// A finite number within `range`.
    ///
    /// # Errors
    /// When it is something else, or outside.
    pub fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, RequestError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let path = self.path_of(key);
        number(&value, &path, &range).map(Some)
    }

    /// A list.
    ///
    /// # Errors
    /// When it is something else.
    pub fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, RequestError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong_type(&self.path_of(key), "an array", &other)),
        }
    }

    /// An object.
    ///
    /// # Errors
    /// When it is something else.
    pub fn object(&mut self, key: &str) -> Result<Option<Fields>, RequestError> {
        let path = self.path_of(key);
        self.value(key).map(|value| Self::of(value, &path)).transpose()
    }

    /// All remaining fields.
    pub fn into_entries(self) -> impl Iterator<Item = (String, Value)> {
        self.map.into_iter()
    }

    /// The complaint that a field is missing.
    pub fn missing(&self, key: &str) -> RequestError {
        let path = self.path_of(key);
        RequestError::field(path.clone(), format!("Missing required parameter: '{path}'."))
            .with_code("missing_required_parameter")
    }
}

/// A text without NUL characters: llama.cpp reads C strings, which end there.
///
/// # Errors
/// When it is something else.
pub fn text(value: Value, path: &str) -> Result<String, RequestError> {
    match value {
        Value::String(text) if text.contains('\0') => Err(RequestError::field(
            path,
            format!("Invalid value for '{path}': it contains a NUL character."),
        )),
        Value::String(text) => Ok(text),
        other => Err(wrong_type(path, "a string", &other)),
    }
}

/// A number within `range`.
///
/// # Errors
/// When it is something else, or outside.
pub fn number(value: &Value, path: &str, range: &RangeInclusive<f64>) -> Result<f64, RequestError> {
    let Some(number) = value.as_f64() else { return Err(wrong_type(path, "a number", value)) };
    if !range.contains(&number) {
        return Err(out_of_range(path, range.start(), range.end(), value));
    }
    Ok(number)
}

/// The complaint about a value of the wrong type.
pub fn wrong_type(path: &str, wanted: &str, found: &Value) -> RequestError {
    RequestError::field(
        path,
        format!(
            "Invalid type for '{path}': expected {wanted}, but got {} instead.",
            describe(found)
        ),
    )
    .with_code("invalid_type")
}

fn out_of_range(
    path: &str,
    low: &dyn std::fmt::Display,
    high: &dyn std::fmt::Display,
    found: &Value,
) -> RequestError {
    RequestError::field(
        path,
        format!("Invalid value for '{path}': expected {low} to {high}, but got {found}."),
    )
    .with_code("invalid_value")
}

fn invalid_json(why: &str) -> RequestError {
    RequestError::body(format!("The request's body is not valid JSON: {why}."))
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(body: &str) -> Fields {
        Fields::parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn null_is_absent() {
        let mut fields = fields(r#"{"a": null, "b": 1}"#);
        assert_eq!(fields.integer("a", 0..=9), Ok(None));
        assert_eq!(fields.integer("b", 0..=9), Ok(Some(1)));
        assert_eq!(fields.integer("c", 0..=9), Ok(None));
    }

    #[test]
    fn a_mistake_names_the_field_the_value_and_the_range() {
        let error = fields(r#"{"n": 12}"#).integer("n", 0..=9).unwrap_err();
        assert_eq!(error.message, "Invalid value for 'n': expected 0 to 9, but got 12.");
        assert_eq!(error.param.as_deref(), Some("n"));
        let error = fields(r#"{"o": {"n": "1"}}"#).object("o").unwrap().unwrap();
        let error = { error }.integer("n", 0..=9).unwrap_err();
        assert_eq!(
            error.message,
            "Invalid type for 'o.n': expected an integer, but got a string instead."
        );
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        for body in [r#"{"n": 18446744073709551615}"#, r#"{"n": 1e99}"#, r#"{"n": -1e999}"#] {
            let parsed = Fields::parse(body.as_bytes());
            assert!(parsed.and_then(|mut fields| fields.integer("n", 0..=9)).is_err(), "{body}");
        }
    }

    #[test]
    fn what_is_no_json_object_is_refused() {
        for body in [&b""[..], b"{", b"[1]", b"\"x\"", b"{\"a\": \"\xff\"}", b"{}{}"] {
            assert!(Fields::parse(body).is_err(), "{body:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(Fields::parse(deep.as_bytes()).is_err());
    }
}
