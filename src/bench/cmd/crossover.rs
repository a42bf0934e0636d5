//! `spark-bench crossover`: from which prompt length on does one target's first token come sooner?
//!
//! It reads results whose prompts differ in length: each measured c = 1 request is a point, its
//! length by the server's own count.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{BadInput, answer, read_runs};
use crate::analyse::crossover::{Answer, Line, Point, Side, answer as crossover};
use crate::exit_codes;
use crate::report::evidence;

/// Flags of `spark-bench crossover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results of one target, with prompts of several lengths.
    #[arg(long, required = true, num_args = 1.., value_name = "RESULTS")]
    a: Vec<PathBuf>,
    /// Results of the other.
    #[arg(long, required = true, num_args = 1.., value_name = "RESULTS")]
    b: Vec<PathBuf>,
    /// Shorter prompts are left out: below a machine's ridge TTFT is flat and no line.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    min_tokens: u64,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// One target's points and the line through them.
struct Target {
    name: String,
    points: Vec<Point>,
    line: Line,
}

/// Prints who wins where.
///
/// # Errors
/// If a file cannot be read, or a target has fewer than three prompts of more than one length.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let a = Target::read(&args.a, args.min_tokens)?;
    let b = Target::read(&args.b, args.min_tokens)?;
    let found = crossover(&a.points, &b.points);
    if args.json {
        answer(&format!("{:#}\n", to_json(&a, &b, found)))?;
    } else {
        answer(&text(&a, &b, found))?;
    }
    Ok(exit_codes::OK)
}

impl Target {
    fn read(paths: &[PathBuf], min_tokens: u64) -> anyhow::Result<Self> {
        let runs = read_runs(paths)?;
        let name = runs.first().map(|run| run.file.meta.target.clone()).unwrap_or_default();
        if let Some(other) = runs.iter().find(|run| run.file.meta.target != name) {
            let text = format!("{} and {name} are two targets", other.file.meta.target);
            return Err(BadInput(text).into());
        }
        let points: Vec<Point> = runs
            .iter()
            .filter_map(|run| evidence::level_at(&run.file, 1))
            .flat_map(evidence::measured_ok)
            .filter_map(|record| {
                // A cached token is no prompt to be computed.
                let fresh = record.n_prompt?.saturating_sub(record.n_cached.unwrap_or(0));
                let tokens = Some(fresh).filter(|fresh| *fresh >= min_tokens.max(1))?;
                Some(Point { tokens: tokens as f64, ttft_s: record.ttft? })
            })
            .collect();
        let line = Line::fit(&points).ok_or_else(|| {
            BadInput(format!(
                "{name}: a line takes at least three c = 1 requests with prompts of more than one \
                 length ({} usable)",
                points.len()
            ))
        })?;
        Ok(Self { name, points, line })
    }
}

fn winner<'a>(side: Side, a: &'a Target, b: &'a Target) -> (&'a str, &'a str) {
    match side {
        Side::A => (&a.name, &b.name),
        Side::B => (&b.name, &a.name),
    }
}

fn text(a: &Target, b: &Target, found: Answer) -> String {
    let mut out = String::new();
    for target in [a, b] {
        let prefill = 1.0 / target.line.slope_s;
        let _ = writeln!(
            out,
            "{}: TTFT = {:.1} ms + {:.4} ms per prompt token ({}; {} requests)",
            target.name,
            target.line.intercept_s * 1e3,
            target.line.slope_s * 1e3,
            if prefill > 0.0 { format!("{prefill:.0} tok/s of prefill") } else { "flat".into() },
            target.points.len()
        );
    }
    let sentence = match found {
        Answer::NotResolved => {
            "Not resolved: the lines' difference is within the noise. More prompts, or longer ones."
                .into()
        }
        Answer::Always(side) => {
            let (wins, _) = winner(side, a, b);
            format!("{wins} has the first token sooner at every length measured.")
        }
        Answer::Crosses { first, at } => {
            let (short, long) = winner(first, a, b);
            let interval = at.fieller.map_or(String::new(), |[low, high]| {
                format!(" (95 % interval by Fieller: {low:.0} … {high:.0})")
            });
            format!(
                "{short} has the first token sooner up to {:.0} prompt tokens{interval}, {long} \
                 from there on.",
                at.tokens
            )
        }
    };
    let _ = write!(out, "\n{}\n{sentence}\n", plot(a, b));
    out
}

const PLOT_WIDTH: usize = 64;
const PLOT_HEIGHT: usize = 14;

/// TTFT against prompt tokens: A's and B's lines as letters, `*` where both are.
fn plot(a: &Target, b: &Target) -> String {
    let points = || a.points.iter().chain(&b.points);
    let longest = points().map(|point| point.tokens).fold(1.0, f64::max);
    let slowest = points().map(|point| point.ttft_s).fold(1e-9, f64::max);
    let mut cells = vec![vec![' '; PLOT_WIDTH]; PLOT_HEIGHT];
    for (letter, line) in [('A', a.line), ('B', b.line)] {
        let at_column = |column| (column, longest * column as f64 / (PLOT_WIDTH - 1) as f64);
        for (column, tokens) in (0..PLOT_WIDTH).map(at_column) {
            let height = line.at(tokens) / slowest * (PLOT_HEIGHT - 1) as f64;
            if !(0.0..=(PLOT_HEIGHT - 1) as f64).contains(&height) {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            let row = PLOT_HEIGHT - 1 - height.round() as usize;
            let cell = &mut cells[row][column];
            *cell = if *cell == ' ' { letter } else { '*' };
        }
    }
    let mut out = format!("TTFT, up to {:.0} ms (A: {}, B: {})\n", slowest * 1e3, a.name, b.name);
    for row in cells {
        let _ = writeln!(out, "|{}", row.into_iter().collect::<String>().trim_end());
    }
    let _ = writeln!(out, "+{} {longest:.0} prompt tokens", "-".repeat(PLOT_WIDTH));
    out
}

fn to_json(a: &Target, b: &Target, found: Answer) -> Value {
    let target = |target: &Target| {
        json!({
            "target": target.name,
            "requests": target.points.len(),
            "intercept_s": target.line.intercept_s,
            "slope_s_per_token": target.line.slope_s,
        })
    };
    let found = match found {
        Answer::NotResolved => json!({"answer": "not_resolved"}),
        Answer::Always(side) => json!({"answer": "always", "winner": winner(side, a, b).0}),
        Answer::Crosses { first, at } => json!({
            "answer": "crosses",
            "winner_below": winner(first, a, b).0,
            "winner_above": winner(first, a, b).1,
            "tokens": at.tokens,
            "standard_error": at.standard_error,
            "fieller_95": at.fieller,
            "delta_95": at.delta,
        }),
    };
    json!({"a": target(a), "b": target(b), "crossover": found})
}
