//! The server: one GGUF model behind an OpenAI-compatible streaming API.

pub mod inference;
