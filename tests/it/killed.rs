//! A harness that is killed with -9 at any moment loses no finished request, and its journal gives
//! the same levels as if it had gone on: figures, flags and verdict.
//!
//! What had finished is told by the server: a worker that sends its next request has its last one
//! in the journal, so of all requests that a server has seen at most one for each worker may be
//! missing.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::Value;
use serde_json::value::RawValue;
use spark::measure::flags::{AskedLength, Outside, judge};
use spark::measure::goodput::Slo;
use spark::measure::level::{
    EndedBy, LevelFacts, SingleStream, StartMode, single_stream, summarise,
};
use spark::measure::trace::RequestTrace;
use spark::results::convert;
use spark::results::journal::{Journal, LevelHead, recover};
use spark::results::record::{Flag, Level, Verdict};

use crate::support::child::{Running, output};
use crate::support::patience::wait_until;
use crate::support::scripted::{ScriptedServer, Step, good_answer};
use crate::support::synthetic::Scenario;

/// How often it is killed; `SPARK_KILLS=200` says otherwise (`scripts/kill-harness`).
const KILLS: u64 = 20;
/// Harnesses at once: most of a short run is waiting.
const AT_ONCE: u64 = 10;
/// The levels; the last one is never reached.
const LEVELS: [u32; 4] = [1, 2, 4, 3];
/// Requests of a level.
const N: u32 = 80;
/// Its warm-up.
const WARMUP: u32 = 3;
/// Prompts; later ones are salted.
const PROMPTS: usize = 150;
/// Tokens that are asked for: one more than the server gives.
const MAX_TOKENS: u64 = 3;
/// What a user is promised. Some requests keep it.
const SLO: Slo = Slo { ttft: Duration::from_micros(2500), tpot: Duration::from_secs(1) };

/// A server, and a folder with a config and prompts for it.
struct Setting {
    server: ScriptedServer,
    folder: tempfile::TempDir,
}

impl Setting {
    fn new(levels: &[u32]) -> Self {
        let answer = vec![Step::Pause(Duration::from_millis(2)), Step::Send(good_answer(2))];
        let server = ScriptedServer::start(vec![answer]);
        let folder = tempfile::tempdir().unwrap();
        let prompts = folder.path().join("p.jsonl");
        let mut file = std::fs::File::create(&prompts).unwrap();
        (0..PROMPTS).for_each(|n| writeln!(file, "{{\"text\": \"prompt {n}\"}}").unwrap());
        let config = format!(
            "[target]\nname = \"t\"\nchange = \"\"\nprecision = \"none\"\nmodel = \"m\"\n\
             base_url = {:?}\n[workload]\nprompts = [{prompts:?}]\nconcurrency = {levels:?}\n\
             requests = {N}\nwarmup = {WARMUP}\nmax_tokens = {MAX_TOKENS}\nignore_eos = true\n\
             [slo]\nttft = \"2500us\"\ntpot = \"1s\"\n",
            server.url()
        );
        std::fs::write(folder.path().join("t.toml"), config).unwrap();
        std::fs::write(folder.path().join("engines.toml"), "").unwrap();
        Self { server, folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    fn start(&self) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
        command.arg("matrix").arg(self.folder.path().join("t.toml")).arg("--no-self-test");
        command.arg("--out").arg(self.out());
        Running::start(&mut command).unwrap()
    }
}

fn journal_in(folder: &Path) -> Option<PathBuf> {
    let mut paths = std::fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().ends_with(".journal.jsonl"))
}

/// One level as its lines tell it.
#[derive(Default)]
struct Told {
    requests: Vec<Value>,
    /// What stood at its end, if it ended.
    end: Option<Value>,
}

/// The whole lines of a journal, read without the code under test.
fn levels_of(journal: &Path) -> Vec<Told> {
    let text = std::fs::read_to_string(journal).unwrap();
    let mut levels: Vec<Told> = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: HashMap<String, Value> = serde_json::from_str(line).unwrap();
        let (kind, value) = line.into_iter().next().unwrap();
        match kind.as_str() {
            "level" => levels.push(Told::default()),
            "request" => levels.last_mut().unwrap().requests.push(value),
            "level_end" => levels.last_mut().unwrap().end = Some(value),
            _ => {}
        }
    }
    levels
}

impl Told {
    fn traces(&self) -> Vec<RequestTrace> {
        let trace = |value: &Value| {
            convert::trace_of_record(&serde_json::from_value(value.clone()).unwrap()).unwrap()
        };
        let mut traces: Vec<_> = self.requests.iter().map(trace).collect();
        traces.sort_by_key(|trace| trace.index);
        traces
    }
}

