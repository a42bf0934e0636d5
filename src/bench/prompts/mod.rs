//! Prompts: files of them, the cursor that deals them out, and what a server has been sent already.

mod cursor;
mod file;
mod sent;

pub use cursor::{Draw, PromptCursor, PromptReuse};
pub use file::{Prompt, PromptFile, PromptsError};
pub use sent::SentPrompts;

pub(super) use file::hex;
