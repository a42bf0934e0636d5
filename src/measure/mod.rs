//! Time → numbers: from the stamps of single requests to the summary of a level.
//!
//! Pure: no I/O, no clock, no async, nothing of the other rooms. The same traces give the same
//! numbers for ever, to the bit, whichever order they finished in.

pub mod trace;
