//! Streams as servers really send them, each with its exact record.
//!
//! A record is told in one line: outcome, output tokens and where they are from (`u`sage,
//! `e`stimated, `?`), events with text, finish reason, text; then what is out of the ordinary.

use std::time::Duration;

use spark::bench::client::{BodyTemplate, Endpoint, Keep};
use spark::measure::trace::{Outcome, RequestTrace, TokenSource};

use crate::level::one_of;
use crate::support::scripted::{
    LAST_CHUNK, STREAM_HEAD, ScriptedServer, Step, chunk, finish_event, text_event, usage_event,
};

pub(crate) const DONE: &str = "data: [DONE]\n\n";

pub(crate) fn told(trace: &RequestTrace) -> String {
    let outcome = match &trace.outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Failed(class, _) => class.to_string(),
    };
    let tokens = &trace.tokens;
    let source = match tokens.source {
        TokenSource::Usage => "u",
        TokenSource::Estimated => "e",
        TokenSource::Unknown => "?",
    };
    let n_out = tokens.n_out.map_or("-".to_owned(), |n| n.to_string());
    let finish = trace.finish_reason.as_deref().unwrap_or("-");
    let text = trace.text.as_deref().unwrap_or("-");
    let mut line = format!("{outcome} {n_out}{source} {} {finish} {text}", tokens.n_chunks);
    let more = [
        ("first", tokens.n_first),
        ("prompt", tokens.n_prompt),
        ("cached", tokens.n_cached),
        ("odd", Some(tokens.parse_errors).filter(|n| *n > 0)),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            line += &format!(" {name}={value}");
        }
    }
    for note in &trace.notes {
        line += &format!(" ({note})");
    }
    line
}

/// A chunked answer with this event stream as its body, sent in one piece.
pub(crate) fn sse(body: &str) -> Vec<Step> {
    vec![Step::Send(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(body)).into_bytes())]
}

pub(crate) fn raw(answer: &str) -> Vec<Step> {
    vec![Step::Send(answer.as_bytes().to_vec()), Step::Close]
}

pub(crate) fn answer(script: Vec<Step>) -> RequestTrace {
    let server = ScriptedServer::start(vec![script]);
    let mut endpoint = Endpoint::new(&server.url(), BodyTemplate::new("m", 16)).unwrap();
    endpoint.keep = Keep::Text;
    endpoint.stale_slack = Duration::from_secs(60); // Whatever time this machine takes.
    one_of(&endpoint)
}

