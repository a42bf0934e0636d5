//! What the scripts find out about a machine.

use std::process::Command;

/// Whether `scripts/lib/need.sh` finds libclang where the linker knows `libraries`, and `/usr/lib`
/// holds `files`.
fn has_libclang(libraries: &str, files: &str) -> bool {
    let script = "source scripts/lib/need.sh
        ldconfig() { echo \"$LIBRARIES\"; }
        compgen() { [ -n \"$FILES\" ] && echo \"$FILES\"; }
        has libclang";
    let status = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("LIBCLANG_PATH")
        .env("LIBRARIES", libraries)
        .env("FILES", files)
        .status();
    status.unwrap().success()
}

#[test]
fn only_what_bindgen_can_load_is_libclang() {
    for (libraries, files, expected) in [
        ("", "", false),
        ("libclang-cpp.so.14 (libc6,x86-64) => /lib/libclang-cpp.so.14", "", false),
        ("", "/usr/lib/llvm-14/lib/libclang-cpp.so.14", false),
        ("libclang-14.so.13 (libc6,x86-64) => /lib/libclang-14.so.13", "", true),
        ("libclang.so.1 (libc6) => /lib/libclang.so.1", "", true),
        ("", "/usr/lib/llvm-19/lib/libclang.so.1", true),
        ("", "/usr/lib/llvm-19/lib/libclang-19.so", true),
    ] {
        assert_eq!(has_libclang(libraries, files), expected, "{libraries} {files}");
    }
}
