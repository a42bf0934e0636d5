//! `spark-serve`: parse, bind, load, serve, map the outcome to an exit code.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::signal::{Signal, raise};
use spark::exit_codes;
use spark::serve::cli::Cli;
use spark::serve::config::Config;
use spark::serve::inference::llama;
use spark::serve::signals::{Asked, Signals};
use spark::serve::{self, ServeError, engine};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.version {
        println!("{}", engine::version());
        return ExitCode::SUCCESS;
    }
    let config = match Config::settle(cli, |name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(error) => return fail(exit_codes::USAGE, &error),
    };
    serve::log_to_stderr(config.log_format);
    if let Err(error) = serve::raise_file_limit() {
        tracing::warn!(%error, "failed to raise the limit of open files");
    }
    let runtime = match serve::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(exit_codes::UNEXPECTED, &error),
    };
    let ended = runtime.block_on(start(&config));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.exit_code(), &error),
    }
}

fn fail(code: u8, error: &dyn Display) -> ExitCode {
    eprintln!("spark-serve: {error}");
    ExitCode::from(code)
}

async fn start(config: &Config) -> Result<(), ServeError> {
    let stop = first_signal()?;
    let listener = serve::listen(config).await?;
    let options = engine::load_options(config);
    let load = move |signal: &_| llama::load(&options, signal);
    serve::run(listener, config, load, stop, |start_up| eprintln!("{start_up}")).await
}

/// Completes at the first SIGTERM or Ctrl-C; a second one ends the process at once.
fn first_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, is_first) = oneshot::channel();
    tokio::spawn(async move {
        let (mut first, mut signals) = (Some(first), Signals::default());
        loop {
            tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
            match signals.hear(Instant::now()) {
                Asked::Stop => drop(first.take().map(|first| first.send(()))),
                Asked::StopStill => {}
                // Not an exit: that would run the engine's destructors under its running threads.
                Asked::End => drop(raise(Signal::SIGKILL)),
            }
        }
    });
    Ok(async {
        let _ = is_first.await;
    })
}
