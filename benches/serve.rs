//! What spark-serve itself does for each token: a draw, whole characters, one event.
//! `cargo bench --no-default-features --bench serve`.
//!
//! The bounds are 100 µs on the inference thread and 100 µs on the HTTP side.

use divan::{Bencher, black_box};
use spark::api::chat::{ChatChunk, ChunkChoice, Delta};
use spark::api::sse;
use spark::serve::inference::sampler::{MayEnd, Sampler};
use spark::serve::inference::text::TextHolder;
use spark::serve::inference::{GenerationParams, Logprobs, Sampling};

/// Vocabularies of SmolLM2 and Llama 3.
const VOCABULARIES: [usize; 2] = [49_152, 128_256];

fn main() {
    divan::main();
}

/// Logits like those of a model: noise, and a few tokens that stand out.
fn logits(n_vocab: usize) -> Vec<f32> {
    let noise = |id: usize| (id.wrapping_mul(2_654_435_761) >> 7) % 1000;
    let logit = |id: usize| f32::from(u16::try_from(noise(id)).expect("below 1000")) / 100.0;
    (0..n_vocab).map(|id| logit(id) + if id % 9973 == 0 { 8.0 } else { 0.0 }).collect()
}

fn draw(bencher: Bencher, n_vocab: usize, params: &GenerationParams) {
    let mut sampler = Sampler::new(params, &[], &[2], None, 7);
    let mut logits = logits(n_vocab);
    bencher.bench_local(move || sampler.draw(black_box(&mut logits), MayEnd::Yes));
}

#[divan::bench(args = VOCABULARIES)]
fn draw_greedy(bencher: Bencher, n_vocab: usize) {
    let params = GenerationParams { sampling: Sampling::GREEDY, ..GenerationParams::default() };
    draw(bencher, n_vocab, &params);
}

#[divan::bench(args = VOCABULARIES)]
fn draw_at_a_temperature(bencher: Bencher, n_vocab: usize) {
    draw(bencher, n_vocab, &GenerationParams::default());
}

#[divan::bench(args = VOCABULARIES)]
fn draw_from_the_nucleus(bencher: Bencher, n_vocab: usize) {
    let sampling = Sampling { top_p: 0.9, top_k: Some(40), ..Sampling::default() };
    draw(bencher, n_vocab, &GenerationParams { sampling, ..GenerationParams::default() });
}

#[divan::bench(args = VOCABULARIES)]
fn draw_with_log_probabilities(bencher: Bencher, n_vocab: usize) {
    let params = GenerationParams {
        sampling: Sampling::GREEDY,
        logprobs: Some(Logprobs { top: 5 }),
        ..GenerationParams::default()
    };
    draw(bencher, n_vocab, &params);
}

#[divan::bench(args = [0, 4, 16])]
fn hold_text(bencher: Bencher, n_stops: usize) {
    let stops: Vec<String> = (0..n_stops).map(|n| format!("\n\nStop {n}:")).collect();
    let mut holder = TextHolder::new(&stops);
    bencher.bench_local(move || holder.push(black_box(b" token")));
}

#[divan::bench]
fn encode_an_event(bencher: Bencher) {
    bencher.bench_local(|| {
        let delta = Delta { role: None, content: Some(black_box(" token")) };
        let chunk = ChatChunk {
            id: "chatcmpl-0123456789abcdef0123456789abcdef",
            object: "chat.completion.chunk",
            created: 1_796_070_784,
            model: "smollm2-135m-instruct-bf16",
            choices: vec![ChunkChoice { index: 0, delta, logprobs: None, finish_reason: None }],
            usage: None,
            timings: None,
            perf_metrics: None,
        };
        sse::frame(&serde_json::to_string(&chunk).expect("string keys only"))
    });
}
