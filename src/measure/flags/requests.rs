//! Flags that the requests themselves raise.

use super::outside::AskedLength;
use super::{Flag, FlagName, Severity, percent};
use crate::measure::level::LevelSummary;
use crate::measure::metrics::{ttft_budget, usage_tokens};
use crate::measure::proportion::clopper_pearson;
use crate::measure::trace::{FailureClass, Outcome, RequestTrace, TokenSource};

/// From this share of failures on, the ok requests are no fair sample any more: a p99 would rest
/// on requests that were slower than it and are missing.
const INVALID_ERROR_SHARE: f64 = 0.01;
/// Above this share of odd lengths, other work was measured than was asked for.
const INVALID_LENGTH_SHARE: f64 = 0.05;
/// Tokens for each event with text, above which gaps are no inter-token latencies.
const COALESCED_RATIO: f64 = 1.05;
/// Cached tokens that a chat template's common beginning explains …
const CACHED_TOKENS: u64 = 64;
/// … and the share of a prompt that it explains.
const CACHED_SHARE: f64 = 0.1;
/// Clocks are read at slightly different moments; more than this is a misread field.
const REMAINDER_NS: i64 = -500_000;

pub(super) fn flags(
    summary: &LevelSummary,
    measured: &[&RequestTrace],
    length: Option<AskedLength>,
) -> Vec<Flag> {
    let ok: Vec<&RequestTrace> =
        measured.iter().copied().filter(|trace| trace.outcome.is_ok()).collect();
    let found = [
        error_rate(summary, measured),
        length.and_then(|length| length_mismatch(&ok, length)),
        usage_missing(&ok),
        usage_mismatch(measured),
        parse_errors(measured),
        coalesced(&ok),
        cached_prompts(measured),
        duplicate_prompts(measured),
        salted_prompts(measured),
        negative_remainder(&ok),
    ];
    found.into_iter().flatten().collect()
}

fn error_rate(summary: &LevelSummary, measured: &[&RequestTrace]) -> Option<Flag> {
    let (errors, n) = (summary.n_err, summary.n());
    let (_, high) = clopper_pearson(errors, n).filter(|_| errors > 0)?;
    let share = errors as f64 / n as f64;
    let severity = if share >= INVALID_ERROR_SHARE { Severity::Invalid } else { Severity::Flagged };
    let classes: Vec<String> = summary
        .errors
        .iter()
        .map(|(class, count)| match first_message(measured, *class) {
            Some(message) => format!("{count} × {class} ({message})"),
            None => format!("{count} × {class}"),
        })
        .collect();
    let text = format!(
        "{errors} of {n} requests failed ({}; 95 % confident: at most {}): {}",
        percent(share),
        percent(high),
        classes.join(", ")
    );
    let flag = Flag::new(FlagName::ErrorRate, severity, text);
    Some(flag.number("n_err", errors as f64).number("share", share).number("share_high_95", high))
}

/// What the first failure of a class said, as far as it fits beside others.
fn first_message(measured: &[&RequestTrace], class: FailureClass) -> Option<String> {
    const CHARS_MAX: usize = 120;
    let message = measured.iter().find_map(|trace| match &trace.outcome {
        Outcome::Failed(its, message) if *its == class && !message.is_empty() => Some(message),
        _ => None,
    })?;
    let mut chars = message.chars();
    let mut start: String = chars.by_ref().take(CHARS_MAX).collect();
    if chars.next().is_some() {
        start.push('…');
    }
    Some(start)
}

fn length_mismatch(ok: &[&RequestTrace], length: AskedLength) -> Option<Flag> {
    let counts: Vec<u64> = ok.iter().filter_map(|trace| usage_tokens(trace)).collect();
    let odd: Vec<u64> = counts.iter().copied().filter(|count| !length.allows(*count)).collect();
    let (shortest, longest) = (odd.iter().min()?, odd.iter().max()?);
    let share = odd.len() as f64 / counts.len() as f64;
    let severity = if share > INVALID_LENGTH_SHARE { Severity::Invalid } else { Severity::Flagged };
    let text = format!(
        "{} of {} answers were not {length} ({}): {shortest} to {longest} tokens",
        odd.len(),
        counts.len(),
        percent(share),
    );
    let flag = Flag::new(FlagName::LengthMismatch, severity, text);
    Some(flag.number("n_mismatched", odd.len() as f64).number("share", share))
}

fn usage_missing(ok: &[&RequestTrace]) -> Option<Flag> {
    let missing = ok.iter().filter(|trace| trace.tokens.source != TokenSource::Usage).count();
    (missing > 0).then(|| {
        let text = format!(
            "{missing} of {} answers came without usage: their token counts are the number of \
             events with text, and every figure built on them is an estimate",
            ok.len()
        );
        Flag::flagged(FlagName::UsageMissing, text).number("n_missing", missing as f64)
    })
}

