//! Any bytes as the header of a model file: read, or refused with words; never a panic, and no more
//! memory than the file has bytes. `cargo fuzz run gguf` (needs a nightly compiler).

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark::serve::inference::gguf::Header;

fuzz_target!(|bytes: &[u8]| {
    match Header::read(bytes, bytes.len() as u64) {
        Ok(header) => {
            let _ = (header.architecture(), header.text("general.name"));
            let _ = header.of_each_layer("attention.head_count_kv", 32);
            let _ = (header.expected_bytes(), header.tensor_bytes());
            let _ = (header.is_embedding_only(), header.bytes_read_per_token());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
