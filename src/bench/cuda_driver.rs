//! The few calls of the CUDA driver that a bandwidth probe needs, loaded at run time.
//!
//! Unsafe because these are C functions found by name in a library that is there or not: there is
//! no safe binding that loads at run time and measures a copy. Signatures are those of cuda.h; the
//! `_v2` names are what its macros resolve to since CUDA 3.2. Handles never leave this module
//! alive: a context is released, buffers and events are freed when their owner is dropped, and an
//! owner borrows the library, so none outlives it.

#![allow(unsafe_code, reason = "calls into a C library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::time::Duration;

use libloading::Library;

/// Names another library file than the driver's, for tests and unusual places.
pub const LIBRARY_VARIABLE: &str = "SPARK_CUDA_LIB";

/// What every driver installs.
const LIBRARY_NAME: &str = "libcuda.so.1";
/// Longest device name that is asked for.
const NAME_BYTES: usize = 256;

/// Why the driver gave no figure.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// There is no such library.
    #[error("no CUDA driver library ({0}) on this machine")]
    NoLibrary(String),
    /// It lacks a function.
    #[error("the CUDA driver lacks {0}")]
    NoFunction(&'static str),
    /// A call failed; codes are those of `CUresult`.
    #[error("{call} failed with CUDA error {code}{}", meaning(*.code))]
    Call {
        /// The function.
        call: &'static str,
        /// Its result.
        code: c_int,
    },
}

fn meaning(code: c_int) -> &'static str {
    match code {
        2 => " (out of memory)",
        3 => " (the driver is not initialised)",
        100 => " (no device)",
        999 => " (unknown)",
        _ => "",
    }
}

type DevicePointer = u64;
type Handle = *mut c_void;

/// The functions, as cuda.h declares them.
struct Calls {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    retain: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    release: unsafe extern "C" fn(c_int) -> c_int,
    set_current: unsafe extern "C" fn(Handle) -> c_int,
    allocate: unsafe extern "C" fn(*mut DevicePointer, usize) -> c_int,
    free: unsafe extern "C" fn(DevicePointer) -> c_int,
    copy: unsafe extern "C" fn(DevicePointer, DevicePointer, usize, Handle) -> c_int,
    event_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    event_destroy: unsafe extern "C" fn(Handle) -> c_int,
    event_record: unsafe extern "C" fn(Handle, Handle) -> c_int,
    event_synchronize: unsafe extern "C" fn(Handle) -> c_int,
    event_elapsed: unsafe extern "C" fn(*mut f32, Handle, Handle) -> c_int,
}

/// The driver.
pub struct Cuda {
    calls: Calls,
    /// Keeps the functions loaded.
    _library: Library,
}

/// Finds a function by name.
fn function<T: Copy>(library: &Library, name: &'static str) -> Result<T, CudaError> {
    // SAFETY: `T` is the type that cuda.h declares for this name; `Calls` outlives no library.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| CudaError::NoFunction(name))
}

/// A call's result code as a result.
fn check(call: &'static str, code: c_int) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Call { call, code }) }
}

impl Cuda {
    /// Loads the driver that the environment names, else the system's, and initialises it.
    ///
    /// # Errors
    /// Where there is none, or it does not initialise.
    pub fn load() -> Result<Self, CudaError> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
        let path = named.map_or_else(|| PathBuf::from(LIBRARY_NAME), PathBuf::from);
        // SAFETY: loading runs the library's initialisers; it is the driver, or what the user named.
        let library = unsafe { Library::new(&path) }
            .map_err(|_| CudaError::NoLibrary(path.display().to_string()))?;
        let calls = Calls {
            init: function(&library, "cuInit")?,
            count: function(&library, "cuDeviceGetCount")?,
            get: function(&library, "cuDeviceGet")?,
            name: function(&library, "cuDeviceGetName")?,
            retain: function(&library, "cuDevicePrimaryCtxRetain")?,
            release: function(&library, "cuDevicePrimaryCtxRelease_v2")?,
            set_current: function(&library, "cuCtxSetCurrent")?,
            allocate: function(&library, "cuMemAlloc_v2")?,
            free: function(&library, "cuMemFree_v2")?,
            copy: function(&library, "cuMemcpyDtoDAsync_v2")?,
            event_create: function(&library, "cuEventCreate")?,
            event_destroy: function(&library, "cuEventDestroy_v2")?,
            event_record: function(&library, "cuEventRecord")?,
            event_synchronize: function(&library, "cuEventSynchronize")?,
            event_elapsed: function(&library, "cuEventElapsedTime")?,
        };
        // SAFETY: takes no pointer.
        check("cuInit", unsafe { (calls.init)(0) })?;
        Ok(Self { calls, _library: library })
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// Where the driver does not say.
    pub fn device_count(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: writes one int.
        check("cuDeviceGetCount", unsafe { (self.calls.count)(&mut count) })?;
        Ok(count)
    }

