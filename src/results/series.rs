//! The hardware's time series beside a results file: `<name>.series.csv`, with `--save-series`.
//!
//! One table for all levels: the first column is the level's concurrency, then the columns of the
//! sampler (`t_s` since the level's start, `source`, a column for each value).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::store::{self, StoreError};

/// One value over the time of a level: (seconds since its start, value), in order.
pub type Track = Vec<(f64, f64)>;

/// What was sampled during one level, by the sampler's column names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LevelSeries {
    /// Tracks that hold at least one value.
    pub tracks: BTreeMap<String, Track>,
}

/// The series of a run's levels, by concurrency; empty where none were saved.
pub type RunSeries = BTreeMap<u32, LevelSeries>;

/// Where the series of a results file lies.
pub fn path_beside(results: &Path) -> PathBuf {
    results.with_extension("series.csv")
}

/// Writes the levels' tables, each beside its concurrency, as one.
///
/// # Errors
/// If the file cannot be written.
pub fn write_beside(results: &Path, levels: &[(u32, String)]) -> Result<PathBuf, StoreError> {
    let mut text = String::new();
    for (concurrency, table) in levels {
        let mut lines = table.lines();
        let header = lines.next().unwrap_or_default();
        if text.is_empty() {
            text.push_str(&format!("concurrency,{header}\r\n"));
        }
        for line in lines {
            text.push_str(&format!("{concurrency},{line}\r\n"));
        }
    }
    let path = path_beside(results);
    store::replace(&path, text.as_bytes())?;
    Ok(path)
}

/// The series of each level, by concurrency; cells that are no numbers are left out.
pub fn parse(text: &str) -> RunSeries {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let column = |name: &str| header.iter().position(|column| column == name);
    let (Some(level), Some(time)) = (column("concurrency"), column("t_s")) else {
        return BTreeMap::new();
    };
    let mut levels = RunSeries::new();
    for record in reader.records().flatten() {
        let number = |place: usize| record.get(place).and_then(|cell| cell.parse::<f64>().ok());
        let concurrency = record.get(level).and_then(|cell| cell.parse().ok());
        let (Some(concurrency), Some(at)) = (concurrency, number(time)) else { continue };
        let series = levels.entry(concurrency).or_default();
        for (place, name) in header.iter().enumerate() {
            if place != level
                && place != time
                && let Some(value) = number(place)
            {
                series.tracks.entry(name.to_owned()).or_default().push((at, value));
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_levels_wrote_comes_back_by_level_and_column() {
        let dir = tempfile::tempdir().unwrap();
        let one = "t_s,source,gpus.0.power_w,host.load_1m\r\n0.5,gpu,41.5,\r\n0.6,host,,2\r\n";
        let path = write_beside(
            &dir.path().join("run.json"),
            &[(1, one.to_owned()), (16, one.to_owned())],
        )
        .unwrap();
        assert!(path.ends_with("run.series.csv"));
        let levels = parse(&std::fs::read_to_string(path).unwrap());
        assert_eq!(levels.keys().copied().collect::<Vec<_>>(), [1, 16]);
        assert_eq!(levels[&16].tracks["gpus.0.power_w"], [(0.5, 41.5)]);
        assert_eq!(levels[&16].tracks["host.load_1m"], [(0.6, 2.0)]);
        assert!(parse("no,such\ncolumns,at all").is_empty());
    }
}
