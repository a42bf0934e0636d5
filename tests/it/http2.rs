//! The timed path over HTTP/2: the same records as over HTTP/1.1, and failures of its own.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint, HttpVersion, Keep};
use spark::bench::load::LevelSpec;
use spark::measure::trace::RequestTrace;

use crate::level::{one_of, run};
use crate::odd_streams::{DONE, told};
use crate::support::http2::{Fate, Http2Server};
use crate::support::scripted::{
    ScriptedServer, Step, finish_event, good_answer, text_event, usage_event,
};
use crate::support::tls::{TlsServer, Validity, acceptor};

fn endpoint(url: &str) -> Endpoint {
    let mut endpoint = Endpoint::new(url, BodyTemplate::new("m", 16)).unwrap();
    endpoint.http_version = HttpVersion::Http2;
    endpoint.keep = Keep::Text;
    endpoint
}

fn plain(server: &Http2Server) -> Endpoint {
    endpoint(&format!("http://{}/v1", server.address))
}

fn pieces() -> Vec<String> {
    let rest = format!("{}{}{DONE}", finish_event("stop"), usage_event(5, 2));
    vec![text_event("a"), text_event("b"), rest]
}

fn texts() -> Vec<String> {
    pieces()[..2].to_vec()
}

/// The record of a request that nothing preceded but the opening of its connection. Limits are
/// short only where nothing comes any more: this machine may be slow.
fn one(fate: Fate) -> RequestTrace {
    let limit = Some(Duration::from_millis(300));
    let is_silent = matches!(&fate, Fate::Stalled(texts) if texts.is_empty());
    let stalls = matches!(fate, Fate::Stalled(_)) && !is_silent;
    let server = Http2Server::start(vec![fate], None);
    let mut endpoint = plain(&server);
    endpoint.timeouts.first_token = limit.filter(|_| is_silent);
    // Both texts have to come within it.
    endpoint.timeouts.stall = if stalls { Some(Duration::from_secs(10)) } else { None };
    one_of(&endpoint)
}

#[test]
fn a_level_has_one_connection_a_worker_and_every_stamp() {
    let server = Http2Server::start(vec![Fate::Answered(pieces())], None);
    let run = run(&plain(&server), &LevelSpec { warmup: 2, ..LevelSpec::closed(2, 10) });
    assert_eq!(server.n_connections(), 2);
    assert_eq!(run.traces.len(), 12);
    for trace in &run.traces {
        assert_eq!(told(trace), "ok 2u 2 stop ab prompt=5");
        let stamps = &trace.stamps;
        let order = [stamps.written, stamps.head, stamps.first_text, stamps.last_text];
        assert!(order.iter().all(Option::is_some), "{stamps:?}");
        assert!(order.is_sorted() && stamps.last_text <= Some(stamps.end), "{stamps:?}");
        assert!(trace.connection.request_bytes > 0 && trace.connection.rtt_min.is_some());
    }
    assert!(run.traces[2..].iter().all(|trace| trace.connection.reused));
    let expected = format!("POST http://{}/v1/chat/completions HTTP/2.0", server.address);
    assert!(server.requests().iter().all(|head| *head == expected), "{:?}", server.requests());
}

#[test]
fn failures_have_the_classes_that_they_have_over_http_1() {
    for (fate, expected) in [
        (Fate::Refused(429), "http_429 -? 0 - -"),
        (Fate::Refused(503), "http_503 -? 0 - -"),
        (Fate::Answered(Vec::new()), "empty -? 0 - -"),
        (Fate::Answered(texts()), "truncated 2e 2 - ab"),
        (Fate::Reset(texts()), "connection_reset 2e 2 - ab"),
        (Fate::Reset(Vec::new()), "connection_reset -? 0 - -"),
        (Fate::Cut(texts()), "incomplete_body 2e 2 - ab"),
        (Fate::Stalled(texts()), "stall_timeout 2e 2 - ab"),
        (Fate::Stalled(Vec::new()), "first_token_timeout -? 0 - -"),
    ] {
        let what = format!("{fate:?}");
        let trace = one(fate);
        assert_eq!(told(&trace), expected, "{what}: {:?}", trace.outcome);
    }
}

#[test]
fn after_a_reset_stream_the_connection_goes_on() {
    let fates = vec![Fate::Reset(texts()), Fate::Refused(429), Fate::Answered(pieces())];
    let server = Http2Server::start(fates, None);
    let run = run(&plain(&server), &LevelSpec { warmup: 0, ..LevelSpec::closed(1, 3) });
    assert_eq!(run.traces.iter().filter(|trace| trace.outcome.is_ok()).count(), 3);
    assert!(server.n_connections() <= 2, "a refusal alone costs no connection");
}

#[test]
fn a_connection_that_was_bidden_farewell_is_replaced() {
    let server = Http2Server::start(vec![Fate::AnsweredLast(pieces())], None);
    let run = run(&plain(&server), &LevelSpec { warmup: 1, ..LevelSpec::closed(1, 10) });
    for trace in &run.traces {
        assert!(trace.outcome.is_ok(), "{:?}", trace.outcome);
    }
    assert_eq!(server.requests().len(), 11, "none was sent twice");
    // The farewell comes before the end of each answer, so that no request can cross it.
    assert_eq!(server.n_connections(), 11);
}

#[test]
fn with_tls_it_is_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let (acceptor, pem) = acceptor(folder.path(), "localhost", Validity::Now, &[b"h2"]);
    let server = Http2Server::start(vec![Fate::Answered(pieces())], Some(acceptor));
    let url = format!("https://localhost:{}/v1", server.address.port());
    let run = run(&endpoint(&url).trust(&pem).unwrap(), &LevelSpec::closed(1, 3));
    for trace in &run.traces {
        assert_eq!(told(trace), "ok 2u 2 stop ab prompt=5");
    }
    assert_eq!(server.n_connections(), 1);
    assert!(run.traces[0].stamps.tls.is_some());
}

#[test]
fn a_server_without_it_is_a_failure_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let script = vec![vec![Step::Send(good_answer(2))]];
    let server = TlsServer::start(folder.path(), "localhost", Validity::Now, script);
    let trace = one_of(&endpoint(&server.url()).trust(&server.pem).unwrap());
    assert_eq!(told(&trace), "protocol -? 0 - -");
    assert!(format!("{:?}", trace.outcome).contains("does not offer HTTP/2"), "{trace:?}");

    let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
    let http1 = ScriptedServer::start(vec![vec![Step::Send(answer), Step::Close]]);
    let trace = one_of(&endpoint(&http1.url()));
    assert!(!trace.outcome.is_ok(), "{:?}", trace.outcome);
}
