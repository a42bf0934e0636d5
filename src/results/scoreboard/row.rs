//! One run as one row.

use crate::results::escape::markdown_cell;
use crate::results::record::{
    Hardware, Level, Meta, Reason, ResultsFile, Severity, Summary, Verdict,
};

/// The table's head; the columns are those of the lesson.
pub const HEADER: &str = "\
| date | target | change | TTFT p50 / p99 ms (c=1) | tok/s p50 (c=1) | throughput tok/s (c=16) | notes |
|------|--------|--------|-------------------------|-----------------|-------------------------|-------|";

/// The level whose TTFT and pace a row shows.
const ALONE: u32 = 1;
/// The level whose throughput a row shows.
const CROWD: u32 = 16;
/// Fewer ok requests than this have no 99th percentile, only a largest value.
const P99_REQUESTS_MIN: u64 = 100;
/// Share of requests whose kept connection was replaced, above which a row says so: each of them has
/// a connect in its TTFT.
const REPLACED_SHARE: f64 = 0.01;
/// Longest reason that a note quotes, in characters: the whole text stands in the results file.
const REASON_CHARS_MAX: usize = 200;
/// What stands where there is no figure.
pub(super) const NONE: &str = "-";

/// The cells of one run, still unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Day of the run, UTC.
    pub date: String,
    /// Who was measured.
    pub target: String,
    /// What was new.
    pub change: String,
    /// `p50 / p99`, milliseconds, at c = 1.
    pub ttft_ms: Figure,
    /// Median pace of one stream at c = 1.
    pub decode_tps: Figure,
    /// Aggregate at c = 16.
    pub throughput_tps: Figure,
    /// Everything that one should know before quoting a figure.
    pub notes: String,
}

/// A figure, and whether it may be quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// As it is shown.
    pub text: String,
    /// False where its level is invalid: shown, but crossed out.
    pub quotable: bool,
}

impl Figure {
    fn of<R>(level: Option<&Level<R>>, text: impl Fn(&Summary) -> String) -> Self {
        match level {
            None => Self { text: NONE.to_owned(), quotable: true },
            Some(level) => {
                let text = text(&level.summary);
                Self { quotable: level.verdict != Verdict::Invalid || text == NONE, text }
            }
        }
    }

    fn markdown(&self) -> String {
        // Digits and words of ours: nothing in it needs escaping.
        if self.quotable { self.text.clone() } else { format!("~~{}~~", self.text) }
    }
}

impl Row {
    /// The row of one results file.
    pub fn of<R>(file: &ResultsFile<R>) -> Self {
        let closed = || file.levels.iter().filter(|level| !level.is_open());
        let at = |c: u32| closed().find(|level| level.summary.concurrency == c);
        let meta = &file.meta;
        Self {
            date: meta.date.chars().take(10).collect(),
            target: meta.target.clone(),
            change: meta.change.clone(),
            ttft_ms: Figure::of(at(ALONE), |summary| {
                match summary.metric("ttft").and_then(|ttft| ttft.p50) {
                    None => NONE.to_owned(),
                    p50 => format!("{} / {}", milliseconds(p50), ttft_p99(summary)),
                }
            }),
            decode_tps: Figure::of(at(ALONE), |summary| {
                number(summary.metric("decode_tps").and_then(|tps| tps.p50), 1)
            }),
            throughput_tps: Figure::of(at(CROWD), |summary| {
                // Fewer requests than there were workers never kept them all busy.
                if summary.n_ok > 0 && !summary.fills_its_workers() {
                    return format!("n<{CROWD}");
                }
                number(summary.throughput_tps, 1)
            }),
            notes: notes(file),
        }
    }

