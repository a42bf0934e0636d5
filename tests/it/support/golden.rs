//! Generated files that are committed: a stale one fails, and says how to make it anew.

use std::path::Path;

/// Asserts that the committed file at `path` (from the root) is `expected`.
///
/// With `SPARK_UPDATE=1` in the environment it is written instead.
pub fn check(path: &str, expected: &str) {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("SPARK_UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&whole, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&whole).unwrap_or_default();
    assert!(committed == expected, "{path} is stale; run the test once with SPARK_UPDATE=1");
}

/// `document` with what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` replaced.
pub fn splice(document: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let (before, rest) = document.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}\n\n{text}\n{end}{after}")
}
