//! A target's rates for the explorer, from its measured runs, each with its source.

use std::collections::BTreeMap;

use super::evidence::level_at;
use super::shapes::network_s;
use crate::analyse::crossover::{Line, Point};
use crate::analyse::explorer::Rates;
use crate::results::brief::{Brief, BriefLevel};
use crate::results::place::place;
use crate::results::record::Meta;
use crate::results::store::StoredRun;

/// Lengths that differ less than this factor cannot tell a rate from a fixed cost.
const LENGTHS_APART: f64 = 4.0;

/// What a target can be expected to do, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetRates {
    /// The target's name.
    pub name: String,
    /// The figures.
    pub rates: Rates,
    /// Its own round trip as it was measured, seconds.
    pub rtt_s: f64,
    /// One line a figure: what it is and where it is from; assumed ones say so.
    pub sources: Vec<Source>,
}

/// Where one figure is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The figure, with its unit.
    pub figure: String,
    /// Where it is from.
    pub source: String,
    /// Whether it is an assumption.
    pub assumed: bool,
}

/// The rates of every target that has a c = 1 level, by name.
pub fn targets(runs: &[&StoredRun]) -> Vec<TargetRates> {
    by_target(runs).iter().filter_map(|(name, runs)| of_target(name, runs)).collect()
}

/// The runs of each target. Runs of one name with other weights, on another machine or with
/// something changed are no runs of one server: each is a target of its own, named by what differs.
pub fn by_target<'a>(runs: &[&'a StoredRun]) -> Vec<(String, Vec<&'a StoredRun>)> {
    let mut by_identity: BTreeMap<[String; 5], Vec<&StoredRun>> = BTreeMap::new();
    for run in runs {
        by_identity.entry(identity(&run.file.meta)).or_default().push(run);
    }
    let name = |own: &[String; 5]| {
        let namesakes = || by_identity.keys().filter(|other| other[0] == own[0]);
        let differs = |place: &usize| namesakes().any(|other| other[*place] != own[*place]);
        let parts = std::iter::once(0).chain((1..own.len()).filter(differs));
        let parts = parts.map(|place| own[place].as_str()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    };
    by_identity.iter().map(|(identity, runs)| (name(identity), runs.clone())).collect()
}

/// What makes two runs those of one server: target, weights, precision, change, place.
fn identity(meta: &Meta) -> [String; 5] {
    let weights = meta.base_model.clone().unwrap_or_else(|| meta.model.clone());
    let place = place(meta).map(|at| format!("{} {}", at.name, at.key)).unwrap_or_default();
    [meta.target.clone(), weights, meta.precision.clone(), meta.change.clone(), place]
}

/// The c = 1 prefills of a target: prompt tokens against TTFT less connecting and network, of fresh
/// prompts. Some servers close after each stream, so that every request connects anew.
pub fn prefill_points(runs: &[&StoredRun]) -> Vec<Point> {
    let alone = runs.iter().filter_map(|run| at(run, 1));
    let requests = alone.flat_map(|level| &level.requests).filter(|request| counts(request));
    let point = |request: &Brief| {
        let ttft_s = request.ttft()? - request.handshakes_s() - network_s(request);
        Some(Point { tokens: request.n_prompt()? as f64, ttft_s })
    };
    requests.filter_map(point).collect()
}

fn counts(request: &Brief) -> bool {
    request.is_measured_ok() && request.n_cached().unwrap_or(0) == 0
}

fn at<'a>(run: &&'a StoredRun, concurrency: u32) -> Option<&'a BriefLevel> {
    level_at(&run.file, concurrency)
}

