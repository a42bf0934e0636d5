//! HTTP as clients may speak it: older, in pieces, ahead of the answers, with a question first.

use crate::support::client::Connection;
use crate::support::server::{Server, chat_body};

const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n\
                    Content-Type: application/json\r\n";

fn with_body(head: &str, body: &str) -> Vec<u8> {
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn requests_sent_ahead_are_answered_one_after_another() {
    let server = Server::saying("fine");
    let mut connection = Connection::open(server.address);
    let whole = with_body(HEAD, &chat_body("Hi", ""));
    let stream = with_body(HEAD, &chat_body("Hi", r#", "stream": true"#));
    connection.send(&[whole.clone(), stream, whole].concat());
    assert_eq!(connection.reply().json()["choices"][0]["message"]["content"], "fine");
    assert_eq!(connection.reply().chunks().len(), 3);
    assert_eq!(connection.reply().status, 200);
}

#[test]
fn a_body_may_come_in_chunks_and_bytes_one_by_one() {
    let server = Server::saying("fine");
    let body = chat_body("Hi", "");
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "{HEAD}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x};ext=1\r\n{second}\r\n\
         0\r\nTrailer: x\r\n\r\n",
        first.len(),
        second.len()
    );
    let mut connection = Connection::open(server.address);
    connection.send(chunked.as_bytes());
    assert_eq!(connection.reply().status, 200);
    for byte in with_body(HEAD, &body) {
        connection.send(&[byte]);
    }
    assert_eq!(connection.reply().status, 200);
}

#[test]
fn who_asks_first_is_told_to_go_on_or_refused_at_once() {
    let server = Server::saying("fine");
    let body = chat_body("Hi", "");
    let asking = format!("{HEAD}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut connection = Connection::open(server.address);
    connection.send(asking.as_bytes());
    assert_eq!(connection.read_head().0, 100);
    connection.send(body.as_bytes());
    assert_eq!(connection.reply().status, 200);
    for (change, status) in [("json", 413), ("text/plain", 415)] {
        let asking = asking
            .replace("application/json", if change == "json" { "application/json" } else { change })
            .replace(&format!("Length: {}", body.len()), "Length: 99999999");
        let mut connection = Connection::open(server.address);
        connection.send(asking.as_bytes());
        assert_eq!(connection.reply().status, status);
    }
}

#[test]
fn http_1_0_gets_its_answer_up_to_the_end_of_the_connection() {
    let server = Server::saying("one two");
    let old = HEAD.replace("HTTP/1.1", "HTTP/1.0");
    let mut connection = Connection::open(server.address);
    connection.send(&with_body(&old, &chat_body("Hi", "")));
    assert_eq!(connection.reply().status, 200);
    assert!(connection.is_at_its_end());
    let mut connection = Connection::open(server.address);
    connection.send(&with_body(&old, &chat_body("Hi", r#", "stream": true"#)));
    let (status, headers) = connection.read_head();
    assert_eq!(status, 200);
    assert!(headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("transfer-encoding")));
    let rest = connection.rest();
    assert!(rest.starts_with("data: {") && rest.ends_with("\n\ndata: [DONE]\n\n"), "{rest}");
}

#[test]
fn heads_too_large_are_refused_and_end_only_their_connection() {
    let server = Server::saying("fine");
    let headers = |n: usize| (0..n).map(|n| format!("X-{n}: a\r\n")).collect::<String>();
    let large = |n: usize| format!("X: {}\r\n", "a".repeat(n));
    let path = |n: usize| "a".repeat(n);
    for (line, headers, status) in [
        ("/health".to_owned(), large(70_000), 431),
        ("/health".to_owned(), headers(200), 431),
        (format!("/{}", path(9_000)), String::new(), 414),
        (format!("/health?{}", path(60_000)), String::new(), 414),
    ] {
        let head = format!("GET {line} HTTP/1.1\r\nHost: t\r\n{headers}\r\n");
        let mut connection = Connection::open(server.address);
        connection.send(head.as_bytes());
        let reply = connection.reply();
        assert_eq!(reply.status, status);
        assert_eq!(reply.json()["error"]["type"], "invalid_request_error", "{reply:?}");
        assert_eq!(server.chat("Hi", "").status, 200);
    }
    // hyper refuses these itself, without a body.
    for (line, headers, status) in [
        ("/health".to_owned(), large(1 << 20), 431),
        ("/health".to_owned(), headers(500), 431),
        (format!("/{}", path(70_000)), String::new(), 414),
    ] {
        let head = format!("GET {line} HTTP/1.1\r\nHost: t\r\n{headers}\r\n");
        let mut connection = Connection::open(server.address);
        connection.send_as_far_as_it_goes(head.as_bytes());
        assert_eq!(connection.read_head().0, status);
        assert_eq!(server.chat("Hi", "").status, 200);
    }
}
