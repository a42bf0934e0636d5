//! llama.cpp without a server: the yardstick that spark-serve is held against.
//!
//! The same file, context, batch sizes and threads, and the least that a decode can be: compute,
//! take the largest logit, compute again. No text, no channel, no HTTP.
//!
//! It reads one request a line from standard input, `{"prompt": "…", "max_tokens": 128}` (special
//! tokens in the prompt are recognised, none ends the answer), and answers each with a line of
//! figures. So `scripts/bench-serve` can keep it loaded and let it take turns with a server.

use std::io::{BufRead, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{LogOptions, send_logs_to_tracing};

#[derive(Parser)]
#[command(about = "llama.cpp's bare decode loop")]
struct Arguments {
    /// The GGUF file.
    #[arg(long)]
    gguf: PathBuf,
    /// Context in tokens.
    #[arg(long, default_value = "8192")]
    ctx: NonZeroU32,
    /// Threads of prefill and decode.
    #[arg(long)]
    threads: i32,
    /// Most tokens of one call.
    #[arg(long, default_value_t = 2048)]
    batch: u32,
    /// Most tokens computed at once.
    #[arg(long, default_value_t = 512)]
    ubatch: u32,
    /// Layers on the GPU.
    #[arg(long, default_value_t = 999)]
    gpu_layers: u32,
}

#[derive(serde::Deserialize)]
struct Request {
    prompt: String,
    max_tokens: usize,
}

#[derive(serde::Serialize)]
struct Figures {
    n_prompt: usize,
    prefill_ms: f64,
    n_generated: usize,
    /// From the first token to the last.
    decode_ms: f64,
    /// Tokens after the first, over that time.
    decode_tps: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    send_logs_to_tracing(LogOptions::default().with_logs_enabled(false));
    let backend = LlamaBackend::init()?;
    let params = LlamaModelParams::default().with_n_gpu_layers(arguments.gpu_layers);
    let model = LlamaModel::load_from_file(&backend, &arguments.gguf, &params)?;
    let params = LlamaContextParams::default()
        .with_n_ctx(Some(arguments.ctx))
        .with_n_batch(arguments.batch)
        .with_n_ubatch(arguments.ubatch)
        .with_n_threads(arguments.threads)
        .with_n_threads_batch(arguments.threads)
        .with_no_perf(true);
    let mut context = model.new_context(&backend, params)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).context("a request")?;
        let figures = run(&model, &mut context, &request)?;
        writeln!(output, "{}", serde_json::to_string(&figures)?)?;
        output.flush()?;
    }
    Ok(())
}

/// Answers one request from an empty cache.
fn run(model: &LlamaModel, context: &mut LlamaContext, request: &Request) -> Result<Figures> {
    let prompt = model.vocab().tokenize(request.prompt.as_bytes(), false, true);
    let room = context.n_ctx() as usize;
    if prompt.is_empty() || prompt.len() + request.max_tokens > room {
        bail!("a prompt of {} tokens in a context of {room}", prompt.len());
    }
    context.clear_kv_cache_seq(None, None, None)?;
    let mut batch = LlamaBatch::new(context.n_batch() as usize, 1);
    let mut position = 0;
    let start = Instant::now();
    for piece in prompt.chunks(context.n_batch() as usize) {
        batch.clear();
        for (index, &token) in piece.iter().enumerate() {
            let last = position as usize + 1 == prompt.len() && index + 1 == piece.len();
            batch.add(token, position, &[0], last)?;
            position += 1;
        }
        context.decode(&mut batch)?;
    }
    let mut token = largest(context);
    let first = Instant::now();
    let mut last = first;
    for _ in 1..request.max_tokens {
        batch.clear();
        batch.add(token, position, &[0], true)?;
        position += 1;
        context.decode(&mut batch)?;
        token = largest(context);
        last = Instant::now();
    }
    let decode = last - first;
    let n_after_first = request.max_tokens.saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "a number of tokens")]
    let decode_tps = n_after_first as f64 / decode.as_secs_f64();
    Ok(Figures {
        n_prompt: prompt.len(),
        prefill_ms: ms(first - start),
        n_generated: request.max_tokens,
        decode_ms: ms(decode),
        decode_tps,
    })
}

/// The token with the largest logit, found in two passes, which the compiler vectorises.
fn largest(context: &LlamaContext) -> LlamaToken {
    const LANES: usize = 16;
    let logits = context.get_logits_ith(-1);
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in logits.chunks(LANES) {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    let max = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let index = logits.iter().position(|&logit| logit == max).unwrap_or(0);
    LlamaToken(i32::try_from(index).expect("a vocabulary is smaller than 2³¹"))
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
