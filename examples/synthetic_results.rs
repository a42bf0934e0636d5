//! Writes results of servers that do not exist, to try reports on: `synthetic_results KIND DIR`.
//!
//! Kinds: `one`, `two`, `ten`, `eight-levels`, `failed`, `cpu`, `gb10`, `million`.

#![expect(clippy::unwrap_used, reason = "a tool for developers: where it cannot go on it stops")]

#[path = "../tests/it/support/synthetic/mod.rs"]
mod synthetic;

use spark::results::convert::Keep;
use spark::results::record::{Reason, ResultsFile};
use spark::results::{series, store};
use synthetic::{Machine, Scenario};

fn main() {
    let mut args = std::env::args().skip(1);
    let (kind, dir) = (args.next().unwrap(), args.next().unwrap());
    for file in files(&kind) {
        let path = store::write_new(dir.as_ref(), &file).unwrap();
        let tables: Vec<(u32, String)> = file
            .levels
            .iter()
            .map(|level| (level.summary.concurrency, synthetic::series_csv(level)))
            .collect();
        if file.meta.host.as_ref().is_some_and(|host| !host.gpus.is_empty()) {
            series::write_beside(&path, &tables).unwrap();
        }
        println!("{}", path.display());
    }
}

fn files(kind: &str) -> Vec<ResultsFile> {
    let (desk, cloud) = (Scenario::desk(), Scenario::cloud());
    let long =
        |scenario: &Scenario| Scenario { n_prompt: 2_000, levels: vec![1], ..scenario.clone() };
    match kind {
        "one" => vec![Scenario { levels: vec![1], ..desk }.results()],
        "two" => [&desk, &cloud, &long(&desk), &long(&cloud)].map(Scenario::results).to_vec(),
        "ten" => (0..10)
            .map(|seed| {
                let decode_tps = 12.0 + 9.0 * f64::from(seed);
                let seed = u64::try_from(seed).unwrap();
                Scenario { seed, decode_tps, ..desk.clone() }.results()
            })
            .collect(),
        "eight-levels" => {
            vec![Scenario { levels: vec![1, 2, 4, 8, 16, 32, 64, 128], n: 400, ..cloud }.results()]
        }
        "failed" => {
            let mut failed = ResultsFile::new(desk.results().meta);
            let text = "exited with 1 <b>\u{1b}[31mCUDA error: out of memory".to_owned();
            failed.failed = Some(Reason { reason: "not_ready".into(), text });
            failed.engine_log_tail = Some(vec!["ggml: <script>alert(1)</script>".into()]);
            failed.meta.target = "<img src=x onerror=alert(1)>".into();
            vec![failed, Scenario { failures: 0.08, ..cloud }.results()]
        }
        "cpu" => vec![Scenario { machine: Machine::CpuOnly, ..desk }.results()],
        "gb10" => vec![Scenario { machine: Machine::Gb10, ..desk }.results()],
        "million" => {
            let keep = Keep::default();
            let levels = vec![64];
            vec![Scenario { n: 1_000_000, levels, max_tokens: 16, keep, ..cloud }.results()]
        }
        other => panic!("no kind {other:?}"),
    }
}
