//! The life of a server that we start: version, free port, start, ready, read back, stop, port free.
//!
//! What an engine is called and how it is started stands in the engines file; nothing here knows.

pub mod command;
pub mod life;
pub mod not_measured;
pub mod port;
pub mod readback;

pub use life::{RunningServer, StartPlan, program_sha256};
pub use not_measured::{Kind, NotMeasured};
