//! Any bytes, cut anywhere: the decoder gives the same items as for the whole, and no chunk of
//! them makes the reader panic. `cargo fuzz run sse` (needs a nightly compiler).

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark::api::chunk::Chunk;
use spark::api::sse::{Decoder, Item};

fn items(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut keep = |item: Item<'_>| {
        let data = match item {
            Item::Event { data, .. } => data,
            Item::Stray(line) => line,
        };
        if let Ok(chunk) = Chunk::parse(data) {
            chunk.each_piece(|_| {});
            let _ = (chunk.error(), chunk.counts(), chunk.n_tokens(), chunk.finish_reason());
        }
        found.push(data.to_vec());
    };
    let mut decoder = Decoder::default();
    for piece in pieces {
        if decoder.push(piece, &mut keep).is_err() {
            return found;
        }
    }
    decoder.finish(&mut keep);
    found
}

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (bytes, cut) = input;
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(items(&[&bytes]), items(&[first, second]));
});
