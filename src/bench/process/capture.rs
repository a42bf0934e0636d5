//! A command that is run for what it prints: a version, a commit. Bounded in time and in size.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// Most that is read of each stream.
const BYTES_MAX: u64 = 64 << 10;

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no such program.
    #[error("find the program {0:?}")]
    NoProgram(String),
    /// The system refused to start it, or to read from it.
    #[error("run {program:?}: {message}")]
    Refused {
        /// The program.
        program: String,
        /// What the system said.
        message: String,
    },
    /// It ran for too long and was killed.
    #[error("run {program:?} within {} s", deadline.as_secs())]
    TooSlow {
        /// The program.
        program: String,
        /// How long it might have taken.
        deadline: Duration,
    },
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output, cut at 64 KiB.
    pub stdout: String,
    /// Its standard error, cut likewise.
    pub stderr: String,
}

impl Captured {
    /// The first line with something on it; stdout first.
    pub fn first_line(&self) -> Option<&str> {
        let lines = self.stdout.lines().chain(self.stderr.lines());
        lines.map(str::trim).find(|line| !line.is_empty())
    }

    /// Every line with something on it, joined by "; "; stdout, or stderr where that has none.
    pub fn lines(&self) -> Option<String> {
        let said = |text: &str| {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.collect::<Vec<_>>().join("; ")
        };
        let mut texts = [&self.stdout, &self.stderr].into_iter().map(|text| said(text));
        texts.find(|text| !text.is_empty())
    }
}

/// Runs a command to its end, and kills its whole group at the deadline.
///
/// # Errors
/// If it cannot be started or takes too long; an exit code other than 0 is no error here.
pub async fn capture(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    deadline: Duration,
) -> Result<Captured, CaptureError> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => CaptureError::NoProgram(program.to_owned()),
        _ => CaptureError::Refused { program: program.to_owned(), message: error.to_string() },
    };
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(refused)?;
    let group = child.id();
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let whole = async { tokio::join!(child.wait(), read(stdout), read(stderr)) };
    match tokio::time::timeout(deadline, whole).await {
        Ok((status, stdout, stderr)) => {
            Ok(Captured { code: status.map_err(refused)?.code(), stdout, stderr })
        }
        Err(_) => {
            group.into_iter().for_each(super::kill_group);
            Err(CaptureError::TooSlow { program: program.to_owned(), deadline })
        }
    }
}

/// Reads to the end, and keeps the beginning.
async fn read(mut from: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut bounded = (&mut from).take(BYTES_MAX);
    // What cannot be read is not there: the exit code says what went wrong.
    let _ = bounded.read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(
        program: &str,
        args: &[&str],
        deadline: Duration,
    ) -> Result<Captured, CaptureError> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        capture(program, &args, &env, deadline).await
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_a_command_prints_comes_back_and_nothing_else_is_in_its_environment() {
        let script = "echo; echo v1; echo no >&2; env | grep -c HOME; exit 3";
        let captured = run("sh", &["-c", script], LONG).await.unwrap();
        assert_eq!(captured.first_line(), Some("v1"));
        let versions = Captured { stdout: "\nv1\n commit c \n".into(), ..captured.clone() };
        assert_eq!(versions.lines().as_deref(), Some("v1; commit c"));
        let on_stderr = Captured { stdout: " \n".into(), stderr: "v2\n".into(), ..versions };
        assert_eq!(on_stderr.lines().as_deref(), Some("v2"));
        assert_eq!((captured.code, captured.stderr.as_str()), (Some(3), "no\n"));
        assert!(captured.stdout.ends_with("0\n"), "{captured:?}");
    }

    #[tokio::test]
    async fn a_missing_program_and_an_endless_one_are_told_apart() {
        let missing = run("no-such-program-here", &[], LONG).await;
        assert!(matches!(missing, Err(CaptureError::NoProgram(_))), "{missing:?}");
        // The grandchild holds the pipe: killing the child alone would not end this.
        let endless = run("sh", &["-c", "sleep 1000 & wait"], Duration::from_millis(50)).await;
        assert!(matches!(endless, Err(CaptureError::TooSlow { .. })), "{endless:?}");
    }

    #[tokio::test]
    async fn a_flood_is_read_and_cut() {
        let captured = run("sh", &["-c", "yes | head -c 1000000"], LONG).await.unwrap();
        assert_eq!(captured.stdout.len() as u64, BYTES_MAX);
    }
}
