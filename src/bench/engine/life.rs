//! Start and stop of one server, with everything that is checked in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::command::{self, Placeholders};
use super::not_measured::{Kind, NotMeasured};
use super::port::{self, Owner};
use super::readback::{self, Settings};
use crate::bench::config::engines::{ExitCode, Program, StopSignal, VERSION_DEADLINE};
use crate::bench::config::{Config, EngineSpec};
use crate::bench::digest;
use crate::bench::http::Http;
use crate::bench::process::capture::{CaptureError, capture};
use crate::bench::process::{
    Ended, Exit, LogFate, ServerCommand, ServerProcess, SpawnError, StopReport,
};

/// One look at the ready URL; a server that is loading may not answer at all.
const READY_REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// Between two looks. Readiness is known to about this.
const READY_AGAIN: Duration = Duration::from_millis(50);
/// For the model list and the settings of a server that is ready.
const CHECK_DEADLINE: Duration = Duration::from_secs(30);
/// How long the port may stay taken after the last process is gone.
const PORT_DEADLINE: Duration = Duration::from_secs(10);
/// The reason of a server that did not start since its port was somebody else's.
const PORT_IN_USE: &str = "port_in_use";

/// What starts a server.
#[derive(Debug, Clone, Copy)]
pub struct StartPlan<'a> {
    /// The target.
    pub config: &'a Config,
    /// Its engine's entry.
    pub spec: &'a EngineSpec,
    /// The running harness, which supervises.
    pub harness: &'a Path,
    /// Where the server's log goes.
    pub log: &'a Path,
    /// What becomes of it.
    pub log_fate: LogFate,
}

/// A server that is ready and is what it should be.
#[derive(Debug)]
pub struct RunningServer {
    process: ServerProcess,
    stop: (StopSignal, Duration),
    /// Its port.
    pub port: u16,
    /// Where its API answers.
    pub base_url: String,
    /// The page of its metrics, if it has one.
    pub metrics_url: Option<String>,
    /// What its version command said.
    pub version: String,
    /// The command that started it.
    pub command: Vec<String>,
    /// SHA-256 of its program.
    pub binary_sha256: Option<String>,
    /// From start to ready.
    pub ready: Duration,
    /// The model id that it says it serves.
    pub model_id: Option<String>,
    /// What it says of the model beside the id.
    pub model_meta: Option<Value>,
    /// Its settings, and those that are not as asked.
    pub settings: Settings,
}

impl RunningServer {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// Why it cannot be measured; nothing of it is left then.
    pub async fn start(
        plan: StartPlan<'_>,
        http: &Http,
        cancel: &CancellationToken,
    ) -> Result<Self, NotMeasured> {
        let fill = filled_in(plan, choose_port(plan.config)?);
        let env = command::environment(plan.config, plan.spec, &fill);
        let version_command = fill.fill_program(&plan.spec.version);
        let version = tokio::select! {
            version = version(&version_command, &env) => version?,
            () = cancel.cancelled() => return Err(NotMeasured::interrupted()),
        };
        let binary_sha256 = program_sha256(plan.config, plan.spec, plan.harness).await;
        let program = (version, binary_sha256);
        let any_port = plan.config.target.base_url.port().is_none();
        match Self::start_program(plan, program.clone(), http, cancel).await {
            // Somebody took it between our choice and the server's bind: once is bad luck.
            Err(why) if any_port && why.reason == PORT_IN_USE => {
                Self::start_program(plan, program, http, cancel).await
            }
            started => started,
        }
    }

    /// Starts it on a port that is chosen just before.
    async fn start_program(
        plan: StartPlan<'_>,
        (version, binary_sha256): (String, Option<String>),
        http: &Http,
        cancel: &CancellationToken,
    ) -> Result<Self, NotMeasured> {
        let port = choose_port(plan.config)?;
        let fill = filled_in(plan, port);
        let bin_dir = &fill.bin_dir;
        let command = command::start_command(plan.config, plan.spec, &fill);
        let env = command::environment(plan.config, plan.spec, &fill);
        let words = command::shown(&command, bin_dir);
        let server_command = ServerCommand {
            program: command.program,
            args: command.args,
            env,
            log: plan.log.to_owned(),
            log_fate: plan.log_fate,
        };
        let started = Instant::now();
        let process =
            ServerProcess::spawn(plan.harness, &server_command).await.map_err(not_spawned)?;
        let stop = (plan.spec.stop.signal, plan.spec.stop.grace.0);
        let mut server = Self {
            process,
            stop,
            port,
            base_url: plan.config.target.base_url.with_port(port),
            metrics_url: plan.spec.metrics.as_ref().map(|url| fill.fill(url)),
            version,
            command: words,
            binary_sha256,
            ready: Duration::ZERO,
            model_id: None,
            model_meta: None,
            settings: Settings::default(),
        };
        let checked = tokio::select! {
            checked = server.get_ready(plan, &fill, http, started) => checked,
            () = cancel.cancelled() => Err(NotMeasured::interrupted()),
        };
        match checked {
            Ok(()) => Ok(server),
            Err(why) => {
                let owner = port::owner(port, &server.process.pids());
                let taken = why.kind == Kind::NotStarted && owner == Owner::Foreign;
                let report = if taken {
                    // Nobody waits for somebody else's server to go.
                    server.process.stop(signal_number(stop.0), stop.1).await
                } else {
                    server.stop().await.report
                };
                let tail = report.map(|report| report.log_tail);
                let with_log = why.log_tail.is_empty() && why.kind != Kind::Interrupted;
                let why = if with_log { why.with_log(tail.unwrap_or_default()) } else { why };
                Err(if taken { NotMeasured { reason: PORT_IN_USE, ..why } } else { why })
            }
        }
    }