    /// As a line of a Markdown table.
    pub fn markdown(&self) -> String {
        let cells = [
            markdown_cell(&self.date),
            markdown_cell(&self.target),
            markdown_cell(&self.change),
            self.ttft_ms.markdown(),
            self.decode_tps.markdown(),
            self.throughput_tps.markdown(),
            markdown_cell(&self.notes),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

/// Seconds as milliseconds: whole ones, tenths below 10 ms.
pub(super) fn milliseconds(seconds: Option<f64>) -> String {
    let ms = seconds.map(|seconds| seconds * 1e3);
    number(ms, usize::from(ms.is_some_and(|ms| ms < 10.0)))
}

/// An interval of seconds in milliseconds, `131 … 136`, or `≥ 131` without an upper end; `None` where
/// nothing is known.
pub fn interval_ms(ends: Option<[Option<f64>; 2]>) -> Option<String> {
    match ends? {
        [Some(low), Some(high)] => {
            Some(format!("{} … {}", milliseconds(Some(low)), milliseconds(Some(high))))
        }
        [Some(low), None] => Some(format!("≥ {}", milliseconds(Some(low)))),
        [None, Some(high)] => Some(format!("≤ {}", milliseconds(Some(high)))),
        [None, None] => None,
    }
}

/// `value` with so many decimals.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.decimals$}"))
}

/// TTFT's 99th percentile, or why there is none.
pub(super) fn ttft_p99(summary: &Summary) -> String {
    if summary.n_ok < P99_REQUESTS_MIN {
        return format!("n<{P99_REQUESTS_MIN}");
    }
    milliseconds(summary.metric("ttft").and_then(|ttft| ttft.p99))
}

fn notes<R>(file: &ResultsFile<R>) -> String {
    let meta = &file.meta;
    let mut notes = Vec::new();
    let outcomes = [("failed", &file.failed), ("skipped", &file.skipped)];
    for (what, reason) in outcomes {
        notes.extend(reason.as_ref().map(|reason| outcome(what, reason)));
    }
    if file.interrupted {
        notes.push("interrupted".to_owned());
    }
    notes.push(meta.precision.clone());
    notes.push(format!("n={}", meta.n));
    if !meta.git_sha.is_empty() {
        let dirty = if meta.git_dirty == Some(true) { " (dirty)" } else { "" };
        notes.push(format!("sha {}{dirty}", meta.git_sha));
    }
    notes.extend(meta.repeat.filter(|&repeat| repeat > 1).map(|repeat| format!("repeat {repeat}")));
    if !["", "local"].contains(&meta.client.as_str()) {
        notes.push(format!("client {}", meta.client));
    }
    // HTTP/1.1 is what everybody is measured with; anything else is another measurement.
    notes.extend(meta.protocol.clone().filter(|protocol| protocol != "http/1.1"));
    // Greedy and closed loops are what tables are of; anything else is other work in the same table.
    let sampled = meta.temperature.filter(|temperature| *temperature != 0.0);
    notes.extend(sampled.map(|temperature| format!("temperature {temperature}")));
    notes.extend(
        file.levels.iter().filter(|level| level.is_open()).map(|level| open_note(meta, level)),
    );
    notes.extend(file.levels.iter().filter_map(level_note));
    notes.extend(replaced_note(&file.levels));
    let crowd = file.levels.iter().find(|level| level.summary.concurrency == CROWD);
    notes.extend(crowd.or(file.levels.last()).and_then(hardware_note));
    notes.retain(|note| !note.is_empty());
    notes.join(", ")
}

/// "760 of 800 kept connections were replaced", where it was more than a few.
fn replaced_note<R>(levels: &[Level<R>]) -> Option<String> {
    let sum =
        |get: fn(&Summary) -> u64| levels.iter().map(|level| get(&level.summary)).sum::<u64>();
    let (replaced, n) = (sum(|summary| summary.n_stale.unwrap_or(0)), sum(|summary| summary.n));
    let share = replaced as f64 / n as f64;
    (replaced > 0 && share > REPLACED_SHARE)
        .then(|| format!("{replaced} of {n} kept connections were replaced"))
}

/// "open loop, 5 requests/s (open_poisson): TTFT 125 / 200 ms, 16.9 tok/s": what a table of
/// concurrencies has no column for.
fn open_note<R>(meta: &Meta, level: &Level<R>) -> String {
    let summary = &level.summary;
    let rate = meta.open_rate_per_s.map(|rate| format!(", {rate} requests/s")).unwrap_or_default();
    let p50 = |metric: &str| summary.metric(metric).and_then(|stats| stats.p50);
    format!(
        "open loop{rate} ({}): TTFT {} / {} ms, {} tok/s",
        summary.start_mode,
        milliseconds(p50("ttft")),
        ttft_p99(summary),
        number(p50("decode_tps"), 1)
    )
}

fn outcome(what: &str, reason: &Reason) -> String {
    let text: String = reason.text.chars().take(REASON_CHARS_MAX).collect();
    let cut = if text.len() < reason.text.len() { "…" } else { "" };
    format!("{what} ({}): {text}{cut}", reason.reason)
}

/// "c=16 invalid: error_rate, drift; 3 of 200 failed (http_429 3)", or nothing to say.
fn level_note<R>(level: &Level<R>) -> Option<String> {
    let summary = &level.summary;
    let named = |severity: Severity| {
        let names: Vec<&str> = level
            .flags
            .iter()
            .filter(|flag| flag.severity == severity)
            .map(|flag| flag.name.as_str())
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut parts: Vec<String> = summary.cap().into_iter().collect();
    parts.extend(named(Severity::Invalid).map(|names| format!("invalid: {names}")));
    parts.extend(named(Severity::Flagged).map(|names| format!("flagged: {names}")));
    if summary.n_err > 0 {
        let classes: Vec<String> =
            summary.errors.iter().map(|(class, count)| format!("{class} {count}")).collect();
        let classes =
            if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) };
        parts.push(format!("{} of {} failed{classes}", summary.n_err, summary.n));
    }
    (!parts.is_empty()).then(|| format!("c={} {}", summary.concurrency, parts.join("; ")))
}

/// "GPU 93 %, 54 W (c=16)", or the processor where there is no device.
fn hardware_note<R>(level: &Level<R>) -> Option<String> {
    let hardware = level.hardware.as_ref()?;
    let text = gpu_note(hardware).or_else(|| {
        let busy = hardware.host?.cpu_pct_mean?;
        Some(format!("CPU {busy:.0} %"))
    })?;
    Some(format!("{text} (c={})", level.summary.concurrency))
}

/// Mean utilisation and summed power of the devices that the server uses (all, if unknown).
fn gpu_note(hardware: &Hardware) -> Option<String> {
    let devices = hardware.gpus_in_use();
    let utils: Vec<f64> = devices.iter().filter_map(|gpu| gpu.util_pct_mean).collect();
    let watts: Vec<f64> = devices.iter().filter_map(|gpu| gpu.power_w_mean).collect();
    let mut parts = Vec::new();
    if !utils.is_empty() {
        parts.push(format!("GPU {:.0} %", utils.iter().sum::<f64>() / utils.len() as f64));
    }
    if !watts.is_empty() {
        parts.push(format!("{:.0} W", watts.iter().sum::<f64>()));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Flag, Gpu, MetricStats, MetricTable};
    use std::collections::BTreeMap;

    fn level(c: u32, n_ok: u64) -> Level {
        let stats = |p50: f64, p99: f64| MetricStats {
            p50: Some(p50),
            p99: Some(p99),
            ..MetricStats::default()
        };
        let metrics = MetricTable(BTreeMap::from([
            ("ttft".to_owned(), stats(0.1254, 0.2)),
            ("decode_tps".to_owned(), stats(16.94, 17.0)),
        ]));
        let summary = Summary {
            concurrency: c,
            n: n_ok,
            n_ok,
            throughput_tps: Some(16.51),
            metrics,
            ..Summary::default()
        };
        Level { summary, ..Level::default() }
    }

    fn file(levels: Vec<Level>) -> ResultsFile {
        let meta = Meta {
            target: "spark-naive".into(),
            change: "baseline".into(),
            precision: "bf16".into(),
            git_sha: "3f2c9e1".into(),
            date: "2026-10-20T03:12:44Z".into(),
            n: 200,
            ..Meta::default()
        };
        ResultsFile { levels, ..ResultsFile::new(meta) }
    }

    #[test]
    fn a_valid_run_reads_as_the_lesson_prints_it() {
        let row = Row::of(&file(vec![level(1, 200), level(16, 200)])).markdown();
        assert_eq!(
            row,
            "| 2026-10-20 | spark-naive | baseline | 125 / 200 | 16.9 | 16.5 | \
             bf16, n=200, sha 3f2c9e1 |"
        );
    }

    #[test]
    fn an_open_loop_is_no_concurrency() {
        let mut open = level(16, 200);
        open.summary.start_mode = "open_poisson".into();
        let mut run = file(vec![open]);
        run.meta.open_rate_per_s = Some(5.0);
        let row = Row::of(&run).markdown();
        assert!(row.contains("| - | - | - |"), "no cell of c=16 is its own: {row}");
        assert!(row.contains("open loop, 5 requests/s (open_poisson): TTFT 125 / 200 ms"), "{row}");
    }

    #[test]
    fn a_p99_of_few_requests_is_not_printed_and_a_missing_level_is_a_dash() {
        let row = Row::of(&file(vec![level(1, 99)])).markdown();
        assert!(row.contains("| 125 / n<100 | 16.9 | - |"), "{row}");
        let row = Row::of(&file(vec![level(1, 200), level(16, 15)])).markdown();
        assert!(row.contains("| n<16 |"), "fifteen never kept sixteen in flight: {row}");
        let mut nothing = level(1, 0);
        nothing.verdict = Verdict::Invalid;
        nothing.summary.metrics.0.clear();
        nothing.summary.throughput_tps = None;
        let row = Row::of(&file(vec![nothing])).markdown();
        assert!(
            row.contains("| baseline | - | - | - |"),
            "no figure, so none is crossed out: {row}"
        );
    }

    #[test]
    fn flags_failures_and_watts_stand_in_the_notes_and_invalid_figures_are_crossed_out() {
        let mut bad = level(16, 197);
        bad.verdict = Verdict::Invalid;
        bad.summary.n = 200;
        bad.summary.n_err = 3;
        bad.summary.ended_by = "max_duration".into();
        bad.summary.errors = BTreeMap::from([("http_429".to_owned(), 3)]);
        let flag = |name: &str, severity| Flag {
            name: name.into(),
            severity,
            text: String::new(),
            numbers: BTreeMap::new(),
        };
        bad.flags = vec![flag("drift", Severity::Flagged), flag("error_rate", Severity::Invalid)];
        let gpu = Gpu { util_pct_mean: Some(93.4), power_w_mean: Some(54.1), ..Gpu::default() };
        bad.hardware = Some(Hardware { gpus: vec![gpu], ..Hardware::default() });
        let row = Row::of(&file(vec![level(1, 200), bad])).markdown();
        assert!(row.contains("| ~~16.5~~ |"), "{row}");
        assert!(
            row.ends_with(
                "sha 3f2c9e1, c=16 stopped by max_duration after 197 ok; invalid: error_rate; \
                 flagged: drift; 3 of 200 failed (http_429 3), GPU 93 % 54 W (c=16) |"
            ),
            "{row}"
        );
    }

    #[test]
    fn replaced_connections_stand_in_the_notes_where_they_are_many() {
        let with = |n_stale: u64| {
            let mut level = level(1, 200);
            level.summary.n_stale = Some(n_stale);
            Row::of(&file(vec![level.clone(), level])).notes
        };
        assert!(with(3).contains("6 of 400 kept connections were replaced"), "{}", with(3));
        assert!(!with(2).contains("replaced"), "{}", with(2));
    }

    #[test]
    fn a_run_that_never_ran_is_a_row_that_says_why() {
        let mut skipped = file(Vec::new());
        skipped.skipped = Some(Reason { reason: "no_key".into(), text: "X_KEY is not set".into() });
        let row = Row::of(&skipped).markdown();
        assert!(row.contains("| - | - | - | skipped (no_key): X_KEY is not set, bf16"), "{row}");
    }
}
