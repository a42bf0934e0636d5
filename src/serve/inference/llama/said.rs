//! What llama.cpp says, in its log and past it, and what of that somebody wants to know.
//!
//! Its log belongs to the process, and it calls back on the thread that called it: a register for
//! each thread keeps apart what is said of models that are loaded at the same time.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// llama.cpp logs sizes in mebibytes with two decimals.
pub(super) const LOGGED_TO: u64 = (1 << 20) / 100;
/// More errors than this are not kept.
const ERRORS_MAX: usize = 32;
/// More of what it writes past its log is not kept: it may print whole grammars.
const HEARD_BYTES_MAX: usize = 2000;

#[derive(Default)]
struct Said {
    errors: Vec<String>,
    kv: u64,
    /// Of each backend, by its name.
    compute: BTreeMap<String, u64>,
    flash_attn: Option<&'static str>,
    /// What was written past the log, while somebody listens.
    heard: Option<String>,
}

/// Bytes of memory that llama.cpp has logged as allocated for a context, to [`LOGGED_TO`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Buffers {
    /// The KV cache.
    pub(super) kv: u64,
    /// Compute buffers, of all backends.
    pub(super) compute: u64,
}

/// How loud llama.cpp says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Error,
    Warning,
    Other,
}

thread_local! {
    static SAID: RefCell<Said> = RefCell::default();
}

/// The errors that llama.cpp logged on this thread since the last call of this function: why it
/// refuses something comes before that it does.
pub(super) fn take_errors() -> Vec<String> {
    said(|said| std::mem::take(&mut said.errors))
}

/// The buffers that llama.cpp has logged on this thread since the last call of this function.
pub(super) fn take_buffers() -> Buffers {
    said(|said| Buffers {
        kv: std::mem::take(&mut said.kv),
        compute: std::mem::take(&mut said.compute).into_values().sum(),
    })
}

/// Whether the last context made on this thread uses flash attention, `on` or `off`, if llama.cpp
/// has logged it since the last call of this function.
pub(super) fn take_flash_attn() -> Option<&'static str> {
    said(|said| said.flash_attn.take())
}

/// What `work` comes to, and the beginning of what llama.cpp writes past its log meanwhile.
pub(super) fn hear<T>(work: impl FnOnce() -> T) -> (T, String) {
    said(|said| said.heard = Some(String::new()));
    let done = work();
    let heard = said(|said| said.heard.take()).unwrap_or_default();
    (done, heard.trim_end().to_owned())
}

/// A line of its log: to tracing, under the target `llama.cpp`, errors and warnings at the level
/// debug, the rest at trace. So it is quiet unless asked: what matters is in our own errors.
pub(super) fn logged(level: Level, text: &str) {
    let text = text.trim_end();
    if text.is_empty() || text.chars().all(|c| c == '.') {
        return;
    }
    match level {
        Level::Error | Level::Warning => tracing::debug!(target: "llama.cpp", "{text}"),
        Level::Other => tracing::trace!(target: "llama.cpp", "{text}"),
    }
    said(|said| {
        if level == Level::Error && said.errors.len() < ERRORS_MAX {
            said.errors.push(text.to_owned());
        }
        if let Some(applied) = flash_attn(text) {
            said.flash_attn = applied;
        }
        match buffer_bytes(text) {
            Some((Buffer::Kv, bytes)) => said.kv += bytes,
            // Each reservation is logged anew, a line for each backend, and replaces the one before:
            // the largest is what stays.
            Some((Buffer::Compute(backend), bytes)) => {
                let known = said.compute.entry(backend.to_owned()).or_default();
                *known = bytes.max(*known);
            }
            None => {}
        }
    });
}

/// What it writes past its log: to whoever listens, else to tracing as a warning.
pub(super) fn written(text: &str) {
    let listened = said(|said| {
        let Some(heard) = &mut said.heard else { return false };
        let room = HEARD_BYTES_MAX.saturating_sub(heard.len());
        heard.extend(text.char_indices().take_while(|(at, _)| *at < room).map(|(_, c)| c));
        true
    });
    let text = text.trim_end();
    if !listened && !text.is_empty() {
        tracing::warn!(target: "llama.cpp", "{text}");
    }
}