/// A level that ended here, from its requests alone: figures, names of flags, verdict.
fn cut_short(told: &Told, concurrency: u32, single: Option<SingleStream>) -> Value {
    let traces = told.traces();
    let facts = LevelFacts {
        concurrency,
        start_mode: StartMode::Staggered,
        ended_by: EndedBy::Killed,
        stutter: Duration::from_millis(200),
        single,
        slo: Some(SLO),
    };
    let summary = summarise(&facts, &traces);
    let length = Some(AskedLength::Exactly(MAX_TOKENS));
    let (flags, verdict) = judge(&summary, &traces, &Outside { length, ..Outside::default() });
    let flags: Vec<Flag> = flags.iter().map(convert::flag).collect();
    let summary = convert::summary(&summary);
    serde_json::json!([summary, flags, convert::verdict(verdict)])
}

/// What of a level the requests decide.
fn judged(level: &Value) -> Value {
    serde_json::json!([level["summary"], level["flags"], level["verdict"]])
}

/// How many of a level's measured requests had to be salted: prompts are dealt in send order.
fn n_salted(told: &Told, level: usize) -> usize {
    let before = level * (N + WARMUP) as usize;
    let salted = |trace: &&RequestTrace| before + trace.index as usize >= PROMPTS;
    told.traces().iter().filter(|trace| trace.is_measured()).filter(salted).count()
}

/// What one kill showed.
#[derive(Debug, Default)]
struct Shown {
    /// Requests that the server saw, and that the journal kept.
    seen: usize,
    kept: usize,
    levels_ended: usize,
}

/// Runs a harness, kills it at a moment that the seed draws, and looks at what is left.
fn kill_one(seed: u64) -> Shown {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    // Within three levels; every fourth time at the first one's end and in the pause after it.
    let (after, pause_ms_max) = match random.next_u32() % 4 {
        0 => (N + WARMUP, 300),
        _ => (1 + random.next_u32() % (3 * N), 8),
    };
    let pause = Duration::from_micros(u64::from(random.next_u32() % (1000 * pause_ms_max)));
    let setting = Setting::new(&LEVELS);
    let mut harness = setting.start();
    wait_until("so many requests", || setting.server.n_requests() >= after as usize);
    std::thread::sleep(pause);
    let gone = harness.ended();
    assert!(gone.is_none(), "seed {seed}: it was to be killed, not to end: {gone:?}");
    drop(harness);

    let out = setting.out();
    let journal = journal_in(&out).unwrap_or_else(|| panic!("seed {seed}: no journal"));
    let told = levels_of(&journal);
    let recovered = recover(&journal).unwrap();
    assert!(recovered.file.interrupted);
    let levels = &recovered.file.levels;
    let single = told[0].end.as_ref().and_then(|_| single_stream(&told[0].traces()));
    for (index, told) in told.iter().enumerate() {
        let Some(level) = levels.get(index) else {
            assert!(told.requests.iter().all(|request| request["phase"] == "warmup"));
            continue;
        };
        assert_eq!(level.requests.len(), told.requests.len(), "seed {seed}, level {index}");
        let single = single.filter(|_| index > 0);
        let expected = match &told.end {
            Some(end) => judged(end),
            None => cut_short(told, LEVELS[index], single),
        };
        let level = serde_json::to_value(level).unwrap();
        assert_eq!(judged(&level), expected, "seed {seed}, level {index}");
        let flags = level["flags"].as_array().unwrap();
        let salted = flags.iter().find(|flag| flag["name"] == "salted_prompts");
        let salted = salted.map_or(0.0, |flag| flag["numbers"]["n_requests"].as_f64().unwrap());
        assert_eq!(salted, n_salted(told, index) as f64, "seed {seed}, level {index}");
    }
    Shown {
        seen: setting.server.n_requests(),
        kept: told.iter().map(|told| told.requests.len()).sum(),
        levels_ended: told.iter().filter(|told| told.end.is_some()).count(),
    }
}

