//! One answer in the making: which tokens, which text, how far. It knows no engine and no clock.

use super::event::{Candidate, FinishReason, TextChunk, TokenLogprob};
use super::model::{Specials, TokenId, Tokenizer};
use super::params::GenerationParams;
use super::sampler::{Drawn, MayEnd};
use super::text::{Pushed, TextHolder};

/// The state of the answer that has the device.
pub(super) struct Slot {
    text: TextHolder,
    wants_logprobs: bool,
    ignore_eos: bool,
    min_tokens: u32,
    /// At least 1: what was asked for, cut to what the context has room for.
    max_tokens: u32,
    n_generated: u32,
    /// Tokens whose text has not been sent yet.
    n_held: u32,
    held_logprobs: Vec<Held>,
    piece: Vec<u8>,
}

/// The log probability of a token whose text has not been sent yet.
struct Held {
    /// Where in the held text its own begins: with the character that its first byte belongs to.
    begin: usize,
    logprob: TokenLogprob,
}

/// What a drawn token means for the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Took {
    /// The answer goes on with this token.
    GoOn(TokenId),
    /// The answer ends.
    End { reason: FinishReason, stopped_by: Option<String> },
}

impl Slot {
    /// `room` is the number of tokens that the context has left after the prompt, at least 1.
    pub(super) fn new(params: &GenerationParams, room: u32) -> Self {
        Self {
            text: TextHolder::new(&params.stop),
            wants_logprobs: params.logprobs.is_some(),
            ignore_eos: params.ignore_eos,
            min_tokens: params.min_tokens,
            max_tokens: params.max_tokens.clamp(1, room.max(1)),
            n_generated: 0,
            n_held: 0,
            held_logprobs: Vec::new(),
            piece: Vec::new(),
        }
    }

    pub(super) fn n_generated(&self) -> u32 {
        self.n_generated
    }

    /// Whether the next token may end the answer.
    pub(super) fn may_end(&self) -> MayEnd {
        let banned = self.ignore_eos || self.n_generated < self.min_tokens;
        if banned { MayEnd::No } else { MayEnd::Yes }
    }

    /// Takes a drawn token. The chunk, if there is one, is to be sent at once.
    pub(super) fn take(
        &mut self,
        drawn: Drawn,
        tokenizer: &dyn Tokenizer,
    ) -> (Option<TextChunk>, Took) {
        let stop = |stopped_by| Took::End { reason: FinishReason::Stop, stopped_by };
        let Some(token) = drawn.token else { return (self.flush(), stop(None)) };
        self.n_generated += 1;
        if tokenizer.is_eog(token) {
            return (self.flush(), stop(None));
        }
        self.piece.clear();
        tokenizer.piece(token, Specials::AsText, &mut self.piece);
        self.n_held += 1;
        self.hold_logprobs(token, drawn, tokenizer);
        match self.text.push(&self.piece) {
            Pushed::Stopped { text, by } => {
                self.forget_logprobs_after(text.len());
                (self.chunk(text), stop(Some(by)))
            }
            Pushed::Text(text) if self.n_generated >= self.max_tokens => {
                let rest = text + &self.text.finish();
                (self.chunk(rest), Took::End { reason: FinishReason::Length, stopped_by: None })
            }
            Pushed::Text(text) if text.is_empty() => (None, Took::GoOn(token)),
            Pushed::Text(text) => (self.chunk(text), Took::GoOn(token)),
        }
    }

    /// What is still held, for an answer that ends.
    pub(super) fn flush(&mut self) -> Option<TextChunk> {
        let text = self.text.finish();
        self.chunk(text)
    }

    fn chunk(&mut self, text: String) -> Option<TextChunk> {
        let held = std::mem::take(&mut self.held_logprobs);
        let logprobs: Vec<_> = held.into_iter().map(|held| held.logprob).collect();
        if text.is_empty() && logprobs.is_empty() {
            return None;
        }
        Some(TextChunk { text, n_tokens: std::mem::take(&mut self.n_held), logprobs })
    }

    /// Keeps the log probabilities of tokens that have a part in the first `n_bytes` of what was
    /// held, or stand at their end without a text: those of a stop string's tokens would spell it.
    fn forget_logprobs_after(&mut self, n_bytes: usize) {
        self.held_logprobs.retain(|held| {
            let at_the_end = held.begin == n_bytes && held.logprob.text.is_empty();
            held.begin < n_bytes || at_the_end
        });
    }

    fn hold_logprobs(&mut self, token: TokenId, drawn: Drawn, tokenizer: &dyn Tokenizer) {
        let Some(logprobs) = drawn.logprobs.filter(|_| self.wants_logprobs) else { return };
        let candidate = |id, logprob| {
            let mut bytes = Vec::new();
            tokenizer.piece(id, Specials::Recognise, &mut bytes);
            Candidate { id, bytes, logprob }
        };
        let logprob = TokenLogprob {
            token: candidate(token, logprobs.token),
            text: self.piece.clone(),
            top: logprobs.top.into_iter().map(|(id, logprob)| candidate(id, logprob)).collect(),
        };
        self.held_logprobs.push(Held { begin: self.text.n_held(), logprob });
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::Logprobs;
    use super::super::sampler::DrawnLogprobs;
    use super::super::scripted::{Reply, START_OF_TURN, ScriptedModel};
    use super::*;
    use crate::serve::inference::Model;

    /// The tokens whose log probabilities are reported, and the text, for an answer of these tokens.
    fn run(tokens: &[TokenId], stop: &str) -> (Vec<TokenId>, String) {
        let model = ScriptedModel::new(|_| Reply::words(""));
        let tokenizer = model.tokenizer();
        let params = GenerationParams {
            stop: vec![stop.to_owned()],
            logprobs: Some(Logprobs { top: 0 }),
            ..GenerationParams::default()
        };
        let mut slot = Slot::new(&params, 100);
        let (mut reported, mut text) = (Vec::new(), String::new());
        for &token in tokens {
            let logprobs = Some(DrawnLogprobs { token: -1.0, top: Vec::new() });
            let (chunk, _) = slot.take(Drawn { token: Some(token), logprobs }, tokenizer.as_ref());
            if let Some(chunk) = chunk {
                text += &chunk.text;
                reported.extend(chunk.logprobs.iter().map(|entry| entry.token.id));
            }
        }
        (reported, text)
    }

    #[test]
    fn a_stop_strings_tokens_report_nothing_and_all_others_do() {
        let byte = |byte: u8| TokenId::from(byte);
        let (s, t, a) = (byte(b'S'), byte(b'T'), byte(b'a'));
        assert_eq!(run(&[a, s, t], "ST"), (vec![a], "a".to_owned()));
        // A control token is spelled with twelve bytes and adds none.
        let control = START_OF_TURN;
        assert_eq!(run(&[control, s, t], "ST"), (vec![control], String::new()));
        assert_eq!(run(&[s, control, a, s, t], "ST").0, [s, control, a]);
        // Bytes that are no text become three.
        let broken = byte(0xff);
        assert_eq!(run(&[s, broken, s, t], "ST"), (vec![s, broken], "S\u{fffd}".to_owned()));
        assert_eq!(run(&[broken, s, t], "\u{fffd}ST"), (vec![], String::new()));
    }
}
