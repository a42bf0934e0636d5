//! Drill: events are not tokens.

use std::path::Path;

use super::server::Kind;
use super::{Server, percentile, row, table};
use crate::bench::load::LevelSpec;
use crate::measure::metrics::decode_tps;
use crate::measure::trace::RequestTrace;

const TOKENS: u32 = 160;
const N: u32 = 5;

/// Runs it and gives its text.
pub(super) async fn run(harness: &Path) -> anyhow::Result<String> {
    let mut rows = vec![row([
        "server",
        "tokens (usage)",
        "events",
        "tok/s by usage",
        "tok/s by events",
        "off by",
    ])];
    for (name, kind) in [("an event a token", Kind::Serial), ("an event a word", Kind::Words)] {
        let server = Server::start(harness, kind)?;
        let endpoint = server.endpoint(TOKENS)?;
        let spec = LevelSpec { warmup: 1, ..LevelSpec::closed(1, N) };
        let traces = server.level(&endpoint, &spec).await?;
        let count = |of: fn(&RequestTrace) -> Option<f64>| percentile(&traces, 50.0, of);
        let right = count(decode_tps);
        let wrong = count(by_events);
        let off = right.zip(wrong).map(|(right, wrong)| 100.0 * (wrong / right - 1.0));
        let number = |value: Option<f64>, unit: &str| {
            value.map_or("-".to_owned(), |value| format!("{value:.1}{unit}"))
        };
        rows.push(vec![
            name.to_owned(),
            number(count(|trace| trace.tokens.n_out.map(|n| n as f64)), ""),
            number(count(|trace| Some(trace.tokens.n_chunks as f64)), ""),
            number(right, ""),
            number(wrong, ""),
            number(off, " %"),
        ]);
    }
    Ok(format!(
        "The same device behind two streamers, tokens counted twice.\n\n{}\n\
         Both servers are equally fast. Who counts events sees a slower one wherever an event \
         carries more than one token,\nby as much as words happen to be long, or as the server \
         happens to bundle under load. The server's own usage\nis the count to divide by.\n",
        table(&rows)
    ))
}

/// The mistake: (events − 1) ÷ the time between the first and the last.
fn by_events(trace: &RequestTrace) -> Option<f64> {
    let window = trace.stamps.last_text?.checked_sub(trace.stamps.first_text?)?.as_secs_f64();
    let events = trace.tokens.n_chunks.checked_sub(1)? as f64;
    (window > 0.0).then(|| events / window)
}
