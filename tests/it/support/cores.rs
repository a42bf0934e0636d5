//! Whose turn it is on the machine's cores.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One model computes at a time.
static CORES: Mutex<()> = Mutex::new(());

/// The turn of whoever holds it.
pub type Turn = MutexGuard<'static, ()>;

/// Waits until no other test's model computes. Several would fight for the cores, take longer
/// together than one after another, and make tests wait that have nothing to do with them.
pub fn turn() -> Turn {
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}