#[test]
fn a_harness_that_is_killed_at_any_moment_loses_no_finished_request() {
    let kills = std::env::var("SPARK_KILLS").ok().map_or(KILLS, |n| n.parse().unwrap());
    let shown: Vec<Shown> = std::thread::scope(|scope| {
        let crew = (0..AT_ONCE).map(|first| {
            let seeds = (first..kills).step_by(usize::try_from(AT_ONCE).unwrap());
            scope.spawn(move || seeds.map(kill_one).collect::<Vec<_>>())
        });
        let crew: Vec<_> = crew.collect();
        crew.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // The most workers of a level.
    let (mut in_flight, mut kept, mut ended) = (0, 0, 0);
    for shown in &shown {
        assert!(shown.kept + 4 >= shown.seen, "a finished request was lost: {shown:?}");
        assert!(shown.kept <= shown.seen, "{shown:?}");
        in_flight += shown.seen - shown.kept;
        kept += shown.kept;
        ended += shown.levels_ended;
    }
    println!(
        "{} kills: {kept} requests kept, {in_flight} in flight, {ended} levels ended",
        shown.len()
    );
}

/// What only a living harness finds out: docs/results-schema.md lists it. `tail_heavy` is what it
/// makes of the last requests, which are there here; a killed level's are missing.
const LOST: [&str; 7] = [
    "tail_heavy",
    "client_limited",
    "prompt_mismatch",
    "foreign_gpu_process",
    "low_clock",
    "throttled",
    "level_shorter_than_power_window",
];

/// The raw text of each level of a results file.
fn raw_levels(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let file: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
    let levels: Vec<Box<RawValue>> = serde_json::from_str(file["levels"].get()).unwrap();
    levels.iter().map(|level| level.get().to_owned()).collect()
}

#[test]
fn a_journal_gives_the_levels_that_the_run_itself_wrote() {
    let setting = Setting::new(&[1, 2, 4]);
    let mut harness = setting.start();
    wait_until("a journal", || journal_in(&setting.out()).is_some());
    let journal = setting.folder.path().join("copy.journal.jsonl");
    // The harness removes its own at the end.
    std::fs::hard_link(journal_in(&setting.out()).unwrap(), &journal).unwrap();
    assert_eq!(harness.wait().code(), Some(5), "a verdict of invalid");
    let written = std::fs::read_dir(setting.out()).unwrap().next().unwrap().unwrap().path();
    let levels: Vec<Level> =
        raw_levels(&written).iter().map(|level| serde_json::from_str(level).unwrap()).collect();
    assert_eq!(levels.len(), 3);
    let named = |level: &Level, name: &str| level.flags.iter().any(|flag| flag.name == name);
    assert!(levels.iter().all(|level| named(level, "length_mismatch")));
    assert!(levels.iter().all(|level| level.summary.goodput.is_some()));
    assert!(levels[1..].iter().all(|level| level.summary.serialness.is_some()));
    assert!(named(&levels[1], "salted_prompts"));

    // All of it.
    let recovered = recover(&journal).unwrap();
    let file = spark::results::store::write_new(setting.folder.path(), &recovered.file).unwrap();
    assert_eq!(raw_levels(&file), raw_levels(&written));

    // Without the end of each level, as if the harness had been killed just before it.
    let text = std::fs::read_to_string(&journal).unwrap();
    let ends: Vec<usize> = text.match_indices("{\"level_end\":").map(|(at, _)| at).collect();
    for (index, whole) in levels.iter().enumerate() {
        let cut = setting.folder.path().join(format!("cut-{index}.journal.jsonl"));
        std::fs::write(&cut, &text[..ends[index]]).unwrap();
        let mut recovered = recover(&cut).unwrap().file.levels;
        assert_eq!(recovered.len(), index + 1);
        let level = recovered.pop().unwrap();
        assert!(named(&level, "interrupted"));
        assert_eq!((&level.hardware, level.verdict), (&None, Verdict::Invalid));
        assert!(level.hardware_reason.is_some());
        assert!(level.server_metrics.as_ref().is_some_and(|metrics| metrics.reason.is_some()));
        if !all_ended_after_the_last_send(whole) {
            continue;
        }
        let mut summary = whole.summary.clone();
        "interrupted".clone_into(&mut summary.ended_by);
        assert_eq!(level.summary, summary, "level {index}");
        assert_eq!(level.requests, whole.requests, "level {index}");
        let kept = |flag: &&Flag| !LOST.contains(&flag.name.as_str()) && flag.name != "interrupted";
        let kept = |level: &Level| level.flags.iter().filter(kept).cloned().collect::<Vec<_>>();
        assert_eq!(kept(&level), kept(whole), "level {index}");
    }
}

/// A worker may stop in the moment before another one sends the last request. Whoever sees only the
/// requests must take it for one whose next request is missing.
fn all_ended_after_the_last_send(level: &Level) -> bool {
    let mut last_ends = HashMap::new();
    for request in level.requests.iter().filter(|request| request.phase != "warmup") {
        let end = request.start_s + request.e2e.unwrap();
        let last = last_ends.entry(request.worker).or_insert(end);
        *last = end.max(*last);
    }
    let last_send = level.requests.iter().map(|request| request.start_s).fold(0.0, f64::max);
    last_ends.values().all(|end| *end > last_send)
}

#[test]
fn what_was_recovered_is_not_recovered_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.journal.jsonl");
    let run = Scenario { levels: vec![1, 2], ..Scenario::desk() }.results();
    let journal = Journal::create(&path, &run).unwrap();
    let note = |level: &Level| {
        let concurrency = level.summary.concurrency;
        let head = LevelHead { concurrency, ..LevelHead::default() };
        journal.finished_level(&head, level).unwrap();
    };
    let recover = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
        let output = output(command.arg("recover").arg(&path));
        assert_eq!(output.status.code(), Some(0));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    note(&run.levels[0]);
    let (first, warned) = recover();
    assert_eq!(warned, "");
    let (second, warned) = recover();
    assert_eq!(second, first, "whoever wants the file's name gets it");
    assert!(warned.contains("already recovered into"), "{warned}");
    // The run went on after all.
    note(&run.levels[1]);
    let (third, _) = recover();
    assert_eq!(third.trim(), first.trim().replace(".json", "-2.json"));
    assert_eq!((recover().0, recover().0), (third.clone(), third));
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 3, "the journal and what it was when it was recovered");
}
