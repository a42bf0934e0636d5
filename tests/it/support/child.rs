//! Programs that tests run: none is waited for without end, and none outlives its test.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use spark::bench::sys::die_with_parent;

use super::patience::is_within;

/// No program of a test takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a command to its end.
pub fn output(command: &mut Command) -> Output {
    Running::start(command).unwrap().output()
}

/// A running program, in a process group of its own, which is killed when this is dropped.
///
/// What it says goes to files: nobody has to read it for it to go on.
pub struct Running {
    child: Child,
    said: [File; 2],
}

impl Running {
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        let said = [tempfile::tempfile()?, tempfile::tempfile()?];
        die_with_parent(command);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(said[0].try_clone()?).stderr(said[1].try_clone()?);
        Ok(Self { child: command.spawn()?, said })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let in_time = is_within(PATIENCE, || self.ended().is_some());
        let said = || self.said().map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(in_time, "it did not end: {:#?}", said());
        self.child.wait().unwrap()
    }

    /// Waits for its end; everything that it said.
    pub fn output(mut self) -> Output {
        let status = self.wait();
        let [stdout, stderr] = self.said();
        Output { status, stdout, stderr }
    }

    /// What it has said so far, on stdout and on stderr.
    pub fn said(&self) -> [Vec<u8>; 2] {
        // By place: the program writes at the files' own.
        self.said.each_ref().map(|file| {
            let mut said = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
            file.read_exact_at(&mut said, 0).unwrap();
            said
        })
    }

    pub fn signal(&self, signal: Signal) {
        kill(pid(self.id()), signal).unwrap();
    }

    /// Kills it, and it alone.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once it is reaped, its id may be somebody else's.
        if self.ended().is_none() {
            let _ = killpg(pid(self.id()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}
