//! A child that is spark-bench itself, for the self-test: it ends when this process does.
//!
//! The child reads its stdin and ends when that closes, so it cannot survive whatever kills us.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running child; killed and reaped when it is dropped.
#[derive(Debug)]
pub struct OwnChild {
    child: Child,
    /// The first line that it printed.
    pub first_line: String,
}

impl OwnChild {
    /// Starts `program` with `args` and waits for its first line.
    ///
    /// # Errors
    /// If it cannot be started, or ends without a line.
    pub fn start(program: &Path, args: &[String]) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("it was piped");
        let mut started = Self { child, first_line: String::new() };
        // The line is its first act; a child that hangs before it is a bug of our own binary.
        if BufReader::new(stdout).read_line(&mut started.first_line)? == 0 {
            return Err(std::io::Error::other("it ended without a word"));
        }
        Ok(started)
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended by itself.
        let _ = self.child.wait();
    }
}