fn said<T: Default>(with: impl FnOnce(&mut Said) -> T) -> T {
    // A thread that is about to end has no register any more.
    SAID.try_with(|said| with(&mut said.borrow_mut())).unwrap_or_default()
}

#[derive(Debug, PartialEq)]
enum Buffer<'a> {
    Kv,
    /// Of the backend of this name.
    Compute(&'a str),
}

/// What a line such as `sched_reserve:        CPU compute buffer size =    96.25 MiB` tells.
fn buffer_bytes(line: &str) -> Option<(Buffer<'_>, u64)> {
    let (what, size) = line.split_once("buffer size =")?;
    let (backend, what) = what.trim_end().rsplit_once(' ')?;
    let what = match what {
        "KV" | "RS" => Buffer::Kv,
        "compute" => Buffer::Compute(backend.trim_end().rsplit(' ').next()?),
        _ => return None,
    };
    let mib: f64 = size.trim().strip_suffix("MiB")?.trim().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "mebibytes of memory"
    )]
    let bytes = (mib * 1_048_576.0) as u64;
    Some((what, bytes))
}

/// What a line tells of flash attention: first how it is to be, `flash_attn = auto`, which decides
/// nothing yet, then what the backend can, `Flash Attention enabled`.
fn flash_attn(line: &str) -> Option<Option<&'static str>> {
    let what = match line.split_once("flash_attn ") {
        Some((_, rest)) => rest.trim_start().strip_prefix('=')?.trim(),
        None => line.split_once(": Flash Attention ")?.1,
    };
    match what {
        "auto" => Some(None),
        "enabled" => Some(Some("on")),
        "disabled" | "not supported, set to disabled" => Some(Some("off")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_sizes_are_read_from_the_log() {
        let line = "sched_reserve:        CPU compute buffer size =    96.25 MiB";
        assert_eq!(buffer_bytes(line), Some((Buffer::Compute("CPU"), 100_925_440)));
        assert_eq!(buffer_bytes("x: CPU KV buffer size = 1.00 MiB"), Some((Buffer::Kv, 1 << 20)));
        assert_eq!(buffer_bytes("x: CPU model buffer size = 1.00 MiB"), None);
        assert_eq!(buffer_bytes("x: CPU compute buffer size = lots"), None);
    }

    #[test]
    fn the_compute_buffers_of_all_backends_count_each_at_its_largest() {
        take_buffers();
        for (backend, mib) in [("CUDA0", 64), ("CUDA_Host", 8), ("CUDA0", 256), ("CUDA_Host", 16)] {
            let line = format!("sched_reserve: {backend:>10} compute buffer size = {mib}.00 MiB");
            logged(Level::Other, &line);
        }
        assert_eq!(take_buffers(), Buffers { kv: 0, compute: 272 << 20 });
        assert_eq!(take_buffers(), Buffers::default());
    }

    #[test]
    fn what_flash_attention_came_to_is_read_from_the_log() {
        let after = |lines: &[&str]| {
            take_flash_attn();
            lines.iter().for_each(|line| logged(Level::Other, line));
            take_flash_attn()
        };
        let asked = |word: &str| format!("llama_context: flash_attn            = {word}\n");
        assert_eq!(after(&[&asked("auto")]), None);
        assert_eq!(after(&[&asked("enabled")]), Some("on"));
        assert_eq!(after(&[&asked("disabled")]), Some("off"));
        let supported = "resolve_fused_ops: Flash Attention enabled\n";
        assert_eq!(after(&[&asked("auto"), supported]), Some("on"));
        let not = "resolve_fused_ops: Flash Attention not supported, set to disabled\n";
        assert_eq!(after(&[&asked("auto"), not]), Some("off"));
        assert_eq!(after(&["x: enabling flash_attn since it is required\n"]), None);
    }

    #[test]
    fn what_it_writes_has_an_end() {
        let ((), heard) = hear(|| (0..1000).for_each(|_| written("größer ")));
        assert!((HEARD_BYTES_MAX - 8..=HEARD_BYTES_MAX + 1).contains(&heard.len()), "{heard}");
        assert_eq!(hear(|| written("next\n")), ((), "next".to_owned()));
    }
}
