//! One level's line or events: how far its warm-up is, then what its measured requests show.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Progress, Sink, redraw, round, write_event};
use crate::bench::load::LevelObserver;
use crate::measure::level::StartMode;
use crate::measure::trace::{FailureClass, RequestTrace};

/// Between two redrawings on a terminal: often enough to look alive, too seldom to cost anything.
const REDRAW: Duration = Duration::from_millis(250);
/// Between two lines elsewhere.
const LINE: Duration = Duration::from_secs(10);
/// Between two events for programs.
const EVENT: Duration = Duration::from_secs(1);
/// Between two looks at the clock while nothing finishes.
const TICK: Duration = Duration::from_secs(1);

/// What a level is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Requests in flight.
    pub concurrency: u32,
    /// Measured requests that have to be ok.
    pub n_ok: u32,
    /// Requests before them.
    pub warmup: u32,
}

/// One level, as it goes.
#[derive(Debug)]
pub struct LevelProgress<'a> {
    progress: &'a Progress,
    target: String,
    wanted: Wanted,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    begun: Instant,
    shown: Instant,
    /// What had finished when it was shown last.
    shown_at: Option<Counts>,
    counts: Counts,
    measuring: Option<Instant>,
    last_failure: Option<FailureClass>,
    /// Output tokens of ok requests.
    tokens: u64,
    ttft_s: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    warmed: u32,
    ok: u32,
    failed: u32,
}

/// Where a line stands in the life of its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    UnderWay,
    Over,
}

impl<'a> LevelProgress<'a> {
    pub(super) fn begin(progress: &'a Progress, target: &str, wanted: Wanted) -> Self {
        let now = Instant::now();
        let seen = Seen {
            begun: now,
            shown: now,
            shown_at: None,
            counts: Counts::default(),
            measuring: None,
            last_failure: None,
            tokens: 0,
            ttft_s: Vec::new(),
        };
        let level = Self { progress, target: target.to_owned(), wanted, seen: Mutex::new(seen) };
        match progress.sink {
            Sink::Terminal => redraw(&level.line(&level.seen(), Moment::UnderWay)),
            Sink::Json => {
                let total = *progress.total();
                write_event(&json!({
                    "event": "level_started", "target": target, "concurrency": wanted.concurrency,
                    "n": wanted.n_ok, "level": total.levels_done + 1, "levels": total.levels,
                }));
            }
            Sink::Lines | Sink::Off => {}
        }
        level
    }

