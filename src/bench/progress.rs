//! What a person sees while it runs, on stderr: a line for each level, words about servers, events
//! for programs. Answers go to stdout, from the commands.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::load::LevelObserver;
use crate::measure::trace::{FailureClass, RequestTrace};

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

/// Between two redrawings on a terminal: often enough to look alive, too seldom to cost anything.
const REDRAW: Duration = Duration::from_millis(250);
/// Between two lines or events elsewhere.
const LINE: Duration = Duration::from_secs(10);
/// Between two events for programs.
const EVENT: Duration = Duration::from_secs(1);

/// Where progress goes.
#[derive(Debug)]
pub struct Progress {
    sink: Sink,
    total: Mutex<Total>,
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

impl Progress {
    /// Progress in that mode, on this process's stderr.
    pub fn new(mode: Mode) -> Self {
        let sink = match mode {
            Mode::Auto if std::io::stderr().is_terminal() => Sink::Terminal,
            Mode::Auto => Sink::Lines,
            Mode::Json => Sink::Json,
            Mode::Off => Sink::Off,
        };
        Self { sink, total: Mutex::default() }
    }

    /// What lies ahead: levels, and measured requests in them.
    pub fn plan(&self, levels: usize, requests: u64) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total = Total { levels, requests, ..Total::default() };
    }

    /// Something that a person wants to know.
    pub fn say(&self, text: &str) {
        match self.sink {
            Sink::Terminal | Sink::Lines => write_line(text),
            Sink::Json => write_event(&json!({"event": "message", "text": text})),
            Sink::Off => {}
        }
    }

    /// Something that a person must know, even where progress is off.
    pub fn warn(&self, text: &str) {
        const YELLOW: Style = AnsiColor::Yellow.on_default();
        match self.sink {
            Sink::Json => write_event(&json!({"event": "warning", "text": text})),
            _ => write_line(&format!("{YELLOW}warning:{YELLOW:#} {text}")),
        }
    }

    /// A level begins.
    pub fn level(&self, target: &str, concurrency: u32, n_ok: u32) -> LevelProgress<'_> {
        {
            let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
            total.started.get_or_insert_with(Instant::now);
        }
        if self.sink == Sink::Json {
            write_event(&json!({
                "event": "level_started", "target": target, "concurrency": concurrency, "n": n_ok,
            }));
        }
        let target = target.to_owned();
        let seen = Mutex::new(Seen::default());
        LevelProgress { progress: self, target, concurrency, n_ok, seen }
    }
}

fn write_line(text: &str) {
    // Nobody to read it is no reason to stop measuring. anstream drops colours where they are not
    // wanted (no terminal, NO_COLOR).
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

fn write_event(event: &Value) {
    let _ = writeln!(std::io::stderr().lock(), "{event}");
}

/// One level, as it goes.
#[derive(Debug)]
pub struct LevelProgress<'a> {
    progress: &'a Progress,
    target: String,
    concurrency: u32,
    n_ok: u32,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    measuring: Option<Instant>,
    shown: Option<Instant>,
    ok: u32,
    failed: u32,
    tokens: u64,
    ttft_s: Vec<f64>,
}

