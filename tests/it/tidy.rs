//! The rules that the compiler does not hold: who may know whom, and what stands in one place only.

use std::fs;
use std::path::{Path, PathBuf};

/// A room, and the rooms whose names may stand in it after `crate::`.
const MAY_KNOW: [(&str, &[&str]); 7] = [
    ("api", &[]),
    ("measure", &[]),
    ("serve", &["api", "exit_codes"]),
    ("analyse", &["measure"]),
    ("results", &["measure"]),
    ("report", &["results", "analyse", "measure"]),
    ("bench", &["api", "measure", "analyse", "results", "report", "exit_codes"]),
];

const ROOMS: [&str; 8] =
    ["api", "measure", "serve", "analyse", "results", "report", "bench", "exit_codes"];

/// The sys modules: each says why no safe call does the job.
const UNSAFE_ALLOWED: [&str; 4] = [
    "src/serve/inference/llama/sys.rs",
    "src/bench/sys.rs",
    "src/bench/telemetry/sys.rs",
    "src/bench/cuda_driver.rs",
];

/// What is named in one place only: (the text, the file or folder that may hold it).
const ONE_PLACE: [(&str, &str); 5] = [
    ("llama_cpp_2::", "src/serve/inference/llama"),
    ("llama_cpp_sys_2::", "src/serve/inference/llama/sys.rs"),
    ("nvml_wrapper::", "src/bench/telemetry/nvml"),
    ("reqwest::", "src/bench/http.rs"),
    ("Command::new(", "src/bench/process"),
];

const ENGINE_NAMES: [&str; 5] = ["llama-server", "vllm", "sglang", "hf-naive", "fireworks"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What lies in a folder; nothing if there is no such folder (git keeps no empty ones).
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Every Rust file under `folder`, as (path from the root, text).
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in entries(folder) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The lines of a file that are code before its unit tests begin, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

#[test]
fn rooms_know_only_whom_they_may() {
    let mut broken = Vec::new();
    for (room, allowed) in MAY_KNOW {
        for (path, text) in sources("src") {
            let inside =
                path.starts_with(&format!("src/{room}/")) || path == format!("src/{room}.rs");
            if !inside {
                continue;
            }
            for (number, line) in code_lines(&text) {
                for other in ROOMS {
                    let known = other == room || allowed.contains(&other);
                    if !known && line.contains(&format!("crate::{other}")) {
                        broken.push(format!("{path}:{number}: {room} knows {other}"));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn inference_knows_no_http_and_no_json() {
    let mut broken = Vec::new();
    for (path, text) in sources("src/serve/inference") {
        for (number, line) in code_lines(&text) {
            for word in ["axum", "hyper", "serde_json", "crate::api", "super::super::http"] {
                if line.contains(word) {
                    broken.push(format!("{path}:{number}: {word}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pure_rooms_have_no_clock_no_io_no_async() {
    let mut broken = Vec::new();
    for folder in ["src/measure", "src/analyse", "src/report"] {
        for (path, text) in sources(folder) {
            for (number, line) in code_lines(&text) {
                let words =
                    ["Instant::now", "SystemTime", "std::fs", "std::net", "async fn", "tokio"];
                for word in words {
                    if line.contains(word) {
                        broken.push(format!("{path}:{number}: {word}"));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn each_foreign_thing_is_named_in_one_place() {
    let mut broken = Vec::new();
    for (path, text) in sources("src") {
        for (word, home) in ONE_PLACE {
            let at_home = path.starts_with(home) || path.starts_with("src/bin/");
            if at_home {
                continue;
            }
            for (number, line) in code_lines(&text) {
                if line.contains(word) {
                    broken.push(format!("{path}:{number}: {word} belongs in {home}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_engine_is_special_to_the_harness() {
    let mut broken = Vec::new();
    for folder in ["src/bench", "src/results", "src/report"] {
        for (path, text) in sources(folder) {
            for (number, line) in code_lines(&text) {
                for name in ENGINE_NAMES {
                    if line.to_lowercase().contains(name) {
                        broken.push(format!("{path}:{number}: {name}"));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn unsafe_stands_in_the_sys_modules_only() {
    let mut broken = Vec::new();
    for (path, text) in sources("src") {
        if UNSAFE_ALLOWED.contains(&path.as_str()) {
            assert!(text.starts_with("//!"), "{path}: says why it needs unsafe");
            continue;
        }
        for (number, line) in code_lines(&text) {
            if line.contains("unsafe ") {
                broken.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(broken.is_empty(), "unsafe outside the sys modules:\n{}", broken.join("\n"));
}

#[test]
fn nothing_prints_or_exits_from_the_library() {
    let mut broken = Vec::new();
    for (path, text) in sources("src") {
        let may_print = path.starts_with("src/bin/")
            || path.starts_with("src/bench/cmd/")
            || path == "src/bench/progress.rs";
        for (number, line) in code_lines(&text) {
            let prints = ["print!(", "println!(", "eprint!(", "eprintln!("];
            if !may_print && prints.iter().any(|word| line.contains(word)) {
                broken.push(format!("{path}:{number}: prints"));
            }
            if !path.starts_with("src/bin/") && line.contains("process::exit") {
                broken.push(format!("{path}:{number}: exits"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_test_is_ignored_and_every_module_says_what_it_is_for() {
    let mut broken = Vec::new();
    let own_rules = "tests/it/tidy.rs";
    for (path, text) in sources("src").into_iter().chain(sources("tests")) {
        if !text.starts_with("//!") {
            broken.push(format!("{path}: no module documentation"));
        }
        if path != own_rules && text.contains("#[ignore") {
            broken.push(format!("{path}: an ignored test"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn markdown_has_one_title_and_names_only_files_that_exist() {
    let mut documents: Vec<PathBuf> = Vec::new();
    for folder in ["", "docs", "prompts"] {
        for path in entries(&root().join(folder)) {
            if path.extension().is_some_and(|ext| ext == "md") {
                documents.push(path);
            }
        }
    }
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        let mut fenced = false;
        let titles = text.lines().filter(|line| {
            fenced ^= line.starts_with("```");
            !fenced && line.starts_with("# ")
        });
        assert_eq!(titles.count(), 1, "{}: titles", path.display());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let target = link.split('#').next().unwrap();
            let exists = path.parent().unwrap().join(target).exists();
            assert!(exists, "{}: link to {target}", path.display());
        }
    }
}
