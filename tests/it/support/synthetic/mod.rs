//! Results of servers that do not exist: a closed loop simulated against a serial or a batching
//! server, so that reports and schemas are tried on figures that hang together.
//!
//! The same scenario gives the same file for ever.

mod machine;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spark::measure::flags::{AskedLength, Outside, judge};
use spark::measure::level::{
    EndedBy, LevelFacts, SingleStream, StartMode, assign_phases, summarise,
};
use spark::measure::metrics::Metric;
use spark::measure::trace::{
    Connection, FailureClass, Outcome, Phase, PromptUse, RequestTrace, ServerTimes, Stamps,
    TokenSource, Tokens,
};
use spark::results::convert::{self, Keep, record_of_trace};
use spark::results::record::{Level, ResultsFile};

/// How a server shares its device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Server {
    /// One request at a time, first come first served.
    Serial,
    /// All at once; each further stream slows every step by this share.
    Batching { slowdown: f64 },
}

/// What the machine says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A processor and nothing else.
    CpuOnly,
    /// A data-centre GPU that tells everything.
    DiscreteGpu,
    /// Unified memory: no memory figure, no memory clock, no limit.
    Gb10,
    /// Somebody else's machine: nothing is known.
    Remote,
}

/// One run of a server that does not exist.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub target: &'static str,
    pub change: &'static str,
    pub precision: &'static str,
    pub date: &'static str,
    pub server: Server,
    pub machine: Machine,
    pub levels: Vec<u32>,
    pub n: u32,
    pub n_prompt: u32,
    pub max_tokens: u32,
    /// Round trip of the network.
    pub rtt: f64,
    /// Time of a prefill without any work.
    pub prefill_floor: f64,
    pub prefill_tps: f64,
    pub decode_tps: f64,
    /// Share of requests that fail.
    pub failures: f64,
    /// Whether the server says where its time went.
    pub tells_times: bool,
    pub keep: Keep,
    pub seed: u64,
}

impl Scenario {
    /// A machine on a desk that does one request at a time.
    pub fn desk() -> Self {
        Self {
            target: "desk-serial",
            change: "baseline: one at a time",
            precision: "bf16",
            date: "2026-10-20T03:12:44Z",
            server: Server::Serial,
            machine: Machine::DiscreteGpu,
            levels: vec![1, 4, 16],
            n: 120,
            n_prompt: 40,
            max_tokens: 64,
            rtt: 0.000_04,
            prefill_floor: 0.11,
            prefill_tps: 3_900.0,
            decode_tps: 16.8,
            failures: 0.0,
            tells_times: true,
            keep: Keep { gaps: true, text: false },
            seed: 1,
        }
    }

    /// Somebody's cloud: far away, fast, batching.
    pub fn cloud() -> Self {
        Self {
            target: "cloud-api",
            change: "reference",
            precision: "undisclosed",
            date: "2026-10-20T09:40:00Z",
            server: Server::Batching { slowdown: 0.004 },
            machine: Machine::Remote,
            rtt: 0.042,
            prefill_floor: 0.24,
            prefill_tps: 32_000.0,
            decode_tps: 178.0,
            failures: 0.004,
            tells_times: false,
            seed: 2,
            ..Self::desk()
        }
    }

    /// The results file of this run.
    pub fn results(&self) -> ResultsFile {
        let mut single = None;
        let mut levels = Vec::new();
        for (place, &concurrency) in self.levels.iter().enumerate() {
            let mut traces = self.traces(concurrency, place as u64);
            let facts = LevelFacts {
                concurrency,
                start_mode: StartMode::Staggered,
                ended_by: EndedBy::NOk,
                stutter: Duration::from_millis(200),
                single,
                slo: None,
            };
            assign_phases(concurrency, facts.start_mode, facts.ended_by, &mut traces);
            let summary = summarise(&facts, &traces);
            if concurrency == 1 {
                single = summary
                    .metrics
                    .get(&Metric::E2e)
                    .and_then(|e2e| e2e.mean)
                    .map(|mean| SingleStream { e2e_mean: Duration::from_secs_f64(mean) });
            }
            let outside = Outside {
                length: Some(AskedLength::Exactly(self.max_tokens.into())),
                ..Outside::default()
            };
            let (flags, verdict) = judge(&summary, &traces, &outside);
            levels.push(Level {
                summary: convert::summary(&summary),
                concurrency_asked: Some(concurrency),
                hardware_reason: None,
                hardware: Some(self.hardware(concurrency)),
                server_metrics: None,
                flags: flags.iter().map(convert::flag).collect(),
                verdict: convert::verdict(verdict),
                requests: traces.iter().map(|trace| record_of_trace(trace, self.keep)).collect(),
            });
        }
        let mut file = ResultsFile { levels, ..ResultsFile::new(self.meta()) };
        file.definitions = convert::definitions();
        file
    }

