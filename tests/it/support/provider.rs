//! What Fireworks and OpenAI put on the wire, as their public documentation gives it: where usage
//! stands, which headers tell limits and times, how errors look.

use serde_json::{Value, json};

use super::scripted::{LAST_CHUNK, Script, Step, chunk};

/// Texts of an answer, each in an event of its own.
const TEXTS: [&str; 4] = ["Roses", " are", " red", "."];
/// Tokens that these answers count for their prompt.
pub(crate) const N_PROMPT: u64 = 45;

fn sse(events: &[Value]) -> String {
    let events: String = events.iter().map(|event| chunk(&format!("data: {event}\n\n"))).collect();
    format!("{events}{}{LAST_CHUNK}", chunk("data: [DONE]\n\n"))
}

fn answer(status: &str, headers: &[(&str, &str)], rest: &str) -> Script {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    vec![Step::Send(format!("HTTP/1.1 {status}\r\n{headers}{rest}").into_bytes())]
}

fn stream(headers: &[(&str, &str)], events: &[Value]) -> Script {
    let framing =
        "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    answer("200 OK", headers, &format!("{framing}{}", sse(events)))
}

/// A refusal with an error object.
fn refusal(status: &str, headers: &[(&str, &str)], error: &Value) -> Script {
    let body = json!({"error": error}).to_string();
    let framing =
        format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    answer(status, headers, &framing)
}

/// Fireworks: usage and, if asked for, `perf_metrics` in the chunk with the finish reason; limits in
/// tokens per second and the time to the first token in headers.
pub(crate) mod fireworks {
    use super::{N_PROMPT, Script, TEXTS, Value, json, refusal, stream};

    const LIMITS: [(&str, &str); 9] = [
        ("server", "uvicorn"),
        ("fireworks-server-time-to-first-token", "0.002"),
        ("fireworks-deployment", "accounts/fireworks/deployments/3a9b"),
        ("x-ratelimit-limit-requests", "600"),
        ("x-ratelimit-remaining-requests", "599"),
        ("x-ratelimit-limit-tokens-prompt", "60000"),
        ("x-ratelimit-limit-tokens-generated", "600"),
        ("x-ratelimit-remaining-tokens-generated", "512"),
        ("x-ratelimit-over-limit", "no"),
    ];

    fn piece(model: &str, delta: &Value, finish: &Value) -> Value {
        json!({"id": "0b1c", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
    }

    /// A whole answer of `n_out` tokens.
    pub(crate) fn good(model: &str, n_out: u64) -> Script {
        let none = Value::Null;
        let mut events = vec![piece(model, &json!({"role": "assistant"}), &none)];
        events.extend(TEXTS.map(|text| piece(model, &json!({"content": text}), &none)));
        let mut last = piece(model, &json!({}), &json!("length"));
        last["usage"] = json!({"prompt_tokens": N_PROMPT, "completion_tokens": n_out,
            "total_tokens": N_PROMPT + n_out, "prompt_tokens_details": {"cached_tokens": 7}});
        last["perf_metrics"] = json!({"prompt-tokens": "45", "cached-prompt-tokens": "7",
            "server-time-to-first-token": "0.000002", "server-processing-time": "0.000003"});
        events.push(last);
        stream(&LIMITS, &events)
    }

    /// Over the limit; `retry_after` as the header has it, if it is there.
    pub(crate) fn throttled(retry_after: Option<&str>) -> Script {
        let mut headers = LIMITS.to_vec();
        headers.pop();
        headers.push(("x-ratelimit-over-limit", "yes"));
        headers.extend(retry_after.map(|value| ("retry-after", value)));
        let error = json!({"object": "error", "type": "rate_limit_exceeded",
            "code": "rate_limit_exceeded", "message": "Request rate over the adaptive limit"});
        refusal("429 Too Many Requests", &headers, &error)
    }

    /// The key is not one of theirs; a careless server says it back.
    pub(crate) fn unauthorized(key: &str) -> Script {
        let error = json!({"object": "error", "type": "invalid_request_error",
            "code": "unauthorized", "message": format!("The API key {key} is invalid")});
        refusal("401 Unauthorized", &[("server", "uvicorn"), ("x-echo", key)], &error)
    }
}

/// OpenAI: `usage` null in every chunk, then a chunk of its own without choices.
pub(crate) mod openai {
    use super::{N_PROMPT, Script, TEXTS, Value, json, refusal, stream};

    const LIMITS: [(&str, &str); 9] = [
        ("openai-organization", "org-test"),
        ("openai-processing-ms", "211"),
        ("openai-version", "2020-10-01"),
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-limit-tokens", "200000"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-remaining-tokens", "199980"),
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-reset-tokens", "6ms"),
    ];

    fn piece(model: &str, choices: &Value, usage: &Value) -> Value {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": model, "service_tier": "default", "system_fingerprint": "fp_1",
            "choices": choices, "usage": usage, "obfuscation": "xY3"})
    }

    /// A whole answer of `n_out` tokens from the dated model that stands for the one asked for.
    pub(crate) fn good(model: &str, n_out: u64) -> Script {
        let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        let first = json!({"role": "assistant", "content": "", "refusal": null});
        let mut events = vec![piece(model, &choice(first, Value::Null), &Value::Null)];
        events.extend(TEXTS.map(|text| {
            piece(model, &choice(json!({"content": text}), Value::Null), &Value::Null)
        }));
        events.push(piece(model, &choice(json!({}), json!("length")), &Value::Null));
        let usage = json!({"prompt_tokens": N_PROMPT, "completion_tokens": n_out,
            "total_tokens": N_PROMPT + n_out,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}});
        events.push(piece(model, &json!([]), &usage));
        stream(&LIMITS, &events)
    }

    /// Over the limit, with the time to wait as they give it.
    pub(crate) fn throttled(retry_after: &str) -> Script {
        let mut headers = LIMITS.to_vec();
        headers.push(("retry-after", retry_after));
        let error = json!({"message": "Rate limit reached for the model on tokens per min (TPM)",
            "type": "tokens", "param": null, "code": "rate_limit_exceeded"});
        refusal("429 Too Many Requests", &headers, &error)
    }

    /// The key is not one of theirs.
    pub(crate) fn unauthorized(key: &str) -> Script {
        let error = json!({"message": format!("Incorrect API key provided: {key}."),
            "type": "invalid_request_error", "param": null, "code": "invalid_api_key"});
        refusal("401 Unauthorized", &[("www-authenticate", "Bearer")], &error)
    }
}
