//! The calls into llama.cpp that its bindings lack, each behind a safe function.
//!
//! It needs `unsafe` because it calls C:
//! - a context that can be aborted in the middle of a prefill, that keeps the logits of one token
//!   only (`n_outputs_max`: less memory by the vocabulary times the batch), and whose logits can be
//!   written to; the bindings' context gives no way to any of these;
//! - llama.cpp's log, and what it writes to C's stderr past it, brought to [`said`];
//! - names of types and versions.

#![expect(unsafe_code, reason = "the one module that calls C: see above")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_sys_2 as sys;

use super::said::{self, Level};

/// How a context is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextSettings {
    pub(super) n_ctx: u32,
    pub(super) n_batch: u32,
    pub(super) n_ubatch: u32,
    pub(super) threads: i32,
    pub(super) threads_batch: i32,
    pub(super) flash_attn: FlashAttnType,
    pub(super) kv_type: GgmlType,
}

pub(super) type FlashAttnType = sys::llama_flash_attn_type;
pub(super) type GgmlType = sys::ggml_type;

/// Flash attention as llama.cpp numbers it.
pub(super) const FLASH_ATTN_AUTO: FlashAttnType = sys::LLAMA_FLASH_ATTN_TYPE_AUTO;
pub(super) const FLASH_ATTN_ON: FlashAttnType = sys::LLAMA_FLASH_ATTN_TYPE_ENABLED;
pub(super) const FLASH_ATTN_OFF: FlashAttnType = sys::LLAMA_FLASH_ATTN_TYPE_DISABLED;
/// Element types of the KV cache as ggml numbers them.
pub(super) const KV_F16: GgmlType = sys::GGML_TYPE_F16;
pub(super) const KV_BF16: GgmlType = sys::GGML_TYPE_BF16;
pub(super) const KV_Q8_0: GgmlType = sys::GGML_TYPE_Q8_0;

/// Whether to give up, asked by llama.cpp between two operations of a graph.
type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// A llama.cpp context of one sequence. It belongs to one thread.
pub(super) struct Context {
    raw: NonNull<sys::llama_context>,
    /// What the abort callback asks, while a call to `decode` is under way. The context holds a
    /// pointer to it, so it has an address of its own.
    asked: Rc<Cell<Option<Cancelled<'static>>>>,
    n_vocab: usize,
    /// The context refers to it, so it goes last.
    _model: Arc<LlamaModel>,
}

/// What llama.cpp's `llama_decode` returned, other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeFailure {
    /// The abort callback said yes.
    Aborted,
    /// No room in the KV cache.
    Full,
    /// Another of llama.cpp's codes.
    Code(i32),
}

impl Context {
    /// `None` if llama.cpp refuses; [`said::take_errors`] knows why.
    pub(super) fn new(model: &Arc<LlamaModel>, settings: ContextSettings) -> Option<Self> {
        let asked: Rc<Cell<Option<Cancelled<'static>>>> = Rc::new(Cell::new(None));
        // SAFETY: no preconditions.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = settings.n_ctx;
        params.n_batch = settings.n_batch;
        params.n_ubatch = settings.n_ubatch;
        params.n_seq_max = 1;
        params.n_outputs_max = 1;
        params.n_threads = settings.threads;
        params.n_threads_batch = settings.threads_batch;
        params.flash_attn_type = settings.flash_attn;
        params.type_k = settings.kv_type;
        params.type_v = settings.kv_type;
        params.no_perf = true;
        params.abort_callback = Some(ask);
        params.abort_callback_data = Rc::as_ptr(&asked).cast_mut().cast::<c_void>();
        // SAFETY: the model lives as long as the context, which keeps it; the callback's data live
        // in memory that is freed after the context.
        let raw = unsafe { sys::llama_init_from_model(raw_model(model), params) };
        let n_vocab = usize::try_from(model.n_vocab()).ok()?;
        Some(Self { raw: NonNull::new(raw)?, asked, n_vocab, _model: Arc::clone(model) })
    }

    /// Context in tokens, as llama.cpp made it.
    pub(super) fn n_ctx(&self) -> u32 {
        // SAFETY: `raw` is a live context, here and below.
        unsafe { sys::llama_n_ctx(self.raw.as_ptr()) }
    }

    pub(super) fn n_batch(&self) -> u32 {
        // SAFETY: see `n_ctx`.
        unsafe { sys::llama_n_batch(self.raw.as_ptr()) }
    }

    pub(super) fn n_ubatch(&self) -> u32 {
        // SAFETY: see `n_ctx`.
        unsafe { sys::llama_n_ubatch(self.raw.as_ptr()) }
    }

    /// Whether it has a KV cache or another kind of memory; a model without one generates no text.
    pub(super) fn has_memory(&self) -> bool {
        // SAFETY: see `n_ctx`.
        unsafe { !sys::llama_get_memory(self.raw.as_ptr()).is_null() }
    }