    /// Waits for readiness, then checks that this is the server that was asked for.
    async fn get_ready(
        &mut self,
        plan: StartPlan<'_>,
        fill: &Placeholders,
        http: &Http,
        started: Instant,
    ) -> Result<(), NotMeasured> {
        let url = fill.fill(&plan.spec.ready.url);
        let deadline = plan.spec.ready.deadline.0;
        tokio::select! {
            ended = self.process.wait_for_end() => return Err(exited(plan.spec, ended, started)),
            () = wait_for_200(http, &url) => {}
            () = tokio::time::sleep(deadline) => {
                let text = format!("not ready after {} s: {url} did not answer with 200", deadline.as_secs_f64());
                return Err(NotMeasured::new(Kind::NotStarted, "not_ready", text));
            }
        }
        self.ready = started.elapsed();
        if matches!(port::owner(self.port, &self.process.pids()), Owner::Foreign | Owner::Nobody) {
            // Its own failure to bind explains it best, where it has ended by now.
            let text = format!(
                "port {} is not our server's: somebody else's server answers there",
                self.port
            );
            return Err(NotMeasured::new(Kind::NotStarted, "foreign_server", text));
        }
        self.check_model(plan, fill, http).await?;
        self.read_settings(plan, fill, http).await
    }

    async fn check_model(
        &mut self,
        plan: StartPlan<'_>,
        fill: &Placeholders,
        http: &Http,
    ) -> Result<(), NotMeasured> {
        let Some(check) = &plan.spec.model_check else { return Ok(()) };
        let answer = get_json(http, &fill.fill(&check.url), "model_check").await?;
        let id = readback::dig(&answer, &check.id).and_then(Value::as_str).map(str::to_owned);
        let (list, _) = check.id.rsplit_once('.').unwrap_or(("", ""));
        self.model_meta = readback::dig(&answer, &format!("{list}.meta")).cloned();
        let target = &plan.config.target;
        match &id {
            Some(id) if target.accepts(id) => {}
            other => {
                let said = other.as_deref().unwrap_or("nothing");
                let text =
                    format!("asked for the model {:?}, it serves {said:?}", target.model.as_str());
                return Err(NotMeasured::new(Kind::CheckFailed, "wrong_model", text));
            }
        }
        self.model_id = id;
        Ok(())
    }

    async fn read_settings(
        &mut self,
        plan: StartPlan<'_>,
        fill: &Placeholders,
        http: &Http,
    ) -> Result<(), NotMeasured> {
        let Some(props) = &plan.spec.props else { return Ok(()) };
        let answer = get_json(http, &fill.fill(&props.url), "props").await?;
        let args = &self.command[1..];
        let asked = |flag: &str| command::flag_value(args, flag).map(str::to_owned);
        self.settings = readback::compare(&answer, &props.equals, asked);
        Ok(())
    }

    /// Its own process id, and its group's.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.process.ended()
    }

    /// Waits until it ends by itself.
    pub async fn wait_for_end(&self) -> Ended {
        self.process.wait_for_end().await
    }

    /// Signal, grace, kill, reap; then waits until its port is free.
    pub async fn stop(self) -> Stopped {
        let (signal, grace) = self.stop;
        let report = self.process.stop(signal_number(signal), grace).await;
        let port_free = port::wait_until_free(self.port, PORT_DEADLINE).await;
        Stopped { report, port_free }
    }
}

/// How a server was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// What its supervisor said; `None` if that vanished.
    pub report: Option<StopReport>,
    /// Whether its port was free in time.
    pub port_free: bool,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.report {
            Some(report) => report.fmt(f)?,
            None => f.write_str("killed: its supervisor had vanished")?,
        }
        if self.port_free { Ok(()) } else { f.write_str(", its port is still taken") }
    }
}

