//! Server-sent events: how one event is framed on the wire, and how frames are read back.

mod decoder;

pub use decoder::{Decoder, EVENT_BYTES_MAX, EventTooLong, Item};

/// The frame that carries `data` as one event. `data` must hold no line end: JSON does not.
pub fn frame(data: &str) -> String {
    debug_assert!(!data.contains(['\n', '\r']), "one event's data is one line");
    format!("data: {data}\n\n")
}

/// The literal that ends an OpenAI stream; it is not JSON.
pub const DONE: &str = "[DONE]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_data_line_and_a_blank_one() {
        assert_eq!(frame(DONE), "data: [DONE]\n\n");
    }
}
