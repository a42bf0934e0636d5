//! `spark-bench compare`: did anything change between two runs?

mod choose;
mod gate;
mod rows;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::percent::Percent;
use super::{BadInput, answer, unreadable};
use crate::exit_codes;
use crate::report::differences::{self, Asked, Difference};
use crate::report::evidence;
use crate::results::brief::{BriefFile, BriefLevel, Gaps};
use crate::results::escape::terminal;
use crate::results::store;
use gate::Gate;
use rows::Row;

/// Flags of `spark-bench compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The results file to compare with, or a folder in which only one run can be meant.
    a: PathBuf,
    /// The results file of the change, or such a folder.
    b: PathBuf,
    /// Exit with 4 if any figure is significantly worse in B, by more than this ("5%"), or B did not
    /// finish; with 2 if the runs did other work, so that there is nothing to decide by.
    #[arg(long, value_name = "PERCENT")]
    fail_if_slower: Option<Percent>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Compares level by level.
///
/// # Errors
/// If a file cannot be read, or the two have no level in common.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let read = |path: &Path| store::read_brief(path, Gaps::Drop).map_err(unreadable);
    let chosen = choose::files(&args.a, &args.b)?;
    let mut comparison = Comparison::of(read(&chosen.a)?, read(&chosen.b)?).map_err(|why| {
        BadInput(format!("{} and {}: {why}", chosen.a.display(), chosen.b.display()))
    })?;
    comparison.notes.splice(0..0, chosen.notes);
    if let (Ok(a), Ok(b)) = (chosen.a.canonicalize(), chosen.b.canonicalize())
        && a == b
    {
        comparison.notes = vec!["A and B are the same file".into()];
    }
    let gate = args
        .fail_if_slower
        .map(|Percent(allowed)| Gate::of(allowed, &comparison.rows, &comparison.b));
    if args.json {
        answer(&format!("{:#}\n", comparison.to_json(gate.as_ref())))?;
    } else {
        answer(&comparison.text(gate.as_ref()))?;
    }
    Ok(gate.map_or(exit_codes::OK, |gate| gate.exit_code()))
}

/// Two runs beside each other.
struct Comparison {
    a: BriefFile,
    b: BriefFile,
    differences: Vec<Difference>,
    rows: Vec<Row>,
    /// What else keeps the figures from being taken as they stand.
    notes: Vec<String>,
}

impl Comparison {
    /// # Errors
    /// In words, if there is nothing to compare.
    fn of(a: BriefFile, b: BriefFile) -> Result<Self, String> {
        let mut differences = differences::of_runs(&a.meta, &b.meta);
        let common: Vec<(&BriefLevel, &BriefLevel)> = a
            .levels
            .iter()
            .filter_map(|level| Some((level, evidence::counterpart(&b, level)?)))
            .collect();
        let asked = Asked::of(&a.meta, &b.meta);
        for (level_a, level_b) in &common {
            differences.extend(differences::of_levels(level_a, level_b, asked));
        }
        let of_pair = |(a, b): &(&BriefLevel, &BriefLevel)| rows::of_levels(a, b, &differences);
        let rows: Vec<Row> = common.iter().flat_map(of_pair).collect();
        let notes = notes(&a, &b);
        if rows.is_empty() {
            let levels = |file: &BriefFile| match levels_of(file).as_slice() {
                [] => "no level".to_owned(),
                some => some.iter().map(|c| format!("c={c}")).collect::<Vec<_>>().join(", "),
            };
            let (of_a, of_b) = (levels(&a), levels(&b));
            let ended = [("A", &a), ("B", &b)].into_iter().filter_map(|(name, file)| {
                let why = file.failed.as_ref().or(file.skipped.as_ref())?;
                Some(format!("; {name} did not finish: {}", why.text))
            });
            let none_ok = [("A", &a), ("B", &b)].into_iter().filter_map(|(name, file)| {
                let failed = file.levels.iter().all(|level| level.summary.n_ok == 0);
                (failed && !file.levels.is_empty())
                    .then(|| format!("; no request of {name} was ok"))
            });
            let more: String = ended.chain(none_ok).collect();
            return Err(format!(
                "no figure of a level in common (A has {of_a}; B has {of_b}{more})"
            ));
        }
        Ok(Self { a, b, differences, rows, notes })
    }

