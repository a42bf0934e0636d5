//! Requests of our own to a server that we started: one that checks length and finish reason, and
//! one whose text shows, before and after, that the model still makes sense.

use std::num::NonZeroU32;

use tokio_util::sync::CancellationToken;

use super::endpoint::for_probe;
use crate::bench::client::Endpoint;
use crate::bench::config::Target;
use crate::bench::engine::{Kind, NotMeasured};
use crate::bench::load::{LevelSpec, Unobserved, run_level};
use crate::bench::prompts::{Prompt, PromptCursor, PromptFile, PromptReuse};
use crate::measure::trace::{Outcome, RequestTrace};

/// What the check asks for: enough to see that it is obeyed, too little to take time.
const CHECK_TOKENS: NonZeroU32 = NonZeroU32::new(8).expect("8 is not zero");
/// Enough for a sentence.
const PROBE_TOKENS: NonZeroU32 = NonZeroU32::new(32).expect("32 is not zero");
/// A question that every model can answer in a sentence.
const QUESTION: &str = "What is the capital of France? Answer in one short sentence.";

/// Sends one known request, and checks what comes back.
///
/// # Errors
/// If it fails, or the model that answers, the answer's length or its finish reason is not as
/// asked.
pub async fn check(
    target: &Target,
    endpoint: &Endpoint,
    cancel: &CancellationToken,
) -> Result<RequestTrace, NotMeasured> {
    let exact = endpoint.body.ignore_eos;
    let trace = ask(&for_probe(endpoint, CHECK_TOKENS, exact), cancel).await?;
    let failed = |text: String| Err(NotMeasured::new(Kind::CheckFailed, "check", text));
    if let Outcome::Failed(class, message) = &trace.outcome {
        return failed(format!("the check request failed ({class}): {message}"));
    }
    if let Some(answered) = trace.model.as_ref().filter(|answered| !target.accepts(answered)) {
        let text = other_model(target, answered);
        return Err(NotMeasured::new(Kind::CheckFailed, "wrong_model", text));
    }
    let asked = u64::from(CHECK_TOKENS.get());
    let (n_out, finish) = (trace.tokens.n_out, trace.finish_reason.as_deref().unwrap_or("none"));
    if exact && (n_out != Some(asked) || finish != "length") {
        let got = n_out.map_or("an unknown number of".to_owned(), |n| n.to_string());
        return failed(format!(
            "the check request asked for exactly {asked} tokens and got {got}, finish reason {finish}"
        ));
    }
    if n_out.is_some_and(|n_out| n_out > asked) {
        return failed(format!("the check request asked for at most {asked} tokens, and got more"));
    }
    Ok(trace)
}

/// That another model answers than the one that was asked for, and what to do about it.
pub fn other_model(target: &Target, answered: &str) -> String {
    format!(
        "asked for the model {:?}, answered by {answered:?} (if that is the same one under another \
         name, say so: accept_models in a config, --accept-model of run)",
        target.model.as_str()
    )
}

/// The answer to a question that every model can answer; why there is none, where there is none.
pub async fn coherence(endpoint: &Endpoint, cancel: &CancellationToken) -> String {
    match ask(&for_probe(endpoint, PROBE_TOKENS, false), cancel).await {
        Ok(trace) => match trace.outcome {
            Outcome::Ok => trace.text.unwrap_or_default(),
            Outcome::Failed(class, message) => format!("[failed: {class}: {message}]"),
        },
        Err(why) => format!("[failed: {why}]"),
    }
}

async fn ask(endpoint: &Endpoint, cancel: &CancellationToken) -> Result<RequestTrace, NotMeasured> {
    let file = PromptFile::of_one(Prompt::Text(QUESTION.to_owned()));
    let mut cursor = PromptCursor::new(file, None, PromptReuse::Allow);
    let spec = LevelSpec { warmup: 0, max_attempts: 1, ..LevelSpec::closed(1, 1) };
    let failed = |error: String| NotMeasured::new(Kind::CheckFailed, "check", error);
    let run = run_level(endpoint, &mut cursor, &spec, &Unobserved, cancel)
        .await
        .map_err(|error| failed(format!("failed to send a request: {error}")))?;
    if cancel.is_cancelled() {
        return Err(NotMeasured::interrupted());
    }
    run.traces.into_iter().next().ok_or_else(|| failed("no request was sent".into()))
}
