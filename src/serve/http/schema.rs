//! Whether llama.cpp can make a grammar of a JSON Schema, and soon.
//!
//! Its converter descends by recursion and remembers little of where it has been: it follows what
//! an `allOf` refers to anew each time, round and round where that leads back; it repeats a schema
//! for each of its types; and for the optional properties of an object it takes their number to the
//! third power. So the same way is gone here first, with a count of the steps.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Optional properties of one object: llama.cpp takes a fifteenth of a second for this many, and
/// little more than one for as many such objects as fit into the largest schema.
const OPTIONAL_MAX: usize = 200;
/// Names of properties and texts of references: their letters become brackets within brackets, and
/// each rule is named after all properties that lead to it.
const NAME_BYTES_MAX: usize = 256;
/// Schemas on the way from one that is named to the innermost one in it.
const DEPTH_MAX: usize = 64;
/// Schemas, each counted as often as it is come to.
const STEPS_MAX: usize = 5000;

/// Why llama.cpp is not to see a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// A `$ref`.
    #[error("the schema refers to what it does not have")]
    LeadsNowhere,
    /// By itself, or round a circle of references.
    #[error("the schema leads deeper than {DEPTH_MAX} levels, or back to itself")]
    TooDeep,
    /// Once references are followed.
    #[error("the schema comes to more than {STEPS_MAX} schemas")]
    TooManySteps,
    /// Of one object.
    #[error("an object in the schema has more than {OPTIONAL_MAX} optional properties")]
    TooManyOptional,
    /// Of a property or a reference.
    #[error("a name in the schema has more than {NAME_BYTES_MAX} bytes")]
    LongName,
}

/// Goes the converter's way. What it refuses itself is let pass.
///
/// # Errors
/// The first trouble.
pub(super) fn check(root: &Value) -> Result<(), Trouble> {
    let mut walk = Walk { root, known: HashSet::new(), ahead: vec![root], steps: 0 };
    while let Some(schema) = walk.ahead.pop() {
        walk.schema(schema, 0)?;
    }
    Ok(())
}

