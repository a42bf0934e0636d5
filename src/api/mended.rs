//! JSON that a strict reader refuses although it is plain what it means, as some servers write it:
//! a key twice, half of a surrogate pair, Python's `NaN` and `Infinity`, a bare tab in a text.
//!
//! Nothing here is on the way of a chunk that a strict reader takes.

use serde_json::Value;

/// Words that Python writes for numbers which JSON has none for: null stands in their place.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The value of some JSON, mended if need be; of a key that stands twice the last one.
pub fn value(json: &str) -> Option<Value> {
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&mend(json))).ok()
}

/// The same as JSON that every reader takes.
pub fn json(json: &str) -> Option<String> {
    value(json).map(|value| value.to_string())
}

fn mend(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    let mut in_text = false;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        let no_number = NO_NUMBERS.iter().find(|word| !in_text && rest.starts_with(**word));
        if let Some(word) = no_number {
            mended.push_str("null");
            taken = word.len();
        } else if in_text && first == '\\' {
            taken = mend_escape(rest, &mut mended);
        } else if in_text && first.is_ascii_control() {
            mended.push_str(&format!("\\u{:04x}", u32::from(first)));
        } else {
            in_text ^= first == '"';
            mended.push(first);
        }
        rest = &rest[taken..];
    }
    mended
}

/// Takes the escape that a text goes on with, and says how long it was. A surrogate without its
/// other half becomes a replacement character; a character that needs no escape loses it.
fn mend_escape(rest: &str, mended: &mut String) -> usize {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let taken = match (unit(0), unit(6)) {
        (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
        (Some(0xD800..0xE000), _) => {
            mended.push_str("\\ufffd");
            return 6;
        }
        (Some(_), _) => 6,
        (None, _) => match rest.chars().nth(1) {
            Some(next) if "\"\\/bfnrt".contains(next) => 2,
            next => {
                mended.extend(next);
                return 1 + next.map_or(0, char::len_utf8);
            }
        },
    };
    mended.push_str(&rest[..taken]);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_meant_is_read() {
        for (odd, meant) in [
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (r#"["\ude00\ud83dx\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ufffdx\ufffd\ud83d\ude00"]"#),
            (r#"[NaN,-Infinity,Infinity,"NaN"]"#, r#"[null,null,null,"NaN"]"#),
            ("[\"a\tb\nc\"]", r#"["a\tb\nc"]"#),
            (r#"["it\'s \é","\ud83d"]"#, r#"["it's é","\ufffd"]"#),
            (r#"["\\\ud83d\"\\"]"#, r#"["\\\ufffd\"\\"]"#),
        ] {
            assert_eq!(value(odd), Some(serde_json::from_str(meant).unwrap()), "{odd}");
        }
        for hopeless in ["", "nonsense", "{", "[1", r#"["\u12"#, "\"\\"] {
            assert_eq!(value(hopeless), None, "{hopeless}");
        }
    }

    proptest! {
        #[test]
        fn nothing_changes_what_is_json_already(text in any::<String>(), n in any::<i32>()) {
            let json = serde_json::json!({"a": [text, n, null], "b": {"NaN": true}}).to_string();
            prop_assert_eq!(mend(&json), json);
        }

        #[test]
        fn nothing_makes_it_stumble(text in r#"["\\ud8-f0-9a{}é\t]{0,40}"#) {
            let _ = value(&text);
        }
    }
}
