//! The command that starts a server: placeholders filled in, a clean environment, the program found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::bench::config::engines::Program;
use crate::bench::config::{Config, EngineSpec};

/// What stands in the place of placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholders {
    /// `{port}`.
    pub port: u16,
    /// `{model}`.
    pub model: String,
    /// `{bin_dir}`.
    pub bin_dir: PathBuf,
    /// `{concurrency_max}`.
    pub concurrency_max: u32,
}

impl Placeholders {
    /// Those of a config, for a harness that lies in `bin_dir`.
    pub fn new(config: &Config, port: u16, bin_dir: &Path) -> Self {
        Self {
            port,
            model: config.target.model.as_str().to_owned(),
            bin_dir: bin_dir.to_owned(),
            concurrency_max: config.workload.concurrency.max(),
        }
    }

    /// A text with its placeholders filled in. Other braces stay: arguments may hold JSON.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{port}", &self.port.to_string())
            .replace("{bin_dir}", &self.bin_dir.to_string_lossy())
            .replace("{concurrency_max}", &self.concurrency_max.to_string())
            .replace("{model}", &self.model)
    }

    /// A command with its placeholders filled in.
    pub fn fill_program(&self, command: &Program) -> Program {
        Program {
            program: self.fill(&command.program),
            args: command.args.iter().map(|arg| self.fill(arg)).collect(),
        }
    }
}

/// The command that starts the server of a config: the entry's, then the config's arguments.
pub fn start_command(config: &Config, spec: &EngineSpec, fill: &Placeholders) -> Program {
    let mut command = fill.fill_program(&spec.start);
    let own = config.engine.iter().flat_map(|engine| &engine.args);
    command.args.extend(own.map(|arg| fill.fill(arg)));
    command
}

/// A command as results files show it: the folder of the harness stands as `{bin_dir}` again, since
/// where somebody keeps this program is nobody else's business.
pub fn shown(command: &Program, bin_dir: &Path) -> Vec<String> {
    let bin_dir = bin_dir.to_string_lossy();
    let words: Vec<String> = command.clone().into();
    let hidden = |word: String| match word.strip_prefix(bin_dir.as_ref()) {
        Some(rest) if !bin_dir.is_empty() => format!("{{bin_dir}}{rest}"),
        _ => word,
    };
    words.into_iter().map(hidden).collect()
}

/// The environment of a server: what the entry lets through of ours, then the config's own.
pub fn environment(
    config: &Config,
    spec: &EngineSpec,
    fill: &Placeholders,
) -> BTreeMap<String, String> {
    let inherited = spec.inherit_env.iter().filter_map(|name| {
        // A variable that is no UTF-8 cannot be passed on through JSON; none of these is.
        std::env::var(name).ok().map(|value| (name.clone(), value))
    });
    let own = config.engine.iter().flat_map(|engine| &engine.env);
    inherited.chain(own.map(|(name, value)| (name.clone(), fill.fill(value)))).collect()
}

/// Where a program lies: as it is named, or in the `PATH` of the environment that it gets.
pub fn find_program(program: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return path.is_file().then_some(path);
    }
    let folders = env.get("PATH")?;
    std::env::split_paths(folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The value that a flag was given, in either form; the last one counts.
pub fn flag_value<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    let with_equals = format!("{flag}=");
    let mut values = args.iter().enumerate().filter_map(|(index, arg)| {
        if arg == flag {
            args.get(index + 1).map(String::as_str)
        } else {
            arg.strip_prefix(&with_equals)
        }
    });
    values.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let fill =
            Placeholders { port: 80, model: "m".into(), bin_dir: "/b".into(), concurrency_max: 16 };
        let command = Program { program: "/b/serve".into(), args: vec!["--port".into()] };
        assert_eq!(shown(&command, Path::new("/b")), ["{bin_dir}/serve", "--port"]);
        let text = "{bin_dir}/x {port} {concurrency_max} {model} {\"a\": {}}";
        assert_eq!(fill.fill(text), "/b/x 80 16 m {\"a\": {}}");
    }

    #[test]
    fn the_last_value_of_a_flag_counts() {
        let args: Vec<String> = ["-c", "1", "-c=2", "-cx", "3"].map(str::to_owned).to_vec();
        assert_eq!(flag_value(&args, "-c"), Some("2"));
        assert_eq!(flag_value(&args, "-n"), None);
    }

    #[test]
    fn a_program_is_found_in_the_path_it_gets() {
        let env = |path: &str| BTreeMap::from([("PATH".to_owned(), path.to_owned())]);
        assert!(find_program("sh", &env("/nowhere:/bin:/usr/bin")).is_some());
        assert!(find_program("sh", &env("/nowhere")).is_none());
        assert!(find_program("./no/such/file", &env("/bin")).is_none());
    }
}
