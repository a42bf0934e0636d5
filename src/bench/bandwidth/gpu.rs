//! A GPU's own memory, by copies within it: no compiler is needed, only the driver.
//!
//! A copy turns the bus around, so it reads a few percent under what a pure read would: the figure
//! is labelled as the copy that it is, both directions counted.

use super::best_and_median;
use crate::bench::cuda_driver::{Cuda, CudaError, Device};

/// Passes that count, after one that does not.
const PASSES: usize = 5;
/// Copies in each pass: long enough that the timer's half microsecond does not matter.
const COPIES: u32 = 20;
/// Bytes of each of the two buffers: far above every device's cache.
const BUFFER_BYTES: usize = 1 << 30;

/// One device.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuBandwidth {
    /// The driver's index.
    pub index: i32,
    /// Product name.
    pub name: String,
    /// What was done, in words.
    pub method: &'static str,
    /// Bytes of each buffer.
    pub buffer_bytes: usize,
    /// GB/s of the best pass, read and written; or why there is none.
    pub outcome: Result<(f64, f64), String>,
}

/// Measures each device.
///
/// # Errors
/// In words, where there is no driver or no device.
pub fn devices() -> Result<Vec<GpuBandwidth>, String> {
    let cuda = Cuda::load().map_err(|error| error.to_string())?;
    let count = cuda.device_count().map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("the CUDA driver finds no device".to_owned());
    }
    Ok((0..count).map(|index| one(&cuda, index)).collect())
}

fn one(cuda: &Cuda, index: i32) -> GpuBandwidth {
    let device = cuda.device(index);
    let name = device.as_ref().ok().and_then(|device| device.name().ok());
    let rates = device.and_then(|device| copies(&device));
    GpuBandwidth {
        index,
        name: name.unwrap_or_else(|| "unknown".to_owned()),
        method: "copy (device to device, read + written)",
        buffer_bytes: BUFFER_BYTES,
        outcome: rates
            .map(|mut rates| best_and_median(&mut rates))
            .map_err(|error| error.to_string()),
    }
}

fn copies(device: &Device<'_>) -> Result<Vec<f64>, CudaError> {
    let mut rates = Vec::new();
    let mut buffers = device.two_buffers(BUFFER_BYTES)?;
    for pass in 0..=PASSES {
        let seconds = buffers.copy(COPIES)?.as_secs_f64();
        if pass > 0 && seconds > 0.0 {
            let bytes = 2.0 * BUFFER_BYTES as f64 * f64::from(COPIES);
            rates.push(bytes / seconds / 1e9);
        }
    }
    Ok(rates)
}
