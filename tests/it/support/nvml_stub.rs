//! The stub of NVIDIA's library: compiled once, copied beside a state file for each test.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::c_stub::shared_library;

/// A stub library with a state of its own.
pub struct NvmlStub {
    folder: TempDir,
}

impl NvmlStub {
    /// A library whose devices say what `state` says: "key value" lines, as in the C file.
    pub fn new(state: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::copy(compiled(), folder.path().join("libnvidia-ml.so")).unwrap();
        let stub = Self { folder };
        stub.set(state);
        stub
    }

    /// The library file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so")
    }

    /// Changes what the devices say, all at once.
    pub fn set(&self, state: &str) {
        let lines: Vec<&str> = state.lines().map(str::trim).collect();
        let new = self.folder.path().join("state.new");
        fs::write(&new, lines.join("\n") + "\n").unwrap();
        fs::rename(new, self.folder.path().join("state")).unwrap();
    }

    /// The names of the threads that called into it.
    pub fn threads(&self) -> std::collections::BTreeSet<String> {
        self.log().lines().map(str::to_owned).collect()
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.log().lines().count()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("threads")).unwrap()
    }
}

fn compiled() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| shared_library("nvml_stub"))
}
