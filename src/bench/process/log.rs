//! A server's output: drained for as long as it writes, so that it never waits for a reader, into a
//! file that cannot fill the disk, with its last lines at hand.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A log is begun anew when it has grown so far; the one before stays beside it as `.1`.
const FILE_BYTES_MAX: usize = 16 << 20;
/// What is kept in memory for the results: about two hundred lines.
const TAIL_BYTES: usize = 16 << 10;
/// A longer line is cut: a flood without line ends must not fill a results file.
const LINE_CHARS_MAX: usize = 400;

/// The last bytes that a server wrote.
#[derive(Debug, Clone, Default)]
pub struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// The last whole lines, fit to print.
    pub fn lines(&self) -> Vec<String> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cut = bytes.len() >= TAIL_BYTES;
        let text = String::from_utf8_lossy(bytes.make_contiguous()).into_owned();
        let lines = text.lines().skip(usize::from(cut)).map(printable);
        lines.filter(|line| !line.is_empty()).collect()
    }

    fn push(&self, piece: &[u8]) {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(piece);
        let excess = bytes.len().saturating_sub(TAIL_BYTES);
        bytes.drain(..excess);
    }
}

/// Text from a server, made harmless: no control characters (they would move a terminal's cursor or
/// change its colours), no endless line.
pub fn printable(text: &str) -> String {
    let plain = |c: char| if c == '\t' { ' ' } else { c };
    let mut line: String = strip_escapes(text)
        .map(plain)
        .filter(|c| !c.is_control())
        .take(LINE_CHARS_MAX + 1)
        .collect();
    if line.chars().count() > LINE_CHARS_MAX {
        line = line.chars().take(LINE_CHARS_MAX).chain(['…']).collect();
    }
    line.trim_end().to_owned()
}

/// The characters of a text without the ANSI sequences (`ESC [ … letter`) in it.
fn strip_escapes(text: &str) -> impl Iterator<Item = char> {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            match chars.next()? {
                '\u{1b}' if chars.peek() == Some(&'[') => {
                    let ends = |c: &char| ('\u{40}'..='\u{7e}').contains(c) && *c != '[';
                    while chars.next_if(|c| !ends(c)).is_some() {}
                    chars.next();
                }
                c => return Some(c),
            }
        }
    })
}

/// Copies `from` to the log until it ends.
///
/// # Errors
/// If the log cannot be created. A write that fails later (a full disk) loses the log and keeps the
/// server running.
pub fn drain(mut from: impl Read, path: &Path, tail: &Tail) -> io::Result<()> {
    const PIECE: usize = 1 << 16;
    let mut file = Some(File::create(path)?);
    let mut written = 0;
    let mut piece = vec![0; PIECE];
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        tail.push(&piece[..read]);
        if written + read > FILE_BYTES_MAX {
            let moved = std::fs::rename(path, rotated(path));
            file = moved.and_then(|()| File::create(path)).ok();
            written = 0;
        }
        if let Some(open) = &mut file
            && open.write_all(&piece[..read]).is_err()
        {
            file = None;
        }
        written += read;
    }
}

/// Removes a log, what it was begun anew from, and its folder if nothing else is in it.
pub fn remove(path: &Path) {
    for path in [path.to_owned(), rotated(path)] {
        // Nothing to do if it is gone already.
        let _ = std::fs::remove_file(path);
    }
    // The harness removes its folder itself, unless it was killed.
    let _ = path.parent().map(std::fs::remove_dir);
}

fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_bounded_and_the_last_lines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let tail = Tail::default();
        let flood = io::repeat(b'x').take((FILE_BYTES_MAX * 3) as u64);
        drain(flood.chain(&b"\nlast\n"[..]), &path, &tail).unwrap();
        for path in [path.clone(), rotated(&path)] {
            assert!(std::fs::metadata(path).unwrap().len() <= FILE_BYTES_MAX as u64);
        }
        assert_eq!(tail.lines(), ["last"]);
        remove(&path);
        assert!(!folder.path().exists());
    }

    #[test]
    fn escapes_and_endless_lines_are_made_harmless() {
        assert_eq!(printable("\u{1b}[31mred\u{1b}[0m\u{7} a\tb "), "red a b");
        assert_eq!(printable(&"y".repeat(1000)).chars().count(), LINE_CHARS_MAX + 1);
        let tail = Tail::default();
        tail.push(b"ok \xff\n\n");
        assert_eq!(tail.lines(), ["ok \u{fffd}"]);
    }
}
