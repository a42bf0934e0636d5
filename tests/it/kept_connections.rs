//! A connection that is kept between requests, and the ways in which servers end it.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint};
use spark::bench::load::{LevelRun, LevelSpec};
use spark::measure::trace::{FailureClass, RequestTrace};

use crate::level::run;
use crate::support::scripted::{STREAM_HEAD, Script, ScriptedServer, Step, good_answer};
use crate::support::tls::{TlsServer, Validity};

/// Requests of a level below, the warm-up's one beside them.
const N: u32 = 20;

fn answered() -> Step {
    Step::Send(good_answer(2))
}

/// Closes are seen in whatever time this machine takes: what is told apart by time is so elsewhere.
fn endpoint(url: &str) -> Endpoint {
    let mut endpoint = strict(url);
    endpoint.stale_slack = Duration::from_secs(60);
    endpoint
}

/// The same as a run has it.
fn strict(url: &str) -> Endpoint {
    Endpoint::new(url, BodyTemplate::new("m", 16)).unwrap()
}

fn level(endpoint: &Endpoint) -> LevelRun {
    run(endpoint, &LevelSpec { warmup: 1, ..LevelSpec::closed(1, N) })
}

/// A warm-up request and one more, which is not tried again if it fails.
fn two(scripts: Vec<Script>) -> (RequestTrace, ScriptedServer) {
    let server = ScriptedServer::start(scripts);
    let spec = LevelSpec { warmup: 1, max_attempts: 1, ..LevelSpec::closed(1, 1) };
    let mut run = run(&endpoint(&server.url()), &spec);
    assert!(run.traces[0].outcome.is_ok(), "{:?}", run.traces[0]);
    (run.traces.remove(1), server)
}

/// What a server does after an answer that it has said to be followed by others.
fn endings() -> Vec<(&'static str, Script)> {
    let reset = |mut before: Script| {
        before.push(Step::Reset);
        before
    };
    let then = |steps: &[Step]| [&[answered()], steps].concat();
    vec![
        ("a FIN at once", then(&[Step::Close])),
        ("goodbye and a FIN at once", then(&[Step::Farewell, Step::Close])),
        ("a FIN soon", then(&[Step::Pause(Duration::from_micros(100)), Step::Close])),
        ("a RST at once", reset(then(&[Step::Pause(Duration::from_micros(500))]))),
        ("unread, then closed", then(&[Step::AwaitNext, Step::Close])),
        ("unread, then reset", reset(then(&[Step::AwaitNext]))),
        ("unread, then a FIN only", then(&[Step::AwaitNext, Step::HalfClose, Step::Hang])),
        (
            "unread, then goodbye",
            then(&[Step::AwaitNext, Step::Farewell, Step::HalfClose, Step::Hang]),
        ),
    ]
}

fn check_replaced(what: &str, run: &LevelRun, n_read: usize) {
    for trace in &run.traces {
        assert!(trace.outcome.is_ok(), "{what}: {:?}", trace.outcome);
    }
    let replaced: Vec<_> = run.traces.iter().filter(|trace| trace.connection.stale).collect();
    assert_eq!(replaced.len(), N as usize, "{what}");
    for trace in replaced {
        assert!(!trace.connection.reused, "{what}");
        assert!(trace.stamps.connected.is_some(), "{what}");
        assert!(trace.notes.iter().any(|note| note.contains("kept connection")), "{what}");
    }
    assert_eq!(n_read, N as usize + 1, "{what}: no request was read twice");
}

#[test]
fn a_connection_closed_without_a_word_is_replaced_and_counted() {
    for (what, script) in endings() {
        let server = ScriptedServer::start(vec![script]);
        check_replaced(what, &level(&endpoint(&server.url())), server.requests().len());
    }
}

#[test]
fn so_it_is_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    for (what, script) in endings() {
        let server = TlsServer::start(folder.path(), "localhost", Validity::Now, vec![script]);
        let run = level(&endpoint(&server.url()).trust(&server.pem).unwrap());
        check_replaced(what, &run, server.requests().len());
        assert!(run.traces[1].stamps.tls.is_some(), "{what}: the new handshake has its stamp");
    }
}

#[test]
fn a_server_that_takes_the_next_request_and_hangs_up_at_once_has_closed_a_dead_connection() {
    // Taken in by the server's buffers, that is: whether a program read it, nobody can tell.
    for ending in [Step::Close, Step::Reset] {
        let (trace, server) = two(vec![vec![answered()], vec![ending], vec![answered()]]);
        assert!(trace.outcome.is_ok(), "{:?}", trace.outcome);
        assert!(trace.connection.stale && !trace.connection.reused);
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!(requests[1], requests[2], "the same prompt, once more");
    }
}