    fn text(&self, gate: Option<&Gate>) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "{}", terminal(&text));
        };
        for (name, file) in [("A", &self.a), ("B", &self.b)] {
            line(format!("{name}: {} ({})", file.meta.target, file.meta.date));
        }
        for difference in &self.differences {
            line(format!("differs: {}", difference.sentence()));
        }
        for note in &self.notes {
            line(format!("note: {note}"));
        }
        line(String::new());
        line(HEADER.into());
        line(format!("{:<19} {:>7}  {:<19}  95 % interval", "", "B ÷ A", "99 % interval"));
        for row in &self.rows {
            let interval = |interval: Option<[f64; 2]>| {
                interval.map_or("none".into(), |ends| {
                    format!("{} … {}", number(ends[0]), number(ends[1]))
                })
            };
            line(format!(
                "{:<19} {:>7}  {:<19}  {:<19}  {}  ({})",
                row.name(),
                number(row.ratio),
                interval(row.interval_99),
                interval(row.interval_95),
                row.verdict.sentence(),
                row.details
            ));
        }
        for said in gate.iter().flat_map(|gate| gate.sentences()) {
            line(said);
        }
        out
    }

    fn to_json(&self, gate: Option<&Gate>) -> Value {
        json!({
            "a": {"target": self.a.meta.target, "date": self.a.meta.date},
            "b": {"target": self.b.meta.target, "date": self.b.meta.date},
            "differences": self.differences.iter().map(Difference::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
            "decided_by": "interval_99",
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "slower": gate.map(|gate| &gate.slower).cloned().unwrap_or_default(),
            "gate": gate.map(Gate::to_json),
        })
    }
}

const HEADER: &str = "The 99 % interval decides: of a dozen figures, 95 % would call one changed \
                      by accident every other time. Requests that depend on each other are worth \
                      fewer.";

/// A ratio to four places, or as many as its size lets matter.
fn number(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.4}") } else { format!("{ratio:.1}") }
}

fn levels_of(file: &BriefFile) -> Vec<u32> {
    file.levels.iter().map(|level| level.summary.concurrency).collect()
}

/// What is to be known of the runs besides their settings.
fn notes(a: &BriefFile, b: &BriefFile) -> Vec<String> {
    let mut notes = Vec::new();
    if ![(a, b), (b, a)].iter().any(|(one, other)| {
        one.meta.interleaved_with.as_deref() == Some(other.meta.target.as_str())
    }) {
        notes.push(
            "not measured in turns: what happened to the machine or the network between A and B \
             is in the ratios and in no interval"
                .into(),
        );
    }
    for (name, file, other) in [("A", a, b), ("B", b, a)] {
        if let Some(why) = file.failed.as_ref().or(file.skipped.as_ref()) {
            notes.push(format!("{name} did not finish: {}", why.text));
        } else if file.interrupted {
            notes.push(format!("{name} was interrupted"));
        }
        let common = levels_of(other);
        let alone = levels_of(file).into_iter().filter(|level| !common.contains(level));
        let alone: Vec<String> = alone.map(|level| format!("c={level}")).collect();
        if !alone.is_empty() {
            notes.push(format!("only {name} has {}", alone.join(", ")));
        }
        for level in file.levels.iter().filter(|level| !level.flags.is_empty()) {
            let flags = rows::flags_of(level).join(", ");
            notes.push(format!("{name} is flagged at c={}: {flags}", level.summary.concurrency));
        }
    }
    notes
}
