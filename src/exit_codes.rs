//! Every exit code of both programs, and which one wins when several apply.

/// All well. Skipped rows do not count as failures.
pub const OK: u8 = 0;
/// Something that none of the other codes describes.
pub const UNEXPECTED: u8 = 1;
/// Bad usage, a bad config or a bad model file.
pub const USAGE: u8 = 2;
/// A server did not start; for `spark-serve`: the model does not fit, or the port is in use.
pub const NOT_STARTED: u8 = 3;
/// A check failed: wrong model, settings not applied, a wrong answer to the known request.
pub const CHECK_FAILED: u8 = 4;
/// Finished, with at least one invalid level.
pub const INVALID_LEVELS: u8 = 5;
/// Interrupted by Ctrl-C or SIGTERM.
pub const INTERRUPTED: u8 = 130;

/// Which code wins when several failures happened in one run.
const PRECEDENCE: [u8; 6] =
    [INTERRUPTED, USAGE, NOT_STARTED, CHECK_FAILED, INVALID_LEVELS, UNEXPECTED];

/// The exit code of a run in which each of `codes` happened somewhere.
///
/// [`OK`] if nothing failed; otherwise the first in the order 130, 2, 3, 4, 5, 1.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let codes: Vec<u8> = codes.into_iter().collect();
    PRECEDENCE.into_iter().find(|code| codes.contains(code)).unwrap_or(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_precedence_wins() {
        assert_eq!(worst([]), OK);
        assert_eq!(worst([OK, INVALID_LEVELS, CHECK_FAILED]), CHECK_FAILED);
        assert_eq!(worst([NOT_STARTED, USAGE]), USAGE);
        assert_eq!(worst([USAGE, INTERRUPTED]), INTERRUPTED);
    }
}
