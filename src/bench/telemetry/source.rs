//! A source of readings on an OS thread of its own.
//!
//! Each source has its own thread, so a call into a driver that hangs holds up neither another
//! source nor a request. Readings are pushed under a lock that only the sampler's owner takes,
//! never the runtime's threads while a level runs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::hardware::SourceRow;

use super::clock::{Clock, thread_cpu};

/// Most readings that a source keeps: 28 hours at 100 ms. Later ones are dropped and counted.
const MAX_READINGS: usize = 1_000_000;

/// Something that can be read again and again.
pub trait Source {
    /// What it says of itself once.
    type Header: Clone + Send + 'static;
    /// What one reading gives.
    type Reading: Clone + Send + 'static;

    /// What it said of itself when it was opened.
    fn header(&self) -> Self::Header;

    /// Reads it. It may take as long as it takes; what fails is told within the reading.
    fn read(&mut self, clock: &Clock) -> Self::Reading;
}

/// What a source thread has so far.
#[derive(Debug, Clone)]
pub struct Log<H, R> {
    /// What the source said of itself, or why it could not be opened; `None` while it has not
    /// answered.
    pub header: Option<Result<H, String>>,
    /// When and how long, one a reading.
    pub rows: Vec<SourceRow>,
    /// What was read.
    pub readings: Vec<R>,
    /// Readings that found no room.
    pub dropped: u64,
    /// When the reading began that has not come back.
    pub reading_since: Option<Duration>,
}

/// Where the thread and its owner meet.
struct Shared<H, R> {
    state: Mutex<State<H, R>>,
    changed: Condvar,
}

struct State<H, R> {
    log: Log<H, R>,
    stopping: bool,
    ended: bool,
}

impl<H, R> Shared<H, R> {
    fn lock(&self) -> MutexGuard<'_, State<H, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running source. Dropping it asks the thread to end and does not wait.
pub struct SourceThread<S: Source> {
    shared: Arc<Shared<S::Header, S::Reading>>,
}

impl<S: Source + 'static> SourceThread<S> {
    /// Starts the thread; `open` runs on it, so it may be slow. Returns at once.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn spawn(
        name: &str,
        clock: Clock,
        period: Duration,
        open: impl FnOnce() -> Result<S, String> + Send + 'static,
    ) -> std::io::Result<Self> {
        let log = Log {
            header: None,
            rows: Vec::new(),
            readings: Vec::new(),
            dropped: 0,
            reading_since: None,
        };
        let state = Mutex::new(State { log, stopping: false, ended: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        // Not joined: a thread that hangs in a driver cannot be; `stop` waits for `ended` instead.
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _at_end = AtEnd(Arc::clone(&theirs));
            run(&theirs, clock, period, open);
        })?;
        Ok(Self { shared })
    }

    /// Waits until the source has said what it is, or the deadline passes.
    pub fn header(&self, deadline: Duration) -> Option<Result<S::Header, String>> {
        let until = Instant::now() + deadline;
        let state = self.wait_until(until, |state| state.log.header.is_some() || state.ended);
        state.log.header.clone()
    }

    /// Waits until the log is as wanted, the thread ends or the deadline passes; whether it is.
    pub fn wait_for(
        &self,
        deadline: Duration,
        wanted: impl Fn(&Log<S::Header, S::Reading>) -> bool,
    ) -> bool {
        let until = Instant::now() + deadline;
        let state = self.wait_until(until, |state| wanted(&state.log) || state.ended);
        wanted(&state.log)
    }

    /// The newest reading.
    pub fn latest(&self) -> Option<S::Reading> {
        self.shared.lock().log.readings.last().cloned()
    }

    /// How many readings there are.
    pub fn count(&self) -> usize {
        self.shared.lock().log.readings.len()
    }

    /// Everything so far; the source goes on.
    pub fn snapshot(&self) -> Log<S::Header, S::Reading> {
        self.shared.lock().log.clone()
    }

    /// Asks for one last reading and the end, and waits for them no longer than the deadline: a
    /// call that hangs is left to itself.
    pub fn stop(self, deadline: Duration) -> Log<S::Header, S::Reading> {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        let until = Instant::now() + deadline;
        self.wait_until(until, |state| state.ended).log.clone()
    }

    fn wait_until(
        &self,
        until: Instant,
        done: impl Fn(&State<S::Header, S::Reading>) -> bool,
    ) -> MutexGuard<'_, State<S::Header, S::Reading>> {
        let mut state = self.shared.lock();
        while !done(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl<S: Source> Drop for SourceThread<S> {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
    }
}

/// Says that the thread is over, however it ended.
struct AtEnd<H, R>(Arc<Shared<H, R>>);

