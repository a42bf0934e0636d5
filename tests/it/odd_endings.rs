//! Every way to fail, each with its class and with what came before it.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint, Keep};
use spark::measure::trace::{FailureClass, Outcome};

use crate::level::one_of;
use crate::odd_streams::{DONE, answer, check, event, good, raw, sse, told, two};
use crate::support::dead_port::dead_port;
use crate::support::scripted::{
    STREAM_HEAD, ScriptedServer, Step, chunk, finish_event, text_event, usage_event,
};

/// The note of a connection that was replaced.
const REPLACED: &str = " (the server had closed the kept connection: found after the request was sent on it, replaced)";

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_failure_has_its_class_and_keeps_what_came_before() {
    let fin = finish_event("stop");
    let head = |text: &str| format!("{STREAM_HEAD}{}", chunk(text));
    let status = |line: &str, body: &str| {
        raw(&format!("HTTP/1.1 {line}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    let json = |body: &str| {
        raw(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let error_after_text = |error: &str| sse(&format!("{}{error}{fin}{DONE}", text_event("a")));
    let pause = || Step::Pause(Duration::from_millis(30));
    let send = |text: String| Step::Send(text.into_bytes());
    let failed = "error_event 1e 1 - a";
    check(&[
        ("error object", error_after_text("data: {\"error\":{\"message\":\"full\"}}\n\n"), failed),
        ("error text", error_after_text("data: {\"error\":\"full\"}\n\n"), failed),
        ("error event name", error_after_text("event: error\ndata: full\n\n"), failed),
        ("error field", error_after_text("error: {\"code\":500,\"message\":\"full\"}\n\n"), failed),
        (
            "error in the place of a chunk",
            error_after_text("data: {\"object\":\"error\",\"message\":\"full\"}\n\n"),
            failed,
        ),
        ("bare error line", error_after_text("{\"error\":{\"message\":\"full\"}}\n"), failed),
        ("detail", error_after_text("data: {\"detail\":\"full\"}\n\n"), failed),
        (
            "finish reason error",
            sse(&format!("{}{}{DONE}", text_event("a"), finish_event("error"))),
            "error_event 1e 1 error a",
        ),
        (
            "error in a choice",
            error_after_text("data: {\"choices\":[{\"error\":{\"message\":\"full\"}}]}\n\n"),
            failed,
        ),
        (
            "error at once",
            sse("data: {\"error\":\"full\"}\n\ndata: [DONE]\n\n"),
            "error_event -? 0 - -",
        ),
        (
            "no error after all",
            sse(&good(&format!("{}data: {{\"error\":null,\"choices\":[]}}\n\n", two()))),
            "ok 2u 2 stop ab prompt=5",
        ),
        ("error as a JSON body", json("{\"error\":{\"message\":\"full\"}}"), "body_error -? 0 - -"),
        (
            "a whole answer as JSON",
            json("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}"),
            "protocol -? 0 - -",
        ),
        (
            "a page of HTML",
            raw("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>"),
            "protocol -? 0 - -",
        ),
        (
            "nothing at all",
            raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            "protocol -? 0 - -",
        ),
        ("empty stream", sse(""), "empty -? 0 - -"),
        ("only [DONE]", sse(DONE), "empty -? 0 - -"),
        (
            "finished without text",
            sse(&format!("{fin}{}{DONE}", usage_event(5, 0))),
            "empty 0u 0 stop - prompt=5",
        ),
        ("no finish reason", sse(&format!("{}{DONE}", two())), "truncated 2e 2 - ab"),
        ("cut between events", sse(&two()), "truncated 2e 2 - ab"),
        (
            "closed within a body",
            vec![send(head(&two())), Step::Close],
            "incomplete_body 2e 2 - ab",
        ),
        (
            "closed after [DONE]",
            vec![send(head(&good(&two()))), Step::Close],
            "incomplete_body 2u 2 stop ab prompt=5",
        ),
        (
            "closed within a head",
            vec![send("HTTP/1.1 200 OK\r\nContent-".to_owned()), Step::Close],
            "incomplete_body -? 0 - -",
        ),
        // The level had opened the connection before: it is replaced once.
        ("closed at once", vec![Step::Close], &format!("incomplete_body -? 0 - -{REPLACED}")),
        (
            "closed before its content length",
            raw(&format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n{}",
                two()
            )),
            "incomplete_body 2e 2 - ab",
        ),
        (
            "reset within a body",
            vec![send(head(&two())), pause(), Step::Reset],
            "connection_reset 2e 2 - ab",
        ),
        ("reset at once", vec![Step::Reset], &format!("connection_reset -? 0 - -{REPLACED}")),
        (
            "error, then reset",
            vec![send(head("data: {\"error\":\"full\"}\n\n")), pause(), Step::Reset],
            "error_event -? 0 - -",
        ),
        ("no HTTP", raw("SSH-2.0-OpenSSH_9.6\r\n\r\n"), "protocol -? 0 - -"),
        ("a strange chunk size", raw(&format!("{STREAM_HEAD}zz\r\nabc")), "protocol -? 0 - -"),
        (
            "a strange content length",
            raw("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
            "protocol -? 0 - -",
        ),
        ("an endless head", vec![Step::Flood(b"X-A: 1\r\n".repeat(1000))], "protocol -? 0 - -"),
        (
            "too many headers",
            raw(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-A: 1\r\n".repeat(300))),
            "protocol -? 0 - -",
        ),
        (
            "too long a header",
            raw(&format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n", "a".repeat(200_000))),
            "protocol -? 0 - -",
        ),
        ("400", status("400 Bad Request", "{\"error\":{\"message\":\"no\"}}"), "http_400 -? 0 - -"),
        ("429", status("429 Too Many Requests", ""), "http_429 -? 0 - -"),
        (
            "500 that never ends",
            vec![
                send("HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
                Step::Flood(chunk("x").into_bytes()),
            ],
            "http_500 -? 0 - -",
        ),
        (
            "503 cut off",
            vec![
                send("HTTP/1.1 503 Busy\r\nContent-Length: 99\r\n\r\nfull".to_owned()),
                Step::Close,
            ],
            "http_503 -? 0 - -",
        ),
        ("204", status("204 No Content", ""), "http_204 -? 0 - -"),
        (
            "a redirect is not followed",
            raw(
                "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            ),
            "http_307 -? 0 - -",
        ),
        (
            "an upgrade",
            raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            "http_101 -? 0 - -",
        ),
    ]);
}

#[test]
fn an_error_in_a_stream_is_an_error_however_it_is_spelt() {
    let fin = finish_event("stop");
    let failed = "error_event 1e 1 - a";
    let pretty = "{\n  \"error\": {\n    \"message\": \"full\"\n  }\n}\n";
    let forms = [
        "event: error\n\n",
        "event: error\ndata:\n\n",
        "event: error\ndata: [DONE]\n\n",
        "event: error\ndata: {}\n\n",
        "event: Error\ndata: full\n\n",
        "event: response.error\ndata: {\"message\":\"full\"}\n\n",
        "event: stream_error\ndata: {\"choices\":[]}\n\n",
        "data: {\"type\":\"error\",\"message\":\"full\"}\n\n",
        "data: {\"type\":\"error\"}\n\n",
        "data: {\"type\":\"response.error\",\"choices\":[],\"message\":\"full\"}\n\n",
        "data: {\"type\":\"invalid_request_error\",\"message\":\"full\"}\n\n",
        "data: {\"object\":\"Error\",\"message\":\"full\"}\n\n",
        "data: {\"status_code\":500,\"message\":\"full\"}\n\n",
        "data: {\"status\":503,\"message\":\"full\",\"choices\":null}\n\n",
        "data: {\"code\":\"rate_limited\",\"message\":\"full\"}\n\n",
        "data: {\"code\":1302,\"msg\":\"full\"}\n\n",
        "data: {\"error_code\":336,\"error_msg\":\"full\"}\n\n",
        "data: {\"errors\":[{\"message\":\"full\"}],\"success\":false}\n\n",
        "data: {\"errors\":\"full\",\"choices\":[]}\n\n",
        "data: {\"detail\":[{\"msg\":\"full\"}]}\n\n",
        "data: {\"error_message\":\"full\"}\n\n",
        "data: [{\"error\":{\"code\":429,\"message\":\"full\"}}]\n\n",
        "{\"error\":{\"message\":\"full\"}}\n",
        "  {\"error\":\"full\"}\n",
        "{\"status_code\":500,\"message\":\"full\"}\n\n",
        pretty,
        &pretty.replace('\n', "\r\n"),
        &format!("[{pretty}]\n\n"),
        &format!("{pretty}\n"),
        // Whatever follows it: a field ends what has no end of its own.
        "{\n  \"error\": \"full\",\n",
    ];
    for form in forms {
        let within = sse(&format!("{}{form}{fin}{DONE}", text_event("a")));
        let expected = if form.ends_with(",\n") { "ok 1e 1 stop a odd=1" } else { failed };
        check(&[(form, within, expected)]);
        let expected =
            if form.ends_with(",\n") { "empty -? 0 - - odd=1" } else { "error_event -? 0 - -" };
        check(&[(form, sse(form), expected)]);
    }
}

#[test]
fn what_only_looks_like_an_error_is_none() {
    let same = "ok 2u 2 stop ab prompt=5";
    for json in [
        "{\"type\":\"ping\"}",
        "{\"type\":\"heartbeat\",\"message\":\"still here\"}",
        "{\"status\":\"queued\",\"message\":\"three before you\"}",
        "{\"status\":200,\"message\":\"OK\"}",
        "{\"code\":0,\"msg\":\"success\"}",
        "{\"code\":\"0\",\"message\":\"ok\",\"choices\":[]}",
        "{\"message\":\"hello\"}",
        "{\"errors\":[],\"messages\":[],\"success\":true}",
        "{\"detail\":null,\"errors\":null,\"error\":false}",
        "{\"choices\":[],\"prompt_filter_results\":[{\"index\":0}]}",
        "{\"object\":\"chat.completion.chunk\",\"choices\":[],\"type\":\"chunk\"}",
        "{\"choices\":[{\"delta\":{}}],\"type\":\"error\",\"code\":500,\"message\":\"beside\"}",
        "{\"choices\":[{\"delta\":{}}],\"detail\":\"beside\",\"errors\":[1]}",
    ] {
        check(&[(json, sse(&good(&format!("{}{}", event(json), two()))), same)]);
    }
    check(&[
        (
            "a named event",
            sse(&good(&format!("event: ping\n\nevent: x\ndata:\n\n{}", two()))),
            same,
        ),
        ("named like one", sse(&good(&format!("event: terror\ndata: {{}}\n\n{}", two()))), same),
    ]);
}

#[test]
fn timeouts_are_decisions_and_comments_do_not_feed_them() {
    let endpoint = |server: &ScriptedServer| {
        let mut endpoint = Endpoint::new(&server.url(), BodyTemplate::new("m", 16)).unwrap();
        endpoint.keep = Keep::Text;
        endpoint
    };
    let short = Some(Duration::from_millis(150));
    let head = |text: &str| Step::Send(format!("{STREAM_HEAD}{}", chunk(text)).into_bytes());
    let comments = || Step::Flood(chunk(": ping\n\n").into_bytes());

    let server = ScriptedServer::start(vec![vec![head(": hello\n\n"), comments()]]);
    let mut waiting = endpoint(&server);
    waiting.timeouts.first_token = short;
    assert_eq!(told(&one_of(&waiting)), "first_token_timeout -? 0 - -");

    let server = ScriptedServer::start(vec![vec![head(&text_event("a")), comments()]]);
    let mut stalled = endpoint(&server);
    stalled.timeouts.stall = short;
    assert_eq!(told(&one_of(&stalled)), "stall_timeout 1e 1 - a");

    let mut limited = endpoint(&server);
    limited.timeouts.request = short;
    let trace = one_of(&limited);
    // Whether its text came in time is this machine's business.
    assert_eq!(trace.outcome.failure(), Some(FailureClass::RequestTimeout), "{:?}", trace.outcome);
    assert!(trace.stamps.end >= Duration::from_millis(150));
    assert!(trace.stamps.first_text.is_none_or(|first| first < trace.stamps.end));
}

#[test]
fn an_event_of_megabytes_is_an_event_and_an_endless_one_ends() {
    let long = "x".repeat(3 << 20);
    let trace = answer(sse(&good(&text_event(&long))));
    assert!(trace.outcome.is_ok(), "{:?}", trace.outcome);
    assert_eq!(trace.text.as_deref(), Some(&*long));
    let endless = vec![
        Step::Send(format!("{STREAM_HEAD}{}", chunk("data: ")).into_bytes()),
        Step::Flood(chunk(&"x".repeat(60_000)).into_bytes()),
    ];
    let trace = answer(endless);
    assert_eq!(told(&trace), "protocol -? 0 - -");
}

#[test]
fn what_a_server_says_of_its_time_is_kept_with_its_source() {
    let said = |extra: &str| {
        let last = event(&format!("{{\"choices\":[],{extra}}}"));
        answer(sse(&good(&format!("{}{last}", two())))).server.unwrap()
    };
    let ms = |ms: u64| Some(Duration::from_millis(ms));
    let times = said("\"timings\":{\"queue_ms\":2,\"prompt_ms\":3,\"predicted_ms\":4}");
    assert_eq!((times.queue, times.prefill, times.decode), (ms(2), ms(3), ms(4)));
    assert_eq!(times.source, "timings");
    let times = said("\"metrics\":{\"queue_time_ms\":2,\"time_to_first_token_ms\":3}");
    assert_eq!((times.queue, times.prefill, times.source.as_str()), (ms(2), ms(3), "metrics"));
    let times = said("\"perf_metrics\":{\"server-time-to-first-token\":\"0.000001\"}");
    assert_eq!(times.source, "perf_metrics");
    assert_eq!(times.prefill, Some(Duration::from_micros(1)));
}

#[test]
fn a_refusal_tells_its_retry_after_and_no_secret() {
    let body = "{\"error\":{\"message\":\"bad key sk-secret\"}}";
    let script = raw(&format!(
        "HTTP/1.1 429 Slow Down\r\nRetry-After: 0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let server = ScriptedServer::start(vec![script]);
    let endpoint = Endpoint::new(&server.url(), BodyTemplate::new("m", 16)).unwrap();
    let trace = one_of(&endpoint.bearer("sk-secret").unwrap());
    assert_eq!(trace.retry_after, Some(Duration::ZERO));
    let Outcome::Failed(_, text) = &trace.outcome else { panic!("it was refused") };
    assert!(text.contains("bad key [redacted]"), "{text}");
    assert!(server.requests()[0].contains("authorization: Bearer sk-secret"));
}

#[test]
fn nobody_there_is_a_connect_failure() {
    let (_nobody, address) = dead_port();
    let endpoint =
        Endpoint::new(&format!("http://{address}/v1"), BodyTemplate::new("m", 16)).unwrap();
    assert_eq!(told(&one_of(&endpoint)), "connect -? 0 - -");
    let nowhere = Endpoint::new("http://no-such-host.invalid/v1", BodyTemplate::new("m", 16));
    assert_eq!(told(&one_of(&nowhere.unwrap())), "connect -? 0 - -");
}
