//! Intervals that cover the truth as often as they claim, on servers that do not exist; and the
//! naive ways, which do not. Every run is seeded, so that the counts are the same for ever.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spark::analyse::compare::{Series, compare, ratio_of_rates};
use spark::analyse::crossover::{Line, Point, crossing};
use spark::analyse::curvature;
use spark::analyse::littles_law::{Behaviour, LevelPoint, check};
use spark::analyse::rank_tests::{Paired, Unpaired};
use spark::analyse::sample_size::samples_for_precision;
use spark::measure::autocorrelation::autocorrelation_time;
use spark::measure::batch_means::batch_means;
use spark::measure::distribution::Z_95;
use spark::measure::early_stopping::early_stopping_rank;
use spark::measure::effective_mean::effective_mean;
use spark::measure::order_statistics::quantile_interval;
use spark::measure::proportion::clopper_pearson;
use spark::measure::sample::Sample;
use spark::measure::steady::{Window, tokens_within};
use spark::measure::trace::{
    Connection, Outcome, Phase, PromptUse, RequestTrace, Stamps, TokenSource, Tokens,
};
use spark::report::evidence;

use crate::support::synthetic::{Scenario, Server};

/// Ninety-five of a hundred, less what four hundred runs leave to chance (3 standard errors).
const CLAIMED: f64 = 0.95 - 0.033;

/// An answer whose text flows from its start to its end, in seconds.
fn answered(index: u32, n_out: u64, start: f64, end: f64) -> RequestTrace {
    let length = Duration::from_secs_f64(end - start);
    RequestTrace {
        index,
        prompt_index: index,
        prompt: PromptUse::default(),
        worker: 0,
        start: Duration::from_secs_f64(start),
        lateness: None,
        phase: Phase::Steady,
        outcome: Outcome::Ok,
        stamps: Stamps {
            first_text: Some(Duration::from_micros(1)),
            last_text: Some(length),
            end: length,
            ..Stamps::default()
        },
        tokens: Tokens {
            n_out: Some(n_out),
            source: TokenSource::Usage,
            n_chunks: n_out,
            ..Tokens::default()
        },
        gaps_us: Vec::new(),
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
}

struct Noise(ChaCha8Rng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn lognormal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }
}

/// Share of `runs` in which `covers` says so.
fn share(runs: u32, mut covers: impl FnMut() -> bool) -> f64 {
    let mut count = 0;
    for _ in 0..runs {
        count += u32::from(covers());
    }
    f64::from(count) / f64::from(runs)
}

/// End-to-end latencies of a closed loop on a server that does one at a time: sums of the last c
/// service times.
fn serial_latencies(noise: &mut Noise, n: usize, c: usize) -> Vec<f64> {
    let services: Vec<f64> = (0..n + c).map(|_| noise.lognormal(0.2)).collect();
    services.windows(c).skip(1).map(|last| last.iter().sum()).collect()
}

