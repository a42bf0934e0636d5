//! A results file of a million records, read back: `cargo bench --no-default-features --bench read_back`.
//!
//! What is asked is how much memory that takes: a reader that wants no records, or each of them
//! once, must not need more for a million than for a thousand. Prints time and the process's peak.
//! Linux only. The file (1.3 GB for a million) is made in the folder for temporary files.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use spark::results::brief::Gaps;
use spark::results::record::{Level, Meta, RequestRecord, ResultsFile, Summary};
use spark::results::store;

fn main() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    println!(
        "{:>10}  {:>9}  {:<22}  {:>8}  {:>10}",
        "records", "file MB", "read", "seconds", "peak MB"
    );
    for records in [1_000, 1_000_000] {
        let path = large_file(dir.path(), records)?;
        let size_mb = fs::metadata(&path)?.len() as f64 / 1e6;
        let row = |what: &str, read: &dyn Fn() -> anyhow::Result<()>| -> anyhow::Result<()> {
            fs::write("/proc/self/clear_refs", "5")?; // From here on the peak is this reader's.
            let start = Instant::now();
            read()?;
            let (seconds, peak) = (start.elapsed().as_secs_f64(), peak_mb()?);
            println!("{records:>10}  {size_mb:>9.1}  {what:<22}  {seconds:>8.3}  {peak:>10.1}");
            Ok(())
        };
        row("without its records", &|| {
            let runs = store::read_many(&[&path], store::Part::Summaries)?;
            assert!(runs[0].file.levels[0].requests.is_empty());
            Ok(())
        })?;
        row("each record once", &|| {
            let mut seen = 0;
            store::read_each_record(&path, |_, _| seen += 1)?;
            assert_eq!(seen, records);
            Ok(())
        })?;
        row("each record in brief", &|| {
            let file = store::read_brief(&path, Gaps::Drop)?;
            assert_eq!(file.levels[0].requests.len(), records);
            Ok(())
        })?;
        row("whole", &|| {
            let file = store::read(&path)?;
            assert_eq!(file.levels[0].requests.len(), records);
            Ok(())
        })?;
        fs::remove_file(path)?;
    }
    Ok(())
}

/// One level of `records` equal requests. Written by hand: all of them at once need not exist.
fn large_file(dir: &Path, records: usize) -> anyhow::Result<PathBuf> {
    let mut file = ResultsFile::new(Meta::default());
    let n = records as u64;
    let summary = Summary { n, n_ok: n, ..Summary::default() };
    file.levels.push(Level { summary, ..Level::default() });
    let record = RequestRecord {
        ok: true,
        phase: "steady".into(),
        ttft: Some(0.123_456_789),
        e2e: Some(2.345_678_901),
        n_out: Some(256),
        n_chunks: 256,
        token_source: "usage".into(),
        finish_reason: Some("length".into()),
        model: Some("a-model-of-some-name".into()),
        text_sha256: Some("0".repeat(64)),
        ..RequestRecord::default()
    };
    let text = serde_json::to_string_pretty(&file)?;
    let (head, tail) = text.split_once("\"requests\": []").expect("the level has no requests");
    let record = serde_json::to_string_pretty(&record)?;
    let path = dir.join("large.json");
    let mut out = BufWriter::new(File::create(&path)?);
    write!(out, "{head}\"requests\": [")?;
    for index in 0..records {
        write!(out, "{}{record}", if index == 0 { "" } else { "," })?;
    }
    write!(out, "]{tail}")?;
    out.flush()?;
    Ok(path)
}

/// The most memory that the process had resident since it was last reset.
fn peak_mb() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}
