//! Spark: should this model run on the machine on my desk, or should I pay somebody per token?
//!
//! Two programs share this library and meet only on a socket:
//!
//! - `spark-serve` ([`serve`]): one GGUF model behind an OpenAI-compatible streaming API.
//! - `spark-bench` ([`bench`](mod@bench)): starts servers, drives them, and writes what it measured.
//!
//! | room | what it is | knows |
//! |---|---|---|
//! | [`api`] | the HTTP contract that both programs share; pure data | nothing of ours |
//! | [`serve`] | the server | `api` |
//! | [`measure`] | time → numbers; pure | nothing of ours |
//! | [`analyse`] | numbers → answers; pure | `measure` |
//! | [`bench`](mod@bench) | drives the world | `api`, `measure`, `analyse`, `results`, `report` |
//! | [`results`] | files | `measure` |
//! | [`report`] | what people look at: pure functions of results | `results`, `analyse`, `measure` |
//!
//! Invariants, each held by `tests/it/tidy.rs`: `bench` and `serve` never import each other;
//! `measure` and `analyse` have no clock, no I/O and no async; no engine's name stands in `bench`,
//! `results` or `report`; only the binaries, `bench::progress` and a command's answer touch stdout
//! and stderr; the library never exits.

pub mod analyse;
pub mod api;
pub mod bench;
pub mod exit_codes;
pub mod measure;
pub mod report;
pub mod results;
pub mod serve;
