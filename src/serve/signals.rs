//! SIGTERM and Ctrl-C: the first asks the server to stop, a second one insists.

use std::time::{Duration, Instant};

/// A signal so soon after the first is the same wish said twice: GNU `timeout` signals its child, and
/// then the group that the child is in. Nobody insists within half a second.
const SAME_WISH: Duration = Duration::from_millis(500);

/// What signals have asked for so far.
#[derive(Debug, Default)]
pub struct Signals {
    first: Option<Instant>,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To stop in an orderly way.
    Stop,
    /// The same once more.
    StopStill,
    /// To end at once.
    End,
}

impl Signals {
    /// What the signal that came `at` this time asks for.
    pub fn hear(&mut self, at: Instant) -> Asked {
        match self.first {
            None => {
                self.first = Some(at);
                Asked::Stop
            }
            Some(first) if at.saturating_duration_since(first) < SAME_WISH => Asked::StopStill,
            Some(_) => Asked::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_signal_insists() {
        let begun = Instant::now();
        let mut signals = Signals::default();
        let mut heard_after = |ms| signals.hear(begun + Duration::from_millis(ms));
        assert_eq!(heard_after(0), Asked::Stop);
        assert_eq!(heard_after(0), Asked::StopStill);
        assert_eq!(heard_after(499), Asked::StopStill);
        assert_eq!(heard_after(500), Asked::End);
    }
}
