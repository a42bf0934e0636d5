//! The clients that people use, unmodified, where they are installed.

use std::path::Path;
use std::process::Command;

use crate::support::binary::Binary;
use crate::support::child::output;

#[test]
fn real_clients_stream_count_and_fail_as_they_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("venvs/real-clients/bin/python").exists() {
        eprintln!("SKIPPED: no clients: scripts/real-clients --install puts them in place");
        return;
    }
    let Some((mut binary, address)) = Binary::serve(&["--ctx", "256"]) else { return };
    let script = root.join("scripts/real-clients");
    let output = output(Command::new(script).arg(format!("http://{address}")));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    assert_eq!(binary.terminate(), Some(0));
}
