//! A folder in which `spark-bench matrix` runs: configs, engines that are shell scripts, prompts,
//! results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::child::output;
use super::patience::wait_until;

pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_spark-bench");

/// A folder with configs, engines, prompts and results.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prompts: String =
            (0..200).map(|i| format!("{{\"id\": {i}, \"text\": \"prompt {i}\"}}\n")).collect();
        fs::write(folder.path().join("p.jsonl"), prompts).unwrap();
        fs::write(folder.path().join("engines.toml"), "").unwrap();
        Self { folder }
    }

    /// What its processes carry in their environment or command line.
    pub(crate) fn marker(&self) -> String {
        self.folder.path().display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds an engine that is a shell script. `$PORT` is its port.
    pub(crate) fn engine(&self, name: &str, script: &str, deadline: &str, more: &str) {
        let script = script.replace("$PORT", "{port}").replace("$BENCH", BENCH);
        let entry = format!(
            "[engine.{name}]\nversion = [\"sh\", \"-c\", \"echo {name} 1\"]\n\
             start = [\"sh\", \"-c\", '''{script}''']\n\
             ready = {{ url = \"http://127.0.0.1:{{port}}/health\", deadline = \"{deadline}\" }}\n\
             skip_exit_codes = {{ \"3\" = \"does not fit in memory\" }}\n{more}\n"
        );
        let path = self.path("engines.toml");
        let text = fs::read_to_string(&path).unwrap_or_default() + &entry;
        fs::write(path, text).unwrap();
    }

    /// Adds a target that uses the engine of the same name.
    pub(crate) fn config(&self, name: &str, base_url: &str, workload: &str) -> PathBuf {
        let prompts = self.path("p.jsonl");
        let text = format!(
            "[target]\nname = \"{name}\"\nchange = \"\"\nprecision = \"none\"\nmodel = \"m\"\n\
             base_url = \"{base_url}\"\n[engine]\nuse = \"{name}\"\n[workload]\n\
             prompts = [{prompts:?}]\nwarmup = 1\nmax_tokens = 4\nignore_eos = true\n{workload}\n"
        );
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path
    }

    /// Adds a target whose server runs already.
    pub(crate) fn remote(&self, name: &str, base_url: &str, workload: &str) -> PathBuf {
        let path = self.config(name, base_url, workload);
        let engine = format!("[engine]\nuse = \"{name}\"\n");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace(&engine, "")).unwrap();
        path
    }

    pub(crate) fn target(&self, name: &str, script: &str, deadline: &str) -> PathBuf {
        self.engine(name, script, deadline, "");
        self.config(name, ANY_PORT, SHORT)
    }

    pub(crate) fn matrix(&self, configs: &[PathBuf], flags: &[&str]) -> Command {
        let mut command = Command::new(BENCH);
        command.arg("matrix").args(configs).args(flags);
        command.arg("--out").arg(self.path("results")).arg("--no-self-test");
        command
    }

    /// Runs a matrix to its end.
    pub(crate) fn run(&self, configs: &[PathBuf], flags: &[&str]) -> Output {
        output(&mut self.matrix(configs, flags))
    }

    pub(crate) fn results(&self) -> Vec<Value> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path("results"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
            .collect();
        files.sort();
        files.iter().map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect()
    }

    /// Processes whose command line names this folder or that were started from it.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let marker = self.marker();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let words = fs::read(entry.path().join("cmdline")).ok()?;
                let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
                let both = String::from_utf8_lossy(&[words, environment].concat()).into_owned();
                both.contains(&marker).then_some(both)
            })
            .collect()
    }
}

pub(crate) const ANY_PORT: &str = "http://127.0.0.1:{port}/v1";
pub(crate) const SHORT: &str = "concurrency = [1, 2]\nrequests = 4";
pub(crate) const GOOD: &str =
    "exec $BENCH null-engine --port $PORT --model m --ttft-ms 2 --gap-ms 1";

/// Everything that a command said.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Waits until the journal in the results folder holds so many lines.
pub(crate) fn wait_for_journal(folder: &Path, lines: usize) {
    let journal_lines = || {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let journal = entries
            .map(|entry| entry.path())
            .find(|path| path.to_str().is_some_and(|path| path.ends_with(".journal.jsonl")))?;
        Some(fs::read_to_string(journal).ok()?.lines().count())
    };
    wait_until("so many lines in the journal", || journal_lines().unwrap_or(0) >= lines);
}
