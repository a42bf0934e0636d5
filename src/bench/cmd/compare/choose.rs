//! Which two files are meant where a folder is named: the one pair of runs that can be.

use std::path::{Path, PathBuf};

use super::super::{BadInput, read_summaries};
use crate::results::store::StoredRun;

/// Pairs that a refusal names; more are counted.
const NAMED_MAX: usize = 4;

/// Two results files, and what is to be said of how they were found.
pub(super) struct Chosen {
    pub a: PathBuf,
    pub b: PathBuf,
    pub notes: Vec<String>,
}

/// Two files are themselves. In a folder, the run of the other side's target is meant, and of its
/// work where there are several; if that leaves more than one pair, nothing is chosen.
///
/// # Errors
/// If a folder cannot be read, or it is not clear which runs are meant; the text says what to name.
pub(super) fn files(a: &Path, b: &Path) -> anyhow::Result<Chosen> {
    if !a.is_dir() && !b.is_dir() {
        return Ok(Chosen { a: a.to_owned(), b: b.to_owned(), notes: Vec::new() });
    }
    let [mut of_a, mut of_b] = [measured(a)?, measured(b)?];
    // A run is not compared with itself because it lies in the folder of the others.
    if !b.is_dir() {
        of_a.retain(|run| !is_same(&run.path, b));
    }
    if !a.is_dir() {
        of_b.retain(|run| !is_same(&run.path, a));
    }
    let (one, other) = pair(&of_a, &of_b)
        .map_err(|why| BadInput(format!("{} and {}: {why}", a.display(), b.display())))?;
    let note = |name: &str, place: &Path, run: &StoredRun| {
        place.is_dir().then(|| format!("{name} is {} of {}", run.name(), place.display()))
    };
    let notes = [note("A", a, one), note("B", b, other)].into_iter().flatten().collect();
    Ok(Chosen { a: one.path.clone(), b: other.path.clone(), notes })
}

/// The runs of a place that have levels; all of them if none has.
fn measured(place: &Path) -> anyhow::Result<Vec<StoredRun>> {
    let mut runs = read_summaries(&[place.to_owned()])?;
    if runs.iter().any(|run| !run.file.levels.is_empty()) {
        runs.retain(|run| !run.file.levels.is_empty());
    }
    Ok(runs)
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

type Pair<'a> = (&'a StoredRun, &'a StoredRun);

fn pair<'a>(of_a: &'a [StoredRun], of_b: &'a [StoredRun]) -> Result<Pair<'a>, String> {
    if let ([a], [b]) = (of_a, of_b) {
        return Ok((a, b));
    }
    let all = of_a.iter().flat_map(|a| of_b.iter().map(move |b| (a, b)));
    let of_target: Vec<Pair<'_>> =
        all.filter(|(a, b)| a.file.meta.target == b.file.meta.target).collect();
    let work = |run: &StoredRun| {
        let meta = &run.file.meta;
        (meta.prompts.clone(), meta.prompts_sha256.clone(), meta.max_tokens)
    };
    let of_work: Vec<Pair<'_>> =
        of_target.iter().copied().filter(|(a, b)| work(a) == work(b)).collect();
    match (of_work.as_slice(), of_target.as_slice()) {
        ([pair], _) | ([], [pair]) => Ok(*pair),
        (_, []) => Err("no run of one is of a target that the other has: name two files".into()),
        (_, many) => {
            let shown: Vec<String> = many
                .iter()
                .take(NAMED_MAX)
                .map(|(a, b)| format!("{} with {}", a.name(), b.name()))
                .collect();
            let more = many.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            Err(format!("several runs can be meant, so name two files: {}{more}", shown.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Meta, ResultsFile};

    fn run(target: &str, prompts: &str, name: &str) -> StoredRun {
        let meta = Meta { target: target.into(), prompts: prompts.into(), ..Meta::default() };
        StoredRun { path: name.into(), file: ResultsFile::new(meta).brief() }
    }

    #[test]
    fn a_folder_stands_for_the_one_run_that_can_be_meant() {
        let chosen = |a: &[StoredRun], b: &[StoredRun]| {
            pair(a, b).map(|(a, b)| [a.name(), b.name()].join(" "))
        };
        let (x, y) = (run("x", "short", "x.json"), run("y", "short", "y.json"));
        let (x2, long) = (run("x", "short", "x2.json"), run("x", "long", "long.json"));
        let one = std::slice::from_ref;
        assert_eq!(chosen(one(&x), one(&y)).unwrap(), "x.json y.json", "nothing else can be meant");
        assert_eq!(chosen(&[x.clone(), y.clone()], one(&x2)).unwrap(), "x.json x2.json");
        assert_eq!(chosen(&[x.clone(), long.clone()], one(&x2)).unwrap(), "x.json x2.json");
        let many = chosen(&[x.clone(), x2.clone()], one(&x)).unwrap_err();
        assert!(many.contains("name two files") && many.contains("x2.json"), "{many}");
        let none = chosen(&[y.clone(), y], one(&long)).unwrap_err();
        assert!(none.contains("no run of one"), "{none}");
    }
}
