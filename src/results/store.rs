//! The folder of results: one JSON file a run, written once and never again.
//!
//! A file appears under its name complete or not at all, and never in the place of another one.
//! Reading takes this harness's files and those of the lesson's own `bench.py`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use super::brief::{Brief, BriefFile, Gaps};
use super::foreign;
use super::impossible;
use super::record::{RequestRecord, ResultsFile, SCHEMA_VERSION};
use super::streaming::{self, Records};

/// Longest part of a file name that one foreign string may take, in bytes.
const SLUG_LEN_MAX: usize = 60;
/// Files of one second, target and prompts stem: more than this is a mistake, not a collision.
const COLLISIONS_MAX: u32 = 10_000;

/// A results file and where it lies; of its records, what is kept of each.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun<R = Brief> {
    /// As it was named, or as it was found in a folder that was named.
    pub path: PathBuf,
    /// What stands in it.
    pub file: ResultsFile<R>,
}

impl<R> StoredRun<R> {
    /// Its file name, which identifies a run in tables and reports.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Why results could not be written or read. Each text fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or file could not be written.
    #[error("write {path}")]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file or folder could not be read.
    #[error("read {path}")]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is no JSON, or JSON that no results file can be.
    #[error("read {path} as a results file: {message}")]
    NoResults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where in it.
        message: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "read {path}: its schema_version is {found}, this spark-bench knows up to {SCHEMA_VERSION}"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A folder that was named holds no results file.
    #[error("find a results file in {0}")]
    EmptyFolder(PathBuf),
}

/// A results file's place, and whether it lay there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was written now.
    New(PathBuf),
    /// A file with the very same bytes was there: nothing was written.
    Before(PathBuf),
}

impl Written {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        match self {
            Self::New(path) | Self::Before(path) => path,
        }
    }
}

/// Writes `file` into `dir` as `<UTC time>-<target>-<prompts stem>.json` and gives its path.
///
/// A name that is taken becomes `…-2.json`, `…-3.json` and so on. The folder is made if it is
/// missing; the file's bytes are on the disk before its name is.
///
/// # Errors
/// If the folder or the file cannot be written.
pub fn write_new(dir: &Path, file: &ResultsFile) -> Result<PathBuf, StoreError> {
    write(dir, file, |_, _| false).map(|written| written.path().to_owned())
}

/// The same, unless a file of that name, or of one of its numbered ones, is the same already.
///
/// # Errors
/// As [`write_new`].
pub fn write_unless_there(dir: &Path, file: &ResultsFile) -> Result<Written, StoreError> {
    write(dir, file, is_same)
}

/// Whether two files hold the same bytes; a file that cannot be read is another one.
fn is_same(one: &Path, other: &Path) -> bool {
    let length = |path| fs::metadata(path).map(|facts| facts.len()).ok();
    let bytes = |path| fs::File::open(path).map(|file| BufReader::new(file).bytes());
    match (bytes(one), bytes(other)) {
        (Ok(a), Ok(b)) if length(one) == length(other) => {
            a.zip(b).all(|pair| matches!(pair, (Ok(a), Ok(b)) if a == b))
        }
        _ => false,
    }
}

/// Writes under the first name that is free, unless one that is taken `is_it` already.
fn write(
    dir: &Path,
    file: &ResultsFile,
    is_it: impl Fn(&Path, &Path) -> bool,
) -> Result<Written, StoreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Write { path, source }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let mut pending = pending_file(dir).map_err(failed(dir))?;
    write_json(&mut pending, file).map_err(failed(dir))?;
    let stem = file_stem(file);
    for attempt in 1..=COLLISIONS_MAX {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let path = dir.join(format!("{stem}{suffix}.json"));
        match pending.persist_noclobber(&path) {
            Ok(_) => return Ok(Written::New(path)),
            Err(taken) if taken.error.kind() == std::io::ErrorKind::AlreadyExists => {
                if is_it(taken.file.path(), &path) {
                    return Ok(Written::Before(path));
                }
                pending = taken.file;
            }
            Err(other) => return Err(failed(&path)(other.error)),
        }
    }
    let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    Err(failed(&dir.join(format!("{stem}.json")))(source))
}

