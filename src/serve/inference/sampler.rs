//! Draws the next token from the logits. Pure: no engine, no clock; the same seed gives the same draws.
//!
//! It writes into the logits, which are good for one draw anyway, and copies the vocabulary only
//! where a draw at a temperature needs it: greedy is an arg max straight over the logits.
//!
//! Order: log probabilities are read from the model's own distribution; then bias, penalties and
//! bans; then the grammar; then temperature 0 takes the maximum, or `top_k`, temperature, `top_p`
//! and `min_p` narrow the choice and a number from the seeded generator makes it.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::candidates::{self, Shortlist};
use super::model::{GrammarMatcher, ModelError, TokenId};
use super::params::{GenerationParams, Penalties, Sampling};

/// What one draw gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The token; `None` if nothing is allowed any more.
    pub token: Option<TokenId>,
    /// Its log probability and the likeliest alternatives, if they were asked for.
    pub logprobs: Option<DrawnLogprobs>,
}

/// Natural logarithms of the model's own probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnLogprobs {
    /// Of the token that was drawn.
    pub token: f32,
    /// The likeliest tokens, most likely first.
    pub top: Vec<(TokenId, f32)>,
}

/// Whether a token that ends the answer may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayEnd {
    /// Yes.
    Yes,
    /// No: every end-of-generation token is banned.
    No,
}

/// How one answer's tokens are drawn.
pub struct Sampler {
    sampling: Sampling,
    penalties: Penalties,
    bias: Vec<(usize, f32)>,
    ends: Vec<usize>,
    n_top: Option<usize>,
    seen: HashMap<usize, Seen>,
    matcher: Option<Box<dyn GrammarMatcher>>,
    random: ChaCha8Rng,
    shortlist: Shortlist,
}

/// What is known of a token that was seen before.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// How often the answer has it.
    in_answer: u32,
}

impl Sampler {
    /// A sampler for one answer. `ends` are the tokens that end it; `seed` is used where the request
    /// has none.
    pub fn new(
        params: &GenerationParams,
        prompt: &[TokenId],
        ends: &[TokenId],
        matcher: Option<Box<dyn GrammarMatcher>>,
        seed: u64,
    ) -> Self {
        let index = |&id: &TokenId| usize::try_from(id).ok();
        let mut seen = HashMap::new();
        if params.penalties.repetition != 1.0 {
            seen.extend(prompt.iter().filter_map(index).map(|id| (id, Seen::default())));
        }
        Self {
            sampling: params.sampling,
            penalties: params.penalties,
            bias: params.logit_bias.iter().filter_map(|(id, by)| Some((index(id)?, *by))).collect(),
            ends: ends.iter().filter_map(index).collect(),
            n_top: params.logprobs.map(|logprobs| logprobs.top as usize),
            seen,
            matcher,
            random: ChaCha8Rng::seed_from_u64(params.sampling.seed.unwrap_or(seed)),
            shortlist: Shortlist::default(),
        }
    }

    /// Draws the next token and remembers it.
    ///
    /// # Errors
    /// When the grammar's matcher fails.
    pub fn draw(&mut self, logits: &mut [f32], may_end: MayEnd) -> Result<Drawn, ModelError> {
        let raw = self.n_top.map(|n| RawLogprobs::read(logits, n));
        let undo = self.adjust(logits, may_end);
        let token = self.choose(logits)?;
        let logprobs = raw.zip(token).map(|(raw, token)| {
            let adjusted = logits[token];
            let own =
                undo.iter().find(|(id, _)| *id == token).map_or(adjusted, |(_, logit)| *logit);
            DrawnLogprobs { token: own - raw.log_sum, top: raw.top }
        });
        if let Some(token) = token {
            self.remember(token)?;
        }
        Ok(Drawn { token: token.map(to_id), logprobs })
    }

    /// Bias, penalties and bans, in place. Returns what the logits were before.
    fn adjust(&self, logits: &mut [f32], may_end: MayEnd) -> Vec<(usize, f32)> {
        let mut undo = Vec::new();
        let mut edit = |logits: &mut [f32], id: usize, change: &dyn Fn(f32) -> f32| {
            if let Some(logit) = logits.get_mut(id) {
                undo.push((id, *logit));
                *logit = change(*logit);
            }
        };
        for &(id, by) in &self.bias {
            edit(logits, id, &|logit| logit + by);
        }
        if self.penalties != Penalties::default() {
            for (&id, seen) in &self.seen {
                edit(logits, id, &|logit| penalised(logit, *seen, self.penalties));
            }
        }
        if may_end == MayEnd::No {
            for &id in &self.ends {
                edit(logits, id, &|_| f32::NEG_INFINITY);
            }
        }
        undo
    }

