//! What people look at: pure functions of results files. No number reaches a reader by another road.

pub mod evidence;