/// A nameless-to-be file beside the results, with the permissions that any new file gets.
fn pending_file(dir: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".pending-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Narrowed by the umask, as for every other file: results are to be read and committed.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    fs::metadata(dir)?;
    // The pending file's name, which tempfile adds to the error, tells a user nothing.
    builder.tempfile_in(dir).map_err(|error| error.kind().into())
}

/// Writes a file whole, in place of an older one: a reader sees the old bytes or the new ones.
///
/// # Errors
/// If it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace_with(path, |out| out.write_all(bytes))
}

/// The same for bytes that do not lie in memory: `write` gives them one after the other.
///
/// A symbolic link stays one, its target is replaced; a device or a pipe is written to.
///
/// # Errors
/// If it cannot be written, or `write` failed.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let failed = |source| StoreError::Write { path: path.to_owned(), source };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|old| !old.is_file() && !old.is_dir()) {
        let device = fs::OpenOptions::new().write(true).open(&target).map_err(failed)?;
        let mut out = BufWriter::new(device);
        return write(&mut out).and_then(|()| out.flush()).map_err(failed);
    }
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut pending = pending_file(dir).map_err(failed)?;
    let mut out = BufWriter::new(pending.as_file_mut());
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    drop(out);
    pending.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

fn write_json(pending: &mut tempfile::NamedTempFile, file: &ResultsFile) -> std::io::Result<()> {
    let mut out = BufWriter::new(pending.as_file_mut());
    serde_json::to_writer_pretty(&mut out, file)?;
    out.write_all(b"\n")?;
    out.flush()?;
    drop(out);
    pending.as_file().sync_all()
}

/// The file's name without collision suffix and extension.
pub fn file_stem(file: &ResultsFile) -> String {
    let meta = &file.meta;
    let prompts = Path::new(&meta.prompts).file_stem().unwrap_or_default().to_string_lossy();
    format!("{}-{}-{}", compact_time(&meta.date), slug(&meta.target), slug(&prompts))
}

/// `20261020T031244Z` for an RFC 3339 time; the slug of anything else.
fn compact_time(date: &str) -> String {
    match date.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y%m%dT%H%M%SZ").to_string(),
        Err(_) => slug(date),
    }
}

/// `text` as a part of a file name: ASCII letters, digits, `.` and `_`; runs of anything else
/// become one `-`. Never empty, never hidden, never longer than [`SLUG_LEN_MAX`].
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for char in text.chars() {
        if char.is_ascii_alphanumeric() || matches!(char, '.' | '_') {
            slug.push(char);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_LEN_MAX {
            break;
        }
    }
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() { "unnamed".to_owned() } else { slug.to_owned() }
}

/// Reads one results file.
///
/// # Errors
/// If it cannot be read, is no results file, or is from a later version of this program.
pub fn read(path: &Path) -> Result<ResultsFile, StoreError> {
    read_keeping(path, |record| record)
}

/// Reads one results file and keeps its records in brief.
///
/// # Errors
/// As [`read`].
pub fn read_brief(path: &Path, gaps: Gaps) -> Result<BriefFile, StoreError> {
    read_keeping(path, |record| Brief::of(&record, gaps))
}

/// Reads a file and keeps something of each record; no two whole ones are in memory at once.
fn read_keeping<R>(
    path: &Path,
    keep: impl Fn(RequestRecord) -> R,
) -> Result<ResultsFile<R>, StoreError> {
    let mut requests: Vec<Vec<R>> = Vec::new();
    let file = read_each_record(path, |level, record| {
        if requests.len() <= level {
            requests.resize_with(level + 1, Vec::new);
        }
        requests[level].push(keep(record));
    })?;
    Ok(file
        .with_records(|level, _| requests.get_mut(level).map(std::mem::take).unwrap_or_default()))
}

