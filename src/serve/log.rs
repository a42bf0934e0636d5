//! Where log lines go: to stderr, one for each event, whatever is in it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::io::{self, Write};
use std::panic;

use tracing_subscriber::EnvFilter;

use super::cli::LogFormat;

/// Sends log lines to stderr. `RUST_LOG` chooses which; by default those of level info and above.
pub fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let to = || OneLine(io::stderr());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(to);
    match format {
        LogFormat::Text => lines.with_ansi(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    log_panics();
}

/// A panic is a line of the log like any other: its message may quote what a client sent. Who asks
/// for a backtrace gets Rust's own report as well.
fn log_panics() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        tracing::error!(what = panic.to_string(), "a bug");
        if Backtrace::capture().status() == BacktraceStatus::Captured {
            report(panic);
        }
    }));
}

/// Writes each event, which comes in one piece, as one line. Its control characters are spelled out:
/// some of it is what clients sent, and a line end would begin a line that nobody wrote.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(one_line(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn one_line(event: &str) -> Cow<'_, str> {
    let text = event.strip_suffix('\n').unwrap_or(event);
    if !text.contains(char::is_control) {
        return Cow::Borrowed(event);
    }
    let mut line = String::with_capacity(event.len() + 16);
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.push_str(&event[text.len()..]);
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is logged in a format, as text.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let log = Log::default();
        let to = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = lines.with_writer(move || OneLine(to.clone())).finish();
        tracing::subscriber::with_default(subscriber, || {
            let text = "a\nINJ\u{1b}[31m\u{85}é";
            tracing::info!(shown = %text, quoted = text, "{text}");
            tracing::info!("plain");
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        assert_eq!(lines.len(), 2, "{log}");
        for line in lines {
            assert!(!line.trim_end_matches('\n').contains(char::is_control), "{line:?}");
        }
        assert!(log.contains("shown=a\\nINJ") && log.ends_with("plain\n"), "{log}");
    }
}
