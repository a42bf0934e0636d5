//! What a journal gives back, whole, torn and strange.

use std::time::Duration;

use super::*;
use crate::measure::trace::{Outcome, Phase, Stamps, TokenSource, Tokens};
use crate::results::record::Summary;

fn trace(index: u32) -> RequestTrace {
    let ms = |ms: u32| Some(Duration::from_millis(u64::from(ms)));
    RequestTrace {
        index,
        prompt_index: index,
        worker: 0,
        start: Duration::from_millis(u64::from(100 * index)),
        lateness: None,
        phase: if index == 0 { Phase::Warmup } else { Phase::Steady },
        outcome: Outcome::Ok,
        stamps: Stamps {
            first_text: ms(10),
            last_text: ms(80),
            end: Duration::from_millis(90),
            ..Stamps::default()
        },
        tokens: Tokens {
            n_out: Some(8),
            source: TokenSource::Usage,
            n_chunks: 8,
            ..Tokens::default()
        },
        gaps_us: vec![10_000; 7],
        server: None,
        connection: crate::measure::trace::Connection::default(),
        finish_reason: Some("length".into()),
        http_status: Some(200),
        retry_after: None,
        text_sha256: None,
        text: None,
        model: None,
        notes: Vec::new(),
    }
}

fn run() -> ResultsFile {
    let json = serde_json::json!({"meta": crate::results::record::Meta::default(), "levels": []});
    serde_json::from_value(json).unwrap()
}

fn head() -> LevelHead {
    LevelHead { key: "k1".into(), concurrency: 1, start_mode: "staggered".into(), stutter_ms: 200 }
}

/// A journal of one ended level of five requests and one of which three had ended.
fn written(folder: &Path) -> PathBuf {
    let path = folder.join("run.journal.jsonl");
    let journal = Journal::create(&path, &run()).unwrap();
    journal.level(&head()).unwrap();
    (0..5).for_each(|index| journal.request(&trace(index)).unwrap());
    let summary = Summary { concurrency: 1, n_ok: 4, ..Summary::default() };
    let level = Level {
        summary,
        verdict: crate::results::record::Verdict::Valid,
        requests: Vec::new(),
        ..Level::default()
    };
    journal.level_end(&level).unwrap();
    journal.level(&LevelHead { key: "k2".into(), ..head() }).unwrap();
    (0..3).for_each(|index| journal.request(&trace(index)).unwrap());
    path
}

#[test]
fn ended_levels_come_back_as_they_were_and_a_cut_one_is_worked_out() {
    let folder = tempfile::tempdir().unwrap();
    let recovered = recover(&written(folder.path())).unwrap();
    assert!(recovered.file.interrupted);
    assert_eq!(recovered.warnings, [""; 0]);
    assert_eq!(recovered.finished.len(), 1);
    assert_eq!(recovered.finished[0].key, "k1");
    let [ended, cut] = &recovered.file.levels[..] else { panic!("two levels") };
    assert_eq!((ended.summary.n_ok, ended.requests.len()), (4, 5));
    assert_eq!((cut.summary.n_ok, cut.requests.len()), (2, 3));
    assert_eq!(cut.summary.ended_by, "interrupted");
    assert!(cut.flags.iter().any(|flag| flag.name == "interrupted"));
    assert_eq!(ended.requests[0].phase, "warmup");
    assert_eq!(ended.requests[1].gaps_us.as_deref(), Some(&[10_000; 7][..]));
}

#[test]
fn a_torn_line_is_dropped_wherever_it_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let last_line = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for end in last_line + 1..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let recovered = recover(&path).unwrap();
        assert_eq!(recovered.file.levels[1].requests.len(), 2, "cut at {end}");
        assert_eq!(recovered.warnings, ["line 12 is torn: dropped"], "cut at {end}");
    }
}

#[test]
fn strange_lines_are_dropped_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    let strange = whole.replacen("{\"level\":", "nonsense\n{\"level\":", 2);
    std::fs::write(&path, strange).unwrap();
    let recovered = recover(&path).unwrap();
    assert_eq!(recovered.file.levels.len(), 2);
    assert_eq!(recovered.warnings.len(), 2);
}

#[test]
fn what_is_no_journal_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    assert!(matches!(recover(&path), Err(JournalError::Read(..))));
    for text in ["", "{}\n", "{\"request\": {}}\n", "[1,2\n"] {
        std::fs::write(&path, text).unwrap();
        assert!(matches!(recover(&path), Err(JournalError::NoHead(_))), "{text:?}");
    }
    let newer = serde_json::to_string(&Line::Run { format: 9, file: Box::new(run()) }).unwrap();
    std::fs::write(&path, newer + "\n").unwrap();
    assert!(matches!(recover(&path), Err(JournalError::Newer(_, 9))));
    let journal = folder.path().join("j");
    Journal::create(&journal, &run()).unwrap();
    assert!(Journal::create(&journal, &run()).is_err(), "never over another one");
}
