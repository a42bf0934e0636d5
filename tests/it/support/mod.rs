//! What several subjects need.

pub mod nvml_stub;
pub(crate) mod scripted;
