//! What chat and text completions have in common: the fields that say how an answer is made.

use serde_json::Value;

use super::error::RequestError;
use super::fields::{self, Fields};

/// Stop strings in one request at most.
const STOP_STRINGS_MAX: usize = 16;
/// Biased tokens in one request at most: the bias is applied anew for each token.
const LOGIT_BIAS_MAX: usize = 1024;

/// How an answer is to be made and sent. Absent fields are `None`: the defaults are the server's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The model that the client means. A server with one model answers whatever it says.
    pub model: Option<String>,
    /// The most tokens that the answer may have, at least 1.
    pub max_tokens: Option<u32>,
    /// End-of-generation tokens are banned until the answer has this many tokens.
    pub min_tokens: Option<u32>,
    /// End-of-generation tokens are banned altogether.
    pub ignore_eos: bool,
    /// 0 to 2; 0 is greedy.
    pub temperature: Option<f32>,
    /// 0 to 1.
    pub top_p: Option<f32>,
    /// At least 1; -1 and 0 mean all, and are absent here.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Any 64 bits.
    pub seed: Option<i64>,
    /// -2 to 2.
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    pub frequency_penalty: Option<f32>,
    /// 0.01 to 100; 1 is none.
    pub repetition_penalty: Option<f32>,
    /// Token ids and what is added to their logits, -100 to 100.
    pub logit_bias: Vec<(i32, f32)>,
    /// Texts that end the answer; none is empty.
    pub stop: Vec<String>,
    /// The shape that the answer must have.
    pub response_format: ResponseFormat,
    /// Whether the answer is sent as it is made.
    pub stream: bool,
    /// Where a stream says what it used.
    pub stream_usage: StreamUsage,
    /// Fireworks' field: its names for timings are sent too.
    pub perf_metrics_in_response: bool,
    /// A prefix that is still in the cache may be used, if the server keeps one.
    pub cache_prompt: Option<bool>,
}

/// Where `usage` stands in a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamUsage {
    /// On the finish chunk, as Fireworks does: when nothing was said.
    #[default]
    OnFinish,
    /// In a chunk of its own after it, as OpenAI does: `include_usage: true`.
    OwnChunk,
    /// Nowhere: `include_usage: false`.
    Nowhere,
}

/// The shape that an answer must have.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ResponseFormat {
    /// Any text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits this schema (its text).
    JsonSchema(String),
}

impl Options {
    /// Reads the common fields.
    ///
    /// # Errors
    /// The first field with a wrong type, a number out of range, or a demand that is not supported.
    pub fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let unit = 0.0..=1.0;
        fields.text("user")?;
        refuse_others_than_one(fields, "n")?;
        let stream = fields.flag("stream")?.unwrap_or(false);
        Ok(Self {
            model: fields.text("model")?,
            max_tokens: max_tokens(fields)?,
            min_tokens: fields.integer("min_tokens", 0..=i64::from(u32::MAX))?.map(whole),
            ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
            temperature: fields.number("temperature", 0.0..=2.0)?.map(narrow),
            top_p: fields.number("top_p", unit.clone())?.map(narrow),
            top_k: fields.integer("top_k", -1..=i64::from(i32::MAX))?.filter(|&k| k > 0).map(whole),
            min_p: fields.number("min_p", unit)?.map(narrow),
            seed: fields.integer("seed", i64::MIN..=i64::MAX)?,
            presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.map(narrow),
            frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.map(narrow),
            repetition_penalty: fields.number("repetition_penalty", 0.01..=100.0)?.map(narrow),
            logit_bias: logit_bias(fields)?,
            stop: stop(fields)?,
            response_format: response_format(fields)?,
            stream,
            stream_usage: stream_usage(fields, stream)?,
            perf_metrics_in_response: fields.flag("perf_metrics_in_response")?.unwrap_or(false),
            cache_prompt: fields.flag("cache_prompt")?,
        })
    }
}

/// How many tokens the answer may have, under either of its names; the newer one,
/// `max_completion_tokens`, wins.
///
/// # Errors
/// As [`token_limit`].
fn max_tokens(fields: &mut Fields) -> Result<Option<u32>, RequestError> {
    let older = token_limit(fields, "max_tokens")?;
    Ok(token_limit(fields, "max_completion_tokens")?.or(older))
}

/// Reads a limit of tokens: at least 1; what no context could hold means "as many as fit".
///
/// # Errors
/// When it is no whole number, or below 1.
fn token_limit(fields: &mut Fields, key: &str) -> Result<Option<u32>, RequestError> {
    let limit = fields.integer(key, 1..=i64::MAX)?;
    Ok(limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)))
}

