//! `[sweep]`: lists that multiply a config out.
//!
//! `workload.max_tokens = [64, 256]` replaces that key; `engine.args.--ubatch = [256, 512]` sets the
//! value of a flag among the engine's arguments. Each combination is a target of its own, named
//! after what differs.

use toml::{Table, Value};

use super::located::{ConfigError, Source};

/// Most combinations of one file: each is at least a server's start.
const COMBINATIONS_MAX: usize = 1_000;

/// One swept key and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Where it stands: `["engine", "args", "--ubatch"]`.
    pub keys: Vec<String>,
    /// What it takes on.
    pub values: Vec<Value>,
}

/// One value of each axis.
pub type Point<'a> = Vec<(&'a Axis, &'a Value)>;

/// The axes that stand in a file's `[sweep]`, in file order.
///
/// # Errors
/// If something in it is no list, or an empty one.
pub fn axes(source: &Source, sweep: &Table) -> Result<Vec<Axis>, ConfigError> {
    fn collect(
        source: &Source,
        table: &Table,
        keys: &mut Vec<String>,
        found: &mut Vec<Axis>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            keys.push(key.clone());
            match value {
                Value::Table(inner) => collect(source, inner, keys, found)?,
                Value::Array(values) if !values.is_empty() => {
                    found.push(Axis { keys: keys.clone(), values: values.clone() });
                }
                _ => {
                    let text = format!("sweep.{} is no list of values", keys.join("."));
                    return Err(at(source, keys, text));
                }
            }
            keys.pop();
        }
        Ok(())
    }
    let mut found = Vec::new();
    collect(source, sweep, &mut Vec::new(), &mut found)?;
    let combinations = found.iter().map(|axis| axis.values.len()).product::<usize>();
    if combinations > COMBINATIONS_MAX {
        let text = format!("sweep has {combinations} combinations, over {COMBINATIONS_MAX}");
        return Err(source.error_at(&["sweep"], text));
    }
    Ok(found)
}

/// An error at a swept key.
pub fn at(source: &Source, keys: &[String], text: String) -> ConfigError {
    let place: Vec<&str> =
        std::iter::once("sweep").chain(keys.iter().map(String::as_str)).collect();
    source.error_at(&place, text)
}

/// Every combination; the last axis varies fastest. One empty point if there are no axes.
pub fn points(axes: &[Axis]) -> Vec<Point<'_>> {
    axes.iter().fold(vec![Point::new()], |points, axis| {
        let mut longer = Vec::with_capacity(points.len() * axis.values.len());
        for point in points {
            for value in &axis.values {
                longer.push(point.iter().copied().chain([(axis, value)]).collect());
            }
        }
        longer
    })
}

/// Puts a point's values into a config.
///
/// # Errors
/// In words, if the config has no such place.
pub fn apply(config: &mut Table, point: &Point<'_>) -> Result<(), String> {
    for (axis, value) in point {
        let keys: Vec<&str> = axis.keys.iter().map(String::as_str).collect();
        match keys.as_slice() {
            ["engine", "args", flag] => set_flag(config, flag, value)?,
            [inner @ .., last] => {
                let mut table = &mut *config;
                for key in inner {
                    let entry = table
                        .entry((*key).to_owned())
                        .or_insert_with(|| Value::Table(Table::new()));
                    table = entry.as_table_mut().ok_or_else(|| format!("{key} is no table"))?;
                }
                table.insert((*last).to_owned(), (*value).clone());
            }
            [] => {}
        }
    }
    Ok(())
}

/// Sets a flag among the engine's arguments: replaces the value that follows it, or adds both.
fn set_flag(config: &mut Table, flag: &str, value: &Value) -> Result<(), String> {
    let engine = config.get_mut("engine").and_then(Value::as_table_mut);
    let engine = engine.ok_or("sweep.engine needs an [engine]")?;
    let args = engine.entry("args".to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    let args = args.as_array_mut().ok_or("engine.args is no list")?;
    let text = Value::String(plain(value));
    match args.iter().position(|arg| arg.as_str() == Some(flag)) {
        Some(at) if at + 1 < args.len() => args[at + 1] = text,
        Some(_) => args.push(text),
        None => args.extend([Value::String(flag.to_owned()), text]),
    }
    Ok(())
}

/// What a point adds to the target's name: ` ubatch=256`.
pub fn suffix(point: &Point<'_>) -> String {
    let part = |(axis, value): &(&Axis, &Value)| {
        let key = axis.keys.last().map_or("", |key| key.trim_start_matches('-'));
        format!(" {key}={}", plain(value))
    };
    point.iter().map(part).collect()
}

/// A value as a command line would hold it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    fn source(text: &str) -> Source {
        Source::new("c.toml".into(), text.to_owned())
    }

    #[test]
    fn axes_multiply_out_and_name_what_differs() {
        let sweep = table("engine.args.--ubatch = [256, 512]\nworkload.max_tokens = [8, 16]");
        let axes = axes(&source(""), &sweep).unwrap();
        let points = points(&axes);
        let names: Vec<String> = points.iter().map(suffix).collect();
        assert_eq!(
            names,
            [
                " ubatch=256 max_tokens=8",
                " ubatch=256 max_tokens=16",
                " ubatch=512 max_tokens=8",
                " ubatch=512 max_tokens=16",
            ]
        );
        let mut config = table("[engine]\nargs = [\"--ubatch\", \"64\", \"-v\"]");
        apply(&mut config, &points[3]).unwrap();
        assert_eq!(
            config,
            table("[engine]\nargs = [\"--ubatch\", \"512\", \"-v\"]\n[workload]\nmax_tokens = 16")
        );
    }

    #[test]
    fn no_sweep_is_one_point() {
        assert_eq!(points(&[]), vec![Point::new()]);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        let text = "[sweep]\nworkload.max_tokens = 8\n";
        let source = source(text);
        let sweep = table(text)["sweep"].as_table().unwrap().clone();
        assert_eq!(axes(&source, &sweep).unwrap_err().line, Some(2));
    }
}
