//! What several subjects need.

#[cfg(feature = "llama")]
pub mod binary;
pub mod c_stub;
pub mod child;
pub mod client;
#[cfg(feature = "llama")]
pub mod cores;
pub mod dead_port;
pub mod golden;
pub(crate) mod http2;
#[cfg(target_os = "linux")]
pub(crate) mod matrix;
#[cfg(feature = "llama")]
pub mod model;
pub mod nulls;
pub mod nvml_stub;
pub mod onlooker;
pub mod patience;
pub(crate) mod provider;
pub(crate) mod scripted;
pub mod server;
pub mod synthetic;
pub(crate) mod tls;