fn of_target(name: &str, runs: &[&StoredRun]) -> Option<TargetRates> {
    // Of several runs the one with the longest ladder: it also shows how requests share.
    let alone = runs.iter().filter(|run| at(run, 1).is_some());
    let single_run = alone.max_by_key(|run| run.file.levels.len())?;
    let single = at(single_run, 1)?;
    let decode_tps = single.summary.metric("decode_tps")?.p50.filter(|tps| *tps > 0.0)?;
    let mut sources = Vec::new();
    let mut note = |figure: String, source: String, assumed: bool| {
        sources.push(Source { figure, source, assumed });
    };
    let file = single_run.name();
    note(format!("{decode_tps:.1} tok/s of one stream"), format!("median at c=1, {file}"), false);

    let (prefill_floor_s, prefill_tps) = prefill(runs, single, &mut note)?;
    let (queue_share, decode_slowdown) = sharing(single_run, single, &mut note);
    let rtt = median(single.requests.iter().filter_map(|request| request.rtt_s()).collect());
    match rtt {
        Some(rtt) => note(round_trip(rtt), "the kernel's".into(), false),
        None => note("no round trip".into(), "not measured: taken as 0".into(), true),
    }
    let tls = single_run.file.meta.base_url.starts_with("https");
    let rates = Rates {
        prefill_floor_s,
        prefill_tps,
        decode_tps,
        queue_share,
        decode_slowdown,
        handshake_rounds: if tls { 2.0 } else { 1.0 },
    };
    Some(TargetRates { name: name.to_owned(), rates, rtt_s: rtt.unwrap_or(0.0), sources })
}

/// "0.004 ms round trip", "42.1 ms round trip".
fn round_trip(rtt_s: f64) -> String {
    let ms = rtt_s * 1e3;
    if ms < 0.1 { format!("{ms:.3} ms round trip") } else { format!("{ms:.1} ms round trip") }
}

/// Floor and rate of the prefill: a line through different prompt lengths, or, with one length, all
/// of TTFT taken as work on the prompt.
fn prefill(
    runs: &[&StoredRun],
    single: &BriefLevel,
    note: &mut impl FnMut(String, String, bool),
) -> Option<(f64, f64)> {
    let points = prefill_points(runs);
    let tokens = || points.iter().map(|point| point.tokens);
    let (shortest, longest) = (tokens().fold(f64::MAX, f64::min), tokens().fold(0.0, f64::max));
    if longest >= LENGTHS_APART * shortest.max(1.0)
        && let Some(line) = Line::fit(&points).filter(|line| line.slope_s > 0.0)
    {
        let (floor, tps) = (line.intercept_s.max(0.0), 1.0 / line.slope_s);
        let source = format!("line through prompts of {shortest} to {longest} tokens at c=1");
        note(format!("{tps:.0} prompt tok/s after {:.0} ms", floor * 1e3), source, false);
        return Some((floor, tps));
    }
    let ttft = median(points.iter().map(|point| point.ttft_s).collect())
        .or_else(|| single.summary.metric("ttft")?.p50)?;
    let length = median(tokens().collect());
    let ttft = ttft.max(1e-6);
    match length {
        Some(length) => {
            let tps = length / ttft;
            let source = format!(
                "assumed: prompts of about {length:.0} tokens only, all of TTFT taken as work on \
                 them; an estimate for other lengths: too low where short prompts wait for memory, \
                 too high where attention counts"
            );
            note(format!("{tps:.0} prompt tok/s"), source, true);
            Some((0.0, tps))
        }
        None => {
            let source = "assumed: no prompt lengths in the file; TTFT taken as fixed".to_owned();
            note(format!("{:.0} ms for any prompt", ttft * 1e3), source, true);
            // So fast that no prompt's length shows.
            Some((ttft, 1e9))
        }
    }
}

/// From here on a wait is longer than the requests ahead explain.
const OVER: f64 = 1.005;
/// Why there is such a thing.
const OVER_TEXT: &str = " alone (over 100 %: in company each request itself took longer)";

/// How much requests wait for each other, and how much they slow each other down.
fn sharing(
    run: &&StoredRun,
    single: &BriefLevel,
    note: &mut impl FnMut(String, String, bool),
) -> (f64, f64) {
    let p50 =
        |level: &BriefLevel, name: &str| level.summary.metric(name).and_then(|stats| stats.p50);
    let closed = run.file.levels.iter().filter(|level| !level.is_open());
    let most = closed.max_by_key(|level| level.summary.concurrency);
    let measured = most.filter(|level| level.summary.concurrency > 1).and_then(|level| {
        let others = f64::from(level.summary.concurrency - 1);
        let (ttft_1, e2e_1) = (p50(single, "ttft")?, p50(single, "e2e")?);
        let waited = (p50(level, "ttft")? - ttft_1) / (others * e2e_1);
        let slower = p50(single, "decode_tps")? / p50(level, "decode_tps")? - 1.0;
        let positive = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        Some((level.summary.concurrency, positive(waited), positive(slower / others)))
    });
    match measured {
        Some((concurrency, queue_share, slowdown)) => {
            let source = format!("c=1 against c={concurrency}, {}", run.name());
            let over = if queue_share > OVER { OVER_TEXT } else { "" };
            note(
                format!(
                    "waits {:.1} % of each other request's time{over}, {:.2} % slower for each",
                    queue_share * 1e2,
                    slowdown * 1e2
                ),
                source,
                false,
            );
            (queue_share, slowdown)
        }
        None => {
            let source = "assumed: only c=1 was measured".to_owned();
            note("one request at a time".into(), source, true);
            (1.0, 0.0)
        }
    }
}

