//! What the HTTP side of spark-serve costs per token, beside the least that a program pays at all for
//! sending a client so many bytes at such a pace.
//!
//! A scripted model stands in for llama.cpp, whose threads no profiler sees past. As long as a token
//! takes, it reads through more memory than the caches hold, as a model reads its weights: what is
//! woken afterwards finds nothing of its own in the caches, and that is what it costs in earnest.
//!
//! Three contenders take turns with the same client, tokens and bytes:
//! - `spark-serve`: the whole server, on its own runtime;
//! - `tokio`: a task that is woken through a channel and writes bytes that are ready, on a runtime
//!   with one thread: the least of any server in tokio;
//! - `thread`: a thread that is woken through a channel and writes: the least of any server that
//!   does not write from the thread that computes.
//!
//! Each line is the CPU time of the contender's threads as the kernel counts it, and how often they
//! were woken, per token. `idle` instead of `busy` lets the model sleep instead of compute.
//!
//! ```text
//! cargo run --release --no-default-features --example stream_cost -- [rounds] [tokens] [ms per token] [busy|idle]
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use spark::serve::cli::LogFormat;
use spark::serve::config::{Config, EngineConfig};
use spark::serve::inference::scripted::{Reply, ScriptedModel};
use spark::serve::inference::{
    Grammar, GrammarMatcher, Model, ModelError, Output, TokenId, Tokenizer,
};
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// More than any cache of a machine with few cores.
const WEIGHTS: usize = 64 << 20;
/// A client waits no longer for the next byte.
const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1:0";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (rounds, tokens, ms) = (number(6)?, number(100)?, number(20)?);
    let work = match arguments.next().as_deref() {
        None | Some("busy") => Work::busy(ms)?,
        Some("idle") => Work::idle(ms),
        Some(other) => return Err(format!("'{other}' is neither busy nor idle").into()),
    };
    let contenders =
        [spark_serve(&work, tokens)?, bare_tokio(&work, tokens)?, bare_thread(&work, tokens)?];
    let mut costs = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let cost = contenders[index].turn(tokens)?;
            if round > 0 {
                costs[index].push(cost); // The first is a warm-up.
            }
        }
    }
    let least: Vec<f64> = costs[2].iter().map(|cost| cost.us).collect();
    for (contender, costs) in contenders.iter().zip(&costs) {
        let us: Vec<f64> = costs.iter().map(|cost| cost.us).collect();
        let ratios = us.iter().zip(&least).map(|(us, least)| us / least).collect();
        let (low, middle, high) = spread(us);
        println!(
            "{:>12}: {middle:6.1} us per token ({low:.1} to {high:.1}), {:.2} wake-ups, {:.0} bytes, {:.2} x thread",
            contender.name,
            spread(costs.iter().map(|cost| cost.wakes).collect()).1,
            spread(costs.iter().map(|cost| cost.bytes).collect()).1,
            spread(ratios).1,
        );
    }
    Ok(())
}

/// The lowest, the median, the highest.
fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[figures.len() / 2], figures[figures.len() - 1])
}

/// What stands for the computing of one token.
#[derive(Clone)]
struct Work {
    takes: Duration,
    weights: Arc<Vec<u64>>,
}

impl Work {
    /// Every core is as busy as with an engine that has a thread on each.
    fn busy(ms: usize) -> std::io::Result<Self> {
        let weights = (0..WEIGHTS as u64 / 8).collect();
        let work = Self { takes: Duration::from_millis(ms as u64), weights: Arc::new(weights) };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 1..cores {
            let work = work.clone();
            compute(move || {
                loop {
                    work.do_it();
                }
            })?;
        }
        Ok(work)
    }

    fn idle(ms: usize) -> Self {
        Self { takes: Duration::from_millis(ms as u64), weights: Arc::new(Vec::new()) }
    }

    fn do_it(&self) {
        let until = Instant::now() + self.takes;
        if self.weights.is_empty() {
            std::thread::sleep(self.takes);
        }
        // A piece at a time, so that each token takes the same time.
        for piece in self.weights.chunks(1 << 14).cycle() {
            if Instant::now() >= until {
                break;
            }
            std::hint::black_box(piece.iter().step_by(8).sum::<u64>());
        }
    }
}

/// Somebody who sends tokens, and the threads that do.
struct Contender {
    name: &'static str,
    address: SocketAddr,
    /// What the names of the threads begin with.
    threads: &'static str,
    request: String,
}

/// Of one token.
#[derive(Clone, Copy)]
struct Cost {
    us: f64,
    wakes: f64,
    bytes: f64,
}

impl Contender {
    /// One answer.
    #[expect(clippy::cast_precision_loss, reason = "a run is far shorter than 2^52 of anything")]
    fn turn(&self, tokens: usize) -> Result<Cost, Failure> {
        let before = threads(self.threads)?;
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(self.request.as_bytes())?;
        let (mut bytes, mut buffer) = (0, [0; 1 << 16]);
        loop {
            match stream.read(&mut buffer)? {
                0 => break,
                n => bytes += n,
            }
        }
        let after = threads(self.threads)?;
        let n = tokens as f64;
        Ok(Cost {
            us: (after.0 - before.0) as f64 / 1e3 / n,
            wakes: (after.1 - before.1) as f64 / n,
            bytes: bytes as f64 / n,
        })
    }
}

