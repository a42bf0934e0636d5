//! What several subjects need.

pub mod golden;
pub mod nvml_stub;
pub(crate) mod scripted;
pub mod synthetic;
