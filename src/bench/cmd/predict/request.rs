//! What one request would take from each target, from its measured rates: the report's explorer in
//! the terminal. Rates and formulas are the same functions as the page's.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::analyse::explorer::{Ask, Breakdown, breakdown};
use crate::report::rates::{TargetRates, targets};
use crate::results::escape::terminal;
use crate::results::store::StoredRun;

/// The request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens.
    pub output: u32,
    /// Requests in flight.
    pub concurrency: u32,
    /// Round trip; `None` is each target's own.
    pub rtt_s: Option<f64>,
    /// New connections.
    pub handshakes: f64,
}

fn of(asked: &Asked, target: &TargetRates) -> Breakdown {
    let ask = Ask {
        prompt: f64::from(asked.prompt),
        output: f64::from(asked.output),
        rtt_s: asked.rtt_s.unwrap_or(target.rtt_s),
        concurrency: f64::from(asked.concurrency),
        handshakes: asked.handshakes,
    };
    breakdown(&target.rates, &ask)
}

/// A line for each target, and where its rates are from; empty without a c = 1 level.
pub(super) fn text(asked: &Asked, runs: &[StoredRun]) -> String {
    let targets = targets(&runs.iter().collect::<Vec<_>>());
    if targets.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "A request of {} prompt and {} output tokens, {} in flight:\n",
        asked.prompt, asked.output, asked.concurrency
    );
    for target in &targets {
        let parts = of(asked, target);
        let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
        let _ = writeln!(
            out,
            "  {}: first token after {} ms (network {}, handshake {}, queue {}, prefill {}), whole \
             answer after {} ms (decode {})",
            terminal(&target.name),
            ms(parts.ttft_s()),
            ms(parts.network_s),
            ms(parts.handshake_s),
            ms(parts.queue_s),
            ms(parts.prefill_s),
            ms(parts.total_s()),
            ms(parts.decode_s)
        );
        for source in &target.sources {
            let _ = writeln!(out, "    {}: {}", terminal(&source.figure), terminal(&source.source));
        }
    }
    out
}

/// The same for programs, in seconds.
pub(super) fn to_json(asked: &Asked, runs: &[StoredRun]) -> Value {
    let targets = targets(&runs.iter().collect::<Vec<_>>());
    let target = |target: &TargetRates| {
        let parts = of(asked, target);
        json!({
            "target": target.name,
            "network_s": parts.network_s,
            "handshake_s": parts.handshake_s,
            "queue_s": parts.queue_s,
            "prefill_s": parts.prefill_s,
            "decode_s": parts.decode_s,
            "ttft_s": parts.ttft_s(),
            "total_s": parts.total_s(),
            "assumed": target.sources.iter().filter(|s| s.assumed).map(|s| &s.figure)
                .collect::<Vec<_>>(),
        })
    };
    json!({
        "prompt_tokens": asked.prompt,
        "output_tokens": asked.output,
        "concurrency": asked.concurrency,
        "targets": targets.iter().map(target).collect::<Vec<_>>(),
    })
}