    /// A device, with its primary context current on this thread.
    ///
    /// # Errors
    /// Where there is none of this index, or no context can be had.
    pub fn device(&self, index: i32) -> Result<Device<'_>, CudaError> {
        let mut ordinal = 0;
        // SAFETY: writes one int.
        check("cuDeviceGet", unsafe { (self.calls.get)(&mut ordinal, index) })?;
        let mut context = std::ptr::null_mut();
        // SAFETY: writes one pointer; it is released when the device is dropped.
        let code = unsafe { (self.calls.retain)(&mut context, ordinal) };
        check("cuDevicePrimaryCtxRetain", code)?;
        let device = Device { cuda: self, ordinal };
        // SAFETY: the context was just retained.
        check("cuCtxSetCurrent", unsafe { (self.calls.set_current)(context) })?;
        Ok(device)
    }
}

/// One device. It belongs to the thread that asked for it: its context is current there.
pub struct Device<'cuda> {
    cuda: &'cuda Cuda,
    ordinal: c_int,
}

impl Device<'_> {
    /// Product name.
    ///
    /// # Errors
    /// Where the driver does not say.
    pub fn name(&self) -> Result<String, CudaError> {
        let mut name = [0 as c_char; NAME_BYTES];
        let room = c_int::try_from(NAME_BYTES).unwrap_or(c_int::MAX);
        // SAFETY: writes at most `room` bytes, the last of them 0.
        let code = unsafe { (self.cuda.calls.name)(name.as_mut_ptr(), room, self.ordinal) };
        check("cuDeviceGetName", code)?;
        name[NAME_BYTES - 1] = 0;
        // SAFETY: the array ends in a 0.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// Two buffers in its memory, to copy from one to the other.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub fn two_buffers(&self, bytes: usize) -> Result<Buffers<'_>, CudaError> {
        let calls = &self.cuda.calls;
        let mut buffers = Buffers {
            calls,
            bytes,
            from: 0,
            to: 0,
            start: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
        };
        // SAFETY: each call writes one handle, which `Buffers` frees; the context is current.
        unsafe {
            check("cuMemAlloc", (calls.allocate)(&mut buffers.from, bytes))?;
            check("cuMemAlloc", (calls.allocate)(&mut buffers.to, bytes))?;
            check("cuEventCreate", (calls.event_create)(&mut buffers.start, 0))?;
            check("cuEventCreate", (calls.event_create)(&mut buffers.end, 0))?;
        }
        Ok(buffers)
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        // SAFETY: the context was retained once; a failure leaves nothing to do.
        unsafe { (self.cuda.calls.release)(self.ordinal) };
    }
}

/// Two buffers and the events around their copies.
pub struct Buffers<'device> {
    calls: &'device Calls,
    bytes: usize,
    from: DevicePointer,
    to: DevicePointer,
    start: Handle,
    end: Handle,
}

impl Buffers<'_> {
    /// Copies the one to the other so often, and says how long that took on the device.
    ///
    /// # Errors
    /// Where the device refuses, or is lost.
    pub fn copy(&mut self, times: u32) -> Result<Duration, CudaError> {
        let stream = std::ptr::null_mut();
        let mut milliseconds = 0.0_f32;
        // SAFETY: both buffers have `bytes` bytes, the events were created, and everything goes
        // into the default stream, which is waited for before the time is read.
        unsafe {
            check("cuEventRecord", (self.calls.event_record)(self.start, stream))?;
            for _ in 0..times {
                let code = (self.calls.copy)(self.to, self.from, self.bytes, stream);
                check("cuMemcpyDtoDAsync", code)?;
            }
            check("cuEventRecord", (self.calls.event_record)(self.end, stream))?;
            check("cuEventSynchronize", (self.calls.event_synchronize)(self.end))?;
            let code = (self.calls.event_elapsed)(&mut milliseconds, self.start, self.end);
            check("cuEventElapsedTime", code)?;
        }
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        // SAFETY: what was not created is null and left alone; a failure leaves nothing to do.
        unsafe {
            for event in [self.start, self.end] {
                if !event.is_null() {
                    (self.calls.event_destroy)(event);
                }
            }
            for pointer in [self.from, self.to] {
                if pointer != 0 {
                    (self.calls.free)(pointer);
                }
            }
        }
    }
}
