//! The queue and hanging up: first come, first served, bounded; whoever goes takes nothing along.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use spark::serve::inference::scripted::{Gate, Reply as Scripted};

use crate::support::client::Connection;
use crate::support::server::{PATIENCE, Server, Setup, chat_body};

const CHAT: &str = "/v1/chat/completions";
const QUEUED: &str = "spark_serve_queue_depth";
const RUNNING: &str = "spark_serve_requests_running";

fn gated(max_queue: usize) -> Server {
    let mut setup = Setup { gate: Gate::closed(), ..Setup::default() };
    setup.config.max_queue = max_queue;
    Server::start(setup, |_| Scripted::words("one two three four"), |model| model)
}

/// A streaming request that was accepted: its role chunk has come.
fn streaming(server: &Server, content: &str) -> Connection {
    let mut connection = Connection::open(server.address);
    connection.post(CHAT, &chat_body(content, r#", "stream": true"#));
    let (status, _) = connection.read_head();
    assert_eq!(status, 200);
    assert!(connection.event().unwrap().contains("assistant"));
    connection
}

#[test]
fn twenty_clients_are_served_in_the_order_of_their_arrival() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let script = move |prompt: &str| {
        let number = prompt.split("client ").nth(1).unwrap();
        let number: usize = number.split('<').next().unwrap().parse().unwrap();
        seen.lock().unwrap().push(number);
        Scripted::words("done")
    };
    let setup = Setup { gate: Gate::closed(), ..Setup::default() };
    let server = Server::start(setup, script, |model| model);
    let mut clients: Vec<_> =
        (0..20).map(|number| streaming(&server, &format!("client {number}"))).collect();
    server.wait_for_metric(QUEUED, 19.0);
    server.gate.open_for_good();
    for client in &mut clients {
        while client.event().is_some() {}
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// The names in `«…»` of the prompts, as the model gets them.
fn name_in(prompt: &str) -> String {
    prompt.split('«').nth(1).and_then(|rest| rest.split('»').next()).unwrap_or_default().to_owned()
}

#[test]
fn who_takes_long_to_understand_keeps_its_place() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let served = Arc::clone(&order);
    let script = move |prompt: &str| {
        served.lock().unwrap().push(name_in(prompt));
        Scripted::words("done")
    };
    let held = Arc::new(Mutex::new(()));
    let holds = Arc::clone(&held);
    let (saw, seen) = mpsc::channel();
    let watch = move |text: &str| {
        let name = name_in(text);
        if !name.is_empty() {
            let _ = saw.send(name.clone());
        }
        if name.starts_with("slow") {
            drop(holds.lock());
        }
    };
    let server = Server::start(Setup::default(), script, |model| {
        model.with_settings(|settings| settings.n_ctx = 1 << 16).with_watched_tokenizer(watch)
    });
    let slow = held.lock().unwrap();
    let send = |name: &str, n_more: usize, fields: &str| {
        let mut client = Connection::open(server.address);
        let content = format!("«{name}»{}", "x".repeat(n_more));
        client.post(CHAT, &chat_body(&content, &format!(r#", "stream": true{fields}"#)));
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), name);
        client
    };
    let json = r#", "response_format": {"type": "json_object"}"#;
    let mut clients = vec![send("slow", 20_000, ""), send("small", 0, "")];
    // Two that leave the line: neither is waited for.
    drop(send("gone", 0, ""));
    assert_eq!(server.chat("«refused»", r#", "logit_bias": {"70000": 1}"#).status, 400);
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), "refused");
    clients.extend([send("json", 0, json), send("large", 10_000, ""), send("last", 0, "")]);
    // Whoever is to overtake has the time of some answers for it.
    for _ in 0..20 {
        assert_eq!(server.get("/health").status, 200);
    }
    drop(slow);
    for client in &mut clients {
        assert_eq!(client.read_head().0, 200);
        while client.event().is_some() {}
    }
    let mut order = order.lock().unwrap().clone();
    order.retain(|name| name != "gone");
    assert_eq!(order, ["slow", "small", "json", "large", "last"]);
}

#[test]
fn only_time_in_the_queue_is_queue_time() {
    let (saw, seen) = mpsc::channel();
    let held = Arc::new(Mutex::new(()));
    let holds = Arc::clone(&held);
    let watch = move |text: &str| {
        if text.contains("«slow»") {
            let _ = saw.send(());
            drop(holds.lock());
        }
    };
    let server = Server::start(
        Setup::default(),
        |_| Scripted::words("done"),
        |model| model.with_watched_tokenizer(watch),
    );
    let pass_time = || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {
            server.get("/health");
        }
    };
    let slow = held.lock().unwrap();
    // Over what is prepared on the reactor, which must go on answering.
    let body = chat_body("«slow»", &format!(r#", "user": "{}""#, "u".repeat(5000)));
    let (head, rest) = body.split_at(10);
    let mut client = Connection::open(server.address);
    let length = body.len();
    client.send(
        format!(
            "POST {CHAT} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{head}"
        )
        .as_bytes(),
    );
    pass_time();
    let whole = Instant::now();
    client.send(rest.as_bytes());
    seen.recv_timeout(PATIENCE).unwrap();
    let tokenizing = Instant::now();
    pass_time();
    let held_ms = tokenizing.elapsed().as_secs_f64() * 1e3;
    drop(slow);
    let reply = client.reply().json();
    let all_ms = whole.elapsed().as_secs_f64() * 1e3;
    let ms = |key: &str| reply["timings"][key].as_f64().unwrap();
    let (tokenize, queue) = (ms("tokenize_ms"), ms("queue_ms"));
    assert!(tokenize >= held_ms, "{tokenize} of {held_ms}");
    let accounted = tokenize + queue + ms("prompt_ms") + ms("predicted_ms");
    assert!(accounted <= all_ms, "{accounted} of {all_ms}: {reply}");
}

#[test]
fn a_full_queue_is_a_429_that_says_when_to_come_back() {
    let server = gated(2);
    let running = streaming(&server, "runs");
    server.gate.wait_until_held();
    let waiting: Vec<_> = (0..2).map(|_| streaming(&server, "waits")).collect();
    let reply = server.chat("too many", r#", "stream": true"#);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
    drop((running, waiting));
    server.gate.open_for_good();
    server.wait_for_metric(QUEUED, 0.0);
    server.wait_for_metric(RUNNING, 0.0);
    assert_eq!(server.chat("again", "").status, 200);
}

#[test]
fn who_hangs_up_in_the_queue_never_starts_and_touches_nobody() {
    let server = gated(64);
    let mut running = streaming(&server, "runs");
    server.gate.wait_until_held();
    let gone = streaming(&server, "goes");
    let mut stays = streaming(&server, "stays");
    server.wait_for_metric(QUEUED, 2.0);
    drop(gone);
    server.wait_for_metric("spark_serve_cancelled_while_queued_total", 1.0);
    server.wait_for_metric(QUEUED, 1.0);
    server.gate.open_for_good();
    for client in [&mut running, &mut stays] {
        let events: Vec<String> = std::iter::from_fn(|| client.event()).collect();
        assert_eq!(events.len(), 6, "{events:?}"); // Four words, the finish, [DONE].
    }
    server.wait_for_metric(RUNNING, 0.0);
    assert_eq!(server.metric("spark_serve_cancelled_while_running_total"), 0.0);
    assert_eq!(server.metric(r#"spark_serve_requests_total{outcome="cancelled"}"#), 1.0);
}

#[test]
fn who_hangs_up_while_it_runs_frees_the_slot_streaming_or_not() {
    let server = gated(64);
    for (index, stream) in [true, false].into_iter().enumerate() {
        let mut client = Connection::open(server.address);
        client.post(CHAT, &chat_body("goes", &format!(r#", "stream": {stream}"#)));
        server.gate.wait_until_held();
        server.wait_for_metric(RUNNING, 1.0);
        drop(client);
        #[expect(clippy::cast_precision_loss, reason = "one or two")]
        let cancelled = index as f64 + 1.0;
        server.wait_for_metric("spark_serve_cancelled_while_running_total", cancelled);
        server.wait_for_metric(RUNNING, 0.0);
    }
    server.gate.open_for_good();
    let reply = server.chat("next", "");
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "one two three four");
}

#[test]
fn who_sent_more_than_its_request_and_hangs_up_is_found_out_too() {
    let server = gated(64);
    let mut n_gone = 0.0;
    for more in ["\r\n", "GET /health HTTP/1.1\r\nHost: t\r\n\r\n", "POST /v1/chat"] {
        for stream in [false, true] {
            let mut running = Connection::open(server.address);
            let mut queued = Connection::open(server.address);
            let body = chat_body("goes", &format!(r#", "stream": {stream}"#));
            running.post_and(CHAT, &body, more);
            server.gate.wait_until_held();
            server.wait_for_metric(RUNNING, 1.0);
            queued.post_and(CHAT, &body, more);
            server.wait_for_metric(QUEUED, 1.0);
            n_gone += 1.0;
            drop(queued);
            server.wait_for_metric("spark_serve_cancelled_while_queued_total", n_gone);
            if stream {
                // With nothing of ours unread its end is an orderly one.
                running.read_head();
                running.event().unwrap();
            }
            drop(running);
            server.wait_for_metric("spark_serve_cancelled_while_running_total", n_gone);
            server.wait_for_metric(RUNNING, 0.0);
        }
    }
    assert_eq!(server.metric(r#"spark_serve_requests_total{outcome="refused"}"#), 0.0);
}

#[test]
fn a_decode_ends_within_one_token_of_the_hang_up() {
    let server = gated(64);
    let mut client = streaming(&server, "Hi");
    // The prompt has 21 tokens, computed in pieces of 16 and 5; then one token is.
    server.gate.allow(3);
    client.event().unwrap();
    client.event().unwrap();
    server.gate.wait_until_held();
    drop(client);
    server.wait_for_metric(RUNNING, 0.0);
    let steps = server.gate.steps_made();
    assert_eq!(steps, [16, 5, 1]);
}

#[test]
fn a_thousand_hang_ups_at_any_moment_leave_nothing_behind() {
    let server =
        Server::start(Setup::default(), |_| Scripted::words(&"word ".repeat(100)), |model| model);
    for moment in 0..1000 {
        let mut client = Connection::open(server.address);
        client.post(CHAT, &chat_body("Hi", r#", "stream": true"#));
        if moment % 4 != 0 {
            client.read_head();
            for _ in 0..moment % 7 {
                client.frame();
            }
        }
    }
    server.wait_for_metric(RUNNING, 0.0);
    server.wait_for_metric(QUEUED, 0.0);
    server.wait_for_metric("spark_serve_kv_tokens", 0.0);
    assert_eq!(server.chat("Hi", "").json()["usage"]["completion_tokens"], 101);
}

#[test]
fn a_client_that_does_not_read_never_stalls_the_others() {
    let server = Server::start(
        Setup::default(),
        |_| Scripted::words(&"a rather long word that fills buffers ".repeat(50)),
        |model| model.with_settings(|settings| settings.n_ctx = 4096),
    );
    let mut idle: Vec<_> = (0..8)
        .map(|_| {
            let mut client = Connection::open(server.address);
            client.post(CHAT, &chat_body("Hi", r#", "stream": true, "ignore_eos": true"#));
            client
        })
        .collect();
    assert_eq!(server.chat("Hi", "").status, 200);
    // What was not read is still there.
    let last = idle.last_mut().unwrap();
    last.read_head();
    let events: Vec<String> = std::iter::from_fn(|| last.event()).collect();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    assert!(events.len() > 3000, "{}", events.len());
}

#[test]
fn facts_are_told_while_the_device_is_busy() {
    let server = gated(64);
    let _running = streaming(&server, "runs");
    server.gate.wait_until_held();
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/v1/models").status, 200);
    assert_eq!(server.metric(RUNNING), 1.0);
    assert_eq!(server.post(CHAT, "{").status, 400);
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = Server::saying("fine");
    let mut connection = Connection::open(server.address);
    for stream in [true, false, true] {
        connection.post(CHAT, &chat_body("Hi", &format!(r#", "stream": {stream}"#)));
        assert_eq!(connection.reply().status, 200);
    }
    connection.post(CHAT, "{");
    assert_eq!(connection.reply().status, 400);
    connection.post(CHAT, &chat_body("Hi", ""));
    assert_eq!(connection.reply().status, 200);
}
