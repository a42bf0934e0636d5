//! The supervisor of one server: a process of its own between the harness and the server, so that
//! nothing the server starts outlives the harness, however that ends.
//!
//! It adopts orphans (Linux: as a subreaper), so that a grandchild which left its group is found and
//! killed too. It ends the server when asked, and kills all of it when the pipe to the harness
//! closes, which the kernel does for a harness that was killed with -9. If harness and supervisor are
//! killed at once, the kernel kills the server's own process; what that has started may outlive it.

use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::log::{self, Tail};
use super::protocol::{Event, Exit, LogFate, Request, ServerCommand, StopReport};
use super::tree::{self, Process};
use crate::bench::sys;

/// How long killed processes may take to vanish. A GPU's memory is freed before its process ends,
/// which takes seconds for tens of gigabytes.
const KILL_DEADLINE: Duration = Duration::from_secs(20);
/// Between two rounds of killing, for processes that were started during the last one.
const KILL_ROUND: Duration = Duration::from_millis(50);
/// How long the rest of a dead server's output may take to arrive.
const LOG_DEADLINE: Duration = Duration::from_millis(500);
/// Messages that may wait for the main loop: more than a server has processes.
const QUEUE: usize = 1024;

/// What the threads tell the main loop.
enum Notice {
    /// Somebody was reaped.
    Reaped(Pid, Exit),
    /// Nobody is left to be reaped.
    NobodyLeft,
    /// The server's output ended.
    LogEnded,
    /// The harness asks.
    Asked(Request),
    /// The harness is gone.
    Abandoned,
}

/// Supervises one server, from stdin's first line to the end.
///
/// # Errors
/// If the first line is no command, or the system refuses a thread or a pipe.
pub fn supervise() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let command: ServerCommand = serde_json::from_str(&line)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;

    let (output, input) = io::pipe()?;
    let mut server = Command::new(&command.program);
    server
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0);
    // For the case that this process is killed as well: then nobody is left to end the server.
    sys::die_with_parent(&mut server);
    let child = match server.spawn() {
        Ok(child) => child.id(),
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            say(&Event::NotStarted { missing, message: error.to_string() });
            return Ok(());
        }
    };
    // Only now, and before any thread starts: a child would inherit the mask.
    let mut ignored = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        ignored.add(signal);
    }
    ignored.thread_block()?;
    // The command holds an end of the output's pipe.
    drop(server);
    say(&Event::Started { pid: child });

    let tail = Tail::default();
    let notices = start_threads(output, &command, &tail)?;
    let mut server =
        Server { pid: child, exit: None, gone: false, log_ended: false, tail, notices };
    server.watch();
    if command.log_fate == LogFate::Remove {
        log::remove(&command.log);
    }
    Ok(())
}

/// The harness may be gone: then there is nobody to tell.
fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("events are plain data");
    let _ = writeln!(io::stdout().lock(), "{line}");
}

fn start_threads(
    output: io::PipeReader,
    command: &ServerCommand,
    tail: &Tail,
) -> io::Result<Receiver<Notice>> {
    let (sender, notices) = sync_channel(QUEUE);
    let (path, tail, log_sender) = (command.log.clone(), tail.clone(), sender.clone());
    spawn_thread("log", move || {
        // A log that cannot be written must not stop the server: its output is drained anyway.
        if log::drain(&output, &path, &tail).is_err() {
            let _ = io::copy(&mut { output }, &mut io::sink());
        }
        let _ = log_sender.send(Notice::LogEnded);
    })?;
    let reaper = sender.clone();
    spawn_thread("reaper", move || reap(&reaper))?;
    spawn_thread("requests", move || read_requests(&sender))?;
    Ok(notices)
}

fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// Reaps the server and everybody that was adopted, until nobody is left.
fn reap(to: &SyncSender<Notice>) {
    loop {
        let notice = match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) => Notice::Reaped(pid, Exit::Code(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                Notice::Reaped(pid, Exit::Signal(signal as i32))
            }
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => {
                let _ = to.send(Notice::NobodyLeft);
                return;
            }
        };
        if to.send(notice).is_err() {
            return;
        }
    }
}

fn read_requests(to: &SyncSender<Notice>) {
    for line in io::stdin().lock().lines() {
        let request = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let Some(request) = request else { break };
        if to.send(Notice::Asked(request)).is_err() {
            return;
        }
    }
    let _ = to.send(Notice::Abandoned);
}

