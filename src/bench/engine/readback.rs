//! What a server says of itself: which model it serves, which settings it applied.

use std::collections::BTreeMap;

use serde_json::Value;

/// The value at a dotted path (`data.0.id`); numbers index lists.
pub fn dig<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(json, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

/// What was read back, and what of it is not as asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// By the path that was read.
    pub applied: BTreeMap<String, Value>,
    /// Each difference, in words.
    pub differing: Vec<String>,
}

/// Compares what a server says with what its command asked for.
///
/// `equals` maps a path in the answer to a flag; a flag that was not given is not compared.
pub fn compare(
    answer: &Value,
    equals: &BTreeMap<String, String>,
    asked: impl Fn(&str) -> Option<String>,
) -> Settings {
    let mut settings = Settings::default();
    for (path, flag) in equals {
        let applied = dig(answer, path);
        if let Some(applied) = applied {
            settings.applied.insert(path.clone(), applied.clone());
        }
        let Some(asked) = asked(flag) else { continue };
        match applied {
            Some(applied) if is_same(applied, &asked) => {}
            Some(applied) => settings
                .differing
                .push(format!("{flag} {asked} was asked for, {path} is {applied}")),
            None => settings
                .differing
                .push(format!("{flag} {asked} was asked for, and it does not tell {path}")),
        }
    }
    settings
}

fn is_same(applied: &Value, asked: &str) -> bool {
    match applied {
        Value::String(text) => text == asked,
        Value::Number(number) => asked.parse::<f64>().ok() == number.as_f64(),
        Value::Bool(applied) => asked.parse() == Ok(*applied),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_reach_into_lists_and_tables() {
        let json = serde_json::json!({"data": [{"id": "m"}]});
        assert_eq!(dig(&json, "data.0.id"), Some(&Value::from("m")));
        assert_eq!(dig(&json, "data.1.id"), None);
        assert_eq!(dig(&json, "data.x"), None);
    }

    #[test]
    fn only_what_was_asked_for_is_compared() {
        let answer = serde_json::json!({"n_ctx": 4096, "slots": 2, "flash": true});
        let equals: BTreeMap<String, String> =
            [("n_ctx", "-c"), ("slots", "-np"), ("flash", "-fa"), ("gone", "-g"), ("x", "-x")]
                .map(|(path, flag)| (path.to_owned(), flag.to_owned()))
                .into();
        let asked = |flag: &str| match flag {
            "-c" => Some("4096".to_owned()),
            "-np" => Some("16".to_owned()),
            "-g" => Some("1".to_owned()),
            _ => None,
        };
        let settings = compare(&answer, &equals, asked);
        assert_eq!(
            settings.differing,
            ["-g 1 was asked for, and it does not tell gone", "-np 16 was asked for, slots is 2",]
        );
        assert_eq!(settings.applied.len(), 3);
    }
}