struct Walk<'a> {
    root: &'a Value,
    /// References that are followed once only.
    known: HashSet<&'a str>,
    /// What they lead to.
    ahead: Vec<&'a Value>,
    steps: usize,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<(), Trouble> {
        self.step(depth)?;
        let Value::Object(schema) = schema else { return Ok(()) };
        if let Some((name, target)) = self.target(schema)? {
            if self.known.insert(name) {
                self.ahead.push(target);
            }
            return self.beginning(target, depth + 1);
        }
        if let Some(choice) = choice(schema) {
            return self.each(choice, depth);
        }
        match schema.get("type") {
            Some(Value::Array(types)) => types.iter().try_for_each(|kind| {
                self.step(depth)?;
                self.typed(schema, kind.as_str(), depth)
            }),
            kind => self.typed(schema, kind.and_then(Value::as_str), depth),
        }
    }

    /// A schema of one type, or of one that its keywords tell.
    fn typed(
        &mut self,
        schema: &'a Map<String, Value>,
        kind: Option<&str>,
        depth: usize,
    ) -> Result<(), Trouble> {
        if schema.contains_key("const") || schema.contains_key("enum") {
            return Ok(());
        }
        let additional = schema.get("additionalProperties").filter(|more| **more != true);
        let has_properties = schema.contains_key("properties") || additional.is_some();
        match (kind, schema.get("allOf")) {
            (None | Some("object"), _) if has_properties => self.object(schema, depth),
            (None | Some("object" | "string"), Some(parts)) => self.all_of(parts, depth),
            (None | Some("array"), _) => match schema.get("items").or(schema.get("prefixItems")) {
                Some(Value::Array(items)) => self.each(items, depth),
                Some(items) => self.schema(items, depth + 1),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<(), Trouble> {
        let additional = schema.get("additionalProperties").filter(|more| **more != false);
        let mut n_optional = usize::from(additional.is_some());
        let required: HashSet<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => HashSet::new(),
        };
        for (name, _) in properties(schema) {
            n_optional += usize::from(!required.contains(name.as_str()));
        }
        few_optional(n_optional)?;
        self.properties(schema, depth)?;
        additional.map_or(Ok(()), |schema| self.schema(schema, depth + 1))
    }

    /// The properties of all parts are one object's, and those of a part with a choice optional.
    fn all_of(&mut self, parts: &'a Value, depth: usize) -> Result<(), Trouble> {
        let mut n_optional = 0;
        for part in parts.as_array().into_iter().flatten() {
            self.step(depth + 1)?;
            let alternatives = part.as_object().and_then(choice);
            for alternative in alternatives.unwrap_or(std::slice::from_ref(part)) {
                let (mut target, mut at) = (alternative, depth + 1);
                while let Value::Object(schema) = target
                    && let Some((_, next)) = self.target(schema)?
                {
                    at += 1;
                    self.step(at)?;
                    target = next;
                }
                if alternatives.is_some() {
                    n_optional += target.as_object().map_or(0, |part| properties(part).count());
                    few_optional(n_optional)?;
                }
                self.schema(target, at)?;
            }
        }
        Ok(())
    }

    fn properties(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Result<(), Trouble> {
        properties(schema).try_for_each(|(name, property)| {
            short(name)?;
            self.schema(property, depth + 1)
        })
    }

    /// What a schema's text may begin with: the compiler looks for left recursion there, anew from
    /// each place that refers to it.
    fn beginning(&mut self, schema: &'a Value, depth: usize) -> Result<(), Trouble> {
        self.step(depth)?;
        let Value::Object(schema) = schema else { return Ok(()) };
        match (self.target(schema)?, choice(schema)) {
            (Some((_, target)), _) => self.beginning(target, depth + 1),
            (None, Some(choice)) => {
                choice.iter().try_for_each(|schema| self.beginning(schema, depth + 1))
            }
            (None, None) => Ok(()),
        }
    }

    fn each(&mut self, schemas: &'a [Value], depth: usize) -> Result<(), Trouble> {
        schemas.iter().try_for_each(|schema| self.schema(schema, depth + 1))
    }

    fn step(&mut self, depth: usize) -> Result<(), Trouble> {
        self.steps += 1;
        match () {
            () if depth > DEPTH_MAX => Err(Trouble::TooDeep),
            () if self.steps > STEPS_MAX => Err(Trouble::TooManySteps),
            () => Ok(()),
        }
    }

    /// A reference and what it leads to.
    fn target(
        &self,
        schema: &'a Map<String, Value>,
    ) -> Result<Option<(&'a str, &'a Value)>, Trouble> {
        let Some(Value::String(name)) = schema.get("$ref") else { return Ok(None) };
        short(name)?;
        let keys = name.strip_prefix("#/").ok_or(Trouble::LeadsNowhere)?.split('/');
        let within = |value: &'a Value, key: &str| match value {
            Value::Object(object) => object.get(key),
            Value::Array(array) => array.get(key.parse::<usize>().ok()?),
            _ => None,
        };
        let mut target = self.root;
        for key in keys {
            target = within(target, key).ok_or(Trouble::LeadsNowhere)?;
        }
        Ok(Some((name, target)))
    }
}

fn choice(schema: &Map<String, Value>) -> Option<&[Value]> {
    schema.get("oneOf").or(schema.get("anyOf"))?.as_array().map(Vec::as_slice)
}

fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn few_optional(n: usize) -> Result<(), Trouble> {
    if n > OPTIONAL_MAX { Err(Trouble::TooManyOptional) } else { Ok(()) }
}

fn short(name: &str) -> Result<(), Trouble> {
    if name.len() > NAME_BYTES_MAX { Err(Trouble::LongName) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_way_that_leads_back_to_itself_is_found() {
        let a = |a: Value| json!({ "allOf": [{ "$ref": "#/d/a" }], "d": { "a": a } });
        for schema in [
            a(json!({ "$ref": "#/d/a" })),
            json!({ "$ref": "#/d/a", "d": { "a": { "$ref": "#/d/b" }, "b": { "$ref": "#/d/a" } } }),
            a(json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/d/a" }] })),
            a(json!({ "properties": { "next": { "allOf": [{ "$ref": "#/d/a" }] } } })),
        ] {
            assert_eq!(check(&schema), Err(Trouble::TooDeep), "{schema}");
        }
        let tree = json!({ "$ref": "#/d/tree", "d": { "tree": { "properties": {
            "left": { "$ref": "#/d/tree" }, "right": { "anyOf": [{ "$ref": "#/d/tree" }, {}] } } } } });
        assert_eq!(check(&tree), Ok(()));
        let missing = json!({ "items": { "$ref": "#/d/b" }, "d": {} });
        assert_eq!(check(&missing), Err(Trouble::LeadsNowhere));
    }

    #[test]
    fn what_doubles_at_each_level_is_found_and_what_is_named_twice_is_not() {
        let twice = |definition: fn(Value) -> Value| {
            let all = (0..15).map(|n| {
                (format!("d{n}"), definition(json!({ "$ref": format!("#/d/d{}", n + 1) })))
            });
            let mut all: Map<String, Value> = all.collect();
            all.insert("d15".to_owned(), json!({}));
            json!({ "$ref": "#/d/d0", "d": all })
        };
        let choice = twice(|next| json!({ "anyOf": [next, next] }));
        assert_eq!(check(&choice), Err(Trouble::TooManySteps));
        let parts = twice(|next| json!({ "properties": { "x": { "allOf": [next, next] } } }));
        assert_eq!(check(&parts), Err(Trouble::TooManySteps));
        let twice_named = twice(|next| json!({ "properties": { "x": next, "y": next } }));
        assert_eq!(check(&twice_named), Ok(()));
        let types = (0..20).fold(
            json!({}),
            |inner, _| json!({ "type": ["object", "object"], "properties": { "a": inner } }),
        );
        assert_eq!(check(&types), Err(Trouble::TooManySteps));
    }

    #[test]
    fn optional_properties_are_counted_over_all_that_make_one_object() {
        let object = |n: usize| -> Value {
            let named = |n: usize| (format!("p{n}"), json!({}));
            json!({ "properties": (0..n).map(named).collect::<Map<_, _>>() })
        };
        assert_eq!(check(&object(OPTIONAL_MAX)), Ok(()));
        assert_eq!(check(&object(OPTIONAL_MAX + 1)), Err(Trouble::TooManyOptional));
        let mut required = object(OPTIONAL_MAX + 1);
        required["required"] = json!(["p7"]);
        assert_eq!(check(&required), Ok(()));
        required["additionalProperties"] = json!({});
        assert_eq!(check(&required), Err(Trouble::TooManyOptional));
        let d = json!({ "a": object(150), "b": object(150) });
        let both = json!([{ "$ref": "#/d/a" }, { "$ref": "#/d/b" }]);
        assert_eq!(
            check(
                &json!({ "allOf": [{ "properties": {} }, { "anyOf": [{ "$ref": "#/d/a" }] }], "d": d })
            ),
            Ok(())
        );
        assert_eq!(
            check(&json!({ "allOf": [{ "anyOf": both }], "d": d })),
            Err(Trouble::TooManyOptional)
        );
    }

    #[test]
    fn long_names_are_found() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(check(&json!({ "properties": { &long: {} } })), Err(Trouble::LongName));
        let named = json!({ "$ref": format!("#/{long}"), &long: {} });
        assert_eq!(check(&named), Err(Trouble::LongName));
    }
}
