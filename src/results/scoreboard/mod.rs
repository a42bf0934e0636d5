//! The scoreboard: one row a run, one table for each piece of work that can be compared.
//!
//! A pure function of results files. Flagged, failed and skipped runs are rows like any other,
//! with the reason in their notes; nothing is left out and no figure is taken from elsewhere.

mod levels;
mod row;

pub use levels::levels_table;
pub use row::{Figure, HEADER, Row, interval_ms};

use std::collections::BTreeMap;

use super::escape::markdown_cell;
use super::place::told_apart;
use super::record::Meta;
use super::store::StoredRun;

/// Stands before what is generated.
pub const BEGIN: &str = "<!-- scoreboard:begin -->";
/// Stands after it.
pub const END: &str = "<!-- scoreboard:end -->";
/// Stands between the markers when there are no results.
const NO_RESULTS: &str = "No results yet.\n";

/// What has to be equal for two rows to stand in one table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// What the weights are; the model id where no config says it.
    pub base_model: String,
    /// SHA-256 of the prompts file; its path in files that carry no hash.
    pub prompts: String,
    /// Output tokens asked for.
    pub max_tokens: u64,
    /// Whether that length was forced.
    pub ignore_eos: bool,
}

impl Work {
    /// The work that a run did.
    pub fn of(meta: &Meta) -> Self {
        Self {
            base_model: meta.base_model.clone().unwrap_or_else(|| meta.model.clone()),
            prompts: meta.prompts_sha256.clone().unwrap_or_else(|| meta.prompts.clone()),
            max_tokens: meta.max_tokens,
            ignore_eos: meta.ignore_eos,
        }
    }

    /// "Llama 3.1 8B Instruct, prompts/short.jsonl, 256 output tokens, ignore_eos".
    ///
    /// `meta` is that of any run that did this work: a hash names no file.
    pub fn title(&self, meta: &Meta) -> String {
        let mut parts = vec![self.base_model.clone(), meta.prompts.clone()];
        if let Some(hash) = &meta.prompts_sha256 {
            let short: String = hash.chars().take(8).collect();
            parts[1] = format!("{} ({short})", meta.prompts);
        }
        parts.push(format!("{} output tokens", self.max_tokens));
        if self.ignore_eos {
            parts.push("ignore_eos".to_owned());
        }
        parts.join(", ")
    }
}

/// Runs of equal work, by date; the tables in the order of their work.
pub fn tables<'a>(
    runs: impl IntoIterator<Item = &'a StoredRun>,
) -> BTreeMap<Work, Vec<&'a StoredRun>> {
    let mut tables: BTreeMap<Work, Vec<&StoredRun>> = BTreeMap::new();
    for run in runs {
        tables.entry(Work::of(&run.file.meta)).or_default().push(run);
    }
    for rows in tables.values_mut() {
        rows.sort_by_key(|run| (sort_time(&run.file.meta.date), run.name()));
    }
    tables
}

/// The rows of one table. Where its servers were not on one machine, each row says where its own was.
pub fn rows_of(table: &[&StoredRun]) -> Vec<Row> {
    let places = told_apart(table.iter().map(|run| Some(&run.file.meta)));
    let row = |(run, place): (&&StoredRun, Option<String>)| {
        let mut row = Row::of(&run.file);
        if let Some(place) = place {
            row.notes = format!("{place}, {}", row.notes);
        }
        row
    };
    table.iter().zip(places).map(row).collect()
}

/// A time that sorts, whatever its offset; what is no time comes first, by its text.
fn sort_time(date: &str) -> (Option<jiff::Timestamp>, String) {
    (date.parse().ok(), date.to_owned())
}

/// All tables, as Markdown.
pub fn markdown(runs: &[StoredRun]) -> String {
    let tables = tables(runs);
    if tables.is_empty() {
        return NO_RESULTS.to_owned();
    }
    let sections: Vec<String> = tables
        .iter()
        .map(|(work, rows)| {
            let title = markdown_cell(&work.title(&rows[0].file.meta));
            let rows: String =
                rows_of(rows).iter().map(|row| format!("{}\n", row.markdown())).collect();
            format!("## {title}\n\n{HEADER}\n{rows}")
        })
        .collect();
    sections.join("\n")
}

/// Why a scoreboard could not be rewritten. Each text fits after "failed to".
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// A marker is missing, or there is more than one of it.
    #[error("find `{marker}` once: it is there {found} times")]
    NotOnce {
        /// The marker.
        marker: &'static str,
        /// How often it is there.
        found: usize,
    },
    /// The end stands before the beginning.
    #[error("find `{BEGIN}` before `{END}`")]
    WrongOrder,
}

