//! One file a subcommand: its `Args`, its `run`, then what only it needs.
//!
//! `run` returns an exit code; the answer goes to stdout, everything else to stderr.

pub mod completions;

use crate::exit_codes;

/// What the user gave is wrong (a flag, a file, a variable): exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// The exit code of a command that ended in `error`.
pub fn exit_code_of(error: &anyhow::Error) -> u8 {
    let bad_input = error.chain().any(|cause| cause.is::<BadInput>());
    if bad_input { exit_codes::USAGE } else { exit_codes::UNEXPECTED }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn bad_input_is_exit_code_2_whatever_was_added_to_it() {
        let error = Err::<(), _>(BadInput("--n is 0".into())).context("reading flags").unwrap_err();
        assert_eq!(exit_code_of(&error), exit_codes::USAGE);
        assert_eq!(exit_code_of(&anyhow::anyhow!("the disk is full")), exit_codes::UNEXPECTED);
    }
}
