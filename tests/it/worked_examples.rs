//! The worked examples in docs/analyses.md are what the commands print of the committed results.

use std::path::Path;
use std::process::Command;

/// A word as it is, or the newest file that it stands for; `None` without one.
fn expand(word: &str) -> Option<String> {
    let Some((front, back)) = word.split_once('*') else { return Some(word.to_owned()) };
    let (folder, start) = front.rsplit_once('/').unwrap();
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = names.filter(|name| name.starts_with(start) && name.ends_with(back)).max()?;
    Some(format!("{folder}/{newest}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn printed(words: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_spark-bench"))
        .args(words)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{words:?}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    format!("```text\n$ spark-bench {}\n{}\n```\n", words.join(" "), lines.join("\n"))
}

#[test]
fn the_examples_are_what_the_commands_print() {
    let document = std::fs::read_to_string(root().join("docs/analyses.md")).unwrap();
    let examples = document.split("<!-- output of: spark-bench ").skip(1);
    let mut shown = 0;
    for example in examples {
        let (arguments, rest) = example.split_once(" -->\n").unwrap();
        let words: Option<Vec<String>> = arguments.split_whitespace().map(expand).collect();
        match words {
            Some(words) => {
                let expected = printed(&words);
                assert!(
                    rest.starts_with(&expected),
                    "out of date, run scripts/worked-examples: {arguments}\n{expected}"
                );
                shown += 1;
            }
            None => assert!(!rest.starts_with("```"), "no such results: {arguments}"),
        }
    }
    assert!(shown >= 3, "{shown}");
}
