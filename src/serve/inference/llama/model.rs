//! One sequence in one llama.cpp context, driven by the inference thread.

use std::sync::Arc;

use super::super::model::{GrammarMatcher, Model, ModelError, Output, TokenId, Tokenizer};
use super::super::params::Grammar;
use super::grammar::LlamaMatcher;
use super::sys::{Batch, Context, DecodeFailure};
use super::tokenizer::LlamaTokenizer;

/// A loaded model with its context.
pub struct LlamaCpp {
    context: Context,
    batch: Batch,
    /// Tokens in the sequence.
    n_past: usize,
    tokenizer: Arc<LlamaTokenizer>,
}

impl LlamaCpp {
    pub(super) fn new(context: Context, tokenizer: LlamaTokenizer) -> Self {
        let batch = Batch::new(context.n_ubatch());
        Self { context, batch, n_past: 0, tokenizer: Arc::new(tokenizer) }
    }

    /// To be changed before anybody shares it.
    pub(super) fn tokenizer_mut(&mut self) -> &mut LlamaTokenizer {
        Arc::get_mut(&mut self.tokenizer).expect("it is shared only once the model is loaded")
    }
}

impl Model for LlamaCpp {
    fn tokenizer(&self) -> Arc<dyn Tokenizer> {
        Arc::clone(&self.tokenizer) as Arc<dyn Tokenizer>
    }

    fn rewind(&mut self, n_keep: usize) -> Result<usize, ModelError> {
        let position =
            i32::try_from(n_keep).map_err(|_| ModelError::Engine("overflow".to_owned()))?;
        self.n_past = if n_keep > 0 && self.context.forget_from(position) {
            n_keep
        } else {
            self.context.clear();
            0
        };
        Ok(self.n_past)
    }

    fn eval(
        &mut self,
        tokens: &[TokenId],
        output: Output,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), ModelError> {
        let position = i32::try_from(self.n_past);
        let position = position.map_err(|_| ModelError::Engine("overflow".to_owned()))?;
        self.batch.set(tokens, position, output == Output::Logits);
        match self.context.decode(&self.batch, cancelled) {
            Ok(()) => {
                self.n_past += tokens.len();
                Ok(())
            }
            Err(DecodeFailure::Aborted) => Err(ModelError::Cancelled),
            Err(DecodeFailure::Full) => Err(ModelError::Engine("the KV cache is full".to_owned())),
            Err(DecodeFailure::Code(code)) => {
                Err(ModelError::Engine(format!("llama.cpp's decode returned {code}")))
            }
        }
    }

    fn logits(&mut self) -> &mut [f32] {
        self.context.logits().expect("the last eval asked for logits")
    }

    fn matcher(&self, grammar: &Grammar) -> Result<Box<dyn GrammarMatcher>, ModelError> {
        Ok(Box::new(LlamaMatcher::new(&self.tokenizer.model, grammar)?))
    }
}
