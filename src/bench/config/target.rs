//! `[target]`, `[engine]` and the tables of facts: what a row is about, and how it is reached.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TimeSpan;
use super::values::{BaseUrl, Name, NonNegative, Positive};

/// What a row of the scoreboard is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The scoreboard's target column.
    pub name: Name,
    /// What is new about this row.
    pub change: String,
    /// Of the weights; "undisclosed" is a value.
    pub precision: Name,
    /// Where the API answers, up to and with `/v1`; `{port}` is a free one, for a server that the
    /// harness starts.
    pub base_url: BaseUrl,
    /// The model id to ask for.
    pub model: Name,
    /// What the weights are ("Llama 3.1 8B Instruct"): groups scoreboard tables. Default: `model`.
    #[serde(default)]
    pub base_model: Option<Name>,
    /// Other model ids that may answer.
    #[serde(default)]
    pub accept_models: Vec<String>,
    /// The NAME of the environment variable that holds the API key; empty: no key.
    #[serde(default)]
    pub key_env: String,
    /// Further headers: name of the header → NAME of the variable that holds its value.
    #[serde(default)]
    pub headers_env: BTreeMap<String, String>,
    /// Which API.
    #[serde(default)]
    pub endpoint: EndpointKind,
    /// What tokens cost there.
    #[serde(default)]
    pub price: Option<Price>,
    /// Keys of the request's body to leave out.
    #[serde(default)]
    pub omit_body: Vec<String>,
    /// What the API calls `max_tokens`.
    #[serde(default = "max_tokens_field")]
    pub max_tokens_field: Name,
    /// The model's own `tokenizer.json`, for checks of token counts.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// A file of PEM certificates to trust beside the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// The default of [`Target::max_tokens_field`].
pub fn max_tokens_field() -> Name {
    "max_tokens".parse().expect("a name")
}

impl Target {
    /// What the weights are.
    pub fn base_model(&self) -> &Name {
        self.base_model.as_ref().unwrap_or(&self.model)
    }

    /// Whether an answer of the model that calls itself `id` is one of this target's.
    pub fn accepts(&self, id: &str) -> bool {
        id == self.model.as_str() || self.accept_models.iter().any(|accepted| accepted == id)
    }

    /// The name of the variable that holds the API key, if one is needed.
    pub fn key_env(&self) -> Option<&str> {
        (!self.key_env.is_empty()).then_some(self.key_env.as_str())
    }
}

/// Which of the two OpenAI APIs is measured.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// `/chat/completions`.
    #[default]
    Chat,
    /// `/completions`.
    Completions,
}

/// USD per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens.
    pub input_per_mtok: NonNegative,
    /// Prompt tokens from the provider's cache; default: as the others.
    #[serde(default)]
    pub cached_per_mtok: Option<NonNegative>,
    /// Output tokens.
    pub output_per_mtok: NonNegative,
    /// When that was the price.
    #[serde(default)]
    pub date: Option<String>,
}

impl Price {
    /// USD for one request or many: prompt tokens include the cached ones.
    pub fn cost_usd(&self, prompt: u64, cached: u64, output: u64) -> f64 {
        const MTOK: f64 = 1e6;
        let input = self.input_per_mtok.get();
        let cached_price = self.cached_per_mtok.map_or(input, NonNegative::get);
        let fresh = prompt.saturating_sub(cached);
        let dollars = |tokens: u64, price: f64| tokens as f64 * price / MTOK;
        dollars(fresh, input)
            + dollars(cached, cached_price)
            + dollars(output, self.output_per_mtok.get())
    }
}

/// Which entry of the engines file starts the server, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineUse {
    /// The entry's name.
    #[serde(rename = "use")]
    pub name: Name,
    /// Arguments after those of the entry.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables on top of a clean environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// What the machine can do, for predictions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareFacts {
    /// Memory bandwidth by its data sheet, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb_s: Option<Positive>,
    /// Peak bf16 rate, FLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops_bf16: Option<Positive>,
    /// Power of the whole box under load by a wall meter, watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_power_w: Option<Positive>,
    /// Time between two samples of the counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_period: Option<TimeSpan>,
}

impl HardwareFacts {
    /// A reading takes up to a millisecond: a sampler that is to read more often than that does
    /// nothing else, and takes a core from what it measures.
    pub const SHORTEST_SAMPLE_PERIOD: TimeSpan = TimeSpan(Duration::from_millis(1));
}

/// What the server cannot tell of its model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelFacts {
    /// Parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_params: Option<u64>,
    /// Bytes of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<u64>,
    /// Bytes of weights that one decode step reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_read_per_token: Option<u64>,
    /// Bytes of KV cache for each token of context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_bytes_per_token: Option<u64>,
}

/// What counts as good enough, for goodput.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Slo {
    /// Time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<TimeSpan>,
    /// Time per output token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot: Option<TimeSpan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price_where_there_is_one() {
        let price = |cached: Option<f64>| Price {
            input_per_mtok: NonNegative::try_from(0.2).unwrap(),
            cached_per_mtok: cached.map(|price| NonNegative::try_from(price).unwrap()),
            output_per_mtok: NonNegative::try_from(0.6).unwrap(),
            date: None,
        };
        // 1M prompt tokens, half of them cached, and 1M output tokens.
        assert_eq!(price(None).cost_usd(1_000_000, 500_000, 1_000_000), 0.8);
        assert_eq!(price(Some(0.1)).cost_usd(1_000_000, 500_000, 1_000_000), 0.75);
    }
}
