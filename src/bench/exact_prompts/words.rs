//! Prompts out of words that are one token each, so that a length is an arithmetic matter.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::PathBuf;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::ExactPromptsError;
use crate::bench::config::ShapePoint;
use crate::bench::prompts::{Prompt, PromptFile};

/// How every message begins. A word at the very start of a text may be other tokens than after a
/// space; this one is a constant, and is counted with the template.
pub(super) const OPENING: &str = "Words:";

/// Words so common that most vocabularies have each, with the space before it, as one token.
pub(super) const COMMON: [&str; 96] = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
    "eye",
    "job",
    "word",
    "business",
    "issue",
    "side",
    "kind",
    "head",
    "house",
    "service",
    "friend",
    "father",
    "power",
    "hour",
    "game",
    "line",
    "end",
    "member",
    "law",
    "car",
    "city",
    "community",
    "name",
    "president",
    "team",
    "minute",
    "idea",
    "body",
    "information",
    "back",
    "parent",
    "face",
    "level",
    "office",
    "door",
    "health",
    "person",
    "art",
    "war",
    "history",
    "party",
    "result",
    "change",
    "morning",
    "reason",
    "research",
    "girl",
    "moment",
    "air",
    "teacher",
    "force",
];

/// The fewest words that a prompt is told apart by: 96⁴ are 85 million prompts.
const OWN_WORDS_MIN: u64 = 4;
/// The fewest words of an earlier conversation: one for each side.
const EARLIER_WORDS_MIN: u64 = 2;
/// The most tokens of one results file's prompts: some hundred megabytes of text.
const TOKENS_MAX: u64 = 20_000_000;

/// What the server's count showed: which words are one token, and what stands around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measure {
    /// Each of them is exactly one token.
    pub(super) words: Vec<&'static str>,
    /// Tokens of a conversation of one message that is only [`OPENING`].
    pub(super) around_prompt: u64,
    /// Tokens that an earlier pair of such messages adds.
    pub(super) around_earlier: u64,
}

impl Measure {
    /// `n` different prompts of one shape; the same ones for the same `seed`.
    pub(super) fn make(
        &self,
        point: &ShapePoint,
        seed: u64,
        n: usize,
    ) -> Result<PromptFile, ExactPromptsError> {
        let own = u64::from(point.prompt_tokens.get());
        let shortest = self.around_prompt + OWN_WORDS_MIN;
        let words = own.checked_sub(self.around_prompt).filter(|words| *words >= OWN_WORDS_MIN);
        let words = words.ok_or(ExactPromptsError::PromptTooShort { asked: own, shortest })?;
        let earlier = match u64::from(point.depth) {
            0 => 0,
            depth => {
                let shortest = self.around_earlier + EARLIER_WORDS_MIN;
                let free = depth.checked_sub(self.around_earlier);
                free.filter(|words| *words >= EARLIER_WORDS_MIN)
                    .ok_or(ExactPromptsError::DepthTooShort { asked: depth, shortest })?
            }
        };
        let all = point.whole().saturating_mul(n as u64);
        if all > TOKENS_MAX {
            return Err(ExactPromptsError::TooMuch { tokens: all, most: TOKENS_MAX });
        }
        let mut dice = Dice { words: &self.words, random: ChaCha20Rng::seed_from_u64(seed) };
        let mut seen = HashSet::with_capacity(n);
        let mut prompts = Vec::with_capacity(n);
        while prompts.len() < n {
            let text = dice.message(words);
            // Chance repeats a very short prompt now and then.
            if seen.insert(text.clone()) {
                prompts.push(dice.with_earlier(earlier, text));
            }
        }
        Ok(PromptFile { path: PathBuf::from(point.name()), prompts, sha256: point.sha256() })
    }
}

/// The seed of a shape's prompts: combinations share no prompts' beginnings, nor do series.
pub(super) fn seed(point: &ShapePoint, series: u64) -> u64 {
    // An odd factor (2⁶⁴ ÷ the golden ratio) gives each series a place of its own, far from others.
    let place = series.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let part = |number: NonZeroU32| u64::from(number.get());
    place
        ^ (part(point.prompt_tokens) << 40)
        ^ (part(point.output_tokens) << 20)
        ^ u64::from(point.depth)
}

struct Dice<'a> {
    words: &'a [&'static str],
    random: ChaCha20Rng,
}

impl Dice<'_> {
    fn message(&mut self, words: u64) -> String {
        let mut text = String::from(OPENING);
        for _ in 0..words {
            // The modulo's bias is under 96 / 2⁶⁴.
            let place = self.random.next_u64() % self.words.len() as u64;
            text.push(' ');
            text.push_str(self.words[usize::try_from(place).expect("less than a length")]);
        }
        text
    }

    /// The earlier conversation: half of its words are the user's, half the answer.
    fn with_earlier(&mut self, words: u64, text: String) -> Prompt {
        if words == 0 {
            return Prompt::Text(text);
        }
        let asked = self.message(words / 2);
        let answered = self.message(words - words / 2);
        conversation(&asked, &answered, &text)
    }
}

/// A question, its answer, and what is asked now.
pub(super) fn conversation(asked: &str, answered: &str, now: &str) -> Prompt {
    Prompt::Messages(vec![
        json!({"role": "user", "content": asked}),
        json!({"role": "assistant", "content": answered}),
        json!({"role": "user", "content": now}),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure() -> Measure {
        Measure { words: COMMON.to_vec(), around_prompt: 11, around_earlier: 14 }
    }

    fn point(prompt: u32, depth: u32) -> ShapePoint {
        let of = |number| NonZeroU32::new(number).unwrap();
        ShapePoint { prompt_tokens: of(prompt), output_tokens: of(8), depth }
    }

    fn words(prompt: &Prompt) -> usize {
        prompt.text(None).split_whitespace().filter(|word| *word != OPENING).count()
    }

    #[test]
    fn prompts_have_the_words_that_are_left_and_none_comes_twice() {
        let file = measure().make(&point(16, 0), 1, 500).unwrap();
        let texts: HashSet<String> = file.prompts.iter().map(|prompt| prompt.text(None)).collect();
        assert_eq!(texts.len(), 500);
        assert!(file.prompts.iter().all(|prompt| words(prompt) == 5));
        assert_eq!(file.prompts, measure().make(&point(16, 0), 1, 500).unwrap().prompts);
        assert_ne!(file.prompts, measure().make(&point(16, 0), 2, 500).unwrap().prompts);
    }

    #[test]
    fn a_depth_is_an_earlier_conversation_of_so_many_tokens() {
        let file = measure().make(&point(100, 64), 1, 3).unwrap();
        let Prompt::Messages(messages) = &file.prompts[0] else { panic!("{:?}", file.prompts) };
        assert_eq!(messages.len(), 3);
        assert_eq!(words(&file.prompts[0]), (100 - 11) + (64 - 14));
    }

    #[test]
    fn what_is_too_short_or_too_much_is_refused_with_the_numbers() {
        let error = |prompt, depth, n| measure().make(&point(prompt, depth), 1, n).unwrap_err();
        assert!(error(14, 0, 1).to_string().contains("at least 15"));
        assert!(error(99, 15, 1).to_string().contains("at least 16"));
        assert!(error(2_000_000, 0, 11).to_string().contains("22000000"));
    }

    #[test]
    fn no_common_word_stands_there_twice() {
        assert_eq!(COMMON.iter().collect::<HashSet<_>>().len(), COMMON.len());
    }
}
