//! The JSON Schema of a results file, and the reference of its keys, both from the types.

use serde_json::{Map, Value};

use super::record::{METRICS, ResultsFile};

/// The schema of what this version writes: a key that is always written is required, though it may
/// be null.
pub fn results_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<ResultsFile>().into()
}

/// Each key with its type and meaning, as Markdown: one table a type, the file itself first.
pub fn key_reference() -> String {
    let schema = results_schema();
    let mut text = table("The file", &schema);
    let types = schema["$defs"].as_object().into_iter().flatten();
    for (name, definition) in types {
        text.push('\n');
        text.push_str(&if definition["properties"].is_object() {
            table(&format!("`{name}`"), definition)
        } else {
            values(name, definition)
        });
    }
    text
}

fn table(title: &str, definition: &Value) -> String {
    let mut text = format!("### {title}\n\n{}\n\n", sentence(definition));
    text.push_str("| key | type | meaning |\n|---|---|---|\n");
    let none = Map::new();
    let properties = definition["properties"].as_object().unwrap_or(&none);
    for (key, property) in properties.iter().filter(|(key, _)| !is_metric_key(key)) {
        text.push_str(&format!("| `{key}` | {} | {} |\n", type_name(property), sentence(property)));
    }
    text
}

/// An enumeration: its values instead of keys.
fn values(name: &str, definition: &Value) -> String {
    let mut text = format!("### `{name}`\n\n{}\n\n", sentence(definition));
    for value in definition["oneOf"].as_array().into_iter().flatten() {
        let shown = value["const"].as_str().unwrap_or_default();
        text.push_str(&format!("- `{shown}`: {}\n", sentence(value)));
    }
    text
}

/// Whether a key of `Summary` is one of the metrics' many: a sentence describes them all.
fn is_metric_key(key: &str) -> bool {
    METRICS.iter().any(|metric| {
        let statistic = key.strip_prefix(metric).and_then(|rest| rest.strip_prefix('_'));
        statistic.is_some_and(|name| {
            let name = name.strip_suffix("_ci").unwrap_or(name);
            ["p50", "p90", "p95", "p99", "mean", "min", "max", "n", "n_eff"].contains(&name)
        })
    })
}

/// The description, on one line, fit for a table's cell.
fn sentence(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    // Links of rustdoc mean nothing here.
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace(['[', ']'], "")
        .replace('|', "\\|")
}

fn type_name(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or(target);
        return format!("[`{name}`](#{})", name.to_lowercase());
    }
    if let Some(options) = schema["anyOf"].as_array() {
        return options.iter().map(type_name).collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "anything".to_owned(),
    };
    let shown = names.iter().map(|name| match *name {
        "array" => format!("array of {}", type_name(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_name(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    });
    shown.collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_type_and_a_meaning() {
        let text = key_reference();
        let bare: Vec<&str> = text.lines().filter(|line| line.ends_with("|  |")).collect();
        assert!(bare.is_empty(), "{}", bare.join("\n"));
        for expected in ["| `ttft` | number or null |", "[`Meta`](#meta)", "- `invalid`: "] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert!(!text.contains("ttft_p50_ci"), "the metrics are described once");
    }
}
