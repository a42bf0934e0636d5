//! Shared libraries from the C files of `tests/data`.

use std::path::PathBuf;
use std::process::Command;

use super::child::output;

/// Compiles `tests/data/NAME.c` into cargo's folder for the tests' temporary files.
pub fn shared_library(name: &str) -> PathBuf {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.c"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mine = folder.join(format!("{name}.{}.so", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    let output = output(cc.arg(&mine).arg(source));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Test processes may run at once: each renames its own onto the same name.
    let library = folder.join(format!("{name}.so"));
    std::fs::rename(mine, &library).unwrap();
    library
}