    /// The token, as an index; `None` if none has a chance.
    fn choose(&mut self, logits: &mut [f32]) -> Result<Option<usize>, ModelError> {
        let first = self.pick(logits);
        let Some(matcher) = &mut self.matcher else { return Ok(first) };
        // The grammar is asked about one token first: most of the time the model keeps to it, and
        // asking about the whole vocabulary is slow. Drawing again among the allowed ones after a
        // refusal gives the same distribution as masking before the first draw.
        if first.is_some_and(|token| matcher.allows(to_id(token))) {
            return Ok(first);
        }
        matcher.mask(logits);
        Ok(self.pick(logits))
    }

    fn pick(&mut self, logits: &[f32]) -> Option<usize> {
        if self.sampling.temperature <= 0.0 {
            return candidates::arg_max(logits);
        }
        self.shortlist.fill(logits, &self.sampling);
        self.shortlist.draw(self.random.random::<f32>())
    }

    fn remember(&mut self, token: usize) -> Result<(), ModelError> {
        if self.penalties != Penalties::default() {
            self.seen.entry(token).or_default().in_answer += 1;
        }
        match &mut self.matcher {
            // An end-of-generation token ends the answer, and the grammar with it.
            Some(matcher) if !self.ends.contains(&token) => matcher.accept(to_id(token)),
            _ => Ok(()),
        }
    }
}

fn to_id(index: usize) -> TokenId {
    TokenId::try_from(index).expect("the vocabulary's size is an i32")
}

#[expect(clippy::cast_precision_loss, reason = "an answer has fewer than 2²⁴ tokens")]
fn penalised(logit: f32, seen: Seen, penalties: Penalties) -> f32 {
    let repeated =
        if logit > 0.0 { logit / penalties.repetition } else { logit * penalties.repetition };
    if seen.in_answer == 0 {
        return repeated;
    }
    repeated - penalties.presence - penalties.frequency * seen.in_answer as f32
}

/// The model's own distribution, read before anything is changed.
struct RawLogprobs {
    /// ln Σ exp(logit).
    log_sum: f32,
    top: Vec<(TokenId, f32)>,
}

