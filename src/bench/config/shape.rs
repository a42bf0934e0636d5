//! `[workload] shape`: prompts of exact lengths instead of prompt files.
//!
//! Each combination of its lists is measured like a prompts file of its own: every level of the
//! ladder, a results file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workload::Workload;
use crate::bench::digest::sha256_hex;

/// What each request looks like, in tokens by the server's own count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Tokens of the prompt, with everything that the chat template puts around it.
    pub prompt_tokens: Vec<NonZeroU32>,
    /// Output tokens to ask for; takes the place of `max_tokens`.
    pub output_tokens: Vec<NonZeroU32>,
    /// Tokens of an earlier conversation before the prompt; default: none.
    #[serde(default = "no_depth")]
    pub depth: Vec<u32>,
}

fn no_depth() -> Vec<u32> {
    vec![0]
}

/// One combination of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ShapePoint {
    /// See [`Shape::prompt_tokens`].
    pub prompt_tokens: NonZeroU32,
    /// See [`Shape::output_tokens`].
    pub output_tokens: NonZeroU32,
    /// See [`Shape::depth`].
    pub depth: u32,
}

impl Shape {
    /// Every combination; the prompt's length varies fastest, the depth slowest.
    pub fn points(&self) -> Vec<ShapePoint> {
        let mut points = Vec::new();
        for &depth in &self.depth {
            for &output_tokens in &self.output_tokens {
                for &prompt_tokens in &self.prompt_tokens {
                    points.push(ShapePoint { prompt_tokens, output_tokens, depth });
                }
            }
        }
        points
    }

    /// What is wrong with it: an empty list, or the same value twice.
    pub(super) fn fault(&self) -> Option<String> {
        fn of<T: PartialEq + std::fmt::Display>(name: &str, list: &[T]) -> Option<String> {
            if list.is_empty() {
                return Some(format!("shape.{name} is empty"));
            }
            let mut seen = list.iter().enumerate();
            let twice = seen.find(|(index, value)| list[..*index].contains(value))?;
            Some(format!("shape.{name} has {} twice", twice.1))
        }
        of("prompt_tokens", &self.prompt_tokens)
            .or_else(|| of("output_tokens", &self.output_tokens))
            .or_else(|| of("depth", &self.depth))
    }
}

impl ShapePoint {
    /// `pp512-tg32-d4096`: prompt, output and depth, as people know them from other benchmarks.
    pub fn name(&self) -> String {
        format!("pp{}-tg{}-d{}", self.prompt_tokens, self.output_tokens, self.depth)
    }

    /// What stands for the SHA-256 of a prompts file: prompts of one shape are the same work.
    pub fn sha256(&self) -> String {
        /// Raised when the way changes in which the words are chosen.
        const WORDS_VERSION: u32 = 1;
        sha256_hex(format!("exact prompts {WORDS_VERSION} {}", self.name()))
    }

    /// Tokens of the whole prompt, the earlier conversation included.
    pub fn whole(&self) -> u64 {
        u64::from(self.prompt_tokens.get()) + u64::from(self.depth)
    }
}

/// Where the prompts of one results file are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptSource {
    /// A file of them.
    File(PathBuf),
    /// Made to measure, once the server can be asked for its count.
    Shape(ShapePoint),
}

impl PromptSource {
    /// As it stands in results and tables.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Shape(point) => point.name(),
        }
    }
}

impl Workload {
    /// Where the prompts are from: one results file each.
    pub fn sources(&self) -> Vec<PromptSource> {
        match &self.shape {
            Some(shape) => shape.points().into_iter().map(PromptSource::Shape).collect(),
            None => self.prompts.iter().cloned().map(PromptSource::File).collect(),
        }
    }

    /// The same work with one source of prompts: a shape's point sets the answer's length.
    pub fn of_source(&self, source: &PromptSource) -> Self {
        match source {
            PromptSource::File(_) => self.clone(),
            PromptSource::Shape(point) => Self {
                shape: Some(Shape {
                    prompt_tokens: vec![point.prompt_tokens],
                    output_tokens: vec![point.output_tokens],
                    depth: vec![point.depth],
                }),
                max_tokens: point.output_tokens,
                ..self.clone()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_combination_is_a_source_with_its_own_output_length() {
        let shape = shape("prompt_tokens = [512, 2048]\noutput_tokens = [32]\ndepth = [0, 4096]");
        assert_eq!(shape.fault(), None);
        let work = Workload { shape: Some(shape), ..Workload::default() };
        let names: Vec<String> = work.sources().iter().map(PromptSource::name).collect();
        let all = ["pp512-tg32-d0", "pp2048-tg32-d0", "pp512-tg32-d4096", "pp2048-tg32-d4096"];
        assert_eq!(names, all);
        let narrowed = work.of_source(&work.sources()[3]);
        assert_eq!((narrowed.max_tokens.get(), narrowed.sources().len()), (32, 1));
        let PromptSource::Shape(point) = narrowed.sources()[0] else { panic!() };
        assert_eq!(point.whole(), 6_144);
    }

    #[test]
    fn lists_are_not_empty_and_have_nothing_twice() {
        let fault = |text: &str| shape(text).fault().unwrap();
        assert!(fault("prompt_tokens = []\noutput_tokens = [1]").contains("prompt_tokens"));
        assert!(fault("prompt_tokens = [5, 5]\noutput_tokens = [1]").contains("5 twice"));
        assert!(toml::from_str::<Shape>("prompt_tokens = [0]\noutput_tokens = [1]").is_err());
    }
}
