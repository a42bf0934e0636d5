//! What a journal gives back, whole, torn and strange.

use std::time::Duration;

use super::*;
use crate::measure::trace::{Outcome, Phase, PromptUse, Stamps, TokenSource, Tokens};
use crate::results::record::{Summary, Verdict};

fn trace(index: u32) -> RequestTrace {
    let ms = |ms: u32| Some(Duration::from_millis(u64::from(ms)));
    RequestTrace {
        index,
        prompt_index: index,
        prompt: PromptUse { is_salted: index == 1, is_repeated: index == 2 },
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
        pause: None,
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
    LevelHead {
        key: "k1".into(),
        concurrency: 1,
        start_mode: "staggered".into(),
        stutter_ms: 5.0,
        slo: Promise { ttft_s: Some(0.02), tpot_s: Some(0.02) },
        max_tokens: Some(9),
        ignore_eos: true,
        model: "m".into(),
        accept_models: vec!["m-1".into()],
        settings_not_applied: vec!["-c: asked 4096, runs with 512".into()],
        ceiling_tps: Some(50.0),
        ..LevelHead::default()
    }
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
    assert_eq!(ended.requests[1].gaps_us, None, "nobody asked for them");
    assert_eq!(ended.requests[1].max_gap, Some(0.01));
    assert_eq!(cut.concurrency_asked, Some(1));
    assert_eq!(cut.summary.stutter_share, Some(1.0));
    assert_eq!(cut.summary.goodput.unwrap().good, 2);
    let flags: Vec<&str> = cut.flags.iter().map(|flag| flag.name.as_str()).collect();
    let outside = ["duplicate_prompts", "salted_prompts", "n_too_small", "settings_not_applied"];
    let expected = [&["length_mismatch"][..], &outside, &["over_roofline", "interrupted"]].concat();
    assert_eq!(flags, expected);
    assert_eq!(cut.verdict, Verdict::Invalid);
    assert!(cut.server_metrics.as_ref().unwrap().reason.is_some());
}

#[test]
fn what_the_head_says_decides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.journal.jsonl");
    let cut = |head: &LevelHead, start_mode: Option<StartMode>, model: &str| {
        let _ = std::fs::remove_file(&path);
        let journal = Journal::create(&path, &run()).unwrap();
        journal.level(head).unwrap();
        (0..2).for_each(|index| {
            let model = Some(model.to_owned());
            journal.request(&RequestTrace { model, ..trace(index) }).unwrap();
        });
        start_mode.into_iter().for_each(|mode| journal.measuring(mode).unwrap());
        let headers = BTreeMap::from([("x-region".to_owned(), "here".to_owned())]);
        journal.answer_headers(&headers).unwrap();
        let mut file = recover(&path).unwrap().file;
        assert_eq!(file.meta.server.unwrap().headers, headers);
        file.levels.remove(0)
    };
    let gaps = LevelHead { save_gaps: true, single_e2e_s: Some(0.09), concurrency: 2, ..head() };
    let level = cut(&gaps, Some(StartMode::Simultaneous), "m-1");
    assert_eq!(level.requests[1].gaps_us.as_deref(), Some(&[10_000; 7][..]));
    assert_eq!(level.summary.start_mode, "simultaneous");
    assert_eq!(level.summary.n_eff_source, "serialness");
    let names = |level: &Level| level.flags.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert!(!names(&level).contains(&"wrong_model".to_owned()));
    let level = cut(&head(), None, "m-2");
    assert_eq!(level.summary.start_mode, "staggered");
    assert!(names(&level).contains(&"wrong_model".to_owned()));
}

#[test]
fn a_journal_of_the_first_format_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.journal.jsonl");
    let run = serde_json::json!({"run": {"format": 1, "file": run()}});
    let level = serde_json::json!({"level": {
        "key": "k", "concurrency": 1, "start_mode": "staggered", "stutter_ms": 200,
    }});
    let record = |index| record_of_trace(&trace(index), Keep { gaps: true, text: true });
    let request = |index| serde_json::json!({"request": record(index)});
    let lines = [run, level, request(0), request(1)].map(|line| format!("{line}\n"));
    std::fs::write(&path, lines.concat()).unwrap();
    let recovered = recover(&path).unwrap();
    assert_eq!(recovered.warnings, [""; 0]);
    assert_eq!(recovered.file.levels[0].summary.n_ok, 1);
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
