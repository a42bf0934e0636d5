//! Files: what a run leaves behind, and everything that reads it.

pub mod brief;
pub mod convert;
pub mod csv;
pub mod escape;
mod foreign;
mod impossible;
pub mod journal;
pub mod place;
pub mod record;
pub mod schema;
pub mod scoreboard;
pub mod series;
pub mod store;
mod streaming;
