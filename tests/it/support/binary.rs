//! The real `spark-serve` as a child process, with the real small model.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spark::bench::sys::die_with_parent;

use super::client::{self, Reply};
use super::cores::{self, Turn};
use super::model::small_model;
use super::server::chat_body;

/// No test waits longer for the program to speak or to end: machines that build are slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running `spark-serve`. Dropping it kills it.
pub struct Binary {
    child: Child,
    _turn: Turn,
    lines: Receiver<String>,
    /// What it has said on stderr so far.
    pub said: Vec<String>,
}

impl Binary {
    /// Starts the program with these arguments.
    pub fn spawn(args: &[&str]) -> Self {
        let turn = cores::turn();
        let mut command = Command::new(env!("CARGO_BIN_EXE_spark-serve"));
        // Whatever the environment says of it is not this test's.
        for (name, _) in std::env::vars_os() {
            if name == "RUST_LOG" || name.to_string_lossy().starts_with("SPARK_SERVE_") {
                command.env_remove(name);
            }
        }
        die_with_parent(&mut command);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, _turn: turn, lines, said: Vec::new() }
    }

    /// Starts it with the small model on a free port; `None` without the model.
    pub fn load(args: &[&str]) -> Option<Self> {
        let model = small_model()?;
        // One thread: on a machine that does other things too, two wait for each other.
        let threads = ["--threads", "1", "--threads-batch", "1"];
        let basic = [&["--gguf", model.to_str().unwrap(), "--port", "0"][..], &threads].concat();
        Some(Self::spawn(&[&basic[..], args].concat()))
    }

    /// The same, and waits until it serves.
    pub fn serve(args: &[&str]) -> Option<(Self, SocketAddr)> {
        let mut binary = Self::load(args)?;
        let address = binary.wait_for("listening on http://").parse().unwrap();
        Some((binary, address))
    }

    /// Waits for a line with `text` in it, and returns what follows the text.
    pub fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("never said {text:?}: {:#?}", self.said));
            self.said.push(line.clone());
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, signal).unwrap();
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; all that it said is in `said` then.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                // It has closed its stderr, so it is about to end.
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("did not end: {:#?}", self.said),
            }
        }
    }

    /// Its exit code after SIGTERM.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.wait().code()
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A greedy chat request with one user message.
pub fn chat(address: SocketAddr, content: &str, fields: &str) -> Reply {
    let fields = format!(r#", "temperature": 0{fields}"#);
    client::post(address, "/v1/chat/completions", &chat_body(content, &fields))
}
