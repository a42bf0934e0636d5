//! Nulls of a level's `hardware` or of a `host`, and whether each has a reason.

use serde_json::Value;

/// The paths of all nulls in `hardware` (or `host`) for which `reasons` has no entry of their own.
///
/// `gpu_reason` is a reason itself: null where there is nothing to explain.
pub fn without_reason(hardware: &Value) -> Vec<String> {
    let mut nulls = Vec::new();
    walk("", hardware, &mut nulls);
    nulls.retain(|path| path != "gpu_reason" && !hardware["reasons"][path].is_string());
    nulls
}

fn walk(path: &str, value: &Value, nulls: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Null => nulls.push(path.to_owned()),
        Value::Object(map) => map.iter().for_each(|(key, value)| walk(&below(key), value, nulls)),
        Value::Array(list) => {
            let places = list.iter().enumerate();
            places.for_each(|(place, value)| walk(&below(&place.to_string()), value, nulls));
        }
        _ => {}
    }
}
