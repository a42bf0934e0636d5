//! A process that does nothing, to be a server or a stranger for what looks at processes.

use std::process::{Child, Command, Stdio};

/// A child that waits for its input. Dropping it ends it.
pub struct Onlooker(Child);

impl Onlooker {
    /// Starts it.
    pub fn start() -> Self {
        let mut command = Command::new("cat");
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
