//! The worked examples in docs/analyses.md are what the commands print of the committed results.

use std::path::Path;
use std::process::Command;

use crate::support::child::Running;

#[test]
fn the_examples_are_what_the_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/analyses.md")).unwrap();
    assert!(document.matches("```text\n$ spark-bench ").count() >= 9, "examples are missing");
    let mut command = Command::new("python3");
    command.args(["scripts/worked-examples", "--check"]).current_dir(root);
    command.env("SPARK_BENCH", env!("CARGO_BIN_EXE_spark-bench"));
    match Running::start(&mut command) {
        Ok(running) => {
            let output = running.output();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            eprint!("{said}");
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: no python3 ({error})");
        }
        Err(error) => panic!("python3: {error}"),
    }
}
