//! The commands that read results: `scoreboard` and `csv`, and the committed board itself.

use std::path::Path;
use std::process::{Command, Output};

use spark::results::record::{Level, Meta, ResultsFile, Summary};
use spark::results::{scoreboard, store};

use crate::support::child::output;
use crate::support::synthetic::Scenario;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn spark_bench(args: &[&str], dir: &Path) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_spark-bench")).args(args).current_dir(dir))
}

fn run_file(target: &str) -> ResultsFile {
    let meta = Meta {
        target: target.into(),
        date: "2026-10-20T03:12:44Z".into(),
        prompts: "prompts/short.jsonl".into(),
        precision: "bf16".into(),
        ..Meta::default()
    };
    let level = Level {
        summary: Summary { concurrency: 1, n_ok: 7, n: 7, ..Summary::default() },
        ..Level::default()
    };
    ResultsFile { levels: vec![level], ..ResultsFile::new(meta) }
}

#[test]
fn the_committed_scoreboard_is_what_the_committed_results_give() {
    let results = root().join("results");
    let runs = if results.is_dir() {
        store::read_folder(&results, store::Part::Summaries).unwrap()
    } else {
        Vec::new()
    };
    let committed = std::fs::read_to_string(root().join("SCOREBOARD.md")).unwrap();
    let generated = scoreboard::update(&committed, &runs).unwrap();
    assert!(
        committed == generated,
        "SCOREBOARD.md is stale; run: spark-bench scoreboard --update SCOREBOARD.md results/"
    );
}

#[test]
fn a_board_is_made_then_updated_and_keeps_what_a_person_wrote() {
    let dir = tempfile::tempdir().unwrap();
    store::write_new(&dir.path().join("results"), &run_file("first")).unwrap();
    let update = ["scoreboard", "--update", "BOARD.md", "results"];
    let made = spark_bench(&update, dir.path());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let board = dir.path().join("BOARD.md");
    let text = std::fs::read_to_string(&board).unwrap();
    std::fs::write(&board, text.replace("# Scoreboard\n", "# Scoreboard\n\nMine.\n")).unwrap();
    store::write_new(&dir.path().join("results"), &run_file("second")).unwrap();
    assert!(spark_bench(&update, dir.path()).status.success());
    let text = std::fs::read_to_string(&board).unwrap();
    for expected in ["\nMine.\n", "| first |", "| second |"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn other_work_has_a_table_of_its_own_and_nothing_is_no_table() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let update = ["scoreboard", "--update", "made/anew/BOARD.md", "empty"];
    let made = spark_bench(&update, dir.path());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains("no rows, since empty holds no run"), "{said}");
    let none = spark_bench(&["scoreboard", "empty"], dir.path());
    assert!(none.stdout.is_empty() && none.status.code() == Some(2));

    let longer = |file: ResultsFile| {
        let meta = Meta { max_tokens: 999, ..file.meta };
        ResultsFile { meta, ..file }
    };
    store::write_new(&dir.path().join("results"), &run_file("one")).unwrap();
    let print = || {
        let output = spark_bench(&["scoreboard", "results"], dir.path());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(print().matches("| date").count(), 1);
    assert!(!print().contains("output tokens"), "one work needs no title");
    store::write_new(&dir.path().join("results"), &longer(run_file("other"))).unwrap();
    let text = print();
    assert_eq!(text.matches("| date").count(), 2, "{text}");
    assert!(text.contains("999 output tokens"), "{text}");
}

#[test]
fn levels_and_rows_are_printed_and_a_bad_file_is_named_with_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let path = store::write_new(dir.path(), &run_file("printed")).unwrap();
    let good = spark_bench(&["scoreboard", path.to_str().unwrap()], dir.path());
    let text = String::from_utf8(good.stdout).unwrap();
    assert!(text.contains("ttft p50") && text.contains("| printed |"), "{text}");
    std::fs::write(dir.path().join("bad.json"), "{\"schema_version\": 1}").unwrap();
    let bad = spark_bench(&["scoreboard", "."], dir.path());
    assert_eq!(bad.status.code(), Some(2));
    let message = String::from_utf8(bad.stderr).unwrap();
    assert!(message.contains("bad.json") && message.contains("meta"), "{message}");
}

#[test]
fn csv_files_stand_where_they_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    store::write_new(dir.path(), &run_file("=x")).unwrap();
    let written = spark_bench(&["csv", ".", "--out", "deep/er", "--excel"], dir.path());
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let levels = std::fs::read(dir.path().join("deep/er/levels.csv")).unwrap();
    assert!(levels.starts_with(&[0xef, 0xbb, 0xbf]));
    assert!(String::from_utf8(levels).unwrap().contains(",'=x,"));
    assert!(dir.path().join("deep/er/requests.csv").is_file());
}

#[test]
fn a_record_that_cannot_be_is_named_and_older_tables_stay() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).unwrap();
    let csv = |file: &str| spark_bench(&["csv", file, "--out", "out"], dir.path());
    let good = Scenario::desk().results();
    let path = store::write_new(dir.path(), &good).unwrap();
    assert!(csv(path.to_str().unwrap()).status.success());
    let before = (table("levels.csv"), table("requests.csv"));

    let mut edited = good;
    edited.levels[1].requests[5].e2e = Some(-2.0);
    let text = serde_json::to_string(&edited).unwrap();
    std::fs::write(dir.path().join("edited.json"), text).unwrap();
    let refused = csv("edited.json");
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    let expected = "read edited.json as a results file: levels[1].requests[5]: e2e is -2";
    assert!(message.contains(expected), "{message}");
    assert_eq!((table("levels.csv"), table("requests.csv")), before);
}
