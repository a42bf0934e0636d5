//! The states of a server: loading, serving, draining, ended; and who is let in.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use spark::serve::config::ApiKey;
use spark::serve::inference::LoadError;
use spark::serve::inference::scripted::{Gate, Reply as Scripted, ScriptedModel};
use spark::serve::{self, ServeError};
use tokio_util::sync::CancellationToken;

use crate::support::client::{self, Connection};
use crate::support::patience::wait_until;
use crate::support::server::{Server, Setup, chat_body};

const CHAT: &str = "/v1/chat/completions";

fn gated(drain_timeout: Duration) -> Server {
    let mut setup = Setup { gate: Gate::closed(), ..Setup::default() };
    setup.config.drain_timeout = drain_timeout;
    Server::start(setup, |_| Scripted::words("one two three"), |model| model)
}

fn streaming(server: &Server) -> Connection {
    let mut connection = Connection::open(server.address);
    connection.post(CHAT, &chat_body("Hi", r#", "stream": true"#));
    assert_eq!(connection.read_head().0, 200);
    connection.event().unwrap();
    connection
}

fn rest(connection: &mut Connection) -> Vec<String> {
    std::iter::from_fn(|| connection.event()).collect()
}

/// Runs a server whose load is `load`, lets `look` see it while it loads, and returns its end.
fn run_while_loading(
    load: impl FnOnce(&dyn Fn() -> bool) -> Result<ScriptedModel, LoadError> + Send + 'static,
    look: impl FnOnce(std::net::SocketAddr, &CancellationToken),
) -> Result<(), ServeError> {
    let config = Setup::default().config;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let (bound, address) = mpsc::channel();
    let life = std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = serve::listen(&config).await?;
            bound.send(listener.local_addr().unwrap()).unwrap();
            let load = move |signal: &std::sync::Arc<serve::inference::StopSignal>| {
                load(&|| signal.is_draining())
            };
            serve::run(listener, &config, load, stopped.cancelled_owned(), |_| {}).await
        })
    });
    look(address.recv().unwrap(), &stop);
    wait_until("the server has ended", || life.is_finished());
    life.join().unwrap()
}

#[test]
fn while_it_loads_only_health_answers_with_503_and_a_stop_ends_it() {
    let load = |is_stopped: &dyn Fn() -> bool| {
        while !is_stopped() {
            std::thread::yield_now();
        }
        Err(LoadError::Cancelled)
    };
    let ended = run_while_loading(load, |address, stop| {
        for path in ["/health", "/v1/models", "/metrics", "/props", "/nothing"] {
            let reply = client::get(address, path);
            assert_eq!(reply.status, 503, "{path}");
            assert_eq!(reply.json()["error"]["message"], "The model is loading.");
            assert_eq!(reply.header("retry-after"), Some("1"));
        }
        assert_eq!(client::post(address, CHAT, "{}").status, 503);
        stop.cancel();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn a_load_that_fails_ends_the_server_with_its_exit_code() {
    let missing = || LoadError::Missing { path: "x.gguf".into() };
    let too_large =
        || LoadError::DoesNotFit { needed_bytes: 2, available_bytes: 1, device: "CPU".to_owned() };
    let code = |error: LoadError| {
        run_while_loading(move |_| Err(error), |_, _| {}).unwrap_err().exit_code()
    };
    assert_eq!(code(missing()), 2);
    assert_eq!(code(too_large()), 3);
}

#[test]
fn a_template_that_fails_is_a_bad_file() {
    let load = |_: &dyn Fn() -> bool| {
        let model = ScriptedModel::new(|_| Scripted::words("x"));
        Ok(model.with_info(|info| info.chat_template = Some("{% for %}".to_owned())))
    };
    assert_eq!(run_while_loading(load, |_, _| {}).unwrap_err().exit_code(), 2);
}

#[test]
fn a_port_in_use_is_exit_code_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = Setup::default().config;
    config.port = taken.local_addr().unwrap().port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(serve::listen(&config)).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains(&config.port.to_string()), "{error}");
}

#[test]
fn an_idle_server_ends_at_once_and_closes_its_idle_connections() {
    let mut server = Server::saying("fine");
    let mut idle = Connection::open(server.address);
    let mut used = Connection::open(server.address);
    used.post(CHAT, &chat_body("Hi", ""));
    assert_eq!(used.reply().status, 200);
    server.begin_to_stop();
    server.wait_for_end().unwrap();
    assert!(idle.is_at_its_end());
    assert!(used.is_at_its_end());
}

#[test]
fn the_running_request_may_finish_and_the_queued_ones_are_told() {
    let mut server = gated(Duration::from_secs(60));
    let mut running = streaming(&server);
    server.gate.wait_until_held();
    let mut queued = streaming(&server);
    let mut queued_whole = Connection::open(server.address);
    queued_whole.post(CHAT, &chat_body("Hi", ""));
    server.wait_for_metric("spark_serve_queue_depth", 2.0);
    server.begin_to_stop();
    wait_until("it drains", || client::get(server.address, "/health").status != 200);
    // Between two steps the model's thread looks up.
    server.gate.allow(1);
    let events = rest(&mut queued);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].contains("shutting down"), "{events:?}");
    assert_eq!(events[1], "[DONE]");
    assert_eq!(queued_whole.reply().status, 503);
    assert_eq!(server.chat("new", "").status, 503);
    server.gate.open_for_good();
    let events = rest(&mut running);
    assert_eq!(events.len(), 5, "{events:?}"); // Three words, the finish, [DONE].
    assert!(events[3].contains("\"finish_reason\":\"stop\""), "{events:?}");
    server.wait_for_end().unwrap();
}

