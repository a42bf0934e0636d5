//! Makes a bf16 GGUF of any other GGUF, with llama.cpp's own quantiser.
//!
//! `cargo run --example requantize -- INPUT.gguf OUTPUT.gguf`
//!
//! `scripts/get-model` uses it: the small model that the tests and the quickstart run comes as
//! Q4_1, and the benchmark is about bf16. Going up in precision adds no information; the values
//! stay those of the input, rounded to bf16. It overwrites OUTPUT and leaves a torn file there if
//! it fails, so the caller renames.
//!
//! The only unsafe code is three calls into llama.cpp: the safe bindings have no quantiser.

#![expect(unsafe_code, reason = "the safe bindings of llama.cpp do not expose its quantiser")]

use anyhow::{Context, bail};
use std::ffi::CString;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else {
        bail!("usage: requantize INPUT.gguf OUTPUT.gguf");
    };
    requantize_to_bf16(input, output)
}

/// Writes `output` with every matrix of `input` in bf16; vectors stay f32, as llama.cpp does it.
fn requantize_to_bf16(input: &str, output: &str) -> anyhow::Result<()> {
    let input_c = CString::new(input).context("the input's name holds a NUL byte")?;
    let output_c = CString::new(output).context("the output's name holds a NUL byte")?;

    // SAFETY: a plain initialisation, called once, before anything else of llama.cpp.
    unsafe { llama_cpp_sys_2::llama_backend_init() };
    // SAFETY: returns a struct by value.
    let mut params = unsafe { llama_cpp_sys_2::llama_model_quantize_default_params() };
    params.ftype = llama_cpp_sys_2::LLAMA_FTYPE_MOSTLY_BF16;
    // The input is quantised already; llama.cpp refuses that unless told that it is meant.
    params.allow_requantize = true;

    // SAFETY: both strings and `params` outlive the call, which keeps no pointer to them; the
    // pointers inside `params` are null, as its defaults made them.
    let status = unsafe {
        llama_cpp_sys_2::llama_model_quantize(
            input_c.as_ptr(),
            output_c.as_ptr(),
            &raw const params,
        )
    };
    if status != 0 {
        bail!("llama.cpp could not convert {input} (its status is {status}; its reason is above)");
    }
    Ok(())
}
