//! Which engines of the engines file are on this machine: their version commands are asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::bench::config::EngineSpec;
use crate::bench::config::engines::EnginesFile;
use crate::bench::engine::command::Placeholders;
use crate::bench::process::capture::capture;
use crate::bench::process::log::printable;

/// A version command may import a whole framework; somebody waits for the answer.
const VERSION_DEADLINE: Duration = Duration::from_secs(30);

/// An entry of the engines file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineFound {
    /// The entry's name.
    pub name: String,
    /// What its version command said first.
    pub version: Option<String>,
    /// Why there is no version.
    pub reason: Option<String>,
}

/// Asks every entry of the file, all at once.
///
/// # Errors
/// In words, if the file cannot be read.
pub(super) async fn found(path: &Path) -> Result<Vec<EngineFound>, String> {
    let file = EnginesFile::load(path).map_err(|error| error.to_string())?;
    let harness = std::env::current_exe().map_err(|error| error.to_string())?;
    let fill = Placeholders {
        port: 0,
        model: String::new(),
        bin_dir: harness.parent().unwrap_or(Path::new("")).to_owned(),
        concurrency_max: 1,
    };
    let asked = file.engine.iter().map(|(name, spec)| ask(name, spec, &fill));
    Ok(futures_util::future::join_all(asked).await)
}

async fn ask(name: &str, spec: &EngineSpec, fill: &Placeholders) -> EngineFound {
    let command = fill.fill_program(&spec.version);
    let inherited = spec
        .inherit_env
        .iter()
        .filter_map(|name| std::env::var(name).ok().map(|value| (name.clone(), value)));
    let env: BTreeMap<String, String> = inherited.collect();
    let outcome = match capture(&command.program, &command.args, &env, VERSION_DEADLINE).await {
        Err(error) => Err(format!("failed to {error}")),
        Ok(captured) => match (captured.code, captured.first_line()) {
            (Some(0), Some(line)) => Ok(printable(line)),
            (Some(0), None) => Err(format!("{:?} said nothing", command.program)),
            (code, line) => {
                let how = code.map_or("by a signal".to_owned(), |code| format!("with {code}"));
                let said = line.map(|line| format!(": {}", printable(line))).unwrap_or_default();
                Err(format!("{:?} ended {how}{said}", command.program))
            }
        },
    };
    let name = name.to_owned();
    match outcome {
        Ok(version) => EngineFound { name, version: Some(version), reason: None },
        Err(reason) => EngineFound { name, version: None, reason: Some(reason) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_engine_tells_its_version_or_why_it_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engines.toml");
        let entry = |name: &str, command: &str| {
            format!(
                "[engine.{name}]\nversion = {command}\nstart = [\"x\"]\n\
                 ready = {{ url = \"http://127.0.0.1:{{port}}/\", deadline = \"1s\" }}\n"
            )
        };
        let text = entry("a", r#"["sh", "-c", "echo 'v1.2 \u001b[31m'; echo more"]"#)
            + &entry("b", r#"["/no/such/program"]"#)
            + &entry("c", r#"["sh", "-c", "echo no library >&2; exit 7"]"#);
        std::fs::write(&path, text).unwrap();
        let found = found(&path).await.unwrap();
        let version = found[0].version.as_ref().unwrap();
        assert!(version.starts_with("v1.2") && !version.contains('\u{1b}'), "{version:?}");
        assert!(found[1].reason.as_ref().unwrap().contains("/no/such/program"));
        let reason = found[2].reason.as_ref().unwrap();
        assert!(reason.contains("with 7: no library"), "{reason}");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named() {
        let why = found(Path::new("/no/such/engines.toml")).await.unwrap_err();
        assert!(why.contains("/no/such/engines.toml"), "{why}");
    }
}
