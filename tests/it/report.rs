//! The page: complete, self-contained, small, and deaf to hostile strings.

use std::collections::BTreeMap;

use super::support::child::output;
use super::support::synthetic::{self, Machine, Scenario};
use spark::report::{page, svg_files};
use spark::results::convert::Keep;
use spark::results::record::{Reason, ResultsFile};
use spark::results::series;
use spark::results::store::StoredRun;

/// What a page may weigh.
const BYTES_MAX: usize = 1_000_000;

fn stored(files: Vec<ResultsFile>) -> Vec<StoredRun> {
    let named = files.into_iter().enumerate();
    let run = |(i, file): (usize, ResultsFile)| StoredRun {
        path: format!("run-{i}.json").into(),
        file: file.brief(),
    };
    named.map(run).collect()
}

fn check_page(html: &str) {
    assert!(html.len() < BYTES_MAX, "{} bytes", html.len());
    // Nothing is loaded: no address but the name of SVG itself and what is shown as text.
    for loads in ["src=", "@import", "url(", "<iframe", "<link rel=\"stylesheet"] {
        assert!(!html.contains(loads), "{loads}");
    }
    for bad in [">NaN", " NaN", "inf\""] {
        assert!(!html.contains(bad), "{bad}");
    }
    for (open, close) in [("<section", "</section>"), ("<svg", "</svg>"), ("<table", "</table>")] {
        assert_eq!(html.matches(open).count(), html.matches(close).count(), "{open}");
    }
}

#[test]
fn a_page_has_every_section_and_loads_nothing() {
    let long = |scenario: Scenario| Scenario { n_prompt: 2_000, levels: vec![1], ..scenario };
    let runs = stored(vec![
        Scenario::desk().results(),
        Scenario::cloud().results(),
        long(Scenario::desk()).results(),
        long(Scenario::cloud()).results(),
    ]);
    let html = page(&runs, Vec::new());
    check_page(&html);
    for expected in [
        "id=\"scoreboard\"",
        "id=\"x-data\"",
        "does one request at a time",
        "does many at once",
        "has the first token sooner up to",
        "Level by level",
        "To repeat it",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
}

#[test]
fn runs_of_other_work_are_not_drawn_as_if_they_were_the_same() {
    let same = page(&stored(vec![Scenario::desk().results()]), Vec::new());
    assert!(!same.contains("class=\"notice\""));
    let mut short = Scenario::desk().results();
    short.meta.max_tokens /= 2;
    short.meta.target = "short".into();
    let runs = stored(vec![Scenario::desk().results(), short]);
    let html = page(&runs, Vec::new());
    check_page(&html);
    let (before, plots) = html.split_once("class=\"notice\"").unwrap();
    assert!(before.contains("id=\"ladder\"") && plots.contains("2 different pieces of work"));
    assert!(plots.contains("short [B: ") && plots.contains("class=\"l c1 d d1\""));
    let files = svg_files(&runs, Vec::new());
    let (_, ladder) = files.iter().find(|(name, _)| name.starts_with("ladder-TTFT")).unwrap();
    assert!(ladder.contains("short [B: ") && ladder.contains("class=\"l c1 d d1\""), "{ladder}");
}

#[test]
fn the_folder_of_a_page_is_made() {
    let dir = tempfile::tempdir().unwrap();
    spark::results::store::write_new(dir.path(), &Scenario::desk().results()).unwrap();
    let report = |out: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_spark-bench"));
        output(command.args(["report", ".", "--out", out]).current_dir(dir.path()))
    };
    assert!(report("made/anew/page.html").status.success());
    assert!(dir.path().join("made/anew/page.html").is_file());
    let refused = report("made/anew/page.html/below/page.html");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("failed to make the folder made/anew/page.html/below"), "{said}");
}

#[test]
fn every_kind_of_machine_and_outcome_makes_a_page() {
    for machine in [Machine::CpuOnly, Machine::DiscreteGpu, Machine::Gb10, Machine::Remote] {
        check_page(&page(
            &stored(vec![Scenario { machine, ..Scenario::desk() }.results()]),
            vec![],
        ));
    }
    let mut failed = ResultsFile::new(Scenario::desk().results().meta);
    failed.failed = Some(Reason { reason: "not_ready".into(), text: "exited with 1".into() });
    let html = page(&stored(vec![failed]), Vec::new());
    check_page(&html);
    assert!(html.contains("not_ready") && html.contains("exited with 1"));
    check_page(&page(&[], Vec::new()));
}

#[test]
fn much_data_stays_a_small_page() {
    let ten: Vec<ResultsFile> =
        (0..10).map(|seed| Scenario { seed, ..Scenario::desk() }.results()).collect();
    let series: Vec<series::RunSeries> = ten
        .iter()
        .map(|file| {
            let levels = file.levels.iter().map(|level| {
                let text = synthetic::series_csv(level);
                let (head, rows) = text.split_once("\r\n").unwrap();
                let c = level.summary.concurrency;
                let rows: String = rows.lines().map(|row| format!("{c},{row}\n")).collect();
                series::parse(&format!("concurrency,{head}\n{rows}"))
            });
            levels.flatten().collect()
        })
        .collect();
    check_page(&page(&stored(ten), series));
    let levels = vec![1, 2, 4, 8, 16, 32, 64, 128];
    let many = (0..12)
        .map(|seed| {
            Scenario { seed, levels: levels.clone(), n: 300, ..Scenario::cloud() }.results()
        })
        .collect();
    check_page(&page(&stored(many), vec![BTreeMap::new()]));
    let keep = Keep::default();
    let crowd = Scenario { n: 50_000, levels: vec![64], max_tokens: 8, keep, ..Scenario::cloud() };
    check_page(&page(&stored(vec![crowd.results()]), Vec::new()));
}

#[test]
fn hostile_strings_are_text() {
    let mut file = Scenario { failures: 0.1, ..Scenario::cloud() }.results();
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{1b}[31m";
    let meta = &mut file.meta;
    for field in [&mut meta.target, &mut meta.model, &mut meta.change, &mut meta.prompts] {
        *field = hostile.to_owned();
    }
    meta.base_model = Some(hostile.into());
    meta.argv = vec![hostile.into()];
    file.engine_log_tail = Some(vec![hostile.into()]);
    file.failed = Some(Reason { reason: hostile.into(), text: hostile.into() });
    for level in &mut file.levels {
        for flag in &mut level.flags {
            flag.text = hostile.into();
        }
    }
    let runs = stored(vec![file]);
    let mut shown = page(&runs, Vec::new());
    for (_, svg) in svg_files(&runs, Vec::new()) {
        shown.push_str(&svg);
    }
    assert!(!shown.contains("<script>alert") && !shown.contains("<img"));
    assert!(!shown.contains("</script><script>") && !shown.contains('\u{1b}'));
    assert!(shown.contains("&lt;img src=x"));
}

#[test]
fn plots_are_files_that_stand_alone() {
    let files = svg_files(&stored(vec![Scenario::desk().results()]), Vec::new());
    assert!(files.iter().any(|(name, _)| name.starts_with("ladder-TTFT")), "{}", files.len());
    for (name, svg) in &files {
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("prefers-color-scheme"), "{name}");
    }
}
