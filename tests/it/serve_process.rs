//! The program as a process: what it prints, its exit codes, its signals.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::binary::Binary;
use crate::support::child::output;
use crate::support::client::Connection;
use crate::support::model::small_model;
use crate::support::patience::wait_until;
use crate::support::server::chat_body;

/// The exit code and the last line of a start that fails.
fn failure(args: &[&str]) -> (i32, String) {
    let mut binary = Binary::spawn(args);
    let code = binary.wait().code().unwrap();
    let all = binary.said.join("\n");
    let last = binary.said.pop().unwrap_or_default();
    assert!(!all.contains("panicked"), "{all}");
    (code, last)
}

#[test]
fn bad_usage_and_bad_files_are_exit_code_2_and_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let not_gguf = file("text.gguf", b"hello, I am no model at all, but I am long enough");
    let empty = file("empty.gguf", b"");
    let unknown_key = file("serve.toml", b"gguf = \"x\"\nporty = 1\n");
    let nowhere = "/nowhere/model.gguf";
    for (args, part) in [
        (vec![], "--gguf"),
        (vec!["--gguf", nowhere], nowhere),
        (vec!["--gguf", &not_gguf], "not a GGUF"),
        (vec!["--gguf", &empty], "empty.gguf"),
        (vec!["--gguf", folder.path().to_str().unwrap()], folder.path().to_str().unwrap()),
        (vec!["--config", &unknown_key], "porty"),
        (vec!["--gguf", "x", "--api-key-env", "SURELY_UNSET"], "SURELY_UNSET"),
    ] {
        let args = [args, vec!["--port", "0"]].concat();
        let mut binary = Binary::spawn(&args);
        let code = binary.wait().code();
        let all = binary.said.join("\n");
        assert_eq!(code, Some(2), "{args:?}: {all}");
        assert!(all.contains(part), "{args:?}: {all}");
        assert!(!all.contains("panicked") && !all.contains("loading"), "{args:?}: {all}");
    }
    assert_eq!(failure(&["--no-such-flag"]).0, 2);
    assert_eq!(failure(&["--gguf", "x", "--ctx", "many"]).0, 2);
}

#[test]
fn a_truncated_model_is_refused() {
    let Some(model) = small_model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.gguf");
    let bytes = std::fs::read(model).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
    let (code, line) = failure(&["--gguf", path.to_str().unwrap(), "--port", "0"]);
    assert_eq!(code, 2);
    assert!(line.contains("truncated"), "{line}");
}

#[test]
fn a_model_that_llama_cpp_refuses_is_refused_with_its_reason() {
    const NAME: &[u8] = b"llama";
    let Some(model) = small_model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.gguf");
    let mut bytes = std::fs::read(model).unwrap();
    // The architecture, and the keys that are named after it, stand at the beginning.
    for at in 0..2000 {
        if bytes[at..].starts_with(NAME) {
            bytes[at..at + NAME.len()].copy_from_slice(b"lamma");
        }
    }
    std::fs::write(&path, &bytes).unwrap();
    let (code, line) = failure(&["--gguf", path.to_str().unwrap(), "--port", "0"]);
    assert_eq!(code, 2);
    assert!(line.contains("unknown model architecture") && line.contains("lamma"), "{line}");
}

#[test]
fn settings_that_would_end_the_engine_are_refused() {
    let Some(model) = small_model() else { return };
    let model = model.to_str().unwrap();
    for flag in ["--threads", "--threads-batch"] {
        let (code, line) = failure(&["--gguf", model, "--port", "0", flag, "2147483647"]);
        assert_eq!(code, 2, "{line}");
        assert!(line.contains("at most 512"), "{line}");
    }
}

#[test]
fn a_port_in_use_is_exit_code_3_before_the_model_is_read() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, line) = failure(&["--gguf", "/nowhere.gguf", "--port", &port]);
    assert_eq!(code, 3);
    assert!(line.contains(&port), "{line}");
}

#[test]
fn a_host_that_is_not_this_machine_is_exit_code_2() {
    // An address for documentation: nobody has it.
    if TcpListener::bind("203.0.113.1:0").is_ok() {
        eprintln!("SKIPPED: this machine binds to addresses that it does not have");
        return;
    }
    let (code, line) = failure(&["--gguf", "/nowhere.gguf", "--host", "203.0.113.1"]);
    assert_eq!(code, 2, "{line}");
    assert!(line.contains("203.0.113.1"), "{line}");
}

#[test]
fn it_says_that_it_listens_beyond_this_machine() {
    let said_of = |args: &[&str]| {
        let (binary, _) = Binary::serve(&[&["--ctx", "256"], args].concat())?;
        Some(binary.said.join("\n"))
    };
    let open = "open to the network";
    let Some(said) = said_of(&["--host", "127.0.0.1"]) else { return };
    assert!(!said.contains(open), "{said}");
    let said = said_of(&["--host", "0.0.0.0"]).unwrap();
    assert!(said.contains(open) && said.contains("without an API key"), "{said}");
    // Some variable that each process has.
    let said = said_of(&["--host", "0.0.0.0", "--api-key-env", "PATH"]).unwrap();
    assert!(said.contains(open) && !said.contains("without an API key"), "{said}");
}