/// Reads one results file without its records: each passes by once, with the position of its
/// level, and the levels of what is given back hold none. Memory does not grow with their number.
///
/// # Errors
/// As [`read`]. Records that stand before the error have passed by then.
pub fn read_each_record(
    path: &Path,
    mut visit: impl FnMut(usize, RequestRecord),
) -> Result<ResultsFile, StoreError> {
    read_with(path, Records::Each(&mut visit))
}

/// What the JSON reader says of a file of `size` bytes, for somebody who does not know it.
fn in_words(message: &str, size: u64) -> String {
    let (what, place) = match message.rsplit_once(" at line ") {
        Some((what, place)) => (what, format!("line {}", place.replacen(" column", ", column", 1))),
        None => (message, String::new()),
    };
    let syntax =
        ["expected value", "expected ident", "trailing", "key must be", "expected `", "control"];
    if size == 0 {
        "it is empty".into()
    } else if message.contains("Is a directory") {
        "it is a folder, and a file is wanted".into()
    } else if what.starts_with("EOF while parsing") {
        format!("it ends in the middle ({place}): cut off, or not yet written to its end")
    } else if syntax.iter().any(|start| what.starts_with(start)) {
        format!("it is not the JSON of a run ({place})")
    } else if let Some((before, field)) = what.split_once("missing field ") {
        let inside = before.trim_end_matches(": ");
        format!("{} has no {field}", if inside.is_empty() { "it" } else { inside })
    } else {
        what.replacen("invalid type: ", "is of the wrong type: ", 1)
    }
}

fn read_with(path: &Path, mut records: Records<'_>) -> Result<ResultsFile, StoreError> {
    const PIECE_BYTES: usize = 256 << 10;
    let unreadable = |source| StoreError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let no_results = |message: String| StoreError::NoResults {
        path: path.to_owned(),
        message: match path.extension() {
            Some(extension) if extension == "toml" => {
                "it is TOML (a config?), and a results file is JSON".into()
            }
            _ => in_words(&message, size),
        },
    };
    let mut pieces = BufReader::with_capacity(PIECE_BYTES, &file);
    let version = streaming::version(&mut pieces).map_err(no_results)?;
    match version {
        Some(found) if found > u64::from(SCHEMA_VERSION) => {
            Err(StoreError::Newer { path: path.to_owned(), found })
        }
        Some(_) => checked(pieces, records).map_err(no_results),
        None => {
            let bytes = fs::read(path).map_err(unreadable)?;
            let mut file = foreign::from_lesson(&bytes).map_err(no_results)?;
            for (index, level) in file.levels.iter_mut().enumerate() {
                for record in level.requests.drain(..) {
                    if let Records::Each(visit) = &mut records {
                        visit(index, record);
                    }
                }
            }
            Ok(file)
        }
    }
}

/// Reads a file of this harness, and refuses what no run can have measured.
fn checked(pieces: BufReader<&fs::File>, records: Records<'_>) -> Result<ResultsFile, String> {
    let mut ok: Vec<u64> = Vec::new();
    let file = match records {
        Records::Skip => streaming::read(pieces, Records::Skip)?,
        Records::Each(visit) => {
            let mut count = |level: usize, record: RequestRecord| {
                if ok.len() <= level {
                    ok.resize(level + 1, 0);
                }
                ok[level] += u64::from(impossible::counts_as_ok(&record));
                visit(level, record);
            };
            streaming::read(pieces, Records::Each(&mut count))?
        }
    };
    impossible::of_levels(&file, &ok)?;
    Ok(file)
}

/// Which part of the files is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but the records: the levels hold no requests.
    Summaries,
    /// The records as well, in brief.
    Records(Gaps),
}

impl Part {
    fn read(self, path: &Path) -> Result<BriefFile, StoreError> {
        match self {
            Self::Summaries => Ok(read_with(path, Records::Skip)?.brief()),
            Self::Records(gaps) => read_brief(path, gaps),
        }
    }
}

