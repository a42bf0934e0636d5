//! A million records summarised, and judged: `cargo bench --no-default-features --bench summarise`.
//!
//! The bound is two seconds for a summary. Correlated latencies are the dear case: a serial
//! server's τ̂ takes c lags, a drift takes all of them.

use spark::measure::flags::{Outside, judge};
use spark::measure::level::{EndedBy, LevelFacts, StartMode, summarise};
use spark::measure::trace::{
    Connection, Outcome, Phase, PromptUse, RequestTrace, Stamps, TokenSource, Tokens,
};
use std::time::Duration;

const REQUESTS: u32 = 1_000_000;
const CONCURRENCY: u32 = 64;

fn main() {
    divan::main();
}

fn facts() -> LevelFacts {
    LevelFacts {
        concurrency: CONCURRENCY,
        start_mode: StartMode::Staggered,
        ended_by: EndedBy::NOk,
        stutter: Duration::from_millis(200),
        single: None,
        slo: None,
    }
}

/// Latencies in nanoseconds for the i-th request: (first text, end).
type Latency = fn(u32) -> (u64, u64);

/// A cheap, fixed stream of pseudo-random numbers.
fn noise(index: u32) -> u64 {
    let mixed = (u64::from(index) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 44
}

fn independent(index: u32) -> (u64, u64) {
    (100_000_000 + noise(index), 3_000_000_000 + 8 * noise(index ^ 0x5555))
}

/// The sum of the last c service times.
fn serial(index: u32) -> (u64, u64) {
    let wait: u64 = (0..CONCURRENCY).map(|back| 50_000_000 + noise(index.wrapping_sub(back))).sum();
    (wait, wait + 50_000_000)
}

fn drifting(index: u32) -> (u64, u64) {
    let slower = u64::from(index) * 1000;
    (100_000_000 + slower + noise(index), 3_000_000_000 + slower)
}

fn level(latency: Latency, gaps: usize) -> Vec<RequestTrace> {
    let request = |index: u32| {
        let (first, end) = latency(index);
        let round = u64::from(index / CONCURRENCY) * 3_100_000_000;
        let start = Duration::from_nanos(round + u64::from(index % CONCURRENCY) * 48_000_000);
        RequestTrace {
            index,
            prompt_index: index,
            prompt: PromptUse::default(),
            worker: index % CONCURRENCY,
            start,
            lateness: None,
            phase: Phase::Steady,
            outcome: Outcome::Ok,
            stamps: Stamps {
                first_text: Some(Duration::from_nanos(first)),
                first_answer: Some(Duration::from_nanos(first)),
                last_text: Some(Duration::from_nanos(end)),
                end: Duration::from_nanos(end + 100_000),
                ..Stamps::default()
            },
            tokens: Tokens {
                n_out: Some(256),
                source: TokenSource::Usage,
                n_prompt: Some(41),
                n_chunks: 256,
                ..Tokens::default()
            },
            gaps_us: vec![11_000; gaps],
            server: None,
            connection: Connection::default(),
            finish_reason: None,
            http_status: Some(200),
            retry_after: None,
            pause: None,
            text_sha256: None,
            text: None,
            model: None,
            notes: Vec::new(),
        }
    };
    (0..REQUESTS).map(request).collect()
}

#[divan::bench(args = ["independent", "serial", "drifting"], sample_count = 3, sample_size = 1)]
fn summarise_a_million(bencher: divan::Bencher, kind: &str) {
    let latency: Latency = match kind {
        "serial" => serial,
        "drifting" => drifting,
        _ => independent,
    };
    let traces = level(latency, 0);
    bencher.bench_local(|| summarise(&facts(), divan::black_box(&traces)));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn summarise_a_million_with_64_gaps_each(bencher: divan::Bencher) {
    let traces = level(independent, 64);
    bencher.bench_local(|| summarise(&facts(), divan::black_box(&traces)));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn judge_a_million(bencher: divan::Bencher) {
    let traces = level(independent, 0);
    let summary = summarise(&facts(), &traces);
    let outside = Outside::default();
    bencher.bench_local(|| judge(&summary, divan::black_box(&traces), &outside));
}