    /// Computes a batch that was filled by [`Batch::set`], and waits for it.
    pub(super) fn decode(
        &mut self,
        batch: &Batch,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), DecodeFailure> {
        if batch.raw.n_tokens < 1
            || u32::try_from(batch.raw.n_tokens).is_ok_and(|n| n > self.n_batch())
        {
            // llama.cpp asserts this, which would end the process.
            return Err(DecodeFailure::Code(-1));
        }
        // SAFETY: only the lifetime changes; the guard takes it out again before this call returns,
        // also by a panic, and llama.cpp calls back only during `llama_decode`.
        let forever =
            unsafe { std::mem::transmute::<Cancelled<'_>, Cancelled<'static>>(cancelled) };
        self.asked.set(Some(forever));
        let _guard = Unask(&self.asked);
        // SAFETY: the batch holds `n_tokens` initialised tokens. The context is borrowed mutably, so
        // no logits are borrowed.
        let code = unsafe {
            let code = sys::llama_decode(self.raw.as_ptr(), batch.raw);
            // A GPU is still at work when it returns, and its time would be taken for ours.
            sys::llama_synchronize(self.raw.as_ptr());
            code
        };
        match code {
            0 => Ok(()),
            1 => Err(DecodeFailure::Full),
            2 => Err(DecodeFailure::Aborted),
            code => Err(DecodeFailure::Code(code)),
        }
    }

