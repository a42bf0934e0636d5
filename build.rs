//! Tells the compiler what this build calls itself: the version, and the commit of a release.
//!
//! Only releases: each commit would otherwise rebuild everything in a developer's folder.

use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for path in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", path]) {
                println!("cargo:rerun-if-changed={path}");
            }
        }
        let commit = git(&["rev-parse", "--short=12", "HEAD"]);
        let commit = commit.unwrap_or_else(|| "unknown".to_owned());
        println!("cargo:rustc-env=SPARK_COMMIT={commit}");
        println!("cargo:rustc-env=SPARK_VERSION={VERSION} ({commit})");
    } else {
        println!("cargo:rustc-env=SPARK_VERSION={VERSION} (debug build)");
    }
}

/// What git says, if it is there and this is a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
