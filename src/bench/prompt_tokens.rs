//! The server's count of prompt tokens against the model's own tokenizer: does it see the prompt
//! that was meant?
//!
//! A completions endpoint gets the text as it is, so the counts have to be equal. A chat template
//! adds tokens of its own around a message, the same number around every prompt: there the surplus
//! is compared with the usual one, and a prompt that was cut, or read with another tokenizer, stands
//! out by its own. What is wrong with every prompt by the same number (a second BOS) is not seen.

use std::path::Path;

use tokenizers::Tokenizer;

use super::client::EndpointKind;
use super::even_sample::is_chosen;
use super::prompts::{Prompt, PromptFile};
use crate::measure::flags::TokenizerCheck;

/// Requests of a level that are looked at: a second's work at most, with long prompts.
const CHECKED_MAX: usize = 100;
/// The text's first or last character may merge with the template's own.
const MERGED: i64 = 1;

/// A model's own tokenizer.
#[derive(Debug, Clone)]
pub struct PromptTokens {
    tokenizer: Tokenizer,
    kind: EndpointKind,
}

impl PromptTokens {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// In words, if it cannot be read as one.
    pub fn read(path: &Path, kind: EndpointKind) -> Result<Self, String> {
        let tokenizer = Tokenizer::from_file(path)
            .map_err(|error| format!("read {} as a tokenizer: {error}", path.display()))?;
        Ok(Self { tokenizer, kind })
    }

    /// Compares the server's counts, each beside its prompt's place in the file, with the
    /// tokenizer's, for an even sample of them; `None` where there is nothing to compare.
    pub fn check(&self, file: &PromptFile, told: &[(u32, u64)]) -> Option<TokenizerCheck> {
        let surplus = |(index, n_prompt): &(u32, u64)| {
            let own = self.count(file.prompts.get(*index as usize)?)?;
            i64::try_from(*n_prompt).ok()?.checked_sub(own)
        };
        let sample = told.iter().enumerate();
        let sample = sample.filter(|(place, _)| is_chosen(*place, told.len(), CHECKED_MAX));
        let surplus: Vec<i64> = sample.filter_map(|(_, one)| surplus(one)).collect();
        let (usual, slack) = match self.kind {
            EndpointKind::Completions => (0, 0),
            // Fewer tokens than the text alone has are never right.
            EndpointKind::Chat => (median(&surplus)?.max(0), MERGED),
        };
        let differences = surplus.iter().map(|surplus| surplus.abs_diff(usual));
        let differing: Vec<u64> =
            differences.filter(|difference| *difference > slack.unsigned_abs()).collect();
        (!surplus.is_empty()).then(|| TokenizerCheck {
            checked: surplus.len() as u64,
            differing: differing.len() as u64,
            largest_difference: differing.into_iter().max().unwrap_or(0),
        })
    }

    /// Tokens of a prompt's own text. A conversation has a template between its messages: only one
    /// message can be told from it.
    fn count(&self, prompt: &Prompt) -> Option<i64> {
        let alone = self.kind == EndpointKind::Completions;
        if !alone && !matches!(prompt, Prompt::Text(_)) {
            return None;
        }
        let encoding = self.tokenizer.encode(prompt.text(None), alone).ok()?;
        i64::try_from(encoding.len()).ok()
    }
}

fn median(values: &[i64]) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::prompts::PromptFile;

    /// A tokenizer to which each word is a token.
    const WORDS: &str = r#"{"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"w": 0, "[UNK]": 1}, "unk_token": "[UNK]"}}"#;

    /// What is said of prompts of 1, 2, 3 … words for which the server told these counts.
    fn check(kind: EndpointKind, told: &[u64]) -> Option<TokenizerCheck> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, WORDS).unwrap();
        let words = |n: usize| Prompt::Text(vec!["w"; n].join(" "));
        let prompts = (1..=told.len()).map(words).collect();
        let file = PromptFile { path, prompts, sha256: String::new() };
        let told: Vec<(u32, u64)> = (0..).zip(told.iter().copied()).collect();
        PromptTokens::read(&file.path, kind).unwrap().check(&file, &told)
    }

    #[test]
    fn a_template_adds_the_same_number_to_each_prompt() {
        let said = |differing, largest_difference| {
            Some(TokenizerCheck { checked: 4, differing, largest_difference })
        };
        assert_eq!(check(EndpointKind::Chat, &[11, 12, 13, 14]), said(0, 0));
        assert_eq!(check(EndpointKind::Chat, &[11, 12, 12, 14]), said(0, 0), "a merged token");
        assert_eq!(check(EndpointKind::Chat, &[11, 12, 13, 10]), said(1, 4), "a cut prompt");
        assert_eq!(check(EndpointKind::Completions, &[1, 2, 3, 4]), said(0, 0));
        assert_eq!(check(EndpointKind::Completions, &[2, 3, 4, 5]), said(4, 1), "a second BOS");
        assert_eq!(check(EndpointKind::Chat, &[]), None);
        assert!(PromptTokens::read(Path::new("/none"), EndpointKind::Chat).is_err());
    }
}