impl RawLogprobs {
    fn read(logits: &[f32], n_top: usize) -> Self {
        let log_sum = candidates::log_sum_exp(logits);
        let top = candidates::top(logits, n_top);
        let top = top.into_iter().map(|(id, logit)| (to_id(id), logit - log_sum)).collect();
        Self { log_sum, top }
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::Logprobs;
    use super::*;

    const ENDS: [TokenId; 2] = [2, 4];

    fn greedy() -> GenerationParams {
        GenerationParams { sampling: Sampling::GREEDY, ..GenerationParams::default() }
    }

    fn sampler(params: &GenerationParams) -> Sampler {
        Sampler::new(params, &[], &ENDS, None, 7)
    }

    fn token(sampler: &mut Sampler, logits: &[f32]) -> Option<TokenId> {
        sampler.draw(&mut logits.to_vec(), MayEnd::Yes).unwrap().token
    }

    #[test]
    fn greedy_takes_the_largest_and_of_equals_the_first() {
        assert_eq!(token(&mut sampler(&greedy()), &[0.0, 3.0, 1.0, 3.0, 2.0]), Some(1));
    }

    #[test]
    fn every_ending_token_is_banned_not_only_one() {
        let mut logits = [0.0, 1.0, 9.0, 0.5, 8.0];
        let drawn = sampler(&greedy()).draw(&mut logits, MayEnd::No).unwrap();
        assert_eq!(drawn.token, Some(1));
    }

    #[test]
    fn bias_moves_the_choice_and_ids_outside_are_ignored() {
        let params =
            GenerationParams { logit_bias: vec![(3, 100.0), (99, 5.0), (-1, 5.0)], ..greedy() };
        assert_eq!(token(&mut sampler(&params), &[9.0, 0.0, 0.0, 0.0, 0.0]), Some(3));
        let ban = GenerationParams { logit_bias: vec![(0, -100.0)], ..greedy() };
        assert_eq!(token(&mut sampler(&ban), &[9.0, 1.0, 0.0, 0.0, 0.0]), Some(1));
    }

    #[test]
    fn presence_counts_once_and_frequency_each_time() {
        let logits = [3.0, 2.0, 0.0, 0.0, 0.0];
        let presence = Penalties { presence: 1.5, ..Penalties::default() };
        let mut drawer = sampler(&GenerationParams { penalties: presence, ..greedy() });
        let drawn: Vec<_> = (0..4).map(|_| token(&mut drawer, &logits).unwrap()).collect();
        assert_eq!(drawn, [0, 1, 0, 0]);
        let frequency = Penalties { frequency: 0.6, ..Penalties::default() };
        let mut drawer = sampler(&GenerationParams { penalties: frequency, ..greedy() });
        let drawn: Vec<_> = (0..4).map(|_| token(&mut drawer, &logits).unwrap()).collect();
        assert_eq!(drawn, [0, 0, 1, 0]);
    }

    #[test]
    fn repetition_counts_the_prompt_too() {
        let penalties = Penalties { repetition: 2.0, ..Penalties::default() };
        let params = GenerationParams { penalties, ..greedy() };
        let mut drawer = Sampler::new(&params, &[0], &ENDS, None, 7);
        assert_eq!(token(&mut drawer, &[3.0, 2.0, 0.0, 0.0, 0.0]), Some(1));
        let mut negative = Sampler::new(&params, &[0], &ENDS, None, 7);
        assert_eq!(token(&mut negative, &[-1.0, -1.5, -9.0, -9.0, -9.0]), Some(1));
    }

    #[test]
    fn logprobs_are_the_models_own_whatever_was_changed() {
        let params = GenerationParams {
            logit_bias: vec![(1, 50.0)],
            logprobs: Some(Logprobs { top: 2 }),
            ..greedy()
        };
        let probabilities = [0.5f32, 0.25, 0.125, 0.0625, 0.0625];
        let mut logits = probabilities.map(|p| p.ln() + 3.0);
        let drawn = sampler(&params).draw(&mut logits, MayEnd::Yes).unwrap();
        assert_eq!(drawn.token, Some(1));
        let logprobs = drawn.logprobs.unwrap();
        assert!((logprobs.token - 0.25f32.ln()).abs() < 1e-5, "{logprobs:?}");
        assert_eq!(logprobs.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1]);
        assert!((logprobs.top[0].1 - 0.5f32.ln()).abs() < 1e-5);
    }

    #[test]
    fn the_same_seed_gives_the_same_draws_and_another_one_others() {
        let logits: Vec<f32> = (0u8..64).map(|i| f32::from(i % 7)).collect();
        let draws = |seed| {
            let sampling = Sampling { seed: Some(seed), ..Sampling::default() };
            let mut drawer = sampler(&GenerationParams { sampling, ..GenerationParams::default() });
            (0..32).map(|_| token(&mut drawer, &logits).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    /// Allows one token only.
    struct Only(TokenId);

    impl GrammarMatcher for Only {
        fn allows(&mut self, token: TokenId) -> bool {
            token == self.0
        }
        fn mask(&mut self, logits: &mut [f32]) {
            for (id, logit) in logits.iter_mut().enumerate() {
                if to_id(id) != self.0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        fn accept(&mut self, token: TokenId) -> Result<(), ModelError> {
            assert_eq!(token, self.0);
            Ok(())
        }
    }

    #[test]
    fn a_grammar_has_the_last_word_also_at_a_temperature() {
        for params in [greedy(), GenerationParams::default()] {
            let mut drawer = Sampler::new(&params, &[], &ENDS, Some(Box::new(Only(3))), 7);
            assert_eq!(token(&mut drawer, &[9.0, 1.0, 0.0, -5.0, 0.0]), Some(3));
        }
    }

    #[test]
    fn nothing_is_drawn_when_nothing_is_allowed() {
        for params in [greedy(), GenerationParams::default()] {
            let mut drawer = Sampler::new(&params, &[], &ENDS, Some(Box::new(Only(2))), 7);
            let drawn = drawer.draw(&mut [9.0, 1.0, 0.0, -5.0, 0.0], MayEnd::No).unwrap();
            assert_eq!(drawn.token, None);
        }
    }
}
