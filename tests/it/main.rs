//! The one integration binary: a file for each subject.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where and stop")]

mod analyses;
mod browser;
mod configs;
mod drill;
mod hardware_commands;
mod http2;
mod inference;
#[cfg(feature = "llama")]
mod inference_llama;
mod kept_connections;
mod killed;
mod level;
mod load;
#[cfg(target_os = "linux")]
mod matrix;
#[cfg(target_os = "linux")]
mod matrix_turns;
mod odd_endings;
mod odd_fields;
mod odd_streams;
mod prompts;
mod providers;
mod report;
mod results_schema;
#[cfg(target_os = "linux")]
mod resumed;
#[cfg(target_os = "linux")]
mod run_hardware;
mod scoreboard;
mod scripts;
mod self_test;
mod serve_bad_requests;
#[cfg(feature = "llama")]
mod serve_clients;
mod serve_http;
mod serve_life;
#[cfg(feature = "llama")]
mod serve_model;
#[cfg(feature = "llama")]
mod serve_process;
mod serve_queue;
mod serve_stream;
mod shapes;
mod simulations;
mod support;
mod telemetry;
mod tidy;
mod tls;
mod worked_examples;
#[cfg(target_os = "linux")]
mod wrong_models;