impl<H, R> Drop for AtEnd<H, R> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        if state.log.header.is_none() {
            state.log.header = Some(Err("the thread that reads it ended".to_owned()));
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

fn run<S: Source>(
    shared: &Shared<S::Header, S::Reading>,
    clock: Clock,
    period: Duration,
    open: impl FnOnce() -> Result<S, String>,
) {
    let opened = open();
    let header = opened.as_ref().map(Source::header).map_err(Clone::clone);
    shared.lock().log.header = Some(header);
    shared.changed.notify_all();
    let Ok(mut source) = opened else { return };
    let mut due = clock.now();
    loop {
        let stopping = wait_for(shared, &clock, due);
        let at = clock.now();
        shared.lock().log.reading_since = Some(at);
        shared.changed.notify_all();
        let reading = source.read(&clock);
        let row = SourceRow { at, took: clock.now().saturating_sub(at), thread_cpu: thread_cpu() };
        {
            let log = &mut shared.lock().log;
            log.reading_since = None;
            if log.readings.len() < MAX_READINGS {
                log.rows.push(row);
                log.readings.push(reading);
            } else {
                log.dropped += 1;
            }
        }
        shared.changed.notify_all();
        if stopping {
            return;
        }
        due = next_due(due, clock.now(), period);
    }
}

/// Sleeps until the reading is due; true where the end was asked for.
fn wait_for<H, R>(shared: &Shared<H, R>, clock: &Clock, due: Duration) -> bool {
    let mut state = shared.lock();
    loop {
        let left = due.saturating_sub(clock.now());
        if state.stopping || left.is_zero() {
            return state.stopping;
        }
        let waited = shared.changed.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The next multiple of the period after now: what a slow reading missed is not made up for.
fn next_due(due: Duration, now: Duration, period: Duration) -> Duration {
    let next = due + period;
    if next > now {
        return next;
    }
    let behind = (now - due).as_nanos() / period.as_nanos().max(1);
    let periods = u32::try_from(behind).unwrap_or(u32::MAX).saturating_add(1);
    due + period.saturating_mul(periods)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A source that reads what the test sends it, and hangs while nothing comes.
    struct Scripted(mpsc::Receiver<u32>);

    impl Source for Scripted {
        type Header = &'static str;
        type Reading = Option<u32>;

        fn header(&self) -> &'static str {
            "scripted"
        }

        fn read(&mut self, _clock: &Clock) -> Option<u32> {
            self.0.recv().ok()
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_source_is_read_until_it_is_stopped_and_once_more_then() {
        let (send, receive) = mpsc::channel();
        let period = Duration::from_millis(1);
        let thread =
            SourceThread::spawn("s", Clock::new(), period, move || Ok(Scripted(receive))).unwrap();
        assert_eq!(thread.header(LONG), Some(Ok("scripted")));
        send.send(1).unwrap();
        drop(thread.wait_until(Instant::now() + LONG, |state| state.log.readings.len() == 1));
        assert_eq!(thread.latest(), Some(Some(1)));
        drop(send);
        let log = thread.stop(LONG);
        assert_eq!(log.readings.first(), Some(&Some(1)));
        assert_eq!(log.readings.last(), Some(&None));
        assert_eq!(log.rows.len(), log.readings.len());
        assert_eq!(log.reading_since, None);
    }

    #[test]
    fn a_reading_that_hangs_is_left_to_itself_and_what_was_read_before_is_kept() {
        let (send, receive) = mpsc::channel();
        let period = Duration::from_millis(1);
        let thread =
            SourceThread::spawn("s", Clock::new(), period, move || Ok(Scripted(receive))).unwrap();
        send.send(7).unwrap();
        drop(thread.wait_until(Instant::now() + LONG, |state| {
            state.log.readings.len() == 1 && state.log.reading_since.is_some()
        }));
        let log = thread.stop(SHORT);
        assert_eq!(log.readings, [Some(7)]);
        assert!(log.reading_since.is_some(), "a call is known to hang");
        drop(send);
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let open = || Err::<Scripted, _>("no such library".to_owned());
        let thread = SourceThread::spawn("s", Clock::new(), SHORT, open).unwrap();
        assert_eq!(thread.header(LONG), Some(Err("no such library".to_owned())));
        assert!(thread.stop(LONG).readings.is_empty());
    }

    #[test]
    fn a_source_that_panics_ends_its_own_thread_only() {
        let open = || -> Result<Scripted, String> { panic!("a scripted panic, expected here") };
        let thread = SourceThread::spawn("s", Clock::new(), SHORT, open).unwrap();
        assert!(matches!(thread.header(LONG), Some(Err(_))));
    }

    #[test]
    fn a_slow_reading_skips_what_it_missed_and_keeps_the_beat() {
        let ms = Duration::from_millis;
        assert_eq!(next_due(ms(100), ms(101), ms(100)), ms(200));
        assert_eq!(next_due(ms(100), ms(1150), ms(100)), ms(1200));
        assert_eq!(next_due(ms(100), ms(200), ms(100)), ms(300));
    }
}
