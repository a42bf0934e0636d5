//! Any bytes as the body of a request: read, or refused with a message; never a panic.
//! `cargo fuzz run requests` (needs a nightly compiler).

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark::api::chat::ChatRequest;
use spark::api::completion::CompletionRequest;

fuzz_target!(|body: &[u8]| {
    if let Err(error) = ChatRequest::parse(body) {
        assert!(!error.message.is_empty());
    }
    if let Err(error) = CompletionRequest::parse(body) {
        assert!(!error.message.is_empty());
    }
});
