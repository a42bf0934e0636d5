//! What is said before a run: how many requests, how long, how precise, how expensive.
//!
//! Time and precision are taken from the newest earlier results of the same work in the results
//! folder; without any the progress line tells the time once the first level is under way.

use std::time::Duration;

use super::BadInput;
use super::plan as precision;
use crate::bench::budget::usd;
use crate::bench::config::{Config, PromptSource};
use crate::bench::plan::PlannedTarget;
use crate::bench::progress::{counted, round};
use crate::bench::prompts::PromptFile;
use crate::bench::runner::Harness;
use crate::results::brief::BriefFile;
use crate::results::store::{self, StoreError, StoredRun};

/// Bytes of English text that make a token, with the vocabularies of today's models: for an
/// estimate, which says that it is one.
const BYTES_PER_TOKEN: f64 = 4.5;

/// Tokens that a target's requests take, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tokens {
    /// Of prompts, estimated from their bytes.
    prompt: f64,
    /// Of answers, at most.
    output: u64,
}

/// Says on stderr what each target takes.
///
/// # Errors
/// If the cost is limited and a target that is somebody else's has no price.
pub fn announce(harness: &Harness, targets: &[PlannedTarget]) -> Result<(), BadInput> {
    let earlier = earlier(harness);
    for target in targets {
        say_size(harness, target);
        let pilot = pilot(&target.config, &earlier);
        for line in precision::short(&precision::plan(
            &target.config,
            pilot.map(|run| &run.file),
            &precision::WANTED,
        )) {
            harness.progress.say(&line);
        }
        harness.progress.say(&time(target, pilot));
        say_cost(harness, target)?;
    }
    Ok(())
}

/// What the results folder holds; a file that cannot be read is named, and is no pilot.
fn earlier(harness: &Harness) -> Vec<StoredRun> {
    let unread = |what: &str, error: StoreError| {
        let error = anyhow::Error::from(error);
        harness.progress.warn(&format!("{what}: failed to {error:#}"));
    };
    match store::read_brief_history(&harness.out) {
        Ok(history) => {
            for error in history.unreadable {
                unread("nothing is estimated by one file", error);
            }
            history.runs
        }
        Err(error) => {
            unread("nothing is estimated by earlier results", error);
            Vec::new()
        }
    }
}

/// The same for a sweep, whose precision is that of the lines through it, and not known before.
///
/// # Errors
/// As for [`announce`].
pub fn announce_sweep(harness: &Harness, targets: &[PlannedTarget]) -> Result<(), BadInput> {
    for target in targets {
        say_size(harness, target);
        say_cost(harness, target)?;
    }
    Ok(())
}

fn say_size(harness: &Harness, target: &PlannedTarget) {
    let name = &target.config.target.name;
    let (levels, requests) = target.size();
    let (levels, requests) = (counted(levels as u64, "level"), counted(requests, "request"));
    harness.progress.say(&format!("{name}: {levels}, {requests}"));
}

fn say_cost(harness: &Harness, target: &PlannedTarget) -> Result<(), BadInput> {
    if let Some(line) = cost(harness, target)? {
        harness.progress.say(&line);
    }
    Ok(())
}

/// The newest earlier results of the same work, with the same config where there are such.
fn pilot<'a>(config: &Config, earlier: &'a [StoredRun]) -> Option<&'a StoredRun> {
    let sources = config.workload.sources();
    let same = |file: &BriefFile| {
        let of_source = |source: &PromptSource| {
            let max_tokens = config.workload.of_source(source).max_tokens;
            file.meta.prompts == source.name()
                && file.meta.max_tokens == u64::from(max_tokens.get())
        };
        file.meta.target == config.target.name.as_str()
            && file.meta.model == config.target.model.as_str()
            && sources.iter().any(of_source)
    };
    let measured = |run: &&StoredRun| same(&run.file) && !run.file.levels.is_empty();
    earlier.iter().filter(measured).max_by(|a, b| a.file.meta.date.cmp(&b.file.meta.date))
}

/// "about 12 min, by 20261020T031244Z-….json".
fn time(target: &PlannedTarget, pilot: Option<&StoredRun>) -> String {
    let unknown = "  time: not known before its first level (no earlier results of this work)";
    let Some(pilot) = pilot else { return unknown.to_owned() };
    let work = &target.config.workload;
    let of_level = |&concurrency: &u32| {
        let level = pilot.file.levels.iter().find(|level| level.rung() == Some(concurrency))?;
        let summary = &level.summary;
        let seconds =
            summary.wall_s / summary.n_ok as f64 * f64::from(work.requests_at(concurrency));
        seconds.is_finite().then_some(seconds)
    };
    let Some(ladder) = work.concurrency.levels().iter().map(of_level).sum::<Option<f64>>() else {
        return "  time: not known (its earlier results lack a level)".to_owned();
    };
    let passes = work.sources().len() as f64 * f64::from(work.repeats.get());
    let text = round(Duration::from_secs_f64(ladder * passes));
    format!("  time: about {text} of load, by {}", pilot.name())
}

/// What a priced target costs; an error if that is limited and not known.
fn cost(harness: &Harness, target: &PlannedTarget) -> Result<Option<String>, BadInput> {
    let config = &target.config;
    let Some(price) = &config.target.price else {
        if harness.budget.max_usd().is_some() && target.spec.is_none() {
            let name = &config.target.name;
            return Err(BadInput(format!("--max-cost: {name} has no price to reckon with")));
        }
        return Ok(None);
    };
    let tokens = tokens(config);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole tokens")]
    let most = price.cost_usd(tokens.prompt as u64, 0, tokens.output);
    let limit = harness.budget.max_usd();
    let limit = limit.map_or(String::new(), |max| format!("; stops before {}", usd(max)));
    let most = usd(most);
    Ok(Some(format!(
        "  cost: about {:.0} prompt tokens and up to {} output tokens, {most}{limit}",
        tokens.prompt, tokens.output
    )))
}

fn tokens(config: &Config) -> Tokens {
    let work = &config.workload;
    let levels = work.concurrency.levels().iter();
    let requests: u64 =
        levels.map(|&level| u64::from(work.requests_at(level)) + u64::from(work.warmup)).sum();
    let requests = requests * u64::from(work.repeats.get());
    let sources = work.sources();
    let prompt = |source: &PromptSource| match source {
        PromptSource::File(path) => {
            let prompts = PromptFile::read(path).map(|file| file.prompts).unwrap_or_default();
            let bytes: usize = prompts.iter().map(|prompt| prompt.text(None).len()).sum();
            bytes as f64 / prompts.len().max(1) as f64 / BYTES_PER_TOKEN
        }
        PromptSource::Shape(point) => point.whole() as f64,
    };
    let output = |source: &PromptSource| u64::from(work.of_source(source).max_tokens.get());
    Tokens {
        prompt: sources.iter().map(prompt).sum::<f64>() * requests as f64,
        output: sources.iter().map(output).sum::<u64>() * requests,
    }
}
