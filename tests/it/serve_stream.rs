//! The shape of answers, streamed and not: frames, chunks, usage, timings.

use serde_json::{Value, json};
use spark::serve::inference::scripted::Reply as Scripted;

use crate::support::server::{Server, Setup};

fn texts(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[test]
fn a_chat_stream_has_its_exact_shape() {
    let server = Server::saying("Hello there friend");
    let reply = server.chat("Hi", r#", "stream": true, "temperature": 0"#);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert_eq!(reply.header("content-encoding"), None);
    let chunks = reply.chunks();
    let id = chunks[0]["id"].as_str().unwrap();
    assert_eq!(reply.header("x-request-id"), Some(id));
    assert!(id.starts_with("chatcmpl-"));
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!((&chunk["id"], &chunk["model"]), (&json!(id), &json!("scripted")));
        assert_eq!(chunk["created"], chunks[0]["created"]);
        assert_eq!(chunk["choices"][0]["index"], 0);
    }
    // Role, three words, finish.
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert_eq!(texts(&chunks), ["", "Hello ", "there ", "friend"]);
    for chunk in &chunks[..4] {
        assert_eq!(chunk["choices"][0]["finish_reason"], Value::Null);
        assert_eq!((chunk.get("usage"), chunk.get("timings")), (None, None));
    }
    let last = &chunks[4];
    assert_eq!(chunks.len(), 5);
    assert_eq!(last["choices"][0]["delta"], json!({}));
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    // Nothing was said about usage, so it stands on the finish chunk.
    assert_eq!(last["usage"]["completion_tokens"], 4);
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(last["timings"]["predicted_n"], 4);
    assert!(last["timings"]["queue_ms"].is_f64());
    assert_eq!(last.get("perf_metrics"), None);
}

#[test]
fn usage_stands_where_it_was_asked_for_and_never_twice() {
    let server = Server::saying("one two");
    let usages = |options: &str| {
        let reply = server.chat("Hi", &format!(r#", "stream": true{options}"#));
        let chunks = reply.chunks();
        let with_usage = |(index, chunk): (usize, &Value)| {
            let choices = chunk["choices"].as_array().unwrap().len();
            chunk.get("usage").map(|_| (chunks.len() - index, choices))
        };
        chunks.iter().enumerate().filter_map(with_usage).collect::<Vec<_>>()
    };
    // (from the end, choices)
    assert_eq!(usages(""), [(1, 1)]);
    assert_eq!(usages(r#", "stream_options": null"#), [(1, 1)]);
    assert_eq!(usages(r#", "stream_options": {}"#), [(1, 1)]);
    assert_eq!(usages(r#", "stream_options": {"include_usage": true}"#), [(1, 0)]);
    assert_eq!(usages(r#", "stream_options": {"include_usage": false}"#), []);
}

#[test]
fn fireworks_names_are_sent_when_asked_for() {
    let server = Server::saying("one");
    let reply = server.chat("Hi", r#", "stream": true, "perf_metrics_in_response": true"#);
    let metrics = &reply.chunks().pop().unwrap()["perf_metrics"];
    for name in ["prompt-tokens", "server-time-to-first-token", "prefill-queue-duration"] {
        metrics[name].as_str().unwrap().parse::<f64>().unwrap();
    }
    let reply = server.chat("Hi", r#", "perf_metrics_in_response": true"#);
    assert_eq!(reply.json()["perf_metrics"]["cached-prompt-tokens"], "0");
}

#[test]
fn an_answer_in_one_has_its_exact_shape() {
    let server = Server::saying("Hello there");
    let reply = server.chat("Hi", r#", "max_tokens": 1"#);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let body = reply.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(
        body["choices"],
        json!([{
            "index": 0,
            "message": { "role": "assistant", "content": "Hello ", "refusal": null },
            "logprobs": null,
            "finish_reason": "length"
        }])
    );
    let usage = &body["usage"];
    assert_eq!(usage["completion_tokens"], 1);
    let total = usage["prompt_tokens"].as_u64().unwrap() + 1;
    assert_eq!(usage["total_tokens"], total);
    assert_eq!(body["timings"]["prompt_n"], usage["prompt_tokens"]);
}

#[test]
fn text_completions_have_their_own_shape() {
    let server = Server::saying("one two three");
    let reply = server.post("/v1/completions", r#"{"prompt": "abc", "stream": true}"#);
    let chunks = reply.chunks();
    let text = |chunk: &Value| chunk["choices"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(chunks.iter().map(text).collect::<Vec<_>>(), ["one ", "two ", "three", ""]);
    let last = chunks.last().unwrap();
    assert_eq!(last["object"], "text_completion");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    // Three bytes, three tokens; three words and the end.
    assert_eq!(last["usage"]["prompt_tokens"], 3);
    assert_eq!(last["usage"]["completion_tokens"], 4);
    let body = server.post("/v1/completions", r#"{"prompt": ["abc"], "max_tokens": 2}"#).json();
    assert_eq!(body["choices"][0]["text"], "one two ");
    assert!(body["id"].as_str().unwrap().starts_with("cmpl-"));
    let newer = r#"{"prompt": "abc", "max_completion_tokens": 1}"#;
    assert_eq!(server.post("/v1/completions", newer).json()["choices"][0]["text"], "one ");
    let body = server.post("/v1/completions", r#"{"prompt": [97, 98], "max_tokens": 2}"#).json();
    assert_eq!(body["usage"]["prompt_tokens"], 2);
}

#[test]
fn log_probabilities_come_in_both_forms() {
    let server = Server::saying("one two");
    let body = server.chat("Hi", r#", "logprobs": true, "top_logprobs": 2"#).json();
    let content = body["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content[0]["token"], "one ");
    assert_eq!(content[0]["bytes"], json!([111, 110, 101, 32]));
    assert_eq!(content[0]["top_logprobs"].as_array().unwrap().len(), 2);
    assert!(content[0]["logprob"].as_f64().unwrap() <= 0.0);
    let body = server.post("/v1/completions", r#"{"prompt": "x", "logprobs": 1}"#).json();
    let logprobs = &body["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"][1], "two");
    assert_eq!(logprobs["text_offset"], json!([0, 4]));
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 1);
    // Streamed: the same entries, in pieces.
    let chunks = server.chat("Hi", r#", "stream": true, "logprobs": true"#).chunks();
    let streamed = chunks.iter().filter_map(|c| c["choices"][0]["logprobs"]["content"].as_array());
    assert!(streamed.map(Vec::len).sum::<usize>() >= 2);
}

#[test]
fn an_engine_that_fails_is_a_500_or_an_error_event() {
    let script = |prompt: &str| match prompt {
        p if p.contains("fail") => Scripted::Error("no luck".to_owned()),
        p if p.contains("panic") => Scripted::Panic("a bug".to_owned()),
        _ => Scripted::words("fine"),
    };
    let server = Server::start(Setup::default(), script, |model| model);
    for word in ["fail", "panic"] {
        let reply = server.chat(word, "");
        assert_eq!(reply.status, 500);
        assert_eq!(reply.json()["error"]["type"], "server_error");
        let reply = server.chat(word, r#", "stream": true"#);
        assert_eq!(reply.status, 200);
        let chunks = reply.chunks();
        assert_eq!(chunks.last().unwrap()["error"]["type"], "server_error");
        assert_eq!(server.chat("go on", "").json()["choices"][0]["message"]["content"], "fine");
    }
    assert_eq!(server.metric(r#"spark_serve_requests_total{outcome="failed"}"#), 4.0);
    // Each request has one outcome.
    assert_eq!(server.metric(r#"spark_serve_requests_total{outcome="refused"}"#), 0.0);
}

#[test]
fn the_tokens_that_are_counted_are_those_of_the_usage() {
    let server = Server::saying("one two three four");
    let mut sum = 0;
    // The end of the answer has no text, nor has a stop string.
    for fields in ["", r#", "max_tokens": 2"#, r#", "stop": "three""#, r#", "stop": "one""#] {
        let usage = server.chat("Hi", fields).json()["usage"].clone();
        sum += usage["completion_tokens"].as_u64().unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "a dozen")]
    let sum = sum as f64;
    assert_eq!(server.metric("spark_serve_output_tokens_total"), sum);
}
