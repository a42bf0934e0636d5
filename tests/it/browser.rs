//! The page in a real browser: no error, no request, and sliders that give the formulas' numbers.

use std::path::Path;
use std::process::Command;

use super::support::child::output;
use super::support::synthetic::Scenario;
use spark::analyse::explorer::{Ask, breakdown};
use spark::report::{page, rates};
use spark::results::store::StoredRun;

const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Headless Chromium, if it is here. Without it the test says so; in CI it has to be here.
fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no Chromium: apt-get install chromium");
        eprintln!("SKIPPED: no Chromium here, so the page was not tried in a browser");
    }
    found
}

/// The page's document after its scripts ran, and everything that the browser logged.
fn visit(browser: &str, url: &str) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"])
        .args(["--timeout=120000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        // Whatever the page asked for would fail, and be logged as an error.
        .arg("--proxy-server=http://127.0.0.1:1")
        .arg(url);
    let output = output(&mut command);
    (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into())
}

fn seconds(document: &str) -> Vec<f64> {
    let bars = document.split("id=\"x-bars\"").nth(1).unwrap();
    let bars = bars.split("id=\"x-verdict\"").next().unwrap();
    let values = bars.split("data-s=\"").skip(1);
    values.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn sliders_give_the_numbers_of_the_formulas() {
    let Some(browser) = browser() else { return };
    let runs: Vec<StoredRun> = [Scenario::desk(), Scenario::cloud()]
        .iter()
        .map(|scenario| StoredRun {
            path: format!("{}.json", scenario.target).into(),
            file: scenario.results().brief(),
        })
        .collect();
    let targets = rates::targets(&runs.iter().collect::<Vec<_>>());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page(&runs, Vec::new())).unwrap();
    let asks = [
        ("prompt=512&output=256&concurrency=1&a=0&b=1", 512.0, 256.0, 1.0, None, 0.0),
        (
            "prompt=4096&output=1&concurrency=16&a=0&b=1&a-net=45&b-net=45",
            4096.0,
            1.0,
            16.0,
            Some(0.045),
            0.0,
        ),
        (
            "prompt=1&output=1024&concurrency=64&a=0&b=1&a-net=1&b-net=1&fresh=1",
            1.0,
            1024.0,
            64.0,
            Some(0.001),
            1.0,
        ),
    ];
    for (address, prompt, output, concurrency, rtt, handshakes) in asks {
        let (document, log) = visit(browser, &format!("file://{}#{address}", file.display()));
        let complaints: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE") || line.contains("ERR_PROXY"))
            .collect();
        assert!(complaints.is_empty(), "{complaints:?}");
        let parts: Vec<_> = targets
            .iter()
            .map(|target| {
                let rtt_s = rtt.unwrap_or(target.rtt_s);
                let ask = Ask { prompt, output, rtt_s, concurrency, handshakes };
                breakdown(&target.rates, &ask)
            })
            .collect();
        let first = parts
            .iter()
            .flat_map(|p| [p.network_s, p.handshake_s, p.queue_s, p.prefill_s, p.ttft_s()]);
        let whole = parts.iter().flat_map(|p| {
            [p.network_s, p.handshake_s, p.queue_s, p.prefill_s, p.decode_s, p.total_s()]
        });
        let (expected, shown): (Vec<f64>, Vec<f64>) =
            (first.chain(whole).collect(), seconds(&document));
        assert_eq!(shown.len(), expected.len(), "{address}");
        for (shown, expected) in shown.iter().zip(&expected) {
            assert!((shown - expected).abs() <= 1e-9 * expected.abs(), "{shown} {expected}");
        }
        assert!(document.contains("wins the"), "{address}");
    }
}

#[test]
fn a_single_target_is_not_compared_with_itself() {
    let Some(browser) = browser() else { return };
    let run = StoredRun { path: "desk.json".into(), file: Scenario::desk().results().brief() };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page(&[run], Vec::new())).unwrap();
    let (document, log) = visit(browser, &format!("file://{}", file.display()));
    assert!(!log.lines().any(|line| line.contains("CONSOLE")), "{log}");
    // Four parts and their sum, then five and theirs.
    assert_eq!(seconds(&document).len(), 5 + 6);
    let verdict = document.split("id=\"x-verdict\"").nth(1).unwrap();
    let verdict = verdict.split("</p>").next().unwrap();
    assert!(verdict.contains("desk-serial: the first token after"), "{verdict}");
    assert!(!document.contains("<select id=\"x-b\""));
}
