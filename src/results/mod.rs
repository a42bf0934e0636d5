//! Files: what a run leaves behind, and everything that reads it.

pub mod convert;
pub mod record;
