//! llama.cpp as a [`Model`](super::Model): the only place that names it.
//!
//! [`load()`] checks the file and the memory before it loads anything, so that what is wrong is said in
//! one line; the rest drives one sequence of one context, and never trips llama.cpp's assertions,
//! which would end the process: batches of at most one ubatch, tokens of the vocabulary only, logits
//! only after they were asked for.

mod check;
mod gbnf;
mod grammar;
mod load;
mod memory;
mod model;
mod options;
mod said;
mod sys;
mod threads;
mod tokenizer;

pub use load::{backends, engine_version, load};
pub use model::LlamaCpp;
pub use options::{FlashAttn, KvType, LoadOptions, Mmap};
