//! What clients get wrong, each with its status and body; the server answers a good request after
//! each.

use serde_json::Value;

use crate::support::client::{Connection, Reply};
use crate::support::server::{Server, Setup, chat_body};
use spark::serve::inference::scripted::Reply as Scripted;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A conversation of one word, before further fields.
const MESSAGES: &str = r#""messages": [{"role": "user", "content": "Hi"}]"#;

fn server() -> Server {
    let script = |_: &str| Scripted::words("good answer");
    Server::start(Setup::default(), script, |model| {
        model.with_settings(|settings| settings.n_ctx = 128)
    })
}

/// A mistake: where it is made, how, and what comes of it.
pub struct Case {
    pub path: &'static str,
    pub body: String,
    status: u16,
    /// A part of the message.
    message: &'static str,
    param: Option<&'static str>,
}

fn chat(fields: &str, message: &'static str, param: &'static str) -> Case {
    let body = format!("{{{MESSAGES}, {fields}}}");
    Case { path: CHAT, body, status: 400, message, param: Some(param) }
}

fn messages(list: &str, message: &'static str, param: &'static str) -> Case {
    let body = format!(r#"{{"messages": {list}}}"#);
    Case { path: CHAT, body, status: 400, message, param: Some(param) }
}

fn text(fields: &str, message: &'static str, param: &'static str) -> Case {
    let body = format!("{{{fields}}}");
    Case { path: TEXT, body, status: 400, message, param: Some(param) }
}

fn whole(path: &'static str, body: &str, message: &'static str) -> Case {
    Case { path, body: body.to_owned(), status: 400, message, param: None }
}

fn not_json() -> Vec<Case> {
    vec![
        whole(CHAT, "", "not valid JSON"),
        whole(CHAT, "{", "not valid JSON"),
        whole(CHAT, "hello", "not valid JSON"),
        whole(CHAT, r#"{"messages": [}"#, "not valid JSON"),
        whole(CHAT, "{'messages': []}", "not valid JSON"),
        whole(CHAT, r#"{"messages": []} trailing"#, "not valid JSON"),
        whole(CHAT, r#"{"temperature": NaN}"#, "not valid JSON"),
        whole(CHAT, r#"{"temperature": 1e999}"#, "not valid JSON"),
        whole(CHAT, r#"{"messages": "\ud800"}"#, "not valid JSON"),
        whole(CHAT, &"[".repeat(10_000), "not valid JSON"),
        whole(CHAT, &format!("[{}0]", "[],".repeat(1 << 18)), "far too many values"),
        whole(TEXT, &format!("{{\"prompt\": [{}0]}}", "0,".repeat(1 << 21)), "far too many values"),
        whole(CHAT, "[]", "must be a JSON object, but it is an array"),
        whole(CHAT, "null", "must be a JSON object, but it is null"),
        whole(CHAT, "\"text\"", "must be a JSON object"),
        whole(TEXT, "7", "must be a JSON object"),
    ]
}

fn messages_that_are_none() -> Vec<Case> {
    let nul = r#"[{"role": "user", "content": "a\u0000b"}]"#;
    let image =
        r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}]"#;
    vec![
        Case {
            path: CHAT,
            body: "{}".to_owned(),
            status: 400,
            message: "Missing required parameter: 'messages'",
            param: Some("messages"),
        },
        messages("null", "Missing required parameter", "messages"),
        messages("[]", "expected 1 to", "messages"),
        messages("\"Hi\"", "expected an array", "messages"),
        messages("{}", "expected an array", "messages"),
        messages("[1]", "expected an object", "messages[0]"),
        messages("[null]", "expected an object", "messages[0]"),
        messages(r#"[{"content": "Hi"}]"#, "'messages[0].role'", "messages[0].role"),
        messages(r#"[{"role": "robot", "content": "Hi"}]"#, "'robot'", "messages[0].role"),
        messages(r#"[{"role": 1, "content": "Hi"}]"#, "expected a string", "messages[0].role"),
        messages(r#"[{"role": "user"}]"#, "Missing", "messages[0].content"),
        messages(r#"[{"role": "user", "content": null}]"#, "Missing", "messages[0].content"),
        messages(
            r#"[{"role": "user", "content": 7}]"#,
            "a string or an array",
            "messages[0].content",
        ),
        messages(nul, "NUL", "messages[0].content"),
        messages(r#"[{"role": "user", "content": ["Hi"]}]"#, "an object", "messages[0].content[0]"),
        messages(
            r#"[{"role": "user", "content": [{}]}]"#,
            "Missing",
            "messages[0].content[0].type",
        ),
        messages(image, "image_url", "messages[0].content[0].type"),
        messages(
            r#"[{"role": "user", "content": [{"type": "text"}]}]"#,
            "Missing",
            "messages[0].content[0].text",
        ),
        messages(
            r#"[{"role": "user", "content": "Hi", "name": []}]"#,
            "expected a string",
            "messages[0].name",
        ),
        messages(
            r#"[{"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}]"#,
            "only the assistant",
            "messages[0].tool_calls",
        ),
        messages(
            r#"[{"role": "assistant", "tool_calls": [{}]}]"#,
            "Missing",
            "messages[0].tool_calls[0].function",
        ),
    ]
}

fn numbers_out_of_range() -> Vec<Case> {
    vec![
        chat(r#""max_tokens": 0"#, "got 0", "max_tokens"),
        chat(r#""max_tokens": -1"#, "got -1", "max_tokens"),
        chat(r#""max_tokens": 1.5"#, "expected an integer", "max_tokens"),
        chat(r#""max_tokens": "16""#, "got a string", "max_tokens"),
        chat(r#""max_tokens": 18446744073709551615"#, "got 18446744073709551615", "max_tokens"),
        chat(r#""max_completion_tokens": 0"#, "got 0", "max_completion_tokens"),
        chat(r#""min_tokens": -3"#, "got -3", "min_tokens"),
        chat(r#""temperature": -0.1"#, "expected 0 to 2", "temperature"),
        chat(r#""temperature": 2.1"#, "expected 0 to 2", "temperature"),
        chat(r#""temperature": "hot""#, "expected a number", "temperature"),
        chat(r#""top_p": 1.01"#, "expected 0 to 1", "top_p"),
        chat(r#""top_p": -1"#, "expected 0 to 1", "top_p"),
        chat(r#""top_k": -2"#, "got -2", "top_k"),
        chat(r#""top_k": 1.5"#, "expected an integer", "top_k"),
        chat(r#""min_p": 7"#, "expected 0 to 1", "min_p"),
        chat(r#""seed": "x""#, "expected an integer", "seed"),
        chat(r#""seed": 1e30"#, "expected an integer", "seed"),
        chat(r#""presence_penalty": 3"#, "expected -2 to 2", "presence_penalty"),
        chat(r#""frequency_penalty": -2.5"#, "expected -2 to 2", "frequency_penalty"),
        chat(r#""repetition_penalty": 0"#, "got 0", "repetition_penalty"),
        chat(r#""n": 2"#, "only 1 is supported", "n"),
        chat(r#""n": 0"#, "only 1 is supported", "n"),
        chat(r#""logit_bias": {"x": 1}"#, "'x' is not a token id", "logit_bias.x"),
        chat(r#""logit_bias": {"-1": 1}"#, "'-1' is not a token id", "logit_bias.-1"),
        chat(r#""logit_bias": {"999999": 1}"#, "out of range", "logit_bias"),
        chat(r#""logit_bias": {"5": 101}"#, "expected -100 to 100", "logit_bias.5"),
        chat(r#""logit_bias": {"5": null}"#, "expected a number", "logit_bias.5"),
        chat(r#""logit_bias": [1]"#, "expected an object", "logit_bias"),
        chat(r#""top_logprobs": 3"#, "only allowed when 'logprobs'", "top_logprobs"),
        chat(r#""logprobs": true, "top_logprobs": 21"#, "expected 0 to 20", "top_logprobs"),
        chat(r#""logprobs": 5"#, "expected a boolean", "logprobs"),
    ]
}

fn demands_that_can_not_be_met() -> Vec<Case> {
    let schema = |schema: &str| {
        format!(
            r#""response_format": {{"type": "json_schema", "json_schema": {{"schema": {schema}}}}}"#
        )
    };
    vec![
        chat(r#""stream": "yes""#, "expected a boolean", "stream"),
        chat(r#""stream_options": {}"#, "only allowed when 'stream'", "stream_options"),
        chat(r#""stream": true, "stream_options": 1"#, "expected an object", "stream_options"),
        chat(
            r#""stream": true, "stream_options": {"include_usage": 1}"#,
            "expected a boolean",
            "stream_options.include_usage",
        ),
        chat(r#""stop": 5"#, "a string or an array", "stop"),
        chat(r#""stop": """#, "must not be empty", "stop[0]"),
        chat(r#""stop": ["a", ""]"#, "must not be empty", "stop[1]"),
        chat(r#""stop": ["a", 1]"#, "expected a string", "stop[1]"),
        chat(
            r#""stop": ["1","2","3","4","5","6","7","8","9","0","a","b","c","d","e","f","g"]"#,
            "at most 16",
            "stop",
        ),
        chat(r#""tools": [{"type": "function"}]"#, "tools", "tools"),
        chat(r#""tools": {}"#, "expected an array", "tools"),
        chat(r#""functions": [{"name": "f"}]"#, "tools", "functions"),
        chat(r#""tool_choice": "required""#, "tools", "tool_choice"),
        chat(r#""response_format": "json""#, "expected an object", "response_format"),
        chat(r#""response_format": {}"#, "Missing", "response_format.type"),
        chat(r#""response_format": {"type": "xml"}"#, "'xml'", "response_format.type"),
        chat(
            r#""response_format": {"type": "json_schema"}"#,
            "Missing",
            "response_format.json_schema",
        ),
        chat(&schema("null"), "Missing", "response_format.json_schema.schema"),
        chat(&schema("[]"), "expected an object", "response_format.json_schema.schema"),
        chat(r#""user": 1"#, "expected a string", "user"),
        chat(r#""model": 1"#, "expected a string", "model"),
        chat(r#""ignore_eos": "yes""#, "expected a boolean", "ignore_eos"),
    ]
}

fn prompts_that_are_none() -> Vec<Case> {
    vec![
        text("", "Missing required parameter: 'prompt'", "prompt"),
        text(r#""prompt": """#, "nothing to continue", "prompt"),
        text(r#""prompt": []"#, "it is empty", "prompt"),
        text(r#""prompt": ["a", "b"]"#, "one prompt at a time", "prompt"),
        text(r#""prompt": [[1], [2]]"#, "one prompt at a time", "prompt"),
        text(r#""prompt": [-1]"#, "-1 is not a token id", "prompt[0]"),
        text(r#""prompt": [1, 99999999999]"#, "not a token id", "prompt[1]"),
        text(r#""prompt": [5000]"#, "the vocabulary has 4096 tokens", "prompt"),
        text(r#""prompt": [2147483647]"#, "the vocabulary has 4096 tokens", "prompt"),
        text(r#""prompt": {"text": "a"}"#, "a string or an array", "prompt"),
        text(r#""prompt": "a\u0000""#, "NUL", "prompt"),
        text(r#""prompt": "a", "echo": true"#, "Unsupported parameter: 'echo'", "echo"),
        text(r#""prompt": "a", "suffix": "b""#, "Unsupported parameter: 'suffix'", "suffix"),
        text(r#""prompt": "a", "best_of": 3"#, "only 1 is supported", "best_of"),
        text(r#""prompt": "a", "logprobs": 21"#, "expected 0 to 20", "logprobs"),
        text(r#""prompt": "a", "logprobs": true"#, "expected an integer", "logprobs"),
    ]
}

fn tokens_that_are_none() -> Vec<Case> {
    let at = |path, body: &str, message, param| Case {
        path,
        body: body.to_owned(),
        status: 400,
        message,
        param,
    };
    vec![
        at("/tokenize", "{}", "'content' or 'messages'", None),
        at("/tokenize", r#"{"content": 1}"#, "expected a string", Some("content")),
        at("/tokenize", r#"{"messages": []}"#, "expected 1 to", Some("messages")),
        at("/detokenize", "{}", "Missing required parameter: 'tokens'", Some("tokens")),
        at("/detokenize", r#"{"tokens": "x"}"#, "expected an array", Some("tokens")),
        at("/detokenize", r#"{"tokens": [4096]}"#, "out of range", Some("tokens")),
        at("/detokenize", r#"{"tokens": [-5]}"#, "not a token id", Some("tokens[0]")),
    ]
}

/// All of them.
pub fn all_mistakes() -> Vec<Case> {
    let groups = [
        not_json(),
        messages_that_are_none(),
        numbers_out_of_range(),
        demands_that_can_not_be_met(),
        prompts_that_are_none(),
        tokens_that_are_none(),
    ];
    groups.into_iter().flatten().collect()
}

/// The error of a refusal, after checking that it has OpenAI's form.
fn error_of(reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    let error = reply.json()["error"].clone();
    assert!(error["message"].is_string() && error["type"].is_string(), "{reply:?}");
    assert!(error.get("param").is_some() && error.get("code").is_some(), "{reply:?}");
    error
}

fn assert_still_answers(server: &Server, after: &str) {
    let reply = server.chat("Hi", "");
    assert_eq!(reply.status, 200, "after {after}: {reply:?}");
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "good answer");
}

#[test]
fn every_mistake_is_a_400_with_its_reason_and_nothing_more() {
    let server = server();
    let cases = all_mistakes();
    assert!(cases.len() >= 60, "{}", cases.len());
    for case in &cases {
        let reply = server.post(case.path, &case.body);
        let what = format!("{} {:.200}", case.path, case.body);
        assert_eq!(reply.status, case.status, "{what}: {reply:?}");
        let error = error_of(&reply);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(case.message), "{what}: {message}");
        assert_eq!(error["param"].as_str(), case.param, "{what}: {message}");
        assert_eq!(error["type"], "invalid_request_error", "{what}");
        assert_still_answers(&server, &what);
    }
}

#[test]
fn odd_requests_that_are_right_are_answered() {
    let server = server();
    for fields in [
        r#""model": "anything/at-all""#,
        r#""unknown_field": {"a": [1]}"#,
        r#""tools": [], "tool_choice": "none""#,
        r#""tools": null, "functions": null"#,
        r#""max_tokens": null, "temperature": null, "stop": null, "n": null, "stream": null"#,
        r#""n": 1, "top_k": -1, "top_p": 0, "min_p": 0, "seed": -9223372036854775808"#,
        r#""stop": [], "logit_bias": {}, "user": "me""#,
        r#""max_tokens": 9223372036854775807"#,
        r#""response_format": {"type": "text"}"#,
        r#""response_format": {"type": "json_object"}"#,
        r#""cache_prompt": true, "min_tokens": 0, "ignore_eos": false"#,
        r#""temperature": 2, "repetition_penalty": 1.0, "presence_penalty": -2"#,
    ] {
        let reply = server.post(CHAT, &format!("{{{MESSAGES}, {fields}}}"));
        assert_eq!(reply.status, 200, "{fields}: {reply:?}");
    }
    for list in [
        r#"[{"role": "user", "content": ""}]"#,
        r#"[{"role": "developer", "content": "x"}, {"role": "user", "content": []}]"#,
        r#"[{"role": "tool", "content": "x", "tool_call_id": "1", "name": "f"}]"#,
        r#"[{"role": "assistant", "content": "only me"}]"#,
        r#"[{"role": "user", "content": "Ünï😀\ud83d\ude00\u200b\r\n\t"}]"#,
    ] {
        let reply = server.post(CHAT, &format!(r#"{{"messages": {list}}}"#));
        assert_eq!(reply.status, 200, "{list}: {reply:?}");
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_before_any_event() {
    let server = server();
    for fields in ["", r#", "stream": true"#] {
        for length in [120, 2_000, 1_000_000] {
            let reply = server.chat(&"x".repeat(length), fields);
            assert_eq!(reply.status, 400, "{length}");
            let error = error_of(&reply);
            assert_eq!(error["code"], "context_length_exceeded");
            let message = error["message"].as_str().unwrap();
            assert!(
                message.starts_with("This model's maximum context length is 128 tokens."),
                "{message}"
            );
            assert_eq!(error["param"], "messages");
            assert_still_answers(&server, "a prompt that does not fit");
            let prompt = "x".repeat(length.max(128));
            let reply = server.post(TEXT, &format!(r#"{{"prompt": "{prompt}"{fields}}}"#));
            assert_eq!(reply.status, 400, "{length}");
            let error = error_of(&reply);
            assert_eq!(error["code"], "context_length_exceeded");
            assert_eq!(error["param"], "prompt");
        }
    }
}

#[test]
fn paths_methods_and_types_are_refused_in_the_same_form() {
    let server = server();
    let ask = |head: &str, body: &str| {
        let mut connection = Connection::open(server.address);
        let length = body.len();
        connection.send(
            format!("{head}\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes(),
        );
        connection.reply()
    };
    let json = "Content-Type: application/json";
    let body = chat_body("Hi", "");
    for (head, status) in [
        ("GET /nothing HTTP/1.1".to_owned(), 404),
        ("GET / HTTP/1.1".to_owned(), 404),
        ("POST /v1/embeddings HTTP/1.1".to_owned(), 404),
        ("GET /v1/models/other HTTP/1.1".to_owned(), 404),
        ("GET /v1/models/a/b%2Fc HTTP/1.1".to_owned(), 404),
        ("GET /v1/models/%ff HTTP/1.1".to_owned(), 400),
        (format!("GET {CHAT} HTTP/1.1"), 405),
        ("POST /health HTTP/1.1".to_owned(), 405),
        ("DELETE /v1/models HTTP/1.1".to_owned(), 405),
        (format!("POST {CHAT} HTTP/1.1"), 415),
        (format!("POST {CHAT} HTTP/1.1\r\nContent-Type: text/plain"), 415),
        (format!("POST {CHAT} HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded"), 415),
        (format!("POST {CHAT} HTTP/1.1\r\n{json}\r\nContent-Encoding: gzip"), 415),
        (format!("POST {TEXT} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x"), 415),
    ] {
        let reply = ask(&head, &body);
        assert_eq!(reply.status, status, "{head}: {reply:?}");
        let error = error_of(&reply);
        assert_eq!(error["type"], "invalid_request_error", "{head}");
        if status == 405 {
            assert!(reply.header("allow").is_some(), "{head}: {reply:?}");
        }
        assert_still_answers(&server, &head);
    }
    let charset = format!("POST {CHAT} HTTP/1.1\r\n{json}; charset=utf-8");
    assert_eq!(ask(&charset, &body).status, 200);
    let bytes = [b"{\"messages\": \"\xff\xfe\"}".as_slice()].concat();
    let mut connection = Connection::open(server.address);
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: t\r\n{json}\r\nContent-Length: {}\r\n\r\n",
        bytes.len()
    );
    connection.send(&[head.as_bytes(), &bytes].concat());
    let reply = connection.reply();
    assert_eq!(reply.status, 400);
    assert!(error_of(&reply)["message"].as_str().unwrap().contains("UTF-8"));
}

#[test]
fn a_body_over_the_limit_is_refused_whether_it_says_so_or_not() {
    let server = server();
    let declared = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n\
         Content-Length: 40000000\r\n\r\n{{"
    );
    let mut connection = Connection::open(server.address);
    connection.send(declared.as_bytes());
    let reply = connection.reply();
    assert_eq!(reply.status, 413);
    assert!(error_of(&reply)["message"].as_str().unwrap().contains("33554432 bytes"));
    let mut connection = Connection::open(server.address);
    connection.send(
        format!(
            "POST {CHAT} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        )
        .as_bytes(),
    );
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..33 {
        connection.send_as_far_as_it_goes(chunk.as_bytes());
    }
    assert_eq!(connection.read_head().0, 413);
    assert_still_answers(&server, "a body over the limit");
}

#[test]
fn what_is_not_http_ends_its_connection_and_nothing_else() {
    let server = server();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{\"mess",
        b"",
    ] {
        let mut connection = Connection::open(server.address);
        connection.send_as_far_as_it_goes(bytes);
        connection.half_close();
        drop(connection);
        assert_still_answers(&server, "what is not HTTP");
    }
}