    /// Shows that time goes by where nothing finishes. Never ends.
    pub async fn keep_fresh(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            // Programs have clocks of their own.
            if self.progress.sink != Sink::Json {
                self.show(&mut self.seen());
            }
        }
    }

    /// The level is over; `verdict` says in a few words what it is worth.
    pub fn done(self, verdict: &str) {
        let seen = self.seen();
        match self.progress.sink {
            Sink::Terminal | Sink::Lines => {
                let line = self.line(&seen, Moment::Over);
                self.progress.write_line(&format!("{line}, {verdict}"));
            }
            Sink::Json => {
                let mut event = self.event(&seen, "level_finished");
                event["verdict"] = verdict.into();
                write_event(&event);
            }
            Sink::Off => {}
        }
        let mut total = self.progress.total();
        total.levels_done += 1;
        total.requests_done += u64::from(self.wanted.n_ok);
    }

    fn line(&self, seen: &Seen, moment: Moment) -> String {
        let total = *self.progress.total();
        let Wanted { concurrency, n_ok, warmup } = self.wanted;
        let mut line = format!("{}{} c={concurrency} ", total.place(), self.target);
        let warmed = seen.counts.warmed;
        let warms = seen.measuring.is_none() && warmup > 0;
        line += &match moment {
            Moment::UnderWay if warms => format!("warming up {warmed}/{warmup}"),
            Moment::Over if warms => format!("ended while warming up ({warmed}/{warmup})"),
            _ => format!("{}/{n_ok}", seen.counts.ok),
        };
        if let Some(rate) = seen.rate() {
            line += &format!(", {rate:.1} tok/s");
        }
        if let Some(ttft) = seen.ttft_p50() {
            line += &format!(", TTFT p50 {:.0} ms", ttft * 1e3);
        }
        if let Some(class) = seen.last_failure {
            line += &format!(", {} failed ({class})", seen.counts.failed);
        }
        match (moment, seen.eta(n_ok)) {
            (Moment::UnderWay, Some(eta)) => {
                line += &format!(", {} left", round(eta));
                let whole = total.left(u64::from(seen.counts.ok)).filter(|_| total.levels > 1);
                line += &whole.map_or(String::new(), |all| format!(" ({} in all)", round(all)));
            }
            // What has not begun to move shows by its clock that it is waited for.
            (Moment::UnderWay, None) if self.progress.sink == Sink::Terminal => {
                line += &format!(", {} so far", round(seen.begun.elapsed()));
            }
            _ => {}
        }
        line
    }

    fn event(&self, seen: &Seen, name: &str) -> Value {
        let Wanted { concurrency, n_ok, warmup } = self.wanted;
        json!({
            "event": name, "target": self.target, "concurrency": concurrency, "n": n_ok,
            "n_ok": seen.counts.ok, "n_failed": seen.counts.failed, "tok_s": seen.rate(),
            "ttft_p50_s": seen.ttft_p50(), "eta_s": seen.eta(n_ok).map(|eta| eta.as_secs_f64()),
            "warming_up": seen.measuring.is_none(), "n_warmed": seen.counts.warmed,
            "n_warmup": warmup,
        })
    }

    fn show(&self, seen: &mut Seen) {
        let every = match self.progress.sink {
            Sink::Terminal => REDRAW,
            Sink::Lines => LINE,
            Sink::Json => EVENT,
            Sink::Off => return,
        };
        // A file is not filled with lines that say the same.
        let stands_still = self.progress.sink == Sink::Lines && seen.shown_at == Some(seen.counts);
        if seen.shown.elapsed() < every || stands_still {
            return;
        }
        seen.shown = Instant::now();
        seen.shown_at = Some(seen.counts);
        match self.progress.sink {
            Sink::Terminal => redraw(&self.line(seen, Moment::UnderWay)),
            Sink::Lines => self.progress.write_line(&self.line(seen, Moment::UnderWay)),
            Sink::Json => write_event(&self.event(seen, "progress")),
            Sink::Off => {}
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LevelObserver for LevelProgress<'_> {
    fn measuring(&self, _: StartMode) {
        let mut seen = self.seen();
        seen.measuring = Some(Instant::now());
        // Failures of the warm-up are no failures of the level.
        (seen.counts.failed, seen.last_failure) = (0, None);
        self.show(&mut seen);
    }

    fn finished(&self, trace: &RequestTrace) {
        let mut seen = self.seen();
        match trace.outcome.failure() {
            // What was cut off is no figure of the level's, only of its end.
            Some(FailureClass::Cancelled) => return,
            Some(class) => {
                seen.counts.failed += 1;
                seen.last_failure = Some(class);
            }
            None if trace.is_measured() => {
                seen.counts.ok += 1;
                seen.tokens += trace.tokens.n_out.unwrap_or(0);
                seen.ttft_s.extend(trace.ttft().map(|ttft| ttft.as_secs_f64()));
            }
            None => {}
        }
        seen.counts.warmed += u32::from(!trace.is_measured());
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
        let ok = self.counts.ok;
        let left = f64::from(n_ok.saturating_sub(ok));
        let per_request = self.measuring?.elapsed().as_secs_f64() / f64::from(ok.max(1));
        (ok > 0).then(|| Duration::from_secs_f64(left * per_request))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::*;
    use crate::measure::trace::Phase;
    use crate::measure::trace::tests::{answered, failed};

    const WANTED: Wanted = Wanted { concurrency: 4, n_ok: 8, warmup: 3 };

    fn warm_up(trace: RequestTrace) -> RequestTrace {
        RequestTrace { phase: Phase::Warmup, ..trace }
    }

    #[test]
    fn a_level_that_warms_up_says_so_and_how_far_it_is() {
        let progress = Progress::new(Mode::Off);
        let level = progress.level("t", WANTED);
        let line = |moment| level.line(&level.seen(), moment);
        assert_eq!(line(Moment::UnderWay), "t c=4 warming up 0/3");
        level.finished(&warm_up(answered(10, 0.0, 0.1, 1.0)));
        level.finished(&warm_up(failed(FailureClass::Connect, 1.0, 1.1)));
        assert_eq!(line(Moment::UnderWay), "t c=4 warming up 2/3, 1 failed (connect)");
        level.finished(&warm_up(failed(FailureClass::Cancelled, 1.1, 1.2)));
        assert_eq!(line(Moment::Over), "t c=4 ended while warming up (2/3), 1 failed (connect)");
        level.measuring(StartMode::Staggered);
        assert_eq!(line(Moment::UnderWay), "t c=4 0/8", "the warm-up's failures are its own");
    }

    #[test]
    fn what_is_cut_off_is_no_figure() {
        let progress = Progress::new(Mode::Off);
        let level = progress.level("t", Wanted { warmup: 0, ..WANTED });
        level.measuring(StartMode::Staggered);
        let cut_off = failed(FailureClass::Cancelled, 0.0, 0.5);
        let tokens = answered(10, 0.0, 0.1, 0.4);
        level.finished(&RequestTrace { outcome: cut_off.outcome, ..tokens });
        assert_eq!(level.line(&level.seen(), Moment::Over), "t c=4 0/8");
    }
}
