//! Every level of one run, for a terminal.

use super::row::{NONE, interval_ms, milliseconds, number, ttft_p99};
use crate::results::escape::terminal;
use crate::results::record::{Level, ResultsFile, Summary, Verdict};

const HEAD: &str =
    "   c   n_ok  err   ttft p50        p90        p99  tok/s p50  e2e p50      tput  verdict";

/// The run's identity, one line a level (TTFT in ms, e2e in s), and each flag with its reason.
pub fn levels_table<R>(file: &ResultsFile<R>) -> String {
    let meta = &file.meta;
    let facts = [&meta.target, &meta.model, &meta.precision, &meta.date, &meta.prompts];
    let facts: Vec<String> = facts.into_iter().map(|fact| terminal(fact)).collect();
    let mut text = format!("{}  sha={}\n", facts.join("  "), terminal(&meta.git_sha));
    let outcomes = [("failed", &file.failed), ("skipped", &file.skipped)];
    for (what, reason) in outcomes {
        if let Some(reason) = reason {
            let (name, why) = (terminal(&reason.reason), terminal(&reason.text));
            text.push_str(&format!("{what} ({name}): {why}\n"));
        }
    }
    if file.interrupted {
        text.push_str("interrupted: these are the levels that were measured until then\n");
    }
    if file.levels.is_empty() {
        return text;
    }
    if file.levels.iter().any(Level::is_open) {
        let rate = meta.open_rate_per_s.map(|rate| format!(" of {rate} requests/s"));
        let rate = rate.unwrap_or_default();
        text.push_str(&format!("open loop{rate}: c is the most that were in flight\n"));
    }
    text.push_str(HEAD);
    text.push('\n');
    let mut levels: Vec<&Level<R>> = file.levels.iter().collect();
    levels.sort_by_key(|level| level.summary.concurrency);
    for level in &levels {
        text.push_str(&line(level));
    }
    text.push_str(&interval_table(&levels));
    text.push_str(&server_table(file, &levels));
    for level in &levels {
        if let Some(cap) = level.summary.cap() {
            text.push_str(&format!("  c={} {cap}\n", level.summary.concurrency));
        }
        if let Some(unsettled) = level.summary.unsettled() {
            text.push_str(&format!("  c={} {unsettled}\n", level.summary.concurrency));
        }
        text.push_str(&replaced_line(&level.summary));
        for flag in &level.flags {
            let (name, why) = (terminal(&flag.name), terminal(&flag.text));
            text.push_str(&format!("  c={} {name}: {why}\n", level.summary.concurrency));
        }
    }
    text
}

/// What requests on a replaced connection were; empty where there were none.
fn replaced_line(summary: &Summary) -> String {
    let Some(n_stale) = summary.n_stale.filter(|n| *n > 0) else { return String::new() };
    format!(
        "  c={} {n_stale} of {} kept connections were replaced: the server had closed them without a word, \
         and a new connect is in the TTFT of each\n",
        summary.concurrency, summary.n
    )
}

/// How well TTFT is known: 95 % intervals, the observations that they rest on, and the largest.
fn interval_table<R>(levels: &[&Level<R>]) -> String {
    let line = |level: &&Level<R>| {
        let ttft = level.summary.metric("ttft")?;
        let n_eff = ttft.n_eff?;
        let ends = [ttft.p50_ci, ttft.p90_ci, ttft.p99_ci].map(interval_ms);
        let [p50, p90, p99] = ends.map(|ends| ends.unwrap_or_else(|| NONE.to_owned()));
        let (c, max) = (level.summary.concurrency, milliseconds(ttft.max));
        Some(format!("{c:>4} {n_eff:>6.1} {p50:>18} {p90:>18} {p99:>18} {max:>9}\n"))
    };
    let lines: String = levels.iter().filter_map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "TTFT is known to (95 %, ms; n eff: independent requests that it is worth):\n   c  n eff \
         {:>18} {:>18} {:>18} {:>9}\n{lines}",
        "p50", "p90", "p99", "max"
    )
}

/// What the server's processes took: CPU time for each output token, and memory against the model's
/// own size. Empty where we did not start it.
fn server_table<R>(file: &ResultsFile<R>, levels: &[&Level<R>]) -> String {
    const MB: f64 = 1e6;
    let model = model_bytes(file);
    let megabytes = |bytes: Option<u64>| match (bytes, model) {
        (Some(bytes), Some(model)) => {
            format!("{:.0} ({:.2}×)", bytes as f64 / MB, bytes as f64 / model)
        }
        (Some(bytes), None) => format!("{:.0}", bytes as f64 / MB),
        (None, _) => NONE.to_owned(),
    };
    let line = |level: &&Level<R>| {
        let server = level.hardware.as_ref()?.server?;
        let cpu_ms = server.cpu_s_per_output_token.map(|cpu_s| cpu_s * 1e3);
        Some(format!(
            "{:>4} {:>12} {:>16} {:>16}\n",
            level.summary.concurrency,
            number(cpu_ms, 2),
            megabytes(server.rss_bytes_max),
            megabytes(server.pss_bytes_max),
        ))
    };
    let lines: String = levels.iter().filter_map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    let of_model = model.map(|model| format!(" (× the model's {:.0} MB)", model / MB));
    format!(
        "the server's processes{}:\n   c  CPU ms/token           RSS MB           PSS MB\n{lines}",
        of_model.unwrap_or_default()
    )
}

