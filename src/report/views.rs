//! What the sections share: runs with unambiguous names.

use crate::results::series::RunSeries;
use crate::results::store::StoredRun;

/// A run, its hardware series by concurrency (where they were saved), and its name in the report.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// The results file.
    pub stored: &'a StoredRun,
    /// Empty where no series was saved.
    pub series: RunSeries,
    /// Unique in the report.
    pub name: String,
}

/// Names the runs: by target, and by what tells them apart where targets are equal.
pub fn named(runs: &[StoredRun], series: Vec<RunSeries>) -> Vec<Run<'_>> {
    let name = |run: &StoredRun| {
        let same: Vec<[String; 5]> =
            runs.iter().map(parts).filter(|other| other[0] == parts(run)[0]).collect();
        let own = parts(run);
        let mut name = own[0].clone();
        // Of what differs between runs of one target, as much as it takes.
        let mut alike: Vec<&[String; 5]> = same.iter().collect();
        for place in 1..own.len() {
            let left: Vec<&[String; 5]> =
                alike.iter().copied().filter(|other| other[place] == own[place]).collect();
            if left.len() < alike.len() {
                name = format!("{name}, {}", own[place]);
                alike = left;
            }
        }
        name
    };
    let series = series.into_iter().chain(std::iter::repeat_with(RunSeries::new));
    runs.iter()
        .zip(series)
        .map(|(stored, series)| Run { stored, series, name: name(stored) })
        .collect()
}

/// What may tell a run apart: target, prompts, change, date, file.
fn parts(run: &StoredRun) -> [String; 5] {
    let meta = &run.file.meta;
    let stem = meta.prompts.rsplit('/').next().unwrap_or_default();
    let stem = stem.strip_suffix(".jsonl").unwrap_or(stem).to_owned();
    let file = run.name();
    let file = file.strip_suffix(".json").unwrap_or(&file).to_owned();
    [meta.target.clone(), stem, meta.change.clone(), meta.date.clone(), file]
}

/// A time in the unit that keeps it short.
pub fn time(seconds: f64) -> String {
    let short = super::svg::short;
    if seconds.abs() >= 10.0 {
        format!("{} s", short(seconds))
    } else {
        format!("{} ms", short(seconds * 1e3))
    }
}

/// A time, or a dash.
pub fn ms(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), time)
}

/// A value with no more digits than it takes, or a dash.
pub fn value(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), super::svg::short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Meta, ResultsFile};

    #[test]
    fn names_say_what_differs_and_no_more() {
        let run = |target: &str, prompts: &str, path: &str| {
            let meta = Meta { target: target.into(), prompts: prompts.into(), ..Meta::default() };
            StoredRun { path: path.into(), file: ResultsFile::new(meta).brief() }
        };
        let runs = [
            run("a", "p/short.jsonl", "1.json"),
            run("a", "p/long.jsonl", "2.json"),
            run("b", "p/short.jsonl", "3.json"),
            run("c", "p/short.jsonl", "4.json"),
            run("c", "p/short.jsonl", "5.json"),
        ];
        let names: Vec<String> = named(&runs, Vec::new()).into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["a, short", "a, long", "b", "c, 4", "c, 5"]);
    }
}
