//! The model's own vocabulary: text to tokens and back.

use std::sync::Arc;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use super::super::model::{AppliedSettings, GrammarError, ModelInfo, Specials, TokenId, Tokenizer};
use super::super::params::Grammar;
use super::grammar;

/// The immutable half of a loaded model.
pub(super) struct LlamaTokenizer {
    pub(super) model: Arc<LlamaModel>,
    pub(super) info: ModelInfo,
    pub(super) settings: AppliedSettings,
}

impl Tokenizer for LlamaTokenizer {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn settings(&self) -> &AppliedSettings {
        &self.settings
    }

    fn tokenize(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        let parse_special = specials == Specials::Recognise;
        let tokens = self.model.vocab().tokenize(text.as_bytes(), false, parse_special);
        tokens.into_iter().map(|LlamaToken(id)| id).collect()
    }

    fn piece(&self, token: TokenId, specials: Specials, out: &mut Vec<u8>) {
        piece(&self.model, token, specials, out);
    }

    fn grammar(&self, json_schema: &str) -> Result<Grammar, GrammarError> {
        grammar::from_schema(&self.model, json_schema)
    }
}

/// Appends the bytes of a token. llama.cpp throws at ids outside the vocabulary, so they are skipped.
pub(super) fn piece(model: &LlamaModel, token: TokenId, specials: Specials, out: &mut Vec<u8>) {
    if !(0..model.n_vocab()).contains(&token) {
        return;
    }
    // No known token is longer than a few hundred bytes; a longer one only takes a second call.
    out.reserve(64);
    let spelled = specials == Specials::Recognise;
    model.vocab().token_to_piece_into(LlamaToken(token), out, spelled, None);
}
