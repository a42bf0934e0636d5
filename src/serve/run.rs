//! The life of a server: bound, loading, serving, draining, ended.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::TcpListener;

use crate::exit_codes;

use super::config::Config;
use super::http::app::{App, Loaded};
use super::http::{self, Connections};
use super::inference::{
    self, InferenceHandle, InferenceThread, LoadError, Model, ShutDownError, StopSignal,
};
use super::metrics::Metrics;
use super::prompt::{CHATML, Prompter, TemplateError};
use super::start_up::StartUp;

/// Why a server ended otherwise than it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be had.
    #[error("failed to listen on {host}:{port}: {source}")]
    Listen {
        /// The address asked for.
        host: String,
        /// The port asked for.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// The model can't be loaded.
    #[error("failed to load the model: {0}")]
    Load(#[from] LoadError),
    /// The model's template can't be used.
    #[error("failed to use the chat template: {0}; --chat-template-file gives another")]
    Template(#[from] TemplateError),
    /// The system refuses a thread or a socket.
    #[error("failed to start: {0}")]
    System(#[from] std::io::Error),
    /// The inference thread ended otherwise than it was told to.
    #[error("failed to go on: {0}")]
    Inference(#[from] ShutDownError),
}

impl ServeError {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
                exit_codes::NOT_STARTED
            }
            // No address of this machine, or a port that is not for everybody: another one is needed.
            Self::Listen { .. } => exit_codes::USAGE,
            Self::Load(error) if error.is_bad_input() => exit_codes::USAGE,
            Self::Load(_) => exit_codes::NOT_STARTED,
            Self::Template(_) => exit_codes::USAGE,
            Self::System(_) | Self::Inference(_) => exit_codes::UNEXPECTED,
        }
    }
}

/// Binds the address of a configuration.
///
/// # Errors
/// When it is taken, or no address of this machine.
pub async fn listen(config: &Config) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind((config.host.as_str(), config.port)).await;
    listener.map_err(|source| ServeError::Listen {
        host: config.host.clone(),
        port: config.port,
        source,
    })
}

/// Serves on `listener` until `stop` completes, then drains and ends.
///
/// While `load` runs on the inference thread, only `/health` answers, with 503. `announce` is called
/// once, when requests are served.
///
/// # Errors
/// When the model or its template can't be used, or the inference thread dies.
pub async fn run<M, L, S, A>(
    listener: TcpListener,
    config: &Config,
    load: L,
    stop: S,
    announce: A,
) -> Result<(), ServeError>
where
    M: Model + 'static,
    L: FnOnce(&Arc<StopSignal>) -> Result<M, LoadError> + Send + 'static,
    S: Future<Output = ()>,
    A: FnOnce(&StartUp),
{
    tokio::pin!(stop);
    let app = Arc::new(App::new(config.api_key.as_ref(), Arc::new(Metrics::default())));
    let connections = Connections::start(listener, http::router(Arc::clone(&app)))?;
    let mut thread = inference::spawn(load, config.max_queue)?;
    let started = tokio::select! {
        ready = thread.ready() => match ready {
            Ok(handle) => loaded(handle, config, connections.address()).await,
            Err(error) => Err(error.into()),
        },
        () = &mut stop => return end(&app, connections, thread, Duration::ZERO).await,
    };
    match started {
        Ok((loaded, start_up)) => {
            app.set_loaded(loaded);
            announce(&start_up);
        }
        Err(error) => {
            end(&app, connections, thread, Duration::ZERO).await?;
            return Err(error);
        }
    }
    tokio::select! {
        () = &mut stop => {}
        () = thread.ended() => {}
    }
    end(&app, connections, thread, config.drain_timeout).await
}

/// Checks the template and puts together what handlers need.
async fn loaded(
    handle: InferenceHandle,
    config: &Config,
    address: SocketAddr,
) -> Result<(Loaded, StartUp), ServeError> {
    let tokenizer = Arc::clone(handle.tokenizer());
    let of_the_file = || tokenizer.info().chat_template.clone();
    let template = config.chat_template.clone().or_else(of_the_file);
    let template = template.unwrap_or_else(|| CHATML.to_owned());
    let props = http::props(tokenizer.as_ref(), &template, config);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let card = http::model_card(tokenizer.as_ref(), &config.alias, created);
    let start_up = StartUp::new(tokenizer.as_ref(), address, config.api_key.is_some());
    // Reads the whole vocabulary, so not on the reactor: `/health` answers meanwhile.
    let prompter = tokio::task::spawn_blocking(move || Prompter::new(tokenizer, &template)).await;
    let prompter = prompter.map_err(std::io::Error::other)??;
    Ok((Loaded { handle, prompter: Arc::new(prompter), card, props }, start_up))
}

/// No new work; the running request has `grace` to finish; then all answers end, the thread is
/// joined, and the connections close.
async fn end(
    app: &App,
    connections: Connections,
    thread: InferenceThread,
    grace: Duration,
) -> Result<(), ServeError> {
    app.drain();
    let ended = thread.shut_down(grace).await;
    connections.close().await;
    Ok(ended?)
}
