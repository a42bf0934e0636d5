//! What would run: configs and engines read, checked and multiplied out before anything starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::config::engines::{ENGINES_FILE_NAME, engines_path};
use super::config::{Config, ConfigError, EngineSpec, EnginesFile, PromptSource};
use super::prompts::PromptFile;

/// One target, checked.
#[derive(Debug, Clone)]
pub struct PlannedTarget {
    /// The target and its work.
    pub config: Config,
    /// Its engine's entry, where we start the server.
    pub spec: Option<EngineSpec>,
}

/// A config that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadConfig {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong, with its line.
    pub text: String,
}

/// Everything that an invocation names, in its order.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What can be run.
    pub targets: Vec<PlannedTarget>,
    /// What cannot.
    pub bad: Vec<BadConfig>,
}

/// Which targets are wanted, by name.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only these; empty: all.
    pub only: Vec<String>,
    /// Not these.
    pub skip: Vec<String>,
}

impl Selection {
    /// A name stands for the target itself and for all points of its sweep.
    fn wants(&self, name: &str) -> bool {
        let is = |wanted: &String| {
            name == wanted || name.strip_prefix(wanted.as_str()).is_some_and(|r| r.starts_with(' '))
        };
        (self.only.is_empty() || self.only.iter().any(is)) && !self.skip.iter().any(is)
    }
}

impl Plan {
    /// Reads everything that is named. A bad file is kept with its error; the others go on.
    ///
    /// # Errors
    /// If an engines file is bad: every target that needs it would be.
    pub fn read(
        paths: &[PathBuf],
        engines: Option<&Path>,
        selection: &Selection,
    ) -> Result<Self, ConfigError> {
        let named = paths.iter().find(|path| is_engines_file(path)).map(PathBuf::as_path);
        if let Some(path) = named.filter(|_| paths.iter().all(|path| is_engines_file(path))) {
            let message = "is an engines file: name a target's config beside it".to_owned();
            return Err(ConfigError { path: path.to_owned(), line: None, message });
        }
        let mut engines = Engines { path: engines.or(named), read: BTreeMap::new() };
        if let Some(path) = engines.path {
            engines.file(path)?;
        }
        let mut plan = Self::default();
        for path in paths.iter().filter(|path| !is_engines_file(path)) {
            match Config::load(path) {
                Ok(configs) => {
                    for config in configs
                        .into_iter()
                        .filter(|config| selection.wants(config.target.name.as_str()))
                    {
                        plan.add(path, config, &mut engines)?;
                    }
                }
                Err(error) => {
                    plan.bad.push(BadConfig { path: path.clone(), text: error.to_string() });
                }
            }
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        path: &Path,
        config: Config,
        engines: &mut Engines<'_>,
    ) -> Result<(), ConfigError> {
        let bad = |text: String| BadConfig { path: path.to_owned(), text };
        let spec = match &config.engine {
            None => None,
            Some(engine) => {
                let file = engines.path.map_or_else(|| engines_path(path), Path::to_owned);
                match engines.file(&file)?.entry(&engine.name, &file) {
                    Ok(spec) => Some(spec.clone()),
                    Err(text) => {
                        self.bad.push(bad(format!("{}: {text}", path.display())));
                        return Ok(());
                    }
                }
            }
        };
        for source in config.workload.sources() {
            let PromptSource::File(prompts) = source else { continue };
            if let Err(error) = PromptFile::read(&prompts) {
                self.bad.push(bad(format!("{}: failed to {error}", path.display())));
                return Ok(());
            }
        }
        self.targets.push(PlannedTarget { config, spec });
        Ok(())
    }

    /// Levels of all targets, prompts files and repeats, and the ok requests that they need.
    pub fn size(&self) -> (usize, u64) {
        self.targets
            .iter()
            .map(PlannedTarget::size)
            .fold((0, 0), |(levels, requests), size| (levels + size.0, requests + size.1))
    }
}

impl PlannedTarget {
    /// Levels of all prompts files and repeats, and the ok requests that they need.
    pub fn size(&self) -> (usize, u64) {
        let work = &self.config.workload;
        let passes = work.sources().len() * work.repeats.get() as usize;
        let levels = work.concurrency.levels();
        let requests: u64 = levels.iter().map(|&level| u64::from(work.requests_at(level))).sum();
        (levels.len() * passes, requests * passes as u64)
    }

    /// Output tokens that its ok requests are asked for, at most.
    pub fn output_tokens(&self) -> u64 {
        let work = &self.config.workload;
        let sources = work.sources();
        let requests = self.size().1 / sources.len().max(1) as u64;
        let tokens = |source| u64::from(work.of_source(source).max_tokens.get());
        sources.iter().map(|source| requests * tokens(source)).sum()
    }
}

fn is_engines_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ENGINES_FILE_NAME)
}

/// Engines files, each read once.
struct Engines<'a> {
    /// The one that was named.
    path: Option<&'a Path>,
    read: BTreeMap<PathBuf, EnginesFile>,
}

impl Engines<'_> {
    fn file(&mut self, path: &Path) -> Result<&EnginesFile, ConfigError> {
        if !self.read.contains_key(path) {
            let mut file = EnginesFile::load(path);
            if let Err(error) = &mut file
                && !path.exists()
            {
                error.message.push_str("; --engines names the engines file, where it is elsewhere");
            }
            self.read.insert(path.to_owned(), file?);
        }
        Ok(&self.read[path])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_takes_a_target_with_its_sweep() {
        let selection = |only: &[&str], skip: &[&str]| Selection {
            only: only.iter().map(|&name| name.to_owned()).collect(),
            skip: skip.iter().map(|&name| name.to_owned()).collect(),
        };
        assert!(selection(&[], &[]).wants("a"));
        assert!(selection(&["a"], &[]).wants("a ubatch=256"));
        assert!(!selection(&["a"], &[]).wants("ab"));
        assert!(!selection(&[], &["a"]).wants("a"));
    }

    #[test]
    fn a_bad_config_does_not_keep_the_others_from_running() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let prompts = write("p.jsonl", "{\"id\": 1, \"text\": \"a\"}\n");
        let config = format!(
            "[target]\nname = \"t\"\nchange = \"\"\nprecision = \"bf16\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:1/v1\"\n[workload]\nprompts = [{prompts:?}]\n\
             concurrency = [1, 2]\nrequests = 5\nrepeats = 3\n"
        );
        let good = write("good.toml", &config);
        let bad = write("bad.toml", "[target]\nnme = 1\n");
        let no_engine = write("no-engine.toml", &format!("{config}[engine]\nuse = \"e\"\n"));
        let plan = |paths: &[PathBuf]| Plan::read(paths, None, &Selection::default());
        let read = plan(&[good.clone(), bad.clone()]).unwrap();
        assert_eq!((read.targets.len(), read.bad.len(), read.size()), (1, 1, (6, 30)));
        assert!(read.bad[0].text.contains("bad.toml:2: unknown key"), "{:?}", read.bad);
        assert!(
            plan(std::slice::from_ref(&no_engine)).is_err(),
            "there is no engines file beside it"
        );
        let engines = write("engines.toml", "[engine]\n");
        let read = plan(&[no_engine, engines, good]).unwrap();
        assert_eq!((read.targets.len(), read.bad.len()), (1, 1));
        assert!(read.bad[0].text.contains("no engine \"e\""), "{:?}", read.bad);
    }
}
