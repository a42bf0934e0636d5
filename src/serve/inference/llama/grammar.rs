//! JSON Schemas to llama.cpp's grammars, and answers that keep to them.

use std::sync::Arc;

use llama_cpp_2::json_schema_to_grammar;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use super::super::model::{GrammarError, GrammarMatcher, ModelError, TokenId};
use super::super::params::Grammar;
use super::{gbnf, said};

/// The rule that a grammar starts with, as llama.cpp's converter names it.
const ROOT: &str = "root";

/// Larger schemas make grammars that take seconds for each token.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// llama.cpp descends into objects, arrays and groups of a pattern by recursion, and a stack that
/// overflows ends the process.
const NESTING_MAX: usize = 48;

/// A grammar for a schema.
///
/// # Errors
/// When the schema is too large or nested too deep, when llama.cpp can't convert it, or when the
/// grammar that comes out does not compile.
///
/// What llama.cpp would descend into for ever, or take for ever over, is refused where requests are
/// read: here a schema is a text.
pub(super) fn from_schema(model: &LlamaModel, json: &str) -> Result<Grammar, GrammarError> {
    if json.len() > SCHEMA_BYTES_MAX {
        let message = format!("the schema has {} bytes, more than {SCHEMA_BYTES_MAX}", json.len());
        return Err(GrammarError(message));
    }
    if nesting(json) > NESTING_MAX {
        return Err(GrammarError(format!("the schema is nested deeper than {NESTING_MAX} levels")));
    }
    let unsupported = || GrammarError("the schema can't be made into a grammar".to_owned());
    let (gbnf, reservations) = said::hear(|| json_schema_to_grammar(json));
    let gbnf = gbnf.map_err(|_| unsupported())?;
    gbnf::check(&gbnf).map_err(|trouble| GrammarError(trouble.to_string()))?;
    compile(model, &gbnf).map_err(|_| unsupported())?;
    if !reservations.is_empty() {
        tracing::warn!(reservations, "a schema is not enforced in full");
    }
    Ok(Grammar::from_checked(gbnf))
}

/// How deep brackets of any kind are nested, those within a text counted for each text anew.
fn nesting(json: &str) -> usize {
    let (mut depth, mut in_text, mut deepest) = (0usize, 0usize, 0usize);
    let (mut text, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => {
                text = !text;
                in_text = 0;
            }
            b'(' | b'[' | b'{' if text => in_text += 1,
            b')' | b']' | b'}' if text => in_text = in_text.saturating_sub(1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth).max(in_text);
    }
    deepest
}

fn compile(model: &LlamaModel, gbnf: &str) -> Result<LlamaSampler, ModelError> {
    let (sampler, why_not) = said::hear(|| LlamaSampler::grammar(model, gbnf, ROOT));
    sampler.map_err(|error| {
        tracing::debug!(why_not, "a grammar does not compile");
        ModelError::Engine(format!("the grammar does not compile: {error}"))
    })
}

/// Where one answer stands in its grammar.
pub(super) struct LlamaMatcher {
    sampler: LlamaSampler,
    candidates: LlamaTokenDataArray,
    /// The sampler refers to its vocabulary, so it goes last.
    _model: Arc<LlamaModel>,
}

impl LlamaMatcher {
    pub(super) fn new(model: &Arc<LlamaModel>, grammar: &Grammar) -> Result<Self, ModelError> {
        Ok(Self {
            sampler: compile(model, grammar.gbnf())?,
            candidates: LlamaTokenDataArray::new(Vec::new(), false),
            _model: Arc::clone(model),
        })
    }

    /// Leaves −∞ as the logit of each candidate that is not allowed.
    fn apply(&mut self, ids: impl Iterator<Item = TokenId>) {
        self.candidates.data.clear();
        let candidate = |id| LlamaTokenData::new(LlamaToken(id), 0.0, 0.0);
        self.candidates.data.extend(ids.map(candidate));
        self.candidates.sorted = false;
        self.candidates.selected = None;
        self.candidates.apply_sampler(&mut self.sampler);
    }
}

impl GrammarMatcher for LlamaMatcher {
    fn allows(&mut self, token: TokenId) -> bool {
        self.apply(std::iter::once(token));
        self.candidates.data.first().is_some_and(|candidate| candidate.logit() == 0.0)
    }

    fn mask(&mut self, logits: &mut [f32]) {
        self.apply((0..).take(logits.len()));
        for (logit, candidate) in logits.iter_mut().zip(&self.candidates.data) {
            if candidate.logit() != 0.0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ModelError> {
        let accepted = self.sampler.try_accept(LlamaToken(token));
        accepted.map_err(|_| ModelError::Engine(format!("the grammar does not take token {token}")))
    }
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn brackets_count_wherever_they_are() {
        assert_eq!(nesting(r#"{"a": [1, [2]]}"#), 3);
        assert_eq!(nesting(r#"{"a": "((", "b": "(("}"#), 2);
        assert_eq!(nesting(r#"{"a": "\"((((("}"#), 5);
        assert_eq!(nesting(&"[".repeat(1000)), 1000);
    }
}
