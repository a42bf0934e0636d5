//! A whole server in this process, over a scripted model: everything but llama.cpp.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spark::serve::cli::LogFormat;
use spark::serve::config::{Config, EngineConfig};
use spark::serve::inference::scripted::{Gate, Reply as Scripted, ScriptedModel};
use spark::serve::{self, ServeError};
use tokio_util::sync::CancellationToken;

use super::client::{self, Reply};
use super::patience::wait_until;

/// No test waits longer for a server to come or to go.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops it.
pub struct Server {
    pub address: SocketAddr,
    /// Holds the model before each step.
    pub gate: Gate,
    stop: CancellationToken,
    life: Option<JoinHandle<Result<(), ServeError>>>,
}

/// What a server is started with.
pub struct Setup {
    pub config: Config,
    pub gate: Gate,
}

impl Default for Setup {
    fn default() -> Self {
        let config = Config {
            gguf: "scripted.gguf".into(),
            host: "127.0.0.1".to_owned(),
            port: 0,
            engine: EngineConfig::default(),
            alias: "scripted".to_owned(),
            chat_template: None,
            max_queue: 64,
            api_key: None,
            drain_timeout: Duration::from_secs(10),
            log_format: LogFormat::Text,
        };
        Self { config, gate: Gate::open() }
    }
}

impl Server {
    /// A server that answers every prompt with the words of `text`.
    pub fn saying(text: &'static str) -> Self {
        Self::start(Setup::default(), move |_| Scripted::words(text), |model| model)
    }

    /// A server over a model that follows `script`, changed by `change`.
    pub fn start(
        setup: Setup,
        script: impl FnMut(&str) -> Scripted + Send + 'static,
        change: impl FnOnce(ScriptedModel) -> ScriptedModel + Send + 'static,
    ) -> Self {
        let Setup { config, gate } = setup;
        let model_gate = gate.clone();
        let load = move |_: &_| Ok(change(ScriptedModel::new(script).with_gate(model_gate)));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (ready, is_ready) = mpsc::channel();
        let life = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = serve::listen(&config).await?;
                let address = listener.local_addr().unwrap();
                let announce = move |_: &_| ready.send(address).unwrap();
                serve::run(listener, &config, load, stopped.cancelled_owned(), announce).await
            })
        });
        let address = is_ready.recv_timeout(PATIENCE).unwrap();
        Self { address, gate, stop, life: Some(life) }
    }

    /// As on SIGTERM; does not wait.
    pub fn begin_to_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has ended after [`Self::begin_to_stop`].
    pub fn wait_for_end(&mut self) -> Result<(), ServeError> {
        let life = self.life.take().unwrap();
        wait_until("the server has ended", || life.is_finished());
        life.join().unwrap()
    }

    pub fn get(&self, path: &str) -> Reply {
        client::get(self.address, path)
    }

    pub fn post(&self, path: &str, body: &str) -> Reply {
        client::post(self.address, path, body)
    }

    /// `POST /v1/chat/completions` for one user message and further fields.
    pub fn chat(&self, content: &str, fields: &str) -> Reply {
        self.post("/v1/chat/completions", &chat_body(content, fields))
    }

    /// The value of a line of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until a line of `/metrics` has this value.
    pub fn wait_for_metric(&self, name: &str, value: f64) {
        let deadline = Instant::now() + PATIENCE;
        while (self.metric(name) - value).abs() > 1e-9 {
            assert!(Instant::now() < deadline, "{name} never was {value}: {}", self.metric(name));
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.gate.open_for_good();
        if self.life.is_some() && !std::thread::panicking() {
            self.wait_for_end().unwrap();
        }
    }
}

/// The body of a chat request with one user message; `fields` are further ones, with their commas.
pub fn chat_body(content: &str, fields: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]{fields}}}"#)
}
