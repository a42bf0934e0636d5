//! Any text as a server's page of metrics, before and after a level; never a panic, and what went up
//! went up. `cargo fuzz run metrics` (needs a nightly compiler).

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark::bench::prometheus::{counters, difference};

fuzz_target!(|pages: (String, String)| {
    let (before, after) = (counters(&pages.0), counters(&pages.1));
    if let Ok(went) = difference(&before, &after) {
        assert!(went.values().all(|gone| !(*gone < 0.0)));
    }
});
