//! From the fields of a request to what the inference thread works with.

use crate::api::options::{Options, ResponseFormat};
use crate::serve::inference::{
    GenerationParams, Grammar, Logprobs, Penalties, Sampling, Tokenizer,
};

use super::refusal::Refusal;
use super::schema;

/// How an answer is to be made.
///
/// `max_tokens_default` is the endpoint's; `top_logprobs` is `None` where no log probabilities were
/// asked for.
///
/// # Errors
/// 400 for a token that the vocabulary lacks, or a schema that no grammar can be made of.
pub fn generation_params(
    options: Options,
    top_logprobs: Option<u32>,
    max_tokens_default: u32,
    tokenizer: &dyn Tokenizer,
) -> Result<GenerationParams, Refusal> {
    let n_vocab = tokenizer.info().n_vocab;
    let unknown = |&&(id, _): &&(i32, f32)| u32::try_from(id).map_or(true, |id| id >= n_vocab);
    if let Some((id, _)) = options.logit_bias.iter().find(unknown) {
        let message = format!(
            "Invalid key in 'logit_bias': token id {id} is out of range: the vocabulary has \
             {n_vocab} tokens."
        );
        return Err(Refusal::bad_request(message).param("logit_bias"));
    }
    let grammar = grammar(&options.response_format, tokenizer)?;
    let defaults = Sampling::default();
    Ok(GenerationParams {
        max_tokens: options.max_tokens.unwrap_or(max_tokens_default),
        min_tokens: options.min_tokens.unwrap_or(0),
        ignore_eos: options.ignore_eos,
        sampling: Sampling {
            temperature: options.temperature.unwrap_or(defaults.temperature),
            // 0 is allowed by OpenAI and means the likeliest token alone.
            top_p: options.top_p.unwrap_or(defaults.top_p).max(f32::MIN_POSITIVE),
            top_k: options.top_k,
            min_p: options.min_p.unwrap_or(defaults.min_p),
            seed: options.seed.map(i64::cast_unsigned),
        },
        penalties: Penalties {
            presence: options.presence_penalty.unwrap_or(0.0),
            frequency: options.frequency_penalty.unwrap_or(0.0),
            repetition: options.repetition_penalty.unwrap_or(1.0),
        },
        logit_bias: options.logit_bias,
        stop: options.stop,
        logprobs: top_logprobs.map(|top| Logprobs { top }),
        grammar,
        cache_prompt: options.cache_prompt.unwrap_or(true),
    })
}

fn grammar(format: &ResponseFormat, tokenizer: &dyn Tokenizer) -> Result<Option<Grammar>, Refusal> {
    let refusal = |error: &dyn std::error::Error| {
        let message = format!("Invalid schema for 'response_format': {error}.");
        Refusal::bad_request(message).param("response_format")
    };
    let schema = match format {
        ResponseFormat::Text => return Ok(None),
        ResponseFormat::JsonObject => r#"{"type": "object"}"#,
        ResponseFormat::JsonSchema(schema) => {
            let value = serde_json::from_str(schema).map_err(|error| refusal(&error))?;
            schema::check(&value).map_err(|trouble| refusal(&trouble))?;
            schema
        }
    };
    tokenizer.grammar(schema).map(Some).map_err(|error| refusal(&error))
}