impl LevelProgress<'_> {
    /// The level is over; `verdict` says in a few words what it is worth.
    pub fn done(self, verdict: &str) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match self.progress.sink {
            Sink::Terminal => {
                erase_line();
                write_line(&format!("{}, {verdict}", self.line(&seen, None)));
            }
            Sink::Lines => write_line(&format!("{}, {verdict}", self.line(&seen, None))),
            Sink::Json => {
                let mut event = self.event(&seen, "level_finished");
                event["verdict"] = verdict.into();
                write_event(&event);
            }
            Sink::Off => {}
        }
        let mut total = self.progress.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.levels_done += 1;
        total.requests_done += u64::from(self.n_ok);
    }

    fn line(&self, seen: &Seen, eta: Option<Duration>) -> String {
        let total = *self.progress.total.lock().unwrap_or_else(PoisonError::into_inner);
        let place = if total.levels > 1 {
            format!("[{}/{}] ", (total.levels_done + 1).min(total.levels), total.levels)
        } else {
            String::new()
        };
        let mut line =
            format!("{place}{} c={} {}/{}", self.target, self.concurrency, seen.ok, self.n_ok);
        if let Some(rate) = seen.rate() {
            line += &format!(", {rate:.1} tok/s");
        }
        if let Some(ttft) = seen.ttft_p50() {
            line += &format!(", TTFT p50 {:.0} ms", ttft * 1e3);
        }
        if seen.failed > 0 {
            line += &format!(", {} failed", seen.failed);
        }
        if let Some(eta) = eta {
            line += &format!(", {} left", round(eta));
            let whole = whole_eta(total, u64::from(seen.ok));
            if total.levels > 1
                && let Some(whole) = whole
            {
                line += &format!(" ({} in all)", round(whole));
            }
        }
        line
    }

    fn event(&self, seen: &Seen, name: &str) -> Value {
        json!({
            "event": name, "target": self.target, "concurrency": self.concurrency,
            "n": self.n_ok, "n_ok": seen.ok, "n_failed": seen.failed, "tok_s": seen.rate(),
            "ttft_p50_s": seen.ttft_p50(), "eta_s": seen.eta(self.n_ok).map(|eta| eta.as_secs_f64()),
        })
    }

    fn show(&self, seen: &mut Seen) {
        let every = match self.progress.sink {
            Sink::Terminal => REDRAW,
            Sink::Lines => LINE,
            Sink::Json => EVENT,
            Sink::Off => return,
        };
        let since = *seen.shown.get_or_insert_with(Instant::now);
        if since.elapsed() < every {
            return;
        }
        seen.shown = Some(Instant::now());
        match self.progress.sink {
            Sink::Terminal => {
                erase_line();
                let line = self.line(seen, seen.eta(self.n_ok));
                let mut stderr = std::io::stderr().lock();
                let _ = write!(stderr, "{line}").and_then(|()| stderr.flush());
            }
            Sink::Lines => write_line(&self.line(seen, seen.eta(self.n_ok))),
            Sink::Json => write_event(&self.event(seen, "progress")),
            Sink::Off => {}
        }
    }
}

/// Goes to the start of the line and erases it (ECMA-48 EL); only ever sent to a terminal.
fn erase_line() {
    let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
}

impl LevelObserver for LevelProgress<'_> {
    fn measuring(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.measuring = Some(Instant::now());
    }

    fn finished(&self, trace: &RequestTrace) {
        if !trace.is_measured() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match trace.outcome.failure() {
            None => seen.ok += 1,
            Some(FailureClass::Cancelled) => {}
            Some(_) => seen.failed += 1,
        }
        seen.tokens += trace.tokens.n_out.unwrap_or(0);
        seen.ttft_s.extend(trace.ttft().map(|ttft| ttft.as_secs_f64()));
        self.show(&mut seen);
    }
}

impl Seen {
    fn rate(&self) -> Option<f64> {
        let seconds = self.measuring?.elapsed().as_secs_f64();
        (self.tokens > 0 && seconds > 0.0).then(|| self.tokens as f64 / seconds)
    }

    /// The middle one: rough on purpose, since it is redrawn; the figures are `measure`'s.
    fn ttft_p50(&self) -> Option<f64> {
        let mut sorted = self.ttft_s.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    fn eta(&self, n_ok: u32) -> Option<Duration> {
        let left = f64::from(n_ok.saturating_sub(self.ok));
        let per_request = self.measuring?.elapsed().as_secs_f64() / f64::from(self.ok.max(1));
        (self.ok > 0).then(|| Duration::from_secs_f64(left * per_request))
    }
}

/// Time left for all levels, at the pace so far.
fn whole_eta(total: Total, ok_now: u64) -> Option<Duration> {
    let done = total.requests_done + ok_now;
    let left = total.requests.saturating_sub(done) as f64;
    let elapsed = total.started?.elapsed().as_secs_f64();
    (done > 0).then(|| Duration::from_secs_f64(left * elapsed / done as f64))
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
        let left = whole_eta(total, 10).unwrap().as_secs_f64();
        assert!((left - 40.0).abs() < 1.0, "{left}");
        assert_eq!(whole_eta(Total { requests_done: 0, ..total }, 0), None);
    }
}