#[test]
fn it_is_replaced_once_only() {
    let (trace, server) = two(vec![vec![answered()], vec![Step::Close]]);
    assert_eq!(trace.outcome.failure(), Some(FailureClass::IncompleteBody));
    assert!(trace.connection.stale && !trace.connection.reused);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_fresh_connection_is_not_replaced() {
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n";
    let answer = String::from_utf8(good_answer(2)).unwrap().replace(STREAM_HEAD, "");
    let closing = closing.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n") + &answer;
    let first = vec![Step::Send(closing.into_bytes()), Step::Close];
    for (ending, class) in
        [(Step::Close, FailureClass::IncompleteBody), (Step::Reset, FailureClass::ConnectionReset)]
    {
        let (trace, server) = two(vec![first.clone(), vec![ending]]);
        assert_eq!(trace.outcome.failure(), Some(class), "{:?}", trace.outcome);
        assert!(!trace.connection.stale && !trace.connection.reused);
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn after_one_byte_of_an_answer_nothing_is_sent_again() {
    for (ending, class) in
        [(Step::Close, FailureClass::IncompleteBody), (Step::Reset, FailureClass::ConnectionReset)]
    {
        let byte = Step::Send(b"H".to_vec());
        let pause = Step::Pause(Duration::from_millis(20));
        let (trace, server) = two(vec![vec![answered()], vec![byte, pause, ending]]);
        assert_eq!(trace.outcome.failure(), Some(class), "{:?}", trace.outcome);
        assert!(trace.connection.reused && !trace.connection.stale);
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn a_server_that_hangs_up_after_a_thought_has_failed_and_is_not_asked_again() {
    let thought = Step::Pause(Duration::from_millis(900));
    for (ending, class) in
        [(Step::Close, FailureClass::IncompleteBody), (Step::Reset, FailureClass::ConnectionReset)]
    {
        // It reads each second request of a connection, works on it, and gives up.
        let turn = [vec![answered()], vec![thought.clone(), ending]];
        let server = ScriptedServer::start([turn.clone(), turn].concat());
        let spec = LevelSpec { warmup: 0, max_attempts: 4, ..LevelSpec::closed(1, 4) };
        let run = run(&strict(&server.url()), &spec);
        let failures: Vec<_> = run.traces.iter().map(|trace| trace.outcome.failure()).collect();
        assert_eq!(failures, [None, Some(class), None, Some(class)]);
        for trace in &run.traces {
            assert!(!trace.connection.stale, "{trace:?}");
        }
        assert_eq!(server.n_requests(), 4, "each was sent once");
    }
}

#[test]
fn what_a_server_says_of_its_connection_is_obeyed() {
    let says = |version: &str, headers: &str| {
        let head = format!("HTTP/{version} 200 OK\r\n{headers}Content-Type: text/event-stream\r\n");
        let body = String::from_utf8(good_answer(2)).unwrap().replace(STREAM_HEAD, "");
        // HTTP/1.0 has no chunks: its body ends with its length or with the connection.
        let events: String = body.split("\r\n").skip(1).step_by(2).collect();
        match (version, headers.contains("Keep-Alive") || headers.contains("keep-alive")) {
            ("1.0", true) => format!("{head}Content-Length: {}\r\n\r\n{events}", events.len()),
            ("1.0", false) => format!("{head}\r\n{events}"),
            _ => format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}"),
        }
    };
    // Who says that more may come keeps the connection; who says or means the opposite ends it.
    for (version, headers, keeps) in [
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Keep-Alive\r\nKeep-Alive: timeout=5, max=100\r\n", true),
        ("1.1", "Keep-Alive: timeout=5, max=1\r\nConnection: close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
    ] {
        let mut script = vec![Step::Send(says(version, headers).into_bytes())];
        if !keeps {
            script.push(Step::Close);
        }
        let server = ScriptedServer::start(vec![script]);
        let run = level(&endpoint(&server.url()));
        for trace in &run.traces[1..] {
            assert!(trace.outcome.is_ok(), "{version} {headers:?}: {:?}", trace.outcome);
            assert!(!trace.connection.stale, "{version} {headers:?}: it was announced");
            assert_eq!(trace.connection.reused, keeps, "{version} {headers:?}");
        }
        let n_connections = if keeps { 1 } else { N as usize + 1 };
        assert_eq!(server.n_connections(), n_connections, "{version} {headers:?}");
    }
}

#[test]
fn a_kept_connection_may_be_announced_as_such_and_closed_all_the_same() {
    let head = STREAM_HEAD.replace("\r\n\r\n", "\r\nKeep-Alive: timeout=5, max=100\r\n\r\n");
    let answer = String::from_utf8(good_answer(2)).unwrap().replace(STREAM_HEAD, &head);
    let script = vec![Step::Send(answer.into_bytes()), Step::AwaitNext, Step::Close];
    let server = ScriptedServer::start(vec![script]);
    check_replaced("announced", &level(&endpoint(&server.url())), server.requests().len());
}
