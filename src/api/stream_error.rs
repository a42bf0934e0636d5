//! The ways in which servers say within a stream that they have failed.
//!
//! Where there is no choice in a chunk, several things make it an error that mean nothing beside
//! one. A ping, a usage chunk or word on the queue is none of them.

use serde_json::{Map, Value};

use super::chunk::{ERROR_BYTES_MAX, cut};
use super::mended;
use super::sse::DONE;

/// Where the words for people stand.
const MESSAGES: [&str; 7] =
    ["message", "msg", "error_message", "error_msg", "status_msg", "text", "title"];
/// Fields that only an error has.
const ERRORS: [&str; 5] = ["error", "errors", "detail", "error_message", "error_msg"];
/// Fields that name the kind of a chunk.
const KINDS: [&str; 4] = ["type", "object", "status", "event"];
/// Fields that an error has beside its message, and others have too.
const CODES: [&str; 4] = ["code", "status", "status_code", "statusCode"];
/// Words of a `status` that mean no success; what is under way or done has others.
const FAILURES: [&str; 12] = [
    "error",
    "fail",
    "failed",
    "failure",
    "unavailable",
    "exhausted",
    "denied",
    "unauthenticated",
    "internal",
    "aborted",
    "exceeded",
    "invalid",
];

/// Whether an event or a chunk of this name is an error: `error`, `Error`, `response.error`,
/// `invalid_request_error`, `OverloadedError`.
pub fn names_an_error(name: &str) -> bool {
    name.ends_with("Error") || words(name).any(|word| word.eq_ignore_ascii_case("error"))
}

/// What an event that is named an error says: JSON, or plain text, or nothing at all.
pub fn named_error(name: &str, data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let text = text.trim();
    if text.is_empty() || text == DONE {
        return format!("an event named {name:?}, without a word");
    }
    let said = match mended::value(text) {
        Some(Value::Object(fields)) => bare_error(&fields).or_else(|| message(&fields)),
        Some(value) => error_text(&value),
        None => None,
    };
    said.unwrap_or_else(|| cut(text, ERROR_BYTES_MAX).to_owned())
}

/// The error that JSON without any framing is: an object, or a list that begins with one.
pub fn stray_error(data: &[u8]) -> Option<String> {
    let list = match mended::value(&String::from_utf8_lossy(data))? {
        Value::Array(list) => list,
        object => vec![object],
    };
    let Value::Object(fields) = list.first()? else { return None };
    if let Some(error) = fields.get("error").and_then(error_text) {
        return Some(error);
    }
    let choices = fields.get("choices").and_then(Value::as_array);
    if choices.is_none_or(Vec::is_empty) { bare_error(fields) } else { None }
}

/// The error that an object without choices is, if it is one.
fn bare_error(fields: &Map<String, Value>) -> Option<String> {
    if let Some(error) = ERRORS.iter().find_map(|key| error_text(fields.get(*key)?)) {
        return Some(error);
    }
    let text = |key: &&str| fields.get(*key).and_then(Value::as_str);
    let is_named = KINDS.iter().filter_map(text).any(names_an_error);
    if is_named || fields.get("error_code").is_some_and(is_bad_code) {
        return Some(message(fields).unwrap_or_else(|| whole(&Value::Object(fields.clone()))));
    }
    if let Some(Value::Object(inner)) = fields.get("base_resp") {
        return bare_error(inner);
    }
    let is_bad = |key: &&str| match fields.get(*key) {
        Some(Value::String(status)) if **key == *"status" && !is_number(status) => {
            words(status).any(|word| FAILURES.iter().any(|bad| word.eq_ignore_ascii_case(bad)))
        }
        code => code.is_some_and(is_bad_code),
    };
    let is_no_success = fields.get("success") == Some(&Value::Bool(false));
    message(fields).filter(|_| is_no_success || CODES.iter().any(is_bad))
}

/// The words for people, cut to [`ERROR_BYTES_MAX`].
fn message(fields: &Map<String, Value>) -> Option<String> {
    let text = |key: &&str| fields.get(*key)?.as_str().filter(|text| !text.is_empty());
    MESSAGES.iter().find_map(text).map(|text| cut(text, ERROR_BYTES_MAX).to_owned())
}

/// The message of an error value: its words, or its text, or the whole of it, cut to
/// [`ERROR_BYTES_MAX`]. `None` for values that say "no error".
pub(super) fn error_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) => (!text.is_empty()).then(|| cut(text, ERROR_BYTES_MAX).to_owned()),
        Value::Array(list) => list.iter().find_map(error_text),
        Value::Object(fields) if fields.is_empty() => None,
        Value::Object(fields) => message(fields).or_else(|| Some(whole(value))),
        Value::Bool(true) | Value::Number(_) => Some(whole(value)),
    }
}

fn whole(value: &Value) -> String {
    cut(&value.to_string(), ERROR_BYTES_MAX).to_owned()
}

/// A code of no success: no zero, nothing below HTTP's 400, no "ok".
fn is_bad_code(code: &Value) -> bool {
    let is_bad = |number: f64| number != 0.0 && !(100.0..400.0).contains(&number);
    match code {
        Value::Number(number) => number.as_f64().is_some_and(is_bad),
        Value::String(text) => match text.trim().parse() {
            Ok(number) => is_bad(number),
            Err(_) => !["", "ok", "success"].iter().any(|good| text.eq_ignore_ascii_case(good)),
        },
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|letter: char| !letter.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_words() {
        for name in ["error", "ERROR", "response.error", "stream_error", "OverloadedError"] {
            assert!(names_an_error(name), "{name}");
        }
        for name in ["", "ping", "terror", "errors", "message", "chat.completion.chunk"] {
            assert!(!names_an_error(name), "{name}");
        }
    }

    #[test]
    fn the_words_for_people_are_found() {
        for (json, text) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"full"}}"#, "full"),
            (r#"{"text":"full","error_code":50001}"#, "full"),
            (r#"{"base_resp":{"status_code":1008,"status_msg":"full"},"choices":null}"#, "full"),
            (r#"{"status":"RESOURCE_EXHAUSTED","message":"full"}"#, "full"),
            (r#"{"success":false,"message":"full"}"#, "full"),
            (r#"{"errors":[{},{"message":"full"}]}"#, "full"),
            (r#"{"error":{"code":503}}"#, r#"{"code":503}"#),
            (r#"{"type":"error","id":7}"#, r#"{"type":"error","id":7}"#),
            (r#"[{"error":{"message":"full"}}]"#, "full"),
        ] {
            assert_eq!(stray_error(json.as_bytes()).as_deref(), Some(text), "{json}");
        }
        for json in [
            r#"{"base_resp":{"status_code":0,"status_msg":"success"}}"#,
            r#"{"status":"in_progress","message":"soon"}"#,
            r#"{"text":"a","error_code":0}"#,
            r#"{"error":0,"errors":[[],{},null]}"#,
            r#"{"type":"error","choices":[{"delta":{}}]}"#,
            "[]",
            "7",
            "{",
        ] {
            assert_eq!(stray_error(json.as_bytes()), None, "{json}");
        }
        assert_eq!(named_error("error", b" "), "an event named \"error\", without a word");
        assert_eq!(named_error("error", b"full"), "full");
        assert_eq!(named_error("error", br#"{"message":"full"}"#), "full");
        assert_eq!(named_error("error", br#"{"a":1}"#), r#"{"a":1}"#);
        assert_eq!(named_error("error", br#""full""#), "full");
    }
}
