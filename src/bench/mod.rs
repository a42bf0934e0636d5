//! The harness: it drives the world. Configs become a plan, a plan becomes levels, levels become
//! results files.
//!
//! It knows no engine by name (`configs/engines.toml` does) and meets every server on a socket.

pub mod bandwidth;
pub mod budget;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod config;
pub mod cuda_driver;
pub mod digest;
pub mod doctor;
pub mod drill;
pub mod engine;
pub mod even_sample;
pub mod exact_prompts;
pub mod http;
pub mod limits;
pub mod load;
pub mod null_engine;
pub mod plan;
pub mod process;
pub mod process_own;
pub mod progress;
pub mod prometheus;
pub mod prompt_tokens;
pub mod prompts;
pub mod runner;
pub mod secrets;
pub mod self_test;
pub mod sys;
pub mod telemetry;
