//! Time → numbers: from the stamps of single requests to the summary of a level.
//!
//! Pure: no I/O, no clock, no async, nothing of the other rooms. The same traces give the same
//! numbers for ever, to the bit, whichever order they finished in.

pub mod autocorrelation;
pub mod batch_means;
pub mod definitions;
pub mod distribution;
pub mod early_stopping;
pub mod effective_mean;
pub mod flags;
pub mod goodput;
pub mod hardware;
pub mod level;
pub mod metrics;
pub mod mser;
pub mod order_statistics;
pub mod proportion;
pub mod sample;
pub mod steady;
pub mod trace;