/// Reads files, and each `*.json` of folders, sorted by file name; a file that is named twice is
/// read once. An interrupted run whose levels a resumed one took over stands in that one: it is
/// left out where both are named.
///
/// # Errors
/// The first of [`read`]'s; a folder without any results file.
pub fn read_many<P: AsRef<Path>>(paths: &[P], part: Part) -> Result<Vec<StoredRun>, StoreError> {
    let mut found = Vec::new();
    for path in paths {
        let path = path.as_ref();
        if !path.is_dir() {
            found.push(path.to_owned());
            continue;
        }
        let inside = list(path)?;
        if inside.is_empty() {
            return Err(StoreError::EmptyFolder(path.to_owned()));
        }
        found.extend(inside);
    }
    Ok(without_resumed(read_all(found, |path| part.read(path))?))
}

/// Leaves out the interrupted runs that another one of `runs` took up.
fn without_resumed(mut runs: Vec<StoredRun>) -> Vec<StoredRun> {
    let taken_up: BTreeSet<String> =
        runs.iter().flat_map(|run| run.file.meta.resumed_from.iter().cloned()).collect();
    // A server that died is something to know of it, whatever came later.
    let is_gone_on = |run: &StoredRun| {
        run.file.interrupted && run.file.failed.is_none() && taken_up.contains(&run.name())
    };
    runs.retain(|run| !is_gone_on(run));
    runs
}

/// Reads each `*.json` of one folder, which may hold none, as [`read_many`] does.
///
/// # Errors
/// As [`read_many`].
pub fn read_folder(dir: &Path, part: Part) -> Result<Vec<StoredRun>, StoreError> {
    Ok(without_resumed(read_all(list(dir)?, |path| part.read(path))?))
}

/// What a folder holds of earlier runs.
#[derive(Debug)]
pub struct History<R> {
    /// Sorted by name; interrupted ones that were taken up later included.
    pub runs: Vec<StoredRun<R>>,
    /// Files that are none, or cannot be read.
    pub unreadable: Vec<StoreError>,
}

/// Reads each `*.json` of one folder whole. One that cannot be read keeps nobody from the others.
///
/// # Errors
/// If the folder cannot be read.
pub fn read_history(dir: &Path) -> Result<History<RequestRecord>, StoreError> {
    readable(dir, read)
}

/// The same with records in brief.
///
/// # Errors
/// As [`read_history`].
pub fn read_brief_history(dir: &Path) -> Result<History<Brief>, StoreError> {
    readable(dir, |path| read_brief(path, Gaps::Drop))
}

fn readable<R>(
    dir: &Path,
    read: impl Fn(&Path) -> Result<ResultsFile<R>, StoreError>,
) -> Result<History<R>, StoreError> {
    let mut history = History { runs: Vec::new(), unreadable: Vec::new() };
    for path in list(dir)? {
        match read_all(vec![path], &read) {
            Ok(run) => history.runs.extend(run),
            Err(error) => history.unreadable.push(error),
        }
    }
    history.runs.sort_by_key(StoredRun::name);
    Ok(history)
}

fn read_all<R>(
    mut paths: Vec<PathBuf>,
    read: impl Fn(&Path) -> Result<ResultsFile<R>, StoreError>,
) -> Result<Vec<StoredRun<R>>, StoreError> {
    paths.sort_by(|a, b| (a.file_name(), a).cmp(&(b.file_name(), b)));
    let mut seen = BTreeSet::new();
    let mut runs = Vec::new();
    for path in paths {
        let identity = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if seen.insert(identity) {
            let file = read(&path)?;
            runs.push(StoredRun { file, path });
        }
    }
    Ok(runs)
}

