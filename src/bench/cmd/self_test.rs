//! `spark-bench self-test`: the harness's own error, against a null engine in another process.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::{BadInput, answer};
use crate::bench::self_test::{Replay, self_test};
use crate::exit_codes;
use crate::results::record::FloorRow;

/// Flags of `spark-bench self-test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Streams at once, a row for each.
    #[arg(long, value_name = "C,C,…", value_delimiter = ',', default_value = "1,4,16,64,256,1024")]
    concurrency: Vec<u32>,
    /// Milliseconds from a request to its first text.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = super::whole_number::<u64>)]
    ttft_ms: u64,
    /// Milliseconds from one text to the next.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = super::whole_number::<u64>)]
    gap_ms: u64,
    /// Texts of each answer.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = super::whole_number::<u32>)]
    tokens: u32,
    /// Answers for each stream.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = super::whole_number::<u32>)]
    rounds: u32,
    /// Prints the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// Measures, and prints a table. The exit code tells of lost events only: how much error is too
/// much depends on what is to be measured.
///
/// # Errors
/// If the null engine does not start.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.concurrency.contains(&0) || args.tokens == 0 || args.rounds == 0 {
        return Err(BadInput("--concurrency, --tokens and --rounds begin at 1".to_owned()).into());
    }
    let replay = Replay {
        ttft: Duration::from_millis(args.ttft_ms),
        gap: Duration::from_millis(args.gap_ms),
        tokens: args.tokens,
        rounds: args.rounds,
    };
    let harness = std::env::current_exe().context("failed to find this program's own file")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cancel = CancellationToken::new();
    let rows = runtime.block_on(self_test(&harness, &args.concurrency, replay, &cancel))?;
    let text = if args.json { serde_json::to_string_pretty(&rows)? + "\n" } else { table(&rows) };
    answer(&text)?;
    let lost = rows.iter().any(|row| row.lost_events > 0);
    Ok(if lost { exit_codes::CHECK_FAILED } else { exit_codes::OK })
}

fn table(rows: &[FloorRow]) -> String {
    let mut text = String::from(
        "streams  events/s  TTFT error ms p50 / p99 / max  gap error ms p50 / p99 / max  \
         CPU us/event  KiB/stream  loop lag ms p99  lost\n",
    );
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let whole = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for row in rows {
        let three = |a, b, c| format!("{} / {} / {}", ms(a), ms(b), ms(c));
        let ttft = three(row.ttft_error_ms_p50, row.ttft_error_ms_p99, row.ttft_error_ms_max);
        let gap = three(row.gap_error_ms_p50, row.gap_error_ms_p99, row.gap_error_ms_max);
        let _ = writeln!(
            text,
            "{:>7}  {:>8}  {ttft:>29}  {gap:>28}  {:>12}  {:>10}  {:>15}  {:>4}",
            row.concurrency,
            whole(row.events_per_s),
            whole(row.cpu_us_per_event),
            whole(row.bytes_per_stream.map(|bytes| bytes / 1024.0)),
            ms(row.loop_lag_ms_p99),
            row.lost_events,
        );
    }
    text
}