/// The server that is watched over.
struct Server {
    pid: u32,
    exit: Option<Exit>,
    gone: bool,
    log_ended: bool,
    tail: Tail,
    notices: Receiver<Notice>,
}

/// Why the main loop woke up.
enum Woken {
    Asked(Request),
    Abandoned,
    /// The server's own process ended just now.
    Exited(Exit),
    /// Something else happened, or the time is over.
    Changed,
}

impl Server {
    fn watch(&mut self) {
        loop {
            match self.next(None) {
                Woken::Exited(exit) => {
                    self.wait_for_log();
                    say(&Event::Exited { exit, log_tail: self.tail.lines() });
                }
                Woken::Asked(Request::Stop { signal, grace_ms }) => {
                    let report = self.stop(signal, Duration::from_millis(grace_ms));
                    say(&Event::Stopped(report));
                    return;
                }
                Woken::Abandoned => {
                    self.kill_all();
                    return;
                }
                Woken::Changed => {}
            }
        }
    }

    /// Waits for one notice, at most until `deadline`.
    fn next(&mut self, deadline: Option<Instant>) -> Woken {
        let received = match deadline {
            None => self.notices.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.notices.recv_timeout(left)
            }
        };
        match received {
            Ok(Notice::Reaped(pid, exit)) if pid.as_raw().unsigned_abs() == self.pid => {
                self.exit = Some(exit);
                return Woken::Exited(exit);
            }
            Ok(Notice::Reaped(..)) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Notice::NobodyLeft) => self.gone = true,
            Ok(Notice::LogEnded) => self.log_ended = true,
            Ok(Notice::Asked(request)) => return Woken::Asked(request),
            Ok(Notice::Abandoned) | Err(RecvTimeoutError::Disconnected) => {
                return Woken::Abandoned;
            }
        }
        Woken::Changed
    }

    fn wait_for_log(&mut self) {
        let deadline = Instant::now() + LOG_DEADLINE;
        while !self.log_ended && Instant::now() < deadline {
            if let Woken::Abandoned = self.next(Some(deadline)) {
                return self.kill_all();
            }
        }
    }

    /// Signal, grace, kill.
    fn stop(&mut self, signal: i32, grace: Duration) -> StopReport {
        let asked = Instant::now();
        if let Ok(signal) = Signal::try_from(signal) {
            self.signal_all(signal);
        }
        while !self.gone && asked.elapsed() < grace {
            if let Woken::Abandoned = self.next(Some(asked + grace)) {
                break;
            }
        }
        let killed = if self.gone { 0 } else { self.living().len() };
        self.kill_all();
        self.wait_for_log();
        let left = if self.gone { 0 } else { self.living().len() };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        StopReport {
            exit: self.exit,
            killed: count(killed),
            left: count(left),
            took: asked.elapsed(),
            log_tail: self.tail.lines(),
        }
    }

    /// Kills in rounds until nobody is left, or nobody can be helped.
    fn kill_all(&mut self) {
        let deadline = Instant::now() + KILL_DEADLINE;
        while !self.gone && Instant::now() < deadline {
            self.signal_all(Signal::SIGKILL);
            let round = Instant::now() + KILL_ROUND;
            while !self.gone && Instant::now() < round {
                if let Woken::Abandoned = self.next(Some(round)) {
                    // Being abandoned changes nothing here, and is said at most once.
                    std::thread::sleep(KILL_ROUND / 10);
                }
            }
        }
    }

    /// Signals the group, and whoever left it; everybody once, since a second request to end means
    /// "at once" to some servers.
    fn signal_all(&self, signal: Signal) {
        let id = |pid: u32| Pid::from_raw(i32::try_from(pid).expect("pids fit in an i32"));
        let living = self.living();
        let in_group = |process: &Process| process.group == self.pid;
        // Both fail only where nobody is left to be signalled. Without `/proc` the group is all
        // that is known.
        if living.iter().any(in_group) || cfg!(not(target_os = "linux")) {
            let _ = killpg(id(self.pid), signal);
        }
        for process in living.iter().filter(|process| !in_group(process)) {
            let _ = kill(id(process.pid), signal);
        }
    }

    fn living(&self) -> Vec<Process> {
        tree::descendants(std::process::id())
    }
}