/// The results files of a folder; names that begin with a dot are somebody's half-written work.
fn list(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |source| StoreError::Read { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() && path.extension().is_some_and(|ext| ext == "json") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Level, Meta, Summary};

    fn run(target: &str, date: &str) -> ResultsFile {
        let meta = Meta {
            target: target.into(),
            date: date.into(),
            prompts: "prompts/short.jsonl".into(),
            ..Meta::default()
        };
        ResultsFile::new(meta)
    }

    #[test]
    fn a_name_says_when_what_and_with_which_prompts() {
        let check = |target: &str, date: &str, expect: &str| {
            assert_eq!(file_stem(&run(target, date)), expect);
        };
        check("spark-naive", "2026-10-20T03:12:44Z", "20261020T031244Z-spark-naive-short");
        check("spark-naive", "2026-10-20T05:12:44+02:00", "20261020T031244Z-spark-naive-short");
        check("../../etc/pass wd", "yesterday", "yesterday-etc-pass-wd-short");
        check("…", "", "unnamed-unnamed-short");
    }

    fn with_records(counts: &[u32]) -> ResultsFile {
        let record = |index| RequestRecord {
            index,
            ttft: Some(0.1 + f64::from(index)),
            ..RequestRecord::default()
        };
        let mut file = run("a", "2026-10-20T03:12:44Z");
        file.levels = counts
            .iter()
            .map(|&count| Level {
                summary: Summary { concurrency: count, ..Summary::default() },
                requests: (0..count).map(record).collect(),
                ..Level::default()
            })
            .collect();
        file
    }

    #[test]
    fn records_pass_by_one_at_a_time_and_the_rest_is_what_the_whole_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let file = with_records(&[2, 0, 3]);
        let path = write_new(dir.path(), &file).unwrap();
        assert_eq!(read(&path).unwrap(), file);
        let brief = read_brief(&path, Gaps::Drop).unwrap();
        let counts: Vec<usize> = brief.levels.iter().map(|level| level.requests.len()).collect();
        assert_eq!(counts, [2, 0, 3]);
        assert_eq!(brief.levels[2].requests[1].ttft(), Some(1.1));

        let mut seen = Vec::new();
        let rest = read_each_record(&path, |level, record| seen.push((level, record))).unwrap();
        let all = file.levels.iter().enumerate();
        let all = all.flat_map(|(at, level)| level.requests.iter().map(move |r| (at, r.clone())));
        assert_eq!(seen, all.collect::<Vec<_>>());

        let mut bare = file;
        for level in &mut bare.levels {
            level.requests.clear();
        }
        assert_eq!(rest, bare);
        assert_eq!(read_many(&[&path], Part::Summaries).unwrap()[0].file, bare.brief());
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_plain_file_stays_what_it_is() {
        use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.html"), dir.path().join("link.html"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");

        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Both ends, and no waiting: what was not written to the pipe is an error at once.
        let mut ends = fs::OpenOptions::new();
        ends.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK);
        let mut ends = ends.open(&pipe).unwrap();
        replace(&pipe, b"through").unwrap();
        let mut came = [0; 7];
        std::io::Read::read_exact(&mut ends, &mut came).unwrap();
        assert_eq!(&came, b"through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_taken_name_gets_a_number_and_nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = run("a", "2026-10-20T03:12:44Z");
        let names: Vec<String> = (0..3)
            .map(|_| write_new(dir.path(), &file).unwrap())
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let stem = "20261020T031244Z-a-short";
        assert_eq!(
            names,
            [format!("{stem}.json"), format!("{stem}-2.json"), format!("{stem}-3.json")]
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no pending file stays");
        assert_eq!(read(&dir.path().join(&names[0])).unwrap(), file);
    }

    #[test]
    fn folders_and_files_are_read_once_each_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let late = write_new(dir.path(), &run("b", "2026-10-21T00:00:00Z")).unwrap();
        let early = write_new(dir.path(), &run("a", "2026-10-20T00:00:00Z")).unwrap();
        fs::write(dir.path().join(".pending-x.json"), "{").unwrap();
        fs::write(dir.path().join("notes.txt"), "no results").unwrap();
        let runs = read_many(&[late.as_path(), dir.path()], Part::Records(Gaps::Keep)).unwrap();
        let paths: Vec<&Path> = runs.iter().map(|run| run.path.as_path()).collect();
        assert_eq!(paths, [early.as_path(), late.as_path()]);
    }

    #[test]
    fn an_interrupted_run_stands_in_the_one_that_took_it_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut cut = run("a", "2026-10-20T00:00:00Z");
        cut.interrupted = true;
        let cut = write_new(dir.path(), &cut).unwrap();
        let name = cut.file_name().unwrap().to_str().unwrap().to_owned();
        let mut failed = run("b", "2026-10-20T00:00:00Z");
        failed.failed = Some(crate::results::record::Reason {
            reason: "server_died".into(),
            text: String::new(),
        });
        let failed = write_new(dir.path(), &failed).unwrap();
        let mut whole = run("a", "2026-10-21T00:00:00Z");
        whole.meta.resumed_from =
            vec![name, failed.file_name().unwrap().to_str().unwrap().to_owned()];
        let whole = write_new(dir.path(), &whole).unwrap();
        let runs = read_many(&[dir.path()], Part::Records(Gaps::Keep)).unwrap();
        let paths: Vec<&Path> = runs.iter().map(|run| run.path.as_path()).collect();
        assert_eq!(paths, [failed.as_path(), whole.as_path()]);
        assert_eq!(
            read_many(&[&cut], Part::Records(Gaps::Keep)).unwrap().len(),
            1,
            "alone it is all there is"
        );
        assert_eq!(read_folder(dir.path(), Part::Records(Gaps::Keep)).unwrap().len(), 2);
        fs::write(dir.path().join("notes.json"), "[\"nothing measured\"]").unwrap();
        let history = read_history(dir.path()).unwrap();
        assert_eq!(history.runs.len(), 3, "for one that resumes once more");
        let [error] = history.unreadable.as_slice() else { panic!("{:?}", history.unreadable) };
        assert!(error.to_string().contains("notes.json"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file_and_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let check = |text: &str, expect: &str| {
            let path = dir.path().join("x.json");
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("x.json") && error.contains(expect), "{error}");
        };
        check("", "it is empty");
        check("{\"meta\": {", "ends in the middle (line 1, column 10)");
        check("hello", "not the JSON of a run (line 1, column 1)");
        check(r#"{"schema_version": 1, "meta": {}, "levels": []}"#, "meta has no `target`");
        check("[1]", "expected an object");
        check(r#"{"schema_version": 999}"#, "999");
        check(r#" { "schema_version" : 999 , "meta": 1}"#, "999");
        check(r#"{"meta": 1, "schema_version": 999}"#, "999");
        check(r#"{"schema_version": 1, "meta": {"target": 3}}"#, "meta.target");
        check(r#"{"levels": []}"#, "meta");
        check(r#"{"schema_version": 1, "meta": {}, "levels": {}}"#, "array of levels");
        check(
            r#"{"schema_version": 1, "levels": [{"requests": [{"ok": 1}]}]}"#,
            "levels[0].requests[0].ok",
        );
        check(r#"{"schema_version": 1, "levels": [{"requests": []}]}"#, "summary");
        let edited = |change: &dyn Fn(&mut Level)| {
            let mut file = with_records(&[2, 3]);
            file.levels[1].summary.n_err = 3;
            file.levels[1].summary.n = 3;
            change(&mut file.levels[1]);
            serde_json::to_string(&file).unwrap()
        };
        check(
            &edited(&|level| level.requests[2].e2e = Some(-1.0)),
            "levels[1].requests[2]: e2e is -1",
        );
        check(&edited(&|level| level.summary.n_ok = 4), "levels[1].summary: n_ok is 4, of n = 3");
        check(
            &edited(&|level| level.requests[0].ok = true),
            "levels[1].requests: 1 with ok = true, and summary.n_ok is 0",
        );
        let nowhere = dir.path().join("no/where.html");
        let error = anyhow::Error::from(replace(&nowhere, b"").unwrap_err());
        let text = format!("{error:#}");
        assert!(text.contains("where.html") && !text.contains("pending"), "{text}");
        let missing = read(&dir.path().join("no.json")).unwrap_err();
        assert!(missing.to_string().contains("no.json"));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(
            read_many(&[empty.path()], Part::Records(Gaps::Keep)),
            Err(StoreError::EmptyFolder(_))
        ));
        assert!(read_folder(empty.path(), Part::Records(Gaps::Keep)).unwrap().is_empty());
    }
}
