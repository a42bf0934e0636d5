//! What a person sees while it runs, on stderr: a line for each level, words about servers, events
//! for programs. Answers go to stdout, from the commands.

mod level;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

pub use level::{LevelProgress, Wanted};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Mode {
    /// A line that is redrawn on a terminal, a line now and then elsewhere.
    #[default]
    Auto,
    /// Events as JSON, one a line.
    Json,
    /// Warnings and errors only.
    Off,
}

/// Where progress goes.
#[derive(Debug)]
pub struct Progress {
    sink: Sink,
    total: Mutex<Total>,
    /// Warnings that were given once and need not be given again.
    warned: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Terminal,
    Lines,
    Json,
    Off,
}

/// The levels of a whole run or matrix.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    levels: usize,
    levels_done: usize,
    requests: u64,
    requests_done: u64,
    started: Option<Instant>,
}

impl Total {
    /// Which level is next or under way, where there are several: `[2/6] `.
    fn place(&self) -> String {
        if self.levels > 1 {
            format!("[{}/{}] ", (self.levels_done + 1).min(self.levels), self.levels)
        } else {
            String::new()
        }
    }

    /// Time left for all levels, at the pace so far.
    fn left(&self, ok_now: u64) -> Option<Duration> {
        let done = self.requests_done + ok_now;
        let left = self.requests.saturating_sub(done) as f64;
        let elapsed = self.started?.elapsed().as_secs_f64();
        (done > 0).then(|| Duration::from_secs_f64(left * elapsed / done as f64))
    }
}

impl Progress {
    /// Progress in that mode, on this process's stderr.
    pub fn new(mode: Mode) -> Self {
        let sink = match mode {
            Mode::Auto if std::io::stderr().is_terminal() => Sink::Terminal,
            Mode::Auto => Sink::Lines,
            Mode::Json => Sink::Json,
            Mode::Off => Sink::Off,
        };
        Self { sink, total: Mutex::default(), warned: Mutex::default() }
    }

    /// What lies ahead: levels, and measured requests in them.
    pub fn plan(&self, levels: usize, requests: u64) {
        *self.total() = Total { levels, requests, ..Total::default() };
    }

    /// A level that is not measured, now or ever: an earlier run holds it, or its target failed.
    /// It is counted as passed, and its requests take no time.
    pub fn pass_over(&self, requests: u64) {
        let mut total = self.total();
        total.levels_done += 1;
        total.requests = total.requests.saturating_sub(requests);
    }

    /// Says that the next level stands in an earlier results file, and passes over it.
    pub fn known(&self, target: &str, concurrency: u32, requests: u64, file: &str) {
        let place = self.total().place();
        self.say(&format!("{place}{target} c={concurrency}: measured already ({file})"));
        self.pass_over(requests);
    }

    /// Something that a person wants to know.
    pub fn say(&self, text: &str) {
        match self.sink {
            Sink::Terminal | Sink::Lines => self.write_line(text),
            Sink::Json => write_event(&json!({"event": "message", "text": text})),
            Sink::Off => {}
        }
    }

    /// Something that a person must know, even where progress is off.
    pub fn warn(&self, text: &str) {
        const YELLOW: Style = AnsiColor::Yellow.on_default();
        match self.sink {
            Sink::Json => write_event(&json!({"event": "warning", "text": text})),
            _ => self.write_line(&format!("{YELLOW}warning:{YELLOW:#} {text}")),
        }
    }

    /// The same, unless this very warning was given before.
    pub fn warn_once(&self, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(text.to_owned()) {
            self.warn(text);
        }
    }

    /// A level begins.
    pub fn level(&self, target: &str, wanted: Wanted) -> LevelProgress<'_> {
        self.total().started.get_or_insert_with(Instant::now);
        LevelProgress::begin(self, target, wanted)
    }

    fn total(&self) -> MutexGuard<'_, Total> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of its own, in the place of one that is redrawn.
    fn write_line(&self, text: &str) {
        if self.sink == Sink::Terminal {
            erase_line();
        }
        // Nobody to read it is no reason to stop measuring. anstream drops colours where they are
        // not wanted (no terminal, NO_COLOR).
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    }
}

/// Goes to the start of the line and erases it (ECMA-48 EL); only ever sent to a terminal.
fn erase_line() {
    let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
}

/// Draws a line that the next one replaces; only ever on a terminal. Where that is narrow it cuts the
/// line off (DECAWM off, then on): of a line that goes on below, only the last part would be erased.
fn redraw(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let drawn = write!(stderr, "\r\u{1b}[K\u{1b}[?7l{line}\u{1b}[?7h");
    let _ = drawn.and_then(|()| stderr.flush());
}

fn write_event(event: &Value) {
    let _ = writeln!(std::io::stderr().lock(), "{event}");
}

/// So many of something, in words: "1 level", "3 levels".
pub fn counted(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// A time, in words: "40 s", "12 min", "3.5 h".
pub fn round(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_people() {
        let text = |seconds| round(Duration::from_secs(seconds));
        assert_eq!(
            (text(40), text(720), text(12_600)),
            ("40 s".into(), "12 min".into(), "3.5 h".into())
        );
    }

    #[test]
    fn the_whole_time_left_follows_the_pace_so_far() {
        let started = Instant::now().checked_sub(Duration::from_secs(10));
        let total = Total { requests: 100, requests_done: 10, started, ..Total::default() };
        let left = total.left(10).unwrap().as_secs_f64();
        assert!((left - 40.0).abs() < 1.0, "{left}");
        assert_eq!(Total { requests_done: 0, ..total }.left(0), None);
    }

    #[test]
    fn a_level_that_is_not_measured_is_passed_and_takes_no_time() {
        let progress = Progress::new(Mode::Off);
        progress.plan(6, 600);
        progress.pass_over(100);
        progress.known("t", 4, 100, "earlier.json");
        assert_eq!(progress.total().place(), "[3/6] ");
        assert_eq!(progress.total().requests, 400, "of which none is done");
    }
}