/// CPU time in ns, and voluntary switches, of the threads whose names begin like this.
fn threads(name: &str) -> Result<(u64, u64), Failure> {
    let mut sum = (0, 0);
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // Threads that compute end meanwhile.
        let Ok(comm) = std::fs::read_to_string(task.join("comm")) else { continue };
        if !comm.starts_with(name) {
            continue;
        }
        let times = std::fs::read_to_string(task.join("schedstat"))?;
        let ns: u64 = times.split(' ').next().ok_or("an empty schedstat")?.parse()?;
        let status = std::fs::read_to_string(task.join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum.0 += ns;
        sum.1 += line.ok_or("no count of switches")?.trim().parse::<u64>()?;
    }
    Ok(sum)
}

/// Answers with one word again and again, each after some work.
struct Paced {
    inner: ScriptedModel,
    work: Work,
}

impl Model for Paced {
    fn tokenizer(&self) -> Arc<dyn Tokenizer> {
        self.inner.tokenizer()
    }

    fn rewind(&mut self, n_keep: usize) -> Result<usize, ModelError> {
        self.inner.rewind(n_keep)
    }

    fn eval(
        &mut self,
        tokens: &[TokenId],
        output: Output,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), ModelError> {
        self.work.do_it();
        self.inner.eval(tokens, output, cancelled)
    }

    fn logits(&mut self) -> &mut [f32] {
        self.inner.logits()
    }

    fn matcher(&self, grammar: &Grammar) -> Result<Box<dyn GrammarMatcher>, ModelError> {
        self.inner.matcher(grammar)
    }
}

fn spark_serve(work: &Work, tokens: usize) -> Result<Contender, Failure> {
    let config = Config {
        gguf: "scripted.gguf".into(),
        host: "127.0.0.1".to_owned(),
        port: 0,
        engine: EngineConfig::default(),
        alias: "smollm2-135m-instruct-bf16".to_owned(),
        chat_template: None,
        max_queue: 4,
        api_key: None,
        drain_timeout: Duration::ZERO,
        log_format: LogFormat::Text,
    };
    let runtime = spark::serve::runtime()?;
    let listener = runtime.block_on(spark::serve::listen(&config))?;
    let address = listener.local_addr()?;
    let (ready, is_ready) = mpsc::channel();
    let (work, words) = (work.clone(), " word".repeat(tokens));
    std::thread::Builder::new().name("tokio-rt-main".to_owned()).spawn(move || {
        let load = move |_: &_| {
            let inner = ScriptedModel::new(move |_| Reply::words(&words))
                .with_settings(|settings| (settings.n_ctx, settings.n_ubatch) = (1 << 16, 1 << 16));
            Ok(Paced { inner, work })
        };
        let never = CancellationToken::new();
        let announce = move |_: &_| {
            let _ = ready.send(()); // Nobody waits any more if it fails.
        };
        runtime.block_on(spark::serve::run(listener, &config, load, never.cancelled(), announce))
    })?;
    is_ready.recv_timeout(PATIENCE)?;
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Hi"}}],"stream":true,"max_tokens":{tokens},"temperature":0}}"#
    );
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Ok(Contender { name: "spark-serve", address, threads: "tokio-rt", request })
}

/// As many bytes as an event of spark-serve has on the wire.
fn event() -> Vec<u8> {
    vec![b'.'; 216]
}

/// On a thread of its own, whose name is not its maker's.
fn compute(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("compute".to_owned()).spawn(work).map(drop)
}

fn bare_tokio(work: &Work, tokens: usize) -> Result<Contender, Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).thread_name("bare-tokio").enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(ADDRESS))?;
    let address = listener.local_addr()?;
    let work = work.clone();
    runtime.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let work = work.clone();
            compute(move || {
                for _ in 0..tokens {
                    work.do_it();
                    let _ = sender.send(event());
                }
            })?;
            while let Some(event) = receiver.recv().await {
                stream.write_all(&event).await?;
            }
        }
        #[expect(unreachable_code, reason = "says what the question marks fail with")]
        Ok::<(), Failure>(())
    });
    std::mem::forget(runtime); // It lives as long as the program.
    Ok(Contender { name: "tokio", address, threads: "bare-tokio", request: String::new() })
}

fn bare_thread(work: &Work, tokens: usize) -> Result<Contender, Failure> {
    let listener = TcpListener::bind(ADDRESS)?;
    let address = listener.local_addr()?;
    let work = work.clone();
    std::thread::Builder::new().name("bare-thread".to_owned()).spawn(move || {
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let (sender, receiver) = mpsc::channel();
            let work = work.clone();
            compute(move || {
                for _ in 0..tokens {
                    work.do_it();
                    let _ = sender.send(event());
                }
            })?;
            for event in receiver {
                stream.write_all(&event)?;
            }
        }
        #[expect(unreachable_code, reason = "says what the question marks fail with")]
        Ok::<(), Failure>(())
    })?;
    Ok(Contender { name: "thread", address, threads: "bare-thread", request: String::new() })
}
