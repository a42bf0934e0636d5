//! Between what is in memory ([`crate::measure`]) and what stands on disk ([`super::record`]).
//!
//! A trace becomes a record and a trace again without a loss: seconds as floats hold whole
//! nanoseconds for any time below ten days. Only what was not to be kept (gaps, text) is gone.

mod flags;
mod request;
mod summary;

pub use flags::{add_flag, flag, verdict};
pub use request::{BadRecord, Keep, phase_name, record_of_trace, trace_of_record};
pub use summary::{definitions, summary};
