//! A results file, read piece by piece: its records pass by one at a time.
//!
//! A night's run holds millions of records, and most readers want none of them (a scoreboard) or
//! each of them once (a CSV file). What is left when they have passed is small: it is parsed as
//! one [`ResultsFile`] whose levels hold no requests.

use std::fmt;
use std::io::{Read, Seek};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::impossible;
use super::record::{RequestRecord, ResultsFile};

/// What becomes of the records.
pub(super) enum Records<'a> {
    /// They are skipped, unread.
    Skip,
    /// Each is given away, with the position of its level.
    Each(&'a mut dyn FnMut(usize, RequestRecord)),
}

/// Just enough of a file to tell who wrote it.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: Option<u64>,
}

/// The file's `schema_version`; none in the lesson's own files.
///
/// # Errors
/// If the file is no JSON object.
pub(super) fn version(mut file: impl Read + Seek) -> Result<Option<u64>, String> {
    const START_BYTES: u64 = 256;
    let mut start = Vec::new();
    file.by_ref().take(START_BYTES).read_to_end(&mut start).map_err(|error| error.to_string())?;
    if let Some(version) = std::str::from_utf8(&start).ok().and_then(leading_version) {
        return Ok(Some(version));
    }
    // Somebody put it elsewhere.
    file.rewind().map_err(|error| error.to_string())?;
    let version: Version = serde_json::from_reader(file).map_err(|error| error.to_string())?;
    Ok(version.schema_version)
}

/// The version where it is the first key, as this harness writes it: then the rest, which may be a
/// gigabyte, need not be read for it.
fn leading_version(start: &str) -> Option<u64> {
    let start = start.trim_start().strip_prefix('{')?;
    let value = start.trim_start().strip_prefix("\"schema_version\"")?;
    let value = value.trim_start().strip_prefix(':')?.trim_start();
    let (digits, _) = value.split_once(',')?;
    digits.trim_end().parse().ok()
}

/// All but the records, from the file's beginning.
///
/// # Errors
/// What is wrong, and where in it.
pub(super) fn read(
    mut file: impl Read + Seek,
    mut records: Records<'_>,
) -> Result<ResultsFile, String> {
    file.rewind().map_err(|error| error.to_string())?;
    let mut json = serde_json::Deserializer::from_reader(file);
    let mut track = serde_path_to_error::Track::new();
    let traced = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let rest = (Object { records: &mut records, place: Place::File }).deserialize(traced);
    // Its text names the place, as that of the second reading below does.
    let rest =
        rest.map_err(|error| serde_path_to_error::Error::new(track.path(), error).to_string())?;
    json.end().map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(rest).map_err(|error| error.to_string())
}

/// Which object is being read: they differ in the one key that is treated apart.
#[derive(Clone, Copy)]
enum Place {
    /// The file: its `levels` are objects of the other kind.
    File,
    /// The n-th level: its `requests` are records.
    Level(usize),
}

/// Reads an object of which one key is treated apart, and everything else kept as it is.
struct Object<'a, 'b> {
    records: &'a mut Records<'b>,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match (self.place, key.as_str()) {
                (Place::File, "levels") => map.next_value_seed(Levels(self.records))?,
                (Place::Level(level), "requests") => {
                    map.next_value_seed(Requests { records: self.records, level })?
                }
                _ => map.next_value()?,
            };
            kept.insert(key, value);
        }
        Ok(Value::Object(kept))
    }
}

struct Levels<'a, 'b>(&'a mut Records<'b>);

impl<'de> DeserializeSeed<'de> for Levels<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Levels<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of levels")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut levels = Vec::new();
        loop {
            let place = Place::Level(levels.len());
            match seq.next_element_seed(Object { records: &mut *self.0, place })? {
                Some(level) => levels.push(level),
                None => return Ok(Value::Array(levels)),
            }
        }
    }
}

struct Requests<'a, 'b> {
    records: &'a mut Records<'b>,
    level: usize,
}

impl<'de> DeserializeSeed<'de> for Requests<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Requests<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        match self.records {
            Records::Skip => while seq.next_element::<IgnoredAny>()?.is_some() {},
            Records::Each(visit) => {
                while let Some(Possible(record)) = seq.next_element()? {
                    visit(self.level, record);
                }
            }
        }
        Ok(Value::Array(Vec::new()))
    }
}

/// A record that can be. It is looked at where it is read, so that an error names its place.
struct Possible(RequestRecord);

impl<'de> serde::Deserialize<'de> for Possible {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let record = RequestRecord::deserialize(json)?;
        impossible::of_record(&record).map_err(serde::de::Error::custom)?;
        Ok(Self(record))
    }
}
