//! Waiting for something that gives no event, with a deadline.

use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks: processes that are waited for want the core.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until it is `so`; fails with `what` was waited for where it never is.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(LOOK);
    }
}
