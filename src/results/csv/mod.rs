//! Results for spreadsheets: `levels.csv`, one row a run and level; `requests.csv`, one a request.
//!
//! RFC 4180; one header row with units in the names; an empty cell for what is unknown; decimal
//! points; ISO times; text that a spreadsheet would run as a formula is made harmless. A run
//! without levels (skipped, failed) is one row of `levels.csv` with its reason.

mod level_cells;
mod request_cells;

use std::io::Write;

use super::escape::spreadsheet_cell;
use super::record::RequestRecord;
use super::store::StoredRun;
use crate::results::brief::BriefLevel;

/// What begins the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 after a byte order mark, without which Excel reads another encoding.
    Utf8WithBom,
}

/// One value; what is unknown is no cell text at all.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(Option<String>),
    Float(Option<f64>),
    Count(Option<u64>),
    YesNo(Option<bool>),
}

impl Cell {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    fn show(&self) -> String {
        match self {
            Self::Text(text) => {
                text.as_deref().map_or_else(String::new, |text| spreadsheet_cell(text).into())
            }
            Self::Float(value) => value.map_or_else(String::new, |value| value.to_string()),
            Self::Count(value) => value.map_or_else(String::new, |value| value.to_string()),
            Self::YesNo(value) => value.map_or_else(String::new, |value| value.to_string()),
        }
    }
}

/// One row: each cell beside its column's name. All rows of a file have the same columns.
type Cells = Vec<(String, Cell)>;

/// Writes one row for each level of each run.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_levels<W: Write>(
    runs: &[StoredRun],
    encoding: Encoding,
    out: W,
) -> Result<(), csv::Error> {
    let mut table = Table::new(&level_cells::columns(), encoding, out)?;
    for run in runs {
        for level in &run.file.levels {
            table.add(&level_cells::cells(run, Some(level)))?;
        }
        if run.file.levels.is_empty() {
            table.add(&level_cells::cells(run, None))?;
        }
    }
    table.finish()
}

/// `requests.csv`, written row by row: one for each request, warm-up included.
pub struct RequestsTable<W: Write>(Table<W>);

impl<W: Write> RequestsTable<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(encoding: Encoding, out: W) -> Result<Self, csv::Error> {
        Table::new(&request_cells::columns(), encoding, out).map(Self)
    }

    /// Writes the row of one request of a run's level. Their own records are not looked at.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn add(
        &mut self,
        run: &StoredRun,
        level: &BriefLevel,
        request: &RequestRecord,
    ) -> Result<(), csv::Error> {
        self.0.add(&request_cells::cells(run, level, request))
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn finish(self) -> Result<(), csv::Error> {
        self.0.finish()
    }
}

/// A header and rows of as many cells.
struct Table<W: Write>(csv::Writer<W>);

impl<W: Write> Table<W> {
    fn new(columns: &[String], encoding: Encoding, mut out: W) -> Result<Self, csv::Error> {
        if encoding == Encoding::Utf8WithBom {
            out.write_all("\u{feff}".as_bytes())?;
        }
        let mut writer =
            csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        writer.write_record(columns)?;
        Ok(Self(writer))
    }

    fn add(&mut self, row: &Cells) -> Result<(), csv::Error> {
        self.0.write_record(row.iter().map(|(_, cell)| cell.show()))
    }

    fn finish(mut self) -> Result<(), csv::Error> {
        Ok(self.0.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::brief::BriefFile;
    use crate::results::record::{Meta, MetricStats, MetricTable, Reason, ResultsFile, Summary};
    use std::collections::BTreeMap;

    fn runs() -> Vec<StoredRun> {
        let meta = Meta {
            target: "=cmd|' /C calc'!A0".into(),
            change: "a \"quoted\", line\nbreak".into(),
            ..Meta::default()
        };
        let ttft = MetricStats {
            p50: Some(0.1 + 0.2),
            p50_ci: Some([Some(-0.5), None]),
            n: 3,
            ..MetricStats::default()
        };
        let level = BriefLevel {
            summary: Summary {
                concurrency: 4,
                wall_s: 1e-7,
                metrics: MetricTable(BTreeMap::from([("ttft".to_owned(), ttft)])),
                ..Summary::default()
            },
            ..BriefLevel::default()
        };
        let measured = BriefFile { levels: vec![level], ..ResultsFile::new(meta.clone()).brief() };
        let skipped = BriefFile {
            skipped: Some(Reason { reason: "no_key".into(), text: "@X".into() }),
            ..ResultsFile::new(meta).brief()
        };
        let named = |path: &str, file| StoredRun { path: path.into(), file };
        vec![named("a.json", measured), named("b.json", skipped)]
    }

    fn table(bytes: &[u8]) -> Vec<BTreeMap<String, String>> {
        csv::Reader::from_reader(bytes).deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn every_value_comes_back_and_unknown_ones_are_empty() {
        let mut bytes = Vec::new();
        write_levels(&runs(), Encoding::Utf8, &mut bytes).unwrap();
        let rows = table(&bytes);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["change"], "a \"quoted\", line\nbreak");
        assert_eq!(rows[0]["ttft_p50_s"].parse(), Ok(0.1 + 0.2));
        assert_eq!(rows[0]["ttft_p50_ci_low_s"], "-0.5", "a negative number is no formula");
        assert_eq!(rows[0]["ttft_p50_ci_high_s"], "");
        assert_eq!(rows[0]["wall_s"].parse(), Ok(1e-7));
        assert_eq!((rows[0]["outcome"].as_str(), rows[1]["outcome"].as_str()), ("ok", "skipped"));
        assert_eq!(rows[1]["outcome_text"], "'@X");
        assert_eq!(rows[1]["concurrency"], "");
    }

    #[test]
    fn a_formula_in_a_name_is_text() {
        let mut bytes = Vec::new();
        let run = &runs()[0];
        let level = &run.file.levels[0];
        let mut requests = RequestsTable::new(Encoding::Utf8, &mut bytes).unwrap();
        let record = RequestRecord { ok: true, n_out: Some(9), ..RequestRecord::default() };
        requests.add(run, level, &record).unwrap();
        requests.finish().unwrap();
        let rows = table(&bytes);
        assert_eq!(rows[0]["target"], "'=cmd|' /C calc'!A0");
        assert_eq!((rows[0]["n_out"].as_str(), rows[0]["ok"].as_str()), ("9", "true"));
    }

    #[test]
    fn the_form_is_that_of_rfc_4180_and_excel_gets_its_mark() {
        let mut bytes = Vec::new();
        write_levels(&runs(), Encoding::Utf8WithBom, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("\u{feff}file,"));
        assert!(text.ends_with("\r\n"));
        for columns in [level_cells::columns(), request_cells::columns()] {
            let unique: std::collections::BTreeSet<_> = columns.iter().collect();
            assert_eq!(unique.len(), columns.len(), "each column has its own name");
        }
    }
}