pub(crate) fn check(cases: &[(&str, Vec<Step>, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, script, expected)| {
            let trace = answer(script.clone());
            let got = told(&trace);
            (got != *expected).then(|| {
                format!("{name}:\n  expected {expected}\n  got      {got}\n  {:?}", trace.outcome)
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) fn good(body: &str) -> String {
    format!("{body}{}{}{DONE}", finish_event("stop"), usage_event(5, 2))
}

pub(crate) fn two() -> String {
    format!("{}{}", text_event("a"), text_event("b"))
}

/// `data: JSON`, as an event.
pub(crate) fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

#[test]
fn framing_of_every_kind_gives_the_same_record() {
    let plain = good(&two());
    let same = "ok 2u 2 stop ab prompt=5";
    let crlf = plain.replace('\n', "\r\n");
    let cr = plain.replace('\n', "\r");
    let tight = plain.replace("data: ", "data:");
    let named = plain.replace("data: ", "event: message\nid: 1\nretry: 5\ndata: ");
    let split = plain
        .replace(",\"choices\"", ",\ndata: \"choices\"")
        .replace("{\"choices\"", "{\ndata: \"choices\"");
    let comments = plain.replace("data: ", ": ping\n\n:\ndata: ");
    let heartbeat = format!("data:\n\ndata: \n\n{plain}");
    check(&[
        ("plain", sse(&plain), same),
        ("CRLF", sse(&crlf), same),
        ("CR", sse(&cr), same),
        ("no space", sse(&tight), same),
        ("event, id and retry fields", sse(&named), same),
        ("several data lines", sse(&split), same),
        ("comments", sse(&comments), same),
        ("empty events", sse(&heartbeat), same),
        ("a byte order mark", sse(&format!("\u{feff}{plain}")), same),
        ("no final blank line", sse(plain.trim_end()), same),
        ("text after [DONE] is none", sse(&format!("{plain}{}", text_event("c"))), same),
        (
            "byte by byte",
            vec![Step::Drip(format!("{STREAM_HEAD}{}{LAST_CHUNK}", chunk(&plain)).into_bytes())],
            same,
        ),
        (
            "a content length",
            raw(&format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: {}\r\n\r\n{plain}",
                plain.len()
            )),
            same,
        ),
        (
            "ended by the close",
            raw(&format!("HTTP/1.0 200 OK\r\nContent-Type: Text/Event-Stream\r\n\r\n{plain}")),
            same,
        ),
        (
            "chunk extensions and trailers",
            raw(&format!("{STREAM_HEAD}{:x};a=b\r\n{plain}\r\n0\r\nX-T: 1\r\n\r\n", plain.len())),
            same,
        ),
        (
            "a 100 Continue first",
            raw(&format!(
                "HTTP/1.1 100 Continue\r\n\r\n{STREAM_HEAD}{}{LAST_CHUNK}",
                chunk(&plain)
            )),
            same,
        ),
        (
            "another content type",
            raw(&format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{plain}")),
            "ok 2u 2 stop ab prompt=5 (an event stream under the content type text/plain)",
        ),
        (
            "no [DONE]",
            sse(&plain.replace(DONE, "")),
            "ok 2u 2 stop ab prompt=5 (no [DONE] after the finish reason)",
        ),
        (
            "U+2028 in a text",
            sse(&good(&event("{\"choices\":[{\"delta\":{\"content\":\"a\u{2028}b\"}}]}"))),
            "ok 2u 1 stop a\u{2028}b prompt=5",
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn text_tokens_and_usage_are_found_where_servers_put_them() {
    let fin = finish_event("stop");
    let usage = |n: u64| format!("\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{n}}}");
    let delta = |fields: &str| event(&format!("{{\"choices\":[{{\"delta\":{{{fields}}}}}]}}"));
    let cumulative: String = (1..=3)
        .map(|n| {
            event(&format!("{{\"choices\":[{{\"delta\":{{\"content\":\"x\"}}}}],{}}}", usage(n)))
        })
        .collect();
    let in_finish = event(&format!(
        "{{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"length\"}}],{}}}",
        usage(2)
    ));
    let role = delta("\"role\":\"assistant\",\"content\":\"\"");
    check(&[
        (
            "usage in the finish chunk",
            sse(&format!("{}{in_finish}{DONE}", two())),
            "ok 2u 2 length ab prompt=5",
        ),
        (
            "usage twice",
            sse(&format!("{}{in_finish}{}{DONE}", two(), usage_event(5, 2))),
            "ok 2u 2 length ab prompt=5",
        ),
        (
            "cumulative usage",
            sse(&format!("{cumulative}{fin}{DONE}")),
            "ok 3u 3 stop xxx first=1 prompt=5",
        ),
        (
            "usage inside the choice",
            sse(&format!(
                "{}{}{fin}{DONE}",
                two(),
                event(&format!("{{\"choices\":[{{\"delta\":{{}},{}}}]}}", usage(2)))
            )),
            "ok 2u 2 stop ab prompt=5",
        ),
        ("no usage", sse(&format!("{}{fin}{DONE}", two())), "ok 2e 2 stop ab"),
        (
            "usage null",
            sse(&format!("{}{}{fin}{DONE}", two(), event("{\"choices\":[],\"usage\":null}"))),
            "ok 2e 2 stop ab",
        ),
        (
            "a role chunk is no text",
            sse(&good(&format!("{role}{}", two()))),
            "ok 2u 2 stop ab prompt=5",
        ),
        (
            "content null",
            sse(&good(&format!("{}{}", delta("\"content\":null"), two()))),
            "ok 2u 2 stop ab prompt=5",
        ),
        (
            "reasoning_content",
            sse(&good(&format!("{}{}", delta("\"reasoning_content\":\"r\""), text_event("a")))),
            "ok 2u 2 stop ra prompt=5",
        ),
        (
            "reasoning",
            sse(&good(&format!("{}{}", delta("\"reasoning\":\"r\""), text_event("a")))),
            "ok 2u 2 stop ra prompt=5",
        ),
        (
            "both spellings count once",
            sse(&good(&delta("\"reasoning\":\"r\",\"reasoning_content\":\"r\""))),
            "ok 2u 1 stop r prompt=5",
        ),
        (
            "tool calls",
            sse(&format!(
                "{}{}{}{DONE}",
                delta(
                    "\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]"
                ),
                delta("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]"),
                finish_event("tool_calls")
            )),
            "ok 1e 1 tool_calls {}",
        ),
        (
            "text completions",
            sse(&good(&event("{\"choices\":[{\"text\":\"ab\"}]}"))),
            "ok 2u 1 stop ab prompt=5",
        ),
        (
            "token ids tell k1",
            sse(&good(&event("{\"choices\":[{\"text\":\"ab\",\"token_ids\":[1,2]}]}"))),
            "ok 2u 1 stop ab first=2 prompt=5",
        ),
        (
            "cached tokens",
            sse(&format!(
                "{}{fin}{}{DONE}",
                two(),
                event(
                    "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}"
                )
            )),
            "ok 2u 2 stop ab prompt=5 cached=4",
        ),
        (
            "cached by timings",
            sse(&format!(
                "{}{fin}{}{DONE}",
                two(),
                event("{\"choices\":[],\"timings\":{\"cache_n\":3,\"prompt_ms\":1}}")
            )),
            "ok 2e 2 stop ab cached=3",
        ),
        (
            "no JSON is counted",
            sse(&good(&format!("{}data: nonsense\n\n", two()))),
            "ok 2u 2 stop ab prompt=5 odd=1",
        ),
        (
            "a field of another type",
            sse(&good(&format!(
                "{}{}",
                two(),
                event(
                    "{\"choices\":[{\"delta\":{\"content\":7},\"finish_reason\":false}],\"model\":{}}"
                )
            ))),
            "ok 2u 2 stop ab prompt=5",
        ),
        (
            "a ping event",
            sse(&good(&format!("event: ping\ndata: {{\"type\":\"ping\"}}\n\n{}", two()))),
            "ok 2u 2 stop ab prompt=5",
        ),
        (
            "escapes",
            sse(&good(&delta("\"content\":\"\\u00e9\\n\\\"\""))),
            "ok 2u 1 stop \u{e9}\n\" prompt=5",
        ),
        (
            "a whole message in one chunk",
            sse(&good(&event("{\"choices\":[{\"message\":{\"content\":\"ab\"}}]}"))),
            "ok 2u 1 stop ab prompt=5",
        ),
    ]);
}
