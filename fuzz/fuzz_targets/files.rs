//! Any bytes as a file that a person may hand to `spark-bench`: results, a journal, prompts, a config,
//! an engines file. Read, or refused with words; never a panic. `cargo fuzz run files` (needs a nightly
//! compiler).

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use spark::bench::config::{Config, EnginesFile};
use spark::bench::prompts::PromptFile;
use spark::results::journal;
use spark::results::scoreboard::Row;
use spark::results::store;

fn refused_with_words<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fn every_reader(path: &Path) {
    if let Some(file) = refused_with_words(store::read(path)) {
        let _ = Row::of(&file).markdown();
    }
    let _ = refused_with_words(journal::recover(path));
    let _ = refused_with_words(PromptFile::read(path));
    let _ = refused_with_words(Config::load(path));
    let _ = refused_with_words(EnginesFile::load(path));
}

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    std::fs::write(file.path(), bytes).expect("and written");
    every_reader(file.path());
});
