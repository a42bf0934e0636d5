//! The prompt files are what their README says: complete, different from the first words on, and
//! reproducible from the script and its seed.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::child::Running;

/// How many words into a prompt no two of a file still agree.
const WORDS_THAT_DIFFER: usize = 3;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str) -> PathBuf {
    root().join("prompts").join(name)
}

/// The texts of a prompts file, in order.
fn texts(name: &str) -> Vec<String> {
    let lines = fs::read_to_string(file(name)).unwrap();
    let mut ids = HashSet::new();
    lines
        .lines()
        .map(|line| {
            let prompt: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = prompt["id"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{name}: the id {id} stands twice");
            prompt["text"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn assert_different_from_the_first_words_on(name: &str, texts: &[String]) {
    let mut beginnings = HashSet::new();
    for text in texts {
        let words: Vec<_> = text.split_whitespace().take(WORDS_THAT_DIFFER).collect();
        let beginning = words.join(" ").to_lowercase();
        assert!(beginnings.insert(beginning.clone()), "{name}: two begin with '{beginning}'");
    }
}

#[test]
fn short_prompts_are_a_thousand_different_ones() {
    let texts = texts("short.jsonl");
    assert_eq!(texts.len(), 1000);
    assert_different_from_the_first_words_on("short.jsonl", &texts);
    for text in &texts {
        let words = text.split_whitespace().count();
        assert!((15..=60).contains(&words), "{words} words: {text}");
    }
}

#[test]
fn long_prompts_are_256_different_documents() {
    let texts = texts("long.jsonl");
    assert_eq!(texts.len(), 256);
    assert_different_from_the_first_words_on("long.jsonl", &texts);
    for text in &texts {
        let words = text.split_whitespace().count();
        assert!((1_300..=1_900).contains(&words), "{words} words: {}", &text[..60]);
        let question = text.split("\n\n").last().unwrap();
        assert!(question.len() < 400, "ends with a question, not with '{question}'");
    }
}

/// The script needs Python only; a machine without it can still run everything else.
#[test]
fn the_script_makes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let script = root().join("scripts/make-prompts");
    let mut command = Command::new("python3");
    let Ok(made) = Running::start(command.arg(script).arg("--out").arg(folder.path())) else {
        assert!(std::env::var_os("CI").is_none(), "python3 is not there");
        eprintln!("skipped: python3 is not there");
        return;
    };
    let made = made.output();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for name in ["short.jsonl", "long.jsonl"] {
        let same = fs::read(folder.path().join(name)).unwrap() == fs::read(file(name)).unwrap();
        assert!(same, "prompts/{name} is not what scripts/make-prompts writes");
    }
}