#[test]
fn what_does_not_finish_in_time_is_cut_with_an_error_event() {
    for n_steps in [0, 3] {
        // In the prompt; in the answer.
        let mut server = gated(Duration::ZERO);
        let mut running = streaming(&server);
        server.gate.allow(n_steps);
        let mut words = 0;
        while n_steps > 0 && words < 2 {
            running.event().unwrap();
            words += 1;
        }
        server.gate.wait_until_held();
        server.begin_to_stop();
        let events = rest(&mut running);
        assert!(events[0].contains("shutting down"), "{events:?}");
        assert_eq!(events[1..], ["[DONE]"]);
        server.wait_for_end().unwrap();
    }
}

#[test]
fn a_key_is_asked_for_everywhere_but_at_health() {
    let mut setup = Setup::default();
    setup.config.api_key = Some(ApiKey::new("sesame"));
    let server = Server::start(setup, |_| Scripted::words("fine"), |model| model);
    let with = |header: &str, path: &str| {
        client::request(server.address, &format!("GET {path} HTTP/1.1\r\nHost: t\r\n{header}\r\n"))
    };
    assert_eq!(with("", "/health").status, 200);
    for header in [
        "",
        "Authorization: Bearer wrong\r\n",
        "Authorization: Bearer sesame2\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Basic sesame\r\n",
        "Authorization: sesame\r\n",
    ] {
        for path in ["/v1/models", "/metrics", "/props", "/nothing"] {
            let reply = with(header, path);
            assert_eq!(reply.status, 401, "{header} {path}");
            assert_eq!(reply.json()["error"]["code"], "invalid_api_key");
        }
    }
    assert_eq!(with("Authorization: Bearer sesame\r\n", "/v1/models").status, 200);
    assert_eq!(with("authorization: bearer sesame\r\n", "/metrics").status, 200);
}

#[test]
fn the_facts_are_those_of_the_model() {
    let server = Server::start(
        Setup::default(),
        |_| Scripted::words("x"),
        |model| {
            model.with_info(|info| info.n_params = 7).with_settings(|s| s.kv_bytes_per_token = 9)
        },
    );
    assert_eq!(server.get("/health").json(), json!({ "status": "ok" }));
    let list = server.get("/v1/models").json();
    let card = &list["data"][0];
    assert_eq!((&list["object"], &card["id"]), (&json!("list"), &json!("scripted")));
    assert_eq!(card["max_model_len"], 512);
    let meta = &card["meta"];
    assert_eq!((&meta["n_params"], &meta["kv_bytes_per_token"]), (&json!(7), &json!(9)));
    assert_eq!(meta.as_object().unwrap().len(), 12);
    assert_eq!(&server.get("/v1/models/scripted").json(), card);
    let props = server.get("/props").json();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 512);
    assert!(props["chat_template"].as_str().unwrap().contains("im_start"));
    let metrics = server.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
}

#[test]
fn text_becomes_tokens_and_tokens_become_text() {
    let server = Server::saying("x");
    let tokens = |body: &str| {
        let answer = server.post("/tokenize", body).json();
        assert_eq!(answer["count"], answer["tokens"].as_array().unwrap().len());
        answer["tokens"].clone()
    };
    assert_eq!(tokens(r#"{"content": "ab"}"#), json!([97, 98]));
    assert_eq!(tokens(r#"{"content": ""}"#), json!([]));
    assert_eq!(tokens(r#"{"content": "<s>"}"#), json!([256]));
    assert_eq!(tokens(r#"{"content": "<s>", "parse_special": false}"#), json!([60, 115, 62]));
    let chat = tokens(&chat_body("Hi", ""));
    // The same as a chat request counts.
    let usage = server.chat("Hi", "").json()["usage"]["prompt_tokens"].clone();
    assert_eq!(json!(chat.as_array().unwrap().len()), usage);
    let text = server.post("/detokenize", &format!(r#"{{"tokens": {chat}}}"#)).json();
    assert_eq!(text["content"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}
