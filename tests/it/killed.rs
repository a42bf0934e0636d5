//! A harness that is killed with -9 at any moment loses no finished request, and its journal gives
//! the same figures as if it had ended there.
//!
//! What had finished is told by the server: a worker that sends its next request has its last one
//! in the journal, so of all requests that a server has seen at most one for each worker may be
//! missing.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::Value;
use spark::measure::level::{EndedBy, LevelFacts, StartMode, summarise};
use spark::results::convert;
use spark::results::journal::{Journal, LevelHead, recover};
use spark::results::record::Level;

use crate::support::patience::wait_until;
use crate::support::scripted::{ScriptedServer, Step, good_answer};
use crate::support::synthetic::Scenario;

/// How often it is killed; `SPARK_KILLS=200` says otherwise (`scripts/kill-harness`).
const KILLS: u64 = 20;
/// Harnesses at once: most of a short run is waiting.
const AT_ONCE: u64 = 10;
/// The workers of the first level; each later one has one fewer, and the last is never reached.
const WORKERS: usize = 3;
/// Requests of a level.
const N: u32 = 80;
/// Its warm-up.
const WARMUP: u32 = 3;

/// Killed and reaped when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(server: &ScriptedServer, prompts: &Path, out: &Path) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spark-bench"));
    command.args(["run", "--target", "t", "--model", "m", "--precision", "none", "--ignore-eos"]);
    command.args(["--base-url", &server.url(), "--no-self-test", "--max-tokens", "2"]);
    command.args(["--concurrency", "3,2,1", "--n", &N.to_string()]);
    command.arg("--prompts").arg(prompts).arg("--out").arg(out);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(quiet.spawn().unwrap())
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

/// The figures of a level that ended here, from its records alone.
fn figures(told: &Told, concurrency: usize) -> Value {
    let record = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    let mut traces: Vec<_> = told
        .requests
        .iter()
        .map(|value| convert::trace_of_record(&record(value)).unwrap())
        .collect();
    traces.sort_by_key(|trace| trace.index);
    let facts = LevelFacts {
        concurrency: u32::try_from(concurrency).unwrap(),
        start_mode: StartMode::Staggered,
        ended_by: EndedBy::Interrupted,
        stutter: Duration::from_millis(200),
        single: None,
        slo: None,
    };
    serde_json::to_value(convert::summary(&summarise(&facts, &traces))).unwrap()
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
    // Within two levels; every fourth time at the first one's end and in the pause after it.
    let (after, pause_ms_max) = match random.next_u32() % 4 {
        0 => (N + WARMUP, 300),
        _ => (1 + random.next_u32() % (2 * N), 8),
    };
    let pause = Duration::from_micros(u64::from(random.next_u32() % (1000 * pause_ms_max)));
    let answer = vec![Step::Pause(Duration::from_millis(2)), Step::Send(good_answer(2))];
    let server = ScriptedServer::start(vec![answer]);
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("p.jsonl");
    let mut file = std::fs::File::create(&prompts).unwrap();
    (0..200).for_each(|n| writeln!(file, "{{\"text\": \"prompt {n}\"}}").unwrap());

    let out = folder.path().join("results");
    let mut harness = start(&server, &prompts, &out);
    wait_until("so many requests", || server.n_requests() >= after as usize);
    std::thread::sleep(pause);
    let gone = harness.0.try_wait().unwrap();
    assert!(gone.is_none(), "seed {seed}: it was to be killed, not to end: {gone:?}");
    drop(harness);

    let journal = journal_in(&out).unwrap_or_else(|| panic!("seed {seed}: no journal"));
    let told = levels_of(&journal);
    let recovered = recover(&journal).unwrap();
    assert!(recovered.file.interrupted);
    let levels = &recovered.file.levels;
    for (index, told) in told.iter().enumerate() {
        let Some(level) = levels.get(index) else {
            assert!(told.requests.iter().all(|request| request["phase"] == "warmup"));
            continue;
        };
        assert_eq!(level.requests.len(), told.requests.len(), "seed {seed}, level {index}");
        let expected = match &told.end {
            Some(end) => end["summary"].clone(),
            None => figures(told, WORKERS - index),
        };
        let summary = serde_json::to_value(&level.summary).unwrap();
        assert_eq!(summary, expected, "seed {seed}, level {index}");
    }
    Shown {
        seen: server.n_requests(),
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
    let (mut in_flight, mut kept, mut ended) = (0, 0, 0);
    for shown in &shown {
        assert!(shown.kept + WORKERS >= shown.seen, "a finished request was lost: {shown:?}");
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
        let output = command.arg("recover").arg(&path).output().unwrap();
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