/// `document` with what stands between its markers replaced by the tables of `runs`.
///
/// # Errors
/// If the markers are not there, once each, in their order.
pub fn update(document: &str, runs: &[StoredRun]) -> Result<String, MarkerError> {
    let place = |marker: &'static str| match document.matches(marker).count() {
        1 => Ok(document.find(marker).expect("it was counted just now")),
        found => Err(MarkerError::NotOnce { marker, found }),
    };
    let (begin, end) = (place(BEGIN)? + BEGIN.len(), place(END)?);
    if end < begin {
        return Err(MarkerError::WrongOrder);
    }
    Ok(format!("{}\n\n{}\n{}", &document[..begin], markdown(runs), &document[end..]))
}

/// A scoreboard that nobody has written anything around yet.
pub fn new_document() -> String {
    format!("# Scoreboard\n\n{BEGIN}\n{END}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Reason, ResultsFile};

    fn stored(target: &str, date: &str, sha: Option<&str>) -> StoredRun {
        let meta = Meta {
            target: target.into(),
            model: "m".into(),
            date: date.into(),
            prompts: "prompts/short.jsonl".into(),
            prompts_sha256: sha.map(str::to_owned),
            max_tokens: 256,
            ignore_eos: true,
            ..Meta::default()
        };
        StoredRun { path: format!("{target}.json").into(), file: ResultsFile::new(meta).brief() }
    }

    #[test]
    fn equal_work_is_one_table_sorted_by_date_and_other_work_another() {
        let runs = [
            stored("late", "2026-10-20T05:00:00Z", Some("aa")),
            stored("early", "2026-10-20T06:30:00+02:00", Some("aa")),
            stored("other", "2026-10-20T00:00:00Z", Some("bb")),
        ];
        let text = markdown(&runs);
        assert_eq!(text.matches("## ").count(), 2, "{text}");
        let places: Vec<usize> =
            ["early", "late", "other"].iter().map(|name| text.find(name).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn rows_of_other_machines_and_temperatures_and_loads_say_so() {
        use crate::results::record::{Level, Summary};
        let mut runs = [stored("near", "2026-10-20T05:00:00Z", None), stored("far", "", None)];
        runs[0].file.meta.base_url = "https://one.example/v1".into();
        runs[1].file.meta.base_url = "https://other.example/v1".into();
        let notes = |runs: &[StoredRun]| -> Vec<String> {
            rows_of(&runs.iter().collect::<Vec<_>>()).into_iter().map(|row| row.notes).collect()
        };
        let found = notes(&runs);
        assert!(found[0].contains("at one.example") && found[1].contains("at other.example"));
        assert!(!notes(&runs[..1])[0].contains("at one.example"), "one place needs no word");
        runs[0].file.meta.temperature = Some(0.7);
        let summary = Summary { start_mode: "open_poisson".into(), ..Summary::default() };
        runs[1].file.levels = vec![Level { summary, ..Level::default() }];
        let found = notes(&runs);
        assert!(found[0].contains("temperature 0.7"), "{found:?}");
        assert!(
            found[1].contains("open_poisson") && !found[1].contains("temperature"),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_person_wrote_stays_and_a_second_update_changes_nothing() {
        let mut runs = vec![stored("a", "2026-10-20T05:00:00Z", None)];
        runs[0].file.skipped =
            Some(Reason { reason: "no_key".into(), text: format!("{END} is no marker here") });
        let document = format!("# Mine\n\nabove\n\n{BEGIN}\nold\n{END}\n\nbelow\n");
        let once = update(&document, &runs).unwrap();
        assert!(once.starts_with("# Mine\n\nabove\n\n") && once.ends_with("\n\nbelow\n"));
        assert!(once.contains("| a |") && !once.contains("old"));
        assert_eq!(update(&once, &runs).unwrap(), once);
        assert!(update(&new_document(), &[]).unwrap().contains(NO_RESULTS));
    }

    #[test]
    fn unclear_markers_are_refused() {
        let not_once = |marker, found| Err(MarkerError::NotOnce { marker, found });
        assert_eq!(update("nothing", &[]), not_once(BEGIN, 0));
        assert_eq!(update(&format!("{BEGIN}{END}{END}"), &[]), not_once(END, 2));
        assert_eq!(update(&format!("{END}{BEGIN}"), &[]), Err(MarkerError::WrongOrder));
    }
}