/// Refuses a count (`n`, `best_of`) other than 1: there is one slot, and one answer.
///
/// # Errors
/// When it is anything else.
pub fn refuse_others_than_one(fields: &mut Fields, key: &str) -> Result<(), RequestError> {
    match fields.integer(key, i64::MIN..=i64::MAX)? {
        None | Some(1) => Ok(()),
        Some(other) => Err(RequestError::field(
            fields.path_of(key),
            format!("Invalid value for '{key}': only 1 is supported, but got {other}."),
        )
        .with_code("unsupported_value")),
    }
}

fn stream_usage(fields: &mut Fields, stream: bool) -> Result<StreamUsage, RequestError> {
    let Some(mut options) = fields.object("stream_options")? else {
        return Ok(StreamUsage::OnFinish);
    };
    let include = options.flag("include_usage")?;
    if !stream {
        return Err(RequestError::field(
            "stream_options",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    Ok(match include {
        None => StreamUsage::OnFinish,
        Some(true) => StreamUsage::OwnChunk,
        Some(false) => StreamUsage::Nowhere,
    })
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, RequestError> {
    let stops = match fields.value("stop") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(one @ Value::String(_)) => vec![one],
        Some(other) => return Err(fields::wrong_type("stop", "a string or an array", &other)),
    };
    if stops.len() > STOP_STRINGS_MAX {
        return Err(RequestError::field(
            "stop",
            format!(
                "Invalid value for 'stop': at most {STOP_STRINGS_MAX} strings, but got {}.",
                stops.len()
            ),
        ));
    }
    let read = |(index, value): (usize, Value)| {
        let path = format!("stop[{index}]");
        let stop = fields::text(value, &path)?;
        if stop.is_empty() {
            return Err(RequestError::field(
                &path,
                format!("Invalid value for '{path}': a stop string must not be empty."),
            ));
        }
        Ok(stop)
    };
    stops.into_iter().enumerate().map(read).collect()
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(i32, f32)>, RequestError> {
    let Some(biases) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    let read = |(key, value): (String, Value)| {
        let path = format!("logit_bias.{key}");
        let token = key.parse::<i32>().ok().filter(|&token| token >= 0).ok_or_else(|| {
            RequestError::field(
                &path,
                format!("Invalid key in 'logit_bias': '{key}' is not a token id."),
            )
        })?;
        Ok((token, narrow(fields::number(&value, &path, &(-100.0..=100.0))?)))
    };
    let biases = biases.into_entries().map(read).collect::<Result<Vec<_>, _>>()?;
    if biases.len() > LOGIT_BIAS_MAX {
        return Err(RequestError::field(
            "logit_bias",
            format!(
                "Invalid value for 'logit_bias': at most {LOGIT_BIAS_MAX} tokens, but got {}.",
                biases.len()
            ),
        ));
    }
    Ok(biases)
}

fn response_format(fields: &mut Fields) -> Result<ResponseFormat, RequestError> {
    let Some(mut format) = fields.object("response_format")? else {
        return Ok(ResponseFormat::Text);
    };
    let kind = format.text("type")?.ok_or_else(|| format.missing("type"))?;
    match kind.as_str() {
        "text" => Ok(ResponseFormat::Text),
        "json_object" => Ok(ResponseFormat::JsonObject),
        "json_schema" => {
            let mut named =
                format.object("json_schema")?.ok_or_else(|| format.missing("json_schema"))?;
            named.text("name")?;
            named.flag("strict")?;
            let schema = named.value("schema").ok_or_else(|| named.missing("schema"))?;
            match schema {
                Value::Object(_) => {
                    refuse_control_characters(&schema)?;
                    Ok(ResponseFormat::JsonSchema(schema.to_string()))
                }
                other => Err(fields::wrong_type(&named.path_of("schema"), "an object", &other)),
            }
        }
        other => Err(RequestError::field(
            "response_format.type",
            format!(
                "Invalid value for 'response_format.type': expected 'text', 'json_object' or \
                 'json_schema', but got '{other}'."
            ),
        )
        .with_code("invalid_value")),
    }
}

/// Refuses patterns that ask for a control character: JSON texts hold none.
fn refuse_control_characters(schema: &Value) -> Result<(), RequestError> {
    /// What stands under these is no schema.
    const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
    match schema {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| match value {
            Value::String(pattern) if key == "pattern" && pattern.contains(char::is_control) => {
                Err(RequestError::field(
                    "response_format",
                    "Invalid schema for 'response_format': a pattern has a control character.",
                ))
            }
            _ if DATA.contains(&key.as_str()) => Ok(()),
            other => refuse_control_characters(other),
        }),
        Value::Array(items) => items.iter().try_for_each(refuse_control_characters),
        _ => Ok(()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the sampler works in f32")]
fn narrow(number: f64) -> f32 {
    number as f32
}

fn whole(number: i64) -> u32 {
    u32::try_from(number).expect("the field's range lies within u32")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Options, RequestError> {
        Options::read(&mut Fields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn what_is_absent_or_null_has_no_value() {
        let all_null = r#"{"temperature": null, "stop": null, "seed": null, "n": null,
            "logit_bias": null, "response_format": null, "stream_options": null, "user": null}"#;
        assert_eq!(read(all_null), Ok(Options::default()));
    }

    #[test]
    fn where_the_usage_goes() {
        let place = |options: &str| {
            read(&format!(r#"{{"stream": true, "stream_options": {options}}}"#))
                .unwrap()
                .stream_usage
        };
        assert_eq!(place(r#"{"include_usage": true}"#), StreamUsage::OwnChunk);
        assert_eq!(place(r#"{"include_usage": false}"#), StreamUsage::Nowhere);
        assert_eq!(place("{}"), StreamUsage::OnFinish);
        assert_eq!(place("null"), StreamUsage::OnFinish);
        assert!(read(r#"{"stream_options": {"include_usage": true}}"#).is_err());
    }

    #[test]
    fn stop_is_a_string_or_up_to_sixteen() {
        assert_eq!(read(r#"{"stop": "a"}"#).unwrap().stop, ["a"]);
        assert_eq!(read(r#"{"stop": ["a", "b"]}"#).unwrap().stop, ["a", "b"]);
        assert_eq!(read(r#"{"stop": []}"#).unwrap().stop, Vec::<String>::new());
        let seventeen = format!(r#"{{"stop": {:?}}}"#, vec!["x"; 17]);
        for body in [r#"{"stop": ""}"#, r#"{"stop": ["a", null]}"#, r#"{"stop": 1}"#, &seventeen] {
            assert_eq!(&read(body).unwrap_err().param.unwrap()[..4], "stop", "{body}");
        }
    }

    #[test]
    fn all_of_top_k_is_none() {
        assert_eq!(read(r#"{"top_k": -1}"#).unwrap().top_k, None);
        assert_eq!(read(r#"{"top_k": 0}"#).unwrap().top_k, None);
        assert_eq!(read(r#"{"top_k": 40}"#).unwrap().top_k, Some(40));
        assert!(read(r#"{"top_k": -2}"#).is_err());
    }

    #[test]
    fn no_pattern_asks_for_a_control_character() {
        let read_schema = |schema: &str| {
            read(&format!(
                r#"{{"response_format": {{"type": "json_schema", "json_schema":
                {{"name": "x", "schema": {schema}}}}}}}"#
            ))
        };
        for schema in [
            r#"{"type": "string", "pattern": "foo\nbar"}"#,
            r#"{"properties": {"a": {"anyOf": [{"pattern": "^\u001b$"}]}}}"#,
        ] {
            assert!(read_schema(schema).is_err(), "{schema}");
        }
        for schema in [
            r#"{"type": "string", "pattern": "^foo\\nbar$"}"#,
            r#"{"properties": {"pattern": {"const": {"pattern": "a\nb"}}}}"#,
        ] {
            assert!(read_schema(schema).is_ok(), "{schema}");
        }
    }

    #[test]
    fn the_newer_limit_wins() {
        assert_eq!(read(r#"{"max_completion_tokens": 7}"#).unwrap().max_tokens, Some(7));
        let both = r#"{"max_tokens": 5, "max_completion_tokens": 7}"#;
        assert_eq!(read(both).unwrap().max_tokens, Some(7));
    }

    #[test]
    fn limits_beyond_any_context_mean_as_many_as_fit() {
        let limit =
            |body: &str| token_limit(&mut Fields::parse(body.as_bytes()).unwrap(), "max_tokens");
        assert_eq!(limit(r#"{"max_tokens": 9000000000}"#), Ok(Some(u32::MAX)));
        assert_eq!(limit(r#"{"max_tokens": 1}"#), Ok(Some(1)));
        assert!(limit(r#"{"max_tokens": 0}"#).is_err());
        assert!(limit(r#"{"max_tokens": -1}"#).is_err());
        assert!(limit(r#"{"max_tokens": 1.5}"#).is_err());
    }
}