    fn traces(&self, concurrency: u32, level: u64) -> Vec<RequestTrace> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed.wrapping_mul(1_000) + level);
        let alone = self.prefill(&mut rng) + f64::from(self.max_tokens) / self.decode_tps;
        // (when a worker sends next in ns, worker)
        let mut sends: BinaryHeap<Reverse<(u64, u32)>> = (0..concurrency)
            .map(|worker| {
                let start = alone * f64::from(worker) / f64::from(concurrency);
                Reverse((nanos(start), worker))
            })
            .collect();
        let mut free_at = 0.0_f64;
        let mut traces = vec![self.warmup(alone)];
        let origin = traces[0].end().as_secs_f64() + 0.05;
        for index in 1..=self.n {
            let Some(Reverse((at, worker))) = sends.pop() else { break };
            let start = at as f64 / 1e9;
            let trace = self.request(&mut rng, start, concurrency, &mut free_at);
            let trace = RequestTrace {
                index,
                prompt_index: index,
                worker,
                start: Duration::from_secs_f64(origin + start),
                ..trace
            };
            sends.push(Reverse((at + nanos(trace.stamps.end.as_secs_f64()) + 30_000, worker)));
            traces.push(trace);
        }
        traces
    }

    fn prefill(&self, rng: &mut ChaCha8Rng) -> f64 {
        (self.prefill_floor + f64::from(self.n_prompt) / self.prefill_tps) * jitter(rng, 0.03)
    }

    fn request(
        &self,
        rng: &mut ChaCha8Rng,
        start: f64,
        concurrency: u32,
        free_at: &mut f64,
    ) -> RequestTrace {
        let arrival = start + self.rtt / 2.0;
        if rng.random::<f64>() < self.failures {
            return self.failure();
        }
        let prefill = self.prefill(rng);
        let tpot = match self.server {
            Server::Serial => 1.0 / self.decode_tps,
            Server::Batching { slowdown } => {
                (1.0 + slowdown * f64::from(concurrency - 1)) / self.decode_tps
            }
        } * jitter(rng, 0.01);
        let mut gaps: Vec<f64> = (1..self.max_tokens).map(|_| tpot * jitter(rng, 0.05)).collect();
        if rng.random::<f64>() < 0.02 {
            let place = gaps.len() / 2;
            if let Some(gap) = gaps.get_mut(place) {
                *gap += 0.25;
            }
        }
        let decode: f64 = gaps.iter().sum();
        let queue = match self.server {
            Server::Serial => (*free_at - arrival).max(0.0),
            Server::Batching { .. } => 0.004 * jitter(rng, 0.8),
        };
        *free_at = arrival + queue + prefill + decode;
        let first = self.rtt + queue + prefill + 0.000_2;
        self.answer(first, decode, &gaps, (queue, prefill))
    }

    fn answer(
        &self,
        first: f64,
        decode: f64,
        gaps: &[f64],
        (queue, prefill): (f64, f64),
    ) -> RequestTrace {
        let time = Duration::from_secs_f64;
        let server = ServerTimes {
            queue: Some(time(queue)),
            prefill: Some(time(prefill)),
            decode: Some(time(decode)),
            source: "timings".into(),
        };
        RequestTrace {
            outcome: Outcome::Ok,
            stamps: Stamps {
                written: Some(time(0.000_05)),
                head: Some(time(first)),
                first_text: Some(time(first)),
                first_answer: Some(time(first)),
                last_text: Some(time(first + decode)),
                end: time(first + decode + 0.000_1),
                ..Stamps::default()
            },
            tokens: Tokens {
                n_out: Some(self.max_tokens.into()),
                source: TokenSource::Usage,
                n_prompt: Some(self.n_prompt.into()),
                n_cached: Some(0),
                n_chunks: self.max_tokens.into(),
                ..Tokens::default()
            },
            gaps_us: gaps.iter().map(|gap| u32::try_from(nanos(*gap) / 1_000).unwrap()).collect(),
            server: self.tells_times.then_some(server),
            finish_reason: Some("length".into()),
            http_status: Some(200),
            text_sha256: Some("0".repeat(64)),
            ..self.failure()
        }
    }

    /// A refusal: what every request has that gets no answer.
    fn failure(&self) -> RequestTrace {
        RequestTrace {
            index: 0,
            prompt_index: 0,
            prompt: PromptUse::default(),
            worker: 0,
            start: Duration::ZERO,
            lateness: None,
            phase: Phase::Steady,
            outcome: Outcome::Failed(
                FailureClass::Http(429),
                "status 429: rate limit \u{1b}[31mexceeded".into(),
            ),
            stamps: Stamps { end: Duration::from_secs_f64(self.rtt + 0.002), ..Stamps::default() },
            tokens: Tokens::default(),
            gaps_us: Vec::new(),
            server: None,
            connection: Connection {
                reused: true,
                rtt_min: Some(Duration::from_secs_f64(self.rtt)),
                request_bytes: 640,
                ..Connection::default()
            },
            finish_reason: None,
            http_status: Some(429),
            retry_after: None,
            pause: None,
            text_sha256: None,
            text: None,
            model: None,
            notes: Vec::new(),
        }
    }

    fn warmup(&self, alone: f64) -> RequestTrace {
        let first = self.prefill_floor + self.rtt;
        let trace = self.answer(first, (alone - first).max(0.01), &[], (0.0, self.prefill_floor));
        RequestTrace { phase: Phase::Warmup, ..trace }
    }
}

fn nanos(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap()
}

/// A factor around 1: log-normal with so large a deviation.
fn jitter(rng: &mut ChaCha8Rng, sigma: f64) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    (sigma * normal).exp()
}

/// A sampler's table for a level: a reading every 100 ms of load that comes and goes.
pub fn series_csv(level: &Level) -> String {
    let end = level.requests.iter().filter_map(|r| Some(r.start_s + r.e2e?)).fold(0.0, f64::max);
    let mut text = "t_s,source,gpus.0.util_pct,gpus.0.power_w,gpus.0.sm_clock_mhz\r\n".to_owned();
    let mut at = -2.0_f64;
    while at < end + 1.0 {
        let busy = if (0.0..end).contains(&at) { 1.0 } else { 0.0 };
        let wave = 6.0 * (at * 1.7).sin();
        let (util, power) = (busy * (90.0 + wave), 70.0 + busy * (160.0 + 2.0 * wave));
        text.push_str(&format!("{at:.3},gpu,{util:.1},{power:.1},{:.0}\r\n", 1_755.0 + wave));
        at += (end / 400.0).max(0.1);
    }
    text
}