/// The bytes of the model's weights: by the config, or by the server's own account.
fn model_bytes<R>(file: &ResultsFile<R>) -> Option<f64> {
    let by_config = file.meta.facts.get("model").and_then(|facts| facts.get("weight_bytes"));
    let own = file.meta.server.as_ref().and_then(|server| server.model_meta.as_ref());
    let by_server = own.and_then(|own| own.get("size_bytes").or_else(|| own.get("size")));
    by_config.or(by_server)?.as_f64().filter(|bytes| *bytes > 0.0)
}

fn line<R>(level: &Level<R>) -> String {
    let summary = &level.summary;
    let p50 = |metric: &str| summary.metric(metric).and_then(|stats| stats.p50);
    let p90 = summary.metric("ttft").and_then(|ttft| ttft.p90);
    let verdict = match level.verdict {
        Verdict::Valid => NONE,
        Verdict::Flagged => "flagged",
        Verdict::Invalid => "invalid",
    };
    format!(
        "{:>4} {:>6} {:>4} {:>10} {:>10} {:>10} {:>10} {:>8} {:>9}  {verdict}\n",
        summary.concurrency,
        summary.n_ok,
        summary.n_err,
        milliseconds(p50("ttft")),
        milliseconds(p90),
        ttft_p99(summary),
        number(p50("decode_tps"), 1),
        number(p50("e2e"), 2),
        throughput(summary),
    )
}

/// Fewer ok requests than there were workers never kept them all busy.
fn throughput(summary: &Summary) -> String {
    if summary.n_ok > 0 && !summary.fills_its_workers() {
        return format!("n<{}", summary.concurrency);
    }
    number(summary.throughput_tps, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Hardware, Meta, MetricStats, ServerUsage};

    #[test]
    fn a_level_is_a_line_under_the_head() {
        let meta = Meta { target: "a\u{1b}[2J".into(), ..Meta::default() };
        let summary = Summary { concurrency: 64, n_ok: 200, n_err: 1, ..Summary::default() };
        let level = Level { summary, verdict: Verdict::Invalid, ..Level::default() };
        let text = levels_table(&ResultsFile { levels: vec![level], ..ResultsFile::new(meta) });
        let lines: Vec<&str> = text.lines().collect();
        assert!(!text.contains('\u{1b}'));
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[2],
            "  64    200    1          -          -          -          -        -         -  invalid"
        );
        assert_eq!(lines[1].find("verdict"), lines[2].find("invalid"));
    }

    #[test]
    fn too_few_requests_for_the_workers_have_no_throughput() {
        let summary =
            Summary { concurrency: 16, n_ok: 5, throughput_tps: Some(502.0), ..Summary::default() };
        let text = line(&Level::<()> { summary, ..Level::default() });
        assert!(text.contains("n<16") && !text.contains("502"), "{text}");
    }

    #[test]
    fn what_ttft_is_known_to_stands_under_the_levels() {
        let ttft = MetricStats {
            n_eff: Some(6.25),
            p50_ci: Some([Some(16.1), Some(34.8)]),
            p90_ci: Some([Some(33.0), None]),
            max: Some(35.5),
            ..MetricStats::default()
        };
        let mut summary = Summary { concurrency: 16, n_ok: 100, ..Summary::default() };
        summary.metrics.0.insert("ttft".to_owned(), ttft);
        summary.settling.ttft_unsettled = Some(true);
        let level = Level { summary, ..Level::default() };
        let text =
            levels_table(&ResultsFile { levels: vec![level], ..ResultsFile::new(Meta::default()) });
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert!(lines[0].starts_with("TTFT is known to (95 %, ms;"), "{text}");
        let line = "  16    6.2      16100 … 34800            ≥ 33000                  -     35500";
        assert_eq!(lines[2], line);
        let columns = |line: &str| line.chars().count();
        assert_eq!(columns(lines[1]), columns(line));
        assert_eq!(lines[3], "  c=16 no steady state found in TTFT (MSER-5)");
    }

    #[test]
    fn replaced_connections_are_told_level_by_level() {
        let summary =
            Summary { concurrency: 4, n: 9, n_ok: 9, n_stale: Some(3), ..Summary::default() };
        let level = Level { summary, ..Level::default() };
        let text =
            levels_table(&ResultsFile { levels: vec![level], ..ResultsFile::new(Meta::default()) });
        assert!(text.contains("\n  c=4 3 of 9 kept connections were replaced: "), "{text}");
    }

    #[test]
    fn the_servers_memory_stands_beside_the_models_size() {
        let meta = Meta {
            facts: [("model".to_owned(), serde_json::json!({"weight_bytes": 200_000_000}))].into(),
            ..Meta::default()
        };
        let server = ServerUsage {
            cpu_s_per_output_token: Some(0.0123),
            rss_bytes_max: Some(300_000_000),
            pss_bytes_max: None,
            ..ServerUsage::default()
        };
        let level = Level {
            summary: Summary { concurrency: 4, ..Summary::default() },
            concurrency_asked: None,
            hardware_reason: None,
            hardware: Some(Hardware { server: Some(server), ..Hardware::default() }),
            server_metrics: None,
            flags: Vec::new(),
            verdict: Verdict::Valid,
            requests: Vec::new(),
        };
        let text = levels_table(&ResultsFile { levels: vec![level], ..ResultsFile::new(meta) });
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "the server's processes (× the model's 200 MB):",
                "   c  CPU ms/token           RSS MB           PSS MB",
                "   4        12.30      300 (1.50×)                -",
            ]
        );
    }
}
