//! The only place that starts processes. A server runs under a supervisor ([`supervisor`]), a
//! process of its own that ends all of the server when the harness asks, or vanishes.

pub mod capture;
pub mod log;
pub mod protocol;
pub mod supervisor;
pub mod tree;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use protocol::{Event, Request};
pub use protocol::{Exit, LogFate, ServerCommand, StopReport};

/// The hidden subcommand that the harness starts itself with.
pub const SUPERVISE: &str = "supervise";

/// How long the supervisor may take to start a server or say why not: it only forks.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long it may take beyond the grace: killing, and the log's end.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("find the program {0:?}")]
    NoProgram(String),
    /// The system refused.
    #[error("start {program:?}: {message}")]
    Refused {
        /// The program.
        program: String,
        /// What the system said.
        message: String,
    },
    /// The supervisor did not do its part.
    #[error("start the supervisor: {0}")]
    Supervisor(String),
}

/// How a server ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit; `None` if its supervisor vanished.
    pub exit: Option<Exit>,
    /// The last lines that it wrote.
    pub log_tail: Vec<String>,
}

/// What is known of the server by now.
#[derive(Debug, Clone, Default)]
struct State {
    ended: Option<Ended>,
    stopped: Option<StopReport>,
    supervisor_gone: bool,
}

/// A running server. Prefer [`Self::stop`], which tells how it ended; dropped, it is killed by its
/// supervisor.
#[derive(Debug)]
pub struct ServerProcess {
    supervisor: Child,
    requests: ChildStdin,
    state: watch::Receiver<State>,
    pid: u32,
}

impl ServerProcess {
    /// Starts a server under a supervisor, which is `harness` (the running spark-bench) itself.
    ///
    /// # Errors
    /// If there is no such program, or the system refuses.
    pub async fn spawn(harness: &Path, command: &ServerCommand) -> Result<Self, SpawnError> {
        let failed = |error: std::io::Error| SpawnError::Supervisor(error.to_string());
        let mut supervisor = Command::new(harness)
            .arg(SUPERVISE)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal reaches the harness alone, which then stops its servers.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut requests = supervisor.stdin.take().expect("stdin is piped");
        let events = supervisor.stdout.take().expect("stdout is piped");
        let mut line = serde_json::to_string(command).expect("commands are plain data");
        line.push('\n');
        requests.write_all(line.as_bytes()).await.map_err(failed)?;

        let mut events = BufReader::new(events);
        let first = tokio::time::timeout(START_DEADLINE, next_event(&mut events)).await;
        let program = command.program.clone();
        let pid = match first {
            Ok(Some(Event::Started { pid })) => pid,
            Ok(Some(Event::NotStarted { missing: true, .. })) => {
                return Err(SpawnError::NoProgram(program));
            }
            Ok(Some(Event::NotStarted { message, .. })) => {
                return Err(SpawnError::Refused { program, message });
            }
            Ok(_) => return Err(SpawnError::Supervisor("it ended at once".into())),
            Err(_) => return Err(SpawnError::Supervisor("it does not answer".into())),
        };
        let (state_sender, state) = watch::channel(State::default());
        tokio::spawn(follow(events, state_sender));
        Ok(Self { supervisor, requests, state, pid })
    }

    /// The server's own process id, and its group's.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Every living process of the server.
    pub fn pids(&self) -> Vec<u32> {
        let supervisor = self.supervisor.id();
        let tree = supervisor.map(tree::descendants).unwrap_or_default();
        tree.into_iter().map(|process| process.pid).collect()
    }

    /// How the server ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        ended(&self.state.borrow())
    }

    /// Waits until the server ends by itself.
    pub async fn wait_for_end(&self) -> Ended {
        let mut state = self.state.clone();
        // An error means that the follower is gone, and with it the supervisor.
        let _ = state.wait_for(|state| ended(state).is_some()).await;
        ended(&state.borrow()).unwrap_or(Ended { exit: None, log_tail: Vec::new() })
    }

    /// Asks every process of the server to end, kills what has not after `grace`, reaps all.
    ///
    /// `None` if the supervisor vanished; the server's group is killed then.
    pub async fn stop(mut self, signal: i32, grace: Duration) -> Option<StopReport> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Stop { signal, grace_ms };
        let mut line = serde_json::to_string(&request).expect("requests are plain data");
        line.push('\n');
        // If the supervisor is gone, the state says so.
        let _ = self.requests.write_all(line.as_bytes()).await;
        let over = |state: &State| state.stopped.is_some() || state.supervisor_gone;
        let _ = tokio::time::timeout(grace + STOP_DEADLINE, self.state.wait_for(over)).await;
        let report = self.state.borrow().stopped.clone();
        if report.is_none() {
            kill_group(self.pid);
            let _ = self.supervisor.start_kill();
        }
        let _ = tokio::time::timeout(START_DEADLINE, self.supervisor.wait()).await;
        report
    }
}

fn ended(state: &State) -> Option<Ended> {
    let vanished = || Ended { exit: None, log_tail: Vec::new() };
    state.ended.clone().or_else(|| state.supervisor_gone.then(vanished))
}

/// The last resort, if a supervisor was killed: it fails where the group is gone already.
fn kill_group(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = nix::sys::signal::killpg(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGKILL,
        );
    }
}

/// Keeps the state up to date until the supervisor ends.
async fn follow(mut events: BufReader<ChildStdout>, state: watch::Sender<State>) {
    while let Some(event) = next_event(&mut events).await {
        state.send_modify(|state| match event {
            Event::Exited { exit, log_tail } => {
                state.ended = Some(Ended { exit: Some(exit), log_tail });
            }
            Event::Stopped(report) => state.stopped = Some(report),
            Event::Started { .. } | Event::NotStarted { .. } => {}
        });
    }
    state.send_modify(|state| state.supervisor_gone = true);
}

async fn next_event(events: &mut BufReader<ChildStdout>) -> Option<Event> {
    let mut line = String::new();
    match events.read_line(&mut line).await {
        Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
        _ => None,
    }
}
