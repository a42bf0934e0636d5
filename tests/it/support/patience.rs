//! Waiting for something that gives no event, with a deadline.

use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks: processes that are waited for want the core.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until it is `so`; fails with `what` was waited for where it never is.
pub fn wait_until(what: &str, so: impl FnMut() -> bool) {
    assert!(is_within(PATIENCE, so), "never: {what}");
}

/// Waits until it is `so`, but no longer than this; whether it is.
pub fn is_within(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