#[test]
fn it_says_what_it_is_and_what_it_serves() {
    let output = output(Command::new(env!("CARGO_BIN_EXE_spark-serve")).arg("--version"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["spark-serve 0.", "commit: ", "llama.cpp: ", "backends: ", "CPU"] {
        assert!(text.contains(part), "{text}");
    }
    let args = ["--ctx", "256", "--alias", "small", "--log-format", "json"];
    let Some((mut binary, address)) = Binary::serve(&args) else { return };
    let said = binary.said.join("\n");
    for part in ["parameters", "271 MB", "BF16", "256 tokens", "CPU", "threads"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(binary.said.last().unwrap().starts_with("listening on http://127.0.0.1:"));
    let mut client = Connection::open(address);
    client.post("/v1/chat/completions", &chat_body("Hello", r#", "max_tokens": 2"#));
    let body = client.reply().json();
    assert_eq!(body["model"], "small");
    let line = binary.wait_for("{\"timestamp\"");
    let line: serde_json::Value = serde_json::from_str(&format!("{{\"timestamp\"{line}")).unwrap();
    assert_eq!(line["id"], body["id"]);
    for key in ["prompt_tokens", "output_tokens", "queue_ms", "prefill_ms", "decode_ms"] {
        assert!(line[key].is_number(), "{key}: {line}");
    }
    assert_eq!(line["outcome"], "length");
    // What a client sends is quoted, and no key stands twice.
    client.post("/v1/chat/completions", r#"{"messages": [{"role": "a\nb", "content": ""}]}"#);
    assert_eq!(client.reply().status, 400);
    let line = binary.wait_for("\"outcome\":\"refused\"");
    assert!(line.contains("\"reason\":") && !line.contains("\"message\":"), "{line}");
    assert_eq!(binary.terminate(), Some(0));
}

#[test]
fn a_signal_while_it_loads_ends_it_with_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let Some(mut binary) = Binary::load(&[]) else { return };
        binary.wait_for("loading");
        binary.signal(signal);
        assert_eq!(binary.wait().code(), Some(0), "{:#?}", binary.said);
    }
}

#[test]
fn a_signal_when_idle_ends_it_with_0() {
    let Some((mut binary, _)) = Binary::serve(&["--ctx", "256"]) else { return };
    assert_eq!(binary.terminate(), Some(0), "{:#?}", binary.said);
}

/// A stream of a long answer to a prompt of `n_words` words.
fn streaming(address: std::net::SocketAddr, n_words: usize) -> Connection {
    let mut client = Connection::open(address);
    let fields = r#", "stream": true, "max_tokens": 4000, "ignore_eos": true"#;
    client.post("/v1/chat/completions", &chat_body(&"word ".repeat(n_words), fields));
    client.read_head();
    assert!(client.event().unwrap().contains("assistant"));
    client
}

#[test]
fn a_signal_in_a_long_prompt_or_answer_ends_the_stream_properly() {
    for n_words in [3000, 1] {
        let args = ["--ctx", "4096", "--drain-timeout", "100ms"];
        let Some((mut binary, address)) = Binary::serve(&args) else { return };
        let mut client = streaming(address, n_words);
        if n_words == 1 {
            client.event().unwrap();
        }
        binary.signal(Signal::SIGTERM);
        let events: Vec<String> = std::iter::from_fn(|| client.event()).collect();
        let [.., error, done] = &events[..] else { panic!("{events:?}") };
        assert!(error.contains("shutting down"), "{error}");
        assert_eq!(done, "[DONE]");
        assert_eq!(binary.wait().code(), Some(0), "{:#?}", binary.said);
    }
}

#[test]
fn a_running_answer_may_finish() {
    let Some((mut binary, address)) = Binary::serve(&["--ctx", "512", "--drain-timeout", "none"])
    else {
        return;
    };
    let mut client = Connection::open(address);
    let fields = r#", "stream": true, "max_tokens": 30, "ignore_eos": true"#;
    client.post("/v1/chat/completions", &chat_body("Hello", fields));
    client.read_head();
    client.event().unwrap();
    client.event().unwrap();
    binary.signal(Signal::SIGTERM);
    let events: Vec<String> = std::iter::from_fn(|| client.event()).collect();
    assert!(events[events.len() - 2].contains("\"finish_reason\":\"length\""), "{events:?}");
    assert_eq!(binary.wait().code(), Some(0), "{:#?}", binary.said);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let Some((mut binary, address)) = Binary::serve(&["--ctx", "4096", "--drain-timeout", "none"])
    else {
        return;
    };
    let mut client = streaming(address, 1);
    client.event().unwrap();
    binary.signal(Signal::SIGTERM);
    // It drains now: health says so.
    wait_until("it drains", || crate::support::client::get(address, "/health").status != 200);
    // One that comes at once is the same wish said twice; a later one insists.
    wait_until("it has ended", || {
        binary.signal(Signal::SIGTERM);
        binary.has_ended()
    });
    assert_eq!(binary.wait().signal(), Some(Signal::SIGKILL as i32));
}