fn usage_mismatch(measured: &[&RequestTrace]) -> Option<Flag> {
    let disagrees = |trace: &&&RequestTrace| {
        usage_tokens(trace).is_some_and(|tokens| (tokens > 0) != (trace.tokens.n_chunks > 0))
    };
    let count = measured.iter().filter(disagrees).count();
    (count > 0).then(|| {
        let text = format!(
            "{count} of {} answers: usage and text disagree on whether there was any",
            measured.len()
        );
        Flag::flagged(FlagName::UsageMismatch, text).number("n_mismatched", count as f64)
    })
}

fn parse_errors(measured: &[&RequestTrace]) -> Option<Flag> {
    let with_errors = measured.iter().filter(|trace| trace.tokens.parse_errors > 0).count();
    let events: u64 = measured.iter().map(|trace| trace.tokens.parse_errors).sum();
    (events > 0).then(|| {
        let text = format!("{events} events in {with_errors} answers were not JSON");
        let flag = Flag::flagged(FlagName::ParseErrors, text);
        flag.number("n_events", events as f64).number("n_requests", with_errors as f64)
    })
}

fn coalesced(ok: &[&RequestTrace]) -> Option<Flag> {
    let counted = ok.iter().filter_map(|trace| Some((usage_tokens(trace)?, trace.tokens.n_chunks)));
    let (tokens, chunks) = counted.fold((0u64, 0u64), |sums, (tokens, chunks)| {
        (sums.0.saturating_add(tokens), sums.1.saturating_add(chunks))
    });
    let ratio = tokens as f64 / chunks as f64;
    (chunks > 0 && ratio > COALESCED_RATIO).then(|| {
        let text = format!(
            "{ratio:.2} tokens in each event with text: gaps are not inter-token latencies, and \
             counting events would understate tokens by {}",
            percent(1.0 - 1.0 / ratio)
        );
        Flag::flagged(FlagName::Coalesced, text).number("tokens_per_event", ratio)
    })
}

fn cached_prompts(measured: &[&RequestTrace]) -> Option<Flag> {
    let cached = |trace: &&RequestTrace| {
        let (cached, prompt) = (trace.tokens.n_cached?, trace.tokens.n_prompt.unwrap_or(0));
        let explained = (prompt as f64 * CACHED_SHARE).max(CACHED_TOKENS as f64);
        (cached as f64 > explained).then_some(cached)
    };
    let counts: Vec<u64> = measured.iter().filter_map(cached).collect();
    let most = *counts.iter().max()?;
    let text = format!(
        "{} of {} prompts were answered from a cache (up to {most} tokens): their TTFT is not \
         that of a fresh prompt",
        counts.len(),
        measured.len()
    );
    let flag = Flag::flagged(FlagName::CachedPrompts, text);
    Some(flag.number("n_cached_requests", counts.len() as f64).number("n_cached_max", most as f64))
}

fn duplicate_prompts(measured: &[&RequestTrace]) -> Option<Flag> {
    let count = measured.iter().filter(|trace| trace.prompt.is_repeated).count();
    (count > 0).then(|| {
        let text = format!("{count} requests carried a prompt that this server had seen before");
        Flag::flagged(FlagName::DuplicatePrompts, text).number("n_requests", count as f64)
    })
}

fn salted_prompts(measured: &[&RequestTrace]) -> Option<Flag> {
    let count = measured.iter().filter(|trace| trace.prompt.is_salted).count();
    (count > 0).then(|| {
        let text = format!(
            "{count} requests carried a salt line before their prompt, since the prompts file was \
             used up: their prompts are a few tokens longer"
        );
        Flag::flagged(FlagName::SaltedPrompts, text).number("n_requests", count as f64)
    })
}

fn negative_remainder(ok: &[&RequestTrace]) -> Option<Flag> {
    let remainders = ok.iter().filter_map(|trace| ttft_budget(trace));
    let negative: Vec<i64> = remainders
        .map(|budget| budget.unaccounted_ns)
        .filter(|remainder| *remainder < REMAINDER_NS)
        .collect();
    let worst_ms = *negative.iter().min()? as f64 / 1e6;
    let text = format!(
        "{} of {} requests: the server accounts for more time than their TTFT had ({worst_ms:.1} \
         ms at worst), so a field is misread or its clock is not ours",
        negative.len(),
        ok.len()
    );
    let flag = Flag::flagged(FlagName::NegativeRemainder, text);
    Some(flag.number("n_requests", negative.len() as f64).number("remainder_ms_min", worst_ms))
}