#[test]
fn serial_server_effective_sample_size() {
    const C: usize = 16;
    let mut noise = Noise::new(1);
    let truth = Sample::new(serial_latencies(&mut noise, 200_000, C)).median().unwrap();
    let mut naive = 0;
    let honest = share(400, || {
        let latencies = serial_latencies(&mut noise, 200, C);
        let n = latencies.len() as f64;
        let time = autocorrelation_time(&latencies).unwrap().max(C as f64);
        let sample = Sample::new(latencies);
        let covers = |n_eff| quantile_interval(&sample, 0.5, n_eff).unwrap().contains(truth);
        naive += u32::from(covers(n));
        covers(n / time)
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    assert!(f64::from(naive) / 400.0 < 0.65, "as if independent: {naive} of 400");
}

#[test]
fn batching_server_steady_throughput() {
    const C: usize = 16;
    const TOKENS: u64 = 100;
    let mut noise = Noise::new(2);
    let (mut naive, mut count) = (0.0, 0);
    // c streams that do not slow each other down; a request's time has a CV of about a half.
    let mean_service = (0.47f64 * 0.47 / 2.0).exp();
    let truth = C as f64 * TOKENS as f64 / mean_service;
    let covered = share(100, || {
        let mut free = [0.0f64; C];
        let mut traces = Vec::new();
        for index in 0..800u32 {
            let first = (0..C).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            let start = free[first];
            free[first] = start + noise.lognormal(0.47);
            traces.push(answered(index, TOKENS, start, free[first]));
        }
        let measured: Vec<_> = traces.iter().collect();
        let wall = free.iter().copied().fold(0.0, f64::max);
        naive += 800.0 * TOKENS as f64 / wall / truth;
        count += 1;
        let window = spark::measure::steady::steady_window(&measured, C).unwrap();
        let rate = |part: Window| tokens_within(&measured, part) / part.length().as_secs_f64();
        let rates: Vec<f64> = window.parts(10).map(rate).collect();
        let interval = spark::measure::batch_means::batch_means(&rates).unwrap();
        interval.low <= truth && truth <= interval.high
    });
    assert!(covered >= 0.95 - 0.066, "covered {covered}");
    let bias = naive / f64::from(count) - 1.0;
    assert!(bias < -0.015, "tokens over wall time should be low: {bias}");
}

#[test]
fn noisy_api_tail() {
    let mut noise = Noise::new(3);
    let truth = (0.5 * 2.326_347_874_040_841f64).exp();
    let honest = share(400, || {
        let values: Vec<f64> = (0..400).map(|_| noise.lognormal(0.5)).collect();
        quantile_interval(&Sample::new(values), 0.99, 400.0).unwrap().contains(truth)
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    // A percentile bootstrap cannot exceed the largest value.
    let naive = share(100, || {
        let values: Vec<f64> = (0..100).map(|_| noise.lognormal(0.5)).collect();
        let mut resample = || {
            let drawn = (0..100).map(|_| values[noise.0.random_range(0..100)]).collect();
            Sample::new(drawn).percentile(99.0).unwrap()
        };
        let means = Sample::new((0..200).map(|_| resample()).collect());
        let ends = (means.percentile(2.5).unwrap(), means.percentile(97.5).unwrap());
        ends.0 <= truth && truth <= ends.1
    });
    assert!(naive < 0.8, "the bootstrap covered {naive}");
}

/// A machine whose speed wanders: log-speeds with a memory.
fn wandering(noise: &mut Noise, n: usize, memory: f64) -> Vec<f64> {
    let mut state = noise.normal() / (1.0 - memory * memory).sqrt();
    let mut step = || {
        state = memory * state + noise.normal();
        0.02 * state
    };
    (0..n).map(|_| step()).collect()
}

#[test]
fn drifting_machine_two_runs() {
    let mut noise = Noise::new(4);
    let mut naive = 0;
    let honest = share(200, || {
        let (a, b) = (wandering(&mut noise, 400, 0.8), wandering(&mut noise, 400, 0.8));
        let effective = |run: &[f64]| 400.0 / autocorrelation_time(run).unwrap();
        let (of_a, of_b) = (effective(&a), effective(&b));
        let covers = |samples: Unpaired| {
            let [low, high] = samples.shift(Z_95).unwrap().interval.unwrap();
            low <= 0.0 && 0.0 <= high
        };
        naive += u32::from(covers(Unpaired::new(a.clone(), b.clone())));
        covers(Unpaired::with_effective_sizes(a, b, of_a, of_b))
    });
    // τ̂ is itself low on a short series: two points of coverage, besides chance.
    assert!(honest >= 0.93 - 0.046, "covered {honest}");
    assert!(f64::from(naive) / 200.0 < 0.65, "as if independent: {naive} of 200");
}

#[test]
fn drifting_machine_interleaved_pairs() {
    let mut noise = Noise::new(5);
    let truth = 1.01;
    let (mut wide, mut naive) = (0, 0);
    let covered = share(200, || {
        // Both targets meet the same drift, prompt by prompt; prompts differ by a lot.
        let whole = wandering(&mut noise, 200, 0.9);
        let (drift, later) = whole.split_at(100);
        let prompts: Vec<f64> = (0..100).map(|_| noise.lognormal(0.5)).collect();
        let mut series = |factor: f64, drift: &[f64]| {
            let value = |(index, drift): (usize, &f64)| {
                let own = noise.lognormal(0.01);
                (u32::try_from(index).unwrap(), factor * prompts[index] * drift.exp() * own)
            };
            Series { values: drift.iter().enumerate().map(value).collect(), ..Series::default() }
        };
        let (a, b) = (series(1.0, drift), series(truth, drift));
        let [low, high] = compare(&a, &b).unwrap().interval_95.unwrap();
        // One run after the other, as if the machine had stayed the same.
        let after = series(truth, later);
        let pairs = a.values.iter().zip(&after.values).map(|((_, a), (_, b))| (b / a).ln());
        let [from, to] = Paired::new(pairs.collect()).shift(Z_95).unwrap().interval.unwrap();
        naive += u32::from(from <= truth.ln() && truth.ln() <= to);
        let logs = |s: &Series| s.values.iter().map(|(_, value)| value.ln()).collect();
        let unpaired = Unpaired::new(logs(&a), logs(&b)).shift(Z_95).unwrap();
        let [low_unpaired, high_unpaired] = unpaired.interval.unwrap();
        wide += u32::from(high_unpaired - low_unpaired > 10.0 * (high - low));
        low <= truth && truth <= high
    });
    assert!(covered >= 0.95 - 0.046, "covered {covered}");
    assert!(f64::from(naive) / 200.0 < 0.6, "one after the other: {naive} of 200");
    assert!(wide > 190, "without pairs the interval is ten times as wide: {wide} of 200");
}

#[test]
fn crossover_with_slopes_that_are_hard_to_tell_apart() {
    let mut noise = Noise::new(6);
    // Far from what was measured, where what the delta method takes for straight is not.
    let truth = 20_000.0;
    let lengths = [512.0, 1024.0, 2048.0, 4096.0, 8192.0];
    let mut line = |intercept: f64, slope: f64| {
        let points: Vec<Point> = lengths
            .iter()
            .flat_map(|tokens| [*tokens; 3])
            .map(|tokens| Point {
                tokens,
                ttft_s: intercept + slope * tokens + 0.08 * noise.normal(),
            })
            .collect();
        Line::fit(&points).unwrap()
    };
    let (mut delta, mut bounded, mut bounded_covered) = (0, 0, 0);
    let fieller = share(1000, || {
        let (near, far) = (line(0.05, 40e-6), line(0.45, 20e-6));
        let found = crossing(&near, &far).unwrap();
        delta += u32::from(found.delta[0] <= truth && truth <= found.delta[1]);
        // An unbounded set is the honest answer where nothing is resolved.
        found.fieller.is_none_or(|[low, high]| {
            let covered = low <= truth && truth <= high;
            bounded += 1;
            bounded_covered += u32::from(covered);
            covered
        })
    });
    assert!(fieller >= CLAIMED, "Fieller covered {fieller}");
    let resolved = f64::from(bounded_covered) / f64::from(bounded);
    assert!(resolved >= 0.95 - 0.046, "of {bounded} that are bounded it covered {resolved}");
    assert!(delta < 900, "the delta method covered {delta} of 1000");
}

#[test]
fn crossover_of_prefills_that_bend() {
    let mut noise = Noise::new(9);
    let lengths = [512.0, 1024.0, 2048.0, 3072.0, 4096.0, 6144.0];
    // 0.05 + n/4,000 + 2e-8·n² = 0.6 + n/32,000.
    let (slope, square) = (1.0 / 4_000.0 - 1.0 / 32_000.0, 2e-8_f64);
    let truth = ((slope * slope + 4.0 * square * 0.55_f64).sqrt() - slope) / (2.0 * square);
    let mut sweep = |ttft_s: fn(f64) -> f64| -> Vec<Point> {
        let mut point =
            |tokens: f64| Point { tokens, ttft_s: ttft_s(tokens) * (1.0 + 0.02 * noise.normal()) };
        lengths.iter().flat_map(|&tokens| [tokens; 4]).map(&mut point).collect()
    };
    let mut naive = 0;
    let covered = share(400, || {
        let near = sweep(|n| 0.05 + n / 4_000.0 + 2e-8 * n * n);
        let far = sweep(|n| 0.6 + n / 32_000.0);
        let by_lines = crossing(&Line::fit(&near).unwrap(), &Line::fit(&far).unwrap()).unwrap();
        naive +=
            u32::from(by_lines.fieller.is_some_and(|[low, high]| low <= truth && truth <= high));
        let [low, high] = curvature::crossing(&near, &far).unwrap().interval.unwrap();
        low <= truth && truth <= high
    });
    assert!(covered >= 0.95 - 0.046, "covered {covered}");
    assert!(naive < 100, "lines through what bends: {naive} of 400");
}

#[test]
fn planned_samples_give_the_wanted_precision() {
    let mut noise = Noise::new(7);
    let mut within = |n: u32| {
        share(400, || {
            let values = (0..n).map(|_| noise.lognormal(0.2)).collect();
            (Sample::new(values).median().unwrap() - 1.0).abs() <= 0.05
        })
    };
    assert_eq!(samples_for_precision(0.5, 0.2, 0.05), 97.0);
    let (planned, naive) = (within(97), within(20));
    assert!(planned >= CLAIMED, "within ±5 %: {planned}");
    assert!(naive < 0.85, "twenty requests: {naive}");
}

/// Two runs of the same prompts: each wait is the sum of c service times, so that c pairs are worth
/// one however many there are.
#[test]
fn serial_server_paired_comparison() {
    const C: usize = 16;
    let mut noise = Noise::new(8);
    let mut naive = 0;
    let honest = share(400, || {
        let mut run =
            || -> Vec<(u32, f64)> { (0..).zip(serial_latencies(&mut noise, 400, C)).collect() };
        let of = |values| Series { values, correlation_time_min: C as f64, ..Series::default() };
        let (a, b) = (of(run()), of(run()));
        let ratio = compare(&a, &b).unwrap();
        let logs = a.values.iter().zip(&b.values).map(|((_, a), (_, b))| (b / a).ln()).collect();
        let [low, high] = Paired::new(logs).shift(Z_95).unwrap().interval.unwrap();
        naive += u32::from(low <= 0.0 && 0.0 <= high);
        // What decides has to hold as well: the p and the 99 % interval are of the same count.
        let at_99 = ratio.interval_99.is_none_or(|[low, high]| low <= 1.0 && 1.0 <= high);
        assert!(at_99 || ratio.p.unwrap() < 0.02, "{ratio:?}");
        ratio.interval_95.is_none_or(|[low, high]| low <= 1.0 && 1.0 <= high)
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    assert!(f64::from(naive) / 400.0 < 0.65, "as if independent: {naive} of 400");
}

/// Rates of ten parts each, compared.
#[test]
fn noisy_throughput_of_two_runs() {
    let mut noise = Noise::new(9);
    let truth = 1.3;
    let (mut naive, mut decided) = (0, 0);
    let honest = share(400, || {
        let mut rates = |mean: f64| -> Vec<f64> {
            (0..10).map(|_| mean * (1.0 + 0.05 * noise.normal())).collect()
        };
        let (a, b) = (rates(100.0), rates(100.0 * truth));
        let covers = |[low, high]: [f64; 2]| low <= truth && truth <= high;
        let found = ratio_of_rates(&batch_means(&a).unwrap(), &batch_means(&b).unwrap());
        decided += u32::from(covers(found.interval_99));
        // The spread of the parts, taken for the error of nothing but two numbers: z for t, and
        // the second run's error forgotten.
        let spread = Sample::new(a.clone()).std_dev().unwrap() / 100.0 / 10f64.sqrt();
        naive += u32::from((found.ratio / truth).ln().abs() <= Z_95 * spread);
        covers(found.interval_95)
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    assert!(decided >= 390, "the 99 % interval covered {decided} of 400");
    assert!(f64::from(naive) / 400.0 < 0.88, "one run's error alone: {naive} of 400");
}

/// What `predict` prints of a speed that wanders.
#[test]
fn drifting_machine_median_speed() {
    let mut noise = Noise::new(10);
    let mut naive = 0;
    let honest = share(200, || {
        let speeds = wandering(&mut noise, 400, 0.8);
        let effective = 400.0 / autocorrelation_time(&speeds).unwrap();
        let sample = Sample::new(speeds);
        let covers = |n_eff| quantile_interval(&sample, 0.5, n_eff).unwrap().contains(0.0);
        naive += u32::from(covers(400.0));
        covers(effective)
    });
    // As above: τ̂ is low on a short series.
    assert!(honest >= 0.93 - 0.046, "covered {honest}");
    assert!(f64::from(naive) / 200.0 < 0.65, "as if independent: {naive} of 200");
}

/// MLPerf's bound is one-sided at 99 %; the sample's own p99 is as often too low as too high.
#[test]
fn noisy_api_bound_of_the_tail() {
    let mut noise = Noise::new(11);
    let truth = (0.5 * 2.326_347_874_040_841f64).exp();
    let rank = usize::try_from(early_stopping_rank(0.99, 1000).unwrap()).unwrap();
    let mut naive = 0;
    let honest = share(400, || {
        let mut values: Vec<f64> = (0..1000).map(|_| noise.lognormal(0.5)).collect();
        values.sort_unstable_by(f64::total_cmp);
        let bound = values[values.len() - rank];
        naive += u32::from(Sample::new(values).percentile(99.0).unwrap() >= truth);
        bound >= truth
    });
    assert!(honest >= 0.99 - 0.015, "held {honest}");
    assert!(f64::from(naive) / 400.0 < 0.6, "the sample's p99 held {naive} of 400");
}

/// Failures of one in a hundred: p ± 1.96·√(p(1 − p)/n) is empty-handed where none was seen.
#[test]
fn noisy_api_share_of_failures() {
    let mut noise = Noise::new(12);
    let mut naive = 0;
    let honest = share(400, || {
        let failed = (0..200).filter(|_| noise.uniform() < 0.01).count() as u64;
        let p = failed as f64 / 200.0;
        let half = Z_95 * (p * (1.0 - p) / 200.0).sqrt();
        naive += u32::from(p - half <= 0.01 && 0.01 <= p + half);
        let (low, high) = clopper_pearson(failed, 200).unwrap();
        low <= 0.01 && 0.01 <= high
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    assert!(f64::from(naive) / 400.0 < 0.9, "Wald covered {naive} of 400");
}

/// W(c) ÷ c·W(1) of a serial server is 1. Each wait at c is the sum of c service times, so that c of
/// them are worth one.
#[test]
fn serial_server_against_littles_law() {
    const C: usize = 16;
    let mut noise = Noise::new(13);
    let mut naive = 0;
    let honest = share(400, || {
        let mut latencies = |c| serial_latencies(&mut noise, 200, c);
        let (alone, queued) = (latencies(1), latencies(C));
        let effective = |series: &[f64], time_min: f64| {
            series.len() as f64 / autocorrelation_time(series).unwrap().max(time_min)
        };
        let covers = |n_eff: f64| {
            let point = |concurrency, series: &[f64], n_eff| {
                let mean = effective_mean(series, n_eff).unwrap();
                let time = Duration::from_secs_f64;
                LevelPoint {
                    concurrency,
                    e2e_mean: time(mean.mean),
                    e2e_half: Some(time((mean.high - mean.low) / 2.0)),
                    ttft_p50: time(1.0),
                    throughput_tps: 1.0,
                }
            };
            let single = point(1, &alone, effective(&alone, 1.0));
            let level = point(u32::try_from(C).unwrap(), &queued, n_eff);
            check(&[single, level])[0].is_serial_wait().unwrap()
        };
        naive += u32::from(covers(queued.len() as f64));
        covers(effective(&queued, C as f64))
    });
    assert!(honest >= CLAIMED, "covered {honest}");
    // Half of the ratio's variance is W(1)'s, which the naive way gets right.
    assert!(f64::from(naive) / 400.0 < 0.9, "as if independent: {naive} of 400");
}

/// Beside its interval Little's law has a tolerance: a serial server stays within 3 % of it, and is not
/// taken for a batching one. With the ramp in the mean, when queues are still filling, it would not.
#[test]
fn serial_and_batching_servers_are_told_apart() {
    let mut naive = 0;
    for seed in 100..110 {
        let serial = Scenario { levels: vec![1, 16], seed, ..Scenario::desk() }.results();
        let found = check(&evidence::level_points(&serial.brief()))[0];
        assert_eq!(found.behaviour, Behaviour::Serial, "{found:?}");
        assert!((found.e2e_ratio - 1.0).abs() < 0.03, "{found:?}");
        assert!((found.ttft_ratio - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.throughput_ratio - 1.0).abs() < 0.03, "{found:?}");
        let mean = |level: usize| {
            let serial = serial.brief();
            let requests = evidence::measured_ok(&serial.levels[level]);
            requests.iter().filter_map(|request| request.e2e()).sum::<f64>() / requests.len() as f64
        };
        naive += u32::from((mean(1) / (16.0 * mean(0)) - 1.0).abs() < 0.03);

        let server = Server::Batching { slowdown: 0.004 };
        let batching = Scenario { server, levels: vec![1, 16], seed, ..Scenario::desk() }.results();
        let found = check(&evidence::level_points(&batching.brief()))[0];
        assert_eq!(found.behaviour, Behaviour::Batching, "{found:?}");
        assert!(found.throughput_ratio > 12.0, "{found:?}");
    }
    assert_eq!(naive, 0, "with the ramp in the mean");
}