    /// The logits of the one token that asked for them; `None` if none did.
    pub(super) fn logits(&mut self) -> Option<&mut [f32]> {
        // SAFETY: llama.cpp returns null or a row of `n_vocab` floats in a buffer of its own, which
        // stays valid and unshared until the next call that takes the context mutably.
        unsafe {
            let row = sys::llama_get_logits_ith(self.raw.as_ptr(), -1);
            (!row.is_null()).then(|| std::slice::from_raw_parts_mut(row, self.n_vocab))
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        // SAFETY: see `n_ctx`. The data are left as they are: cells that are free are masked, and
        // zeroing gigabytes for each request would take longer than a short answer.
        unsafe { sys::llama_memory_clear(sys::llama_get_memory(self.raw.as_ptr()), false) }
    }

    /// Forgets the sequence from this position on; `false` if this kind of memory can't do that.
    pub(super) fn forget_from(&mut self, position: i32) -> bool {
        // SAFETY: see `n_ctx`.
        unsafe {
            sys::llama_memory_seq_rm(sys::llama_get_memory(self.raw.as_ptr()), 0, position, -1)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by `llama_init_from_model` and is freed once.
        unsafe { sys::llama_free(self.raw.as_ptr()) }
    }
}

/// Takes the question away when the call it was for is over.
struct Unask<'a>(&'a Cell<Option<Cancelled<'static>>>);

impl Drop for Unask<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// The abort callback. llama.cpp's CPU backend calls it from the first of its threads, which is the
/// one that called `llama_decode`.
unsafe extern "C" fn ask(data: *mut c_void) -> bool {
    // SAFETY: `data` is the cell of a live context: see `Context::new`.
    let asked = unsafe { &*data.cast::<Cell<Option<Cancelled<'static>>>>() };
    asked.get().is_some_and(|cancelled| cancelled())
}

/// The raw model.
fn raw_model(model: &Arc<LlamaModel>) -> *mut sys::llama_model {
    const { assert!(size_of::<LlamaModel>() == size_of::<*mut sys::llama_model>()) };
    // SAFETY: `LlamaModel` is `repr(transparent)` over a pointer to it, in the exact version that
    // Cargo.toml pins.
    unsafe { *std::ptr::from_ref::<LlamaModel>(model).cast::<*mut sys::llama_model>() }
}

/// Tokens for one call of llama.cpp, in memory that is used again.
pub(super) struct Batch {
    raw: sys::llama_batch,
    capacity: usize,
}

impl Batch {
    /// Room for `capacity` tokens.
    pub(super) fn new(capacity: u32) -> Self {
        let n = i32::try_from(capacity).expect("a batch is smaller than 2³¹");
        // SAFETY: no preconditions; the arrays it allocates have `n` elements.
        let raw = unsafe { sys::llama_batch_init(n, 0, 1) };
        Self { raw, capacity: capacity as usize }
    }

    /// Fills it with tokens of sequence 0 from `position` on; with `logits`, those of the last one
    /// are kept.
    ///
    /// # Panics
    /// When there are more tokens than it has room for.
    pub(super) fn set(&mut self, tokens: &[i32], position: i32, logits: bool) {
        assert!(tokens.len() <= self.capacity, "at most one ubatch at a time");
        for (index, (&token, at)) in tokens.iter().zip(position..).enumerate() {
            // SAFETY: each array has `capacity` elements, and each `seq_id` one.
            unsafe {
                self.raw.token.add(index).write(token);
                self.raw.pos.add(index).write(at);
                self.raw.n_seq_id.add(index).write(1);
                (*self.raw.seq_id.add(index)).write(0);
                self.raw.logits.add(index).write(i8::from(logits && index + 1 == tokens.len()));
            }
        }
        self.raw.n_tokens = i32::try_from(tokens.len()).expect("fewer than the capacity");
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: it was made by `llama_batch_init` and is freed once.
        unsafe { sys::llama_batch_free(self.raw) }
    }
}

/// Sends llama.cpp's log to [`said::logged`].
pub(super) fn route_log() {
    // SAFETY: the callback is a function, and needs no data.
    unsafe { sys::llama_log_set(Some(log), std::ptr::null_mut()) }
}

unsafe extern "C" fn log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let level = match level {
        sys::GGML_LOG_LEVEL_ERROR => Level::Error,
        sys::GGML_LOG_LEVEL_WARN => Level::Warning,
        _ => Level::Other,
    };
    said::logged(level, &text);
}

/// Sends what llama.cpp writes past its log to [`said::written`]: C's `stderr` becomes a stream
/// whose writes come here. Rust writes to the descriptor itself, which stays as it is.
///
/// llama.cpp prints patterns of schemas that it does not know, and grammars that it can't read, as
/// clients sent them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn route_stderr() {
    type File = c_void;
    #[repr(C)]
    struct Functions {
        read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
        write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
        seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
        close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    }
    const UNBUFFERED: c_int = 2;
    unsafe extern "C" {
        #[link_name = "stderr"]
        static mut C_STDERR: *mut File;
        fn fopencookie(cookie: *mut c_void, mode: *const c_char, with: Functions) -> *mut File;
        fn setvbuf(file: *mut File, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
    }
    let functions = Functions { read: None, write: Some(write), seek: None, close: None };
    // SAFETY: glibc's own types, and a variable that it lets programs assign. No other thread of
    // this process writes to C's stderr yet: llama.cpp is not initialised. The stream is never
    // closed, so whoever has read the variable before may go on with the old one.
    unsafe {
        let stream = fopencookie(std::ptr::null_mut(), c"w".as_ptr(), functions);
        if !stream.is_null() {
            setvbuf(stream, std::ptr::null_mut(), UNBUFFERED, 0);
            C_STDERR = stream;
        }
    }
}

/// Other C libraries keep `stderr` to themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn route_stderr() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" fn write(_: *mut c_void, bytes: *const c_char, n: usize) -> isize {
    // SAFETY: glibc passes `n` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), n) };
    said::written(&String::from_utf8_lossy(bytes));
    n.cast_signed()
}

/// llama.cpp's version.
pub(super) fn version() -> String {
    // SAFETY: it returns a constant text.
    unsafe { CStr::from_ptr(sys::llama_version()) }.to_string_lossy().into_owned()
}

/// The names of the backends that ggml knows: those compiled in.
pub(super) fn backends() -> Vec<String> {
    // SAFETY: no preconditions; the places are below the count; names are constant texts.
    let name = |place| unsafe {
        let registered = sys::ggml_backend_reg_get(place);
        CStr::from_ptr(sys::ggml_backend_reg_name(registered)).to_string_lossy().into_owned()
    };
    // SAFETY: no preconditions.
    (0..unsafe { sys::ggml_backend_reg_count() }).map(name).collect()
}

/// What most of the weights are stored as, in llama.cpp's words.
pub(super) fn file_type(model: &Arc<LlamaModel>) -> String {
    // SAFETY: the model is live; the name is a constant text.
    let name =
        unsafe { CStr::from_ptr(sys::llama_ftype_name(sys::llama_model_ftype(raw_model(model)))) };
    name.to_string_lossy().trim_start_matches("(guessed) ").to_owned()
}

/// Whether the model has a decoder, without which it generates no text, and no encoder, which would
/// have to run first.
pub(super) fn is_decoder_only(model: &Arc<LlamaModel>) -> bool {
    let raw = raw_model(model);
    // SAFETY: the model is live.
    unsafe { sys::llama_model_has_decoder(raw) && !sys::llama_model_has_encoder(raw) }
}

#[cfg(test)]
mod tests {
    use super::super::super::gguf_types;
    use super::*;

    #[test]
    fn the_table_of_types_is_ggmls() {
        for kind in 0..sys::GGML_TYPE_COUNT {
            // SAFETY: `kind` is below the count of types.
            let (elements, bytes) =
                unsafe { (sys::ggml_blck_size(kind), sys::ggml_type_size(kind)) };
            // Types that were given up have no size.
            let theirs = (bytes > 0).then(|| (elements.try_into().unwrap(), bytes as u64));
            assert_eq!(gguf_types::block(kind), theirs, "type {kind}");
        }
    }
}