fn signal_number(signal: StopSignal) -> i32 {
    use nix::sys::signal::Signal;
    let signal = match signal {
        StopSignal::Term => Signal::SIGTERM,
        StopSignal::Int => Signal::SIGINT,
        StopSignal::Quit => Signal::SIGQUIT,
        StopSignal::Hup => Signal::SIGHUP,
        StopSignal::Kill => Signal::SIGKILL,
    };
    signal as i32
}

fn filled_in(plan: StartPlan<'_>, port: u16) -> Placeholders {
    Placeholders::new(plan.config, port, plan.harness.parent().unwrap_or(Path::new(".")))
}

/// The config's own port, which must be free, or any free one.
fn choose_port(config: &Config) -> Result<u16, NotMeasured> {
    let refused = |text: String| NotMeasured::new(Kind::NotStarted, PORT_IN_USE, text);
    match config.target.base_url.port() {
        Some(port) if port::is_free(port) => Ok(port),
        Some(port) => Err(refused(format!("port {port} is in use"))),
        None => port::free_port().map_err(|error| refused(format!("find a free port: {error}"))),
    }
}

/// What the version command prints, on one line. No version, no measurement.
async fn version(command: &Program, env: &BTreeMap<String, String>) -> Result<String, NotMeasured> {
    let deadline = VERSION_DEADLINE.0.unwrap_or(Duration::MAX);
    let captured = capture(&command.program, &command.args, env, deadline).await;
    let captured = captured.map_err(|error| match error {
        CaptureError::NoProgram(program) => no_program(&program),
        other => NotMeasured::new(Kind::NotStarted, "no_version", format!("failed to {other}")),
    })?;
    let tail: Vec<String> =
        captured.stderr.lines().map(crate::bench::process::log::printable).collect();
    match (captured.code, captured.lines()) {
        (Some(0), Some(version)) => Ok(crate::bench::process::log::printable(&version)),
        (code, _) => {
            let how = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            let text =
                format!("no version, no measurement: {:?} ended with {how}", command.program);
            Err(NotMeasured::new(Kind::NotStarted, "no_version", text).with_log(tail))
        }
    }
}

fn no_program(program: &str) -> NotMeasured {
    NotMeasured::new(Kind::Skipped, "no_program", format!("there is no program {program:?} here"))
}

fn not_spawned(error: SpawnError) -> NotMeasured {
    match error {
        SpawnError::NoProgram(program) => no_program(&program),
        other => NotMeasured::new(Kind::NotStarted, "not_started", format!("failed to {other}")),
    }
}

/// A server that ended before it was ready: skipped where its exit code says that it cannot run
/// here.
fn exited(spec: &EngineSpec, ended: Ended, started: Instant) -> NotMeasured {
    let after = started.elapsed().as_secs_f64();
    let code = match ended.exit {
        Some(Exit::Code(code)) => spec.skip_exit_codes.get(&ExitCode(code)),
        _ => None,
    };
    let how = ended.exit.map_or("an unknown end".to_owned(), |exit| exit.to_string());
    let why = match code {
        Some(reason) => NotMeasured::new(Kind::Skipped, "cannot_run", format!("{reason} ({how})")),
        None => {
            let last = ended.log_tail.last().map(|line| format!(": {line}")).unwrap_or_default();
            let text = format!("ended with {how} after {after:.1} s, before it was ready{last}");
            NotMeasured::new(Kind::NotStarted, "exited", text)
        }
    };
    why.with_log(ended.log_tail)
}

async fn wait_for_200(http: &Http, url: &str) {
    loop {
        let reply = http.get(url, READY_REQUEST_DEADLINE).await;
        if reply.is_ok_and(|reply| reply.status == 200) {
            return;
        }
        tokio::time::sleep(READY_AGAIN).await;
    }
}

async fn get_json(http: &Http, url: &str, what: &'static str) -> Result<Value, NotMeasured> {
    let failed = |text: String| NotMeasured::new(Kind::CheckFailed, what, text);
    let reply =
        http.get(url, CHECK_DEADLINE).await.map_err(|e| failed(format!("failed to {e}")))?;
    if reply.status != 200 {
        return Err(failed(format!("{url} answered with status {}", reply.status)));
    }
    serde_json::from_str(&reply.body).map_err(|e| failed(format!("{url} is no JSON: {e}")))
}

/// SHA-256 of the program that a config's server runs, without starting it; `None` if it is not
/// here.
pub async fn program_sha256(config: &Config, spec: &EngineSpec, harness: &Path) -> Option<String> {
    // No program has its port in its own name.
    let fill = Placeholders::new(config, 0, harness.parent().unwrap_or(Path::new(".")));
    let env = command::environment(config, spec, &fill);
    binary_sha256(&fill.fill_program(&spec.start), &env).await
}

async fn binary_sha256(command: &Program, env: &BTreeMap<String, String>) -> Option<String> {
    let path: PathBuf = command::find_program(&command.program, env)?;
    tokio::task::spawn_blocking(move || digest::file_sha256_hex(&path).ok()).await.ok()?
}