/// The middle value; `None` of nothing.
pub fn median(values: Vec<f64>) -> Option<f64> {
    crate::measure::sample::Sample::new(values).percentile(50.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Level, RequestRecord, ResultsFile, Summary};

    fn request(n_prompt: u64, ttft: f64, connect_s: Option<f64>) -> RequestRecord {
        RequestRecord {
            ok: true,
            phase: "steady".into(),
            ttft: Some(ttft),
            n_prompt: Some(n_prompt),
            connect_s,
            tls_s: connect_s,
            rtt_s: Some(0.01),
            ..RequestRecord::default()
        }
    }

    #[test]
    fn runs_of_one_name_are_one_target_only_if_they_are_of_one_server() {
        let run = |weights: &str, change: &str, prompts: &str| {
            let meta = Meta {
                target: "t".into(),
                base_model: Some(weights.into()),
                change: change.into(),
                prompts: prompts.into(),
                ..Meta::default()
            };
            StoredRun { path: "made-up.json".into(), file: ResultsFile::new(meta).brief() }
        };
        let runs = [run("8B", "", "short"), run("8B", "", "long"), run("70B", "", "short")];
        let names = |runs: &[StoredRun]| -> Vec<(String, usize)> {
            let runs: Vec<&StoredRun> = runs.iter().collect();
            by_target(&runs).into_iter().map(|(name, runs)| (name, runs.len())).collect()
        };
        assert_eq!(names(&runs), [("t, 70B".to_owned(), 1), ("t, 8B".to_owned(), 2)]);
        assert_eq!(names(&runs[..2]), [("t".to_owned(), 2)]);
        let changed = [run("8B", "before", "short"), run("8B", "after", "short")];
        assert_eq!(names(&changed), [("t, after".to_owned(), 1), ("t, before".to_owned(), 1)]);
    }

    /// A long prompt takes more than one round trip to arrive: the model of a request adds them all
    /// again, so none may stay in what is taken for work.
    #[test]
    fn every_round_trip_of_a_long_prompt_is_taken_out() {
        let long = RequestRecord { request_bytes: 40_000, ..request(9_000, 1.0, None) };
        let level = Level {
            summary: Summary { concurrency: 1, ..Summary::default() },
            requests: vec![long],
            ..Level::default()
        };
        let file = ResultsFile { levels: vec![level], ..ResultsFile::new(Meta::default()) }.brief();
        let run = StoredRun { path: "made-up.json".into(), file };
        let points = prefill_points(&[&run]);
        assert!((points[0].ttft_s - 0.98).abs() < 1e-9, "two of 10 ms: {points:?}");
    }

    /// Some servers close after each stream.
    #[test]
    fn a_server_that_is_connected_to_anew_each_time_has_its_prefills_counted() {
        let warmup = RequestRecord { phase: "warmup".into(), ..request(9, 9.0, None) };
        let level = Level {
            summary: Summary { concurrency: 1, ..Summary::default() },
            requests: vec![warmup, request(100, 0.51, None), request(200, 1.07, Some(0.03))],
            ..Level::default()
        };
        let file = ResultsFile { levels: vec![level], ..ResultsFile::new(Meta::default()) }.brief();
        let run = StoredRun { path: "made-up.json".into(), file };
        let points: Vec<(f64, f64)> =
            prefill_points(&[&run]).iter().map(|point| (point.tokens, point.ttft_s)).collect();
        assert_eq!(points.len(), 2, "{points:?}");
        for ((tokens, ttft_s), expected) in points.into_iter().zip([(100.0, 0.5), (200.0, 1.0)]) {
            assert!(
                tokens == expected.0 && (ttft_s - expected.1).abs() < 1e-9,
                "{tokens} {ttft_s}"
            );
        }
    }
}
