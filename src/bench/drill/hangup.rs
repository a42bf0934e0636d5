//! Drill: a client leaves, and the device may go on.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::server::{Kind, STEP};
use super::{Live, Server, row, table};

/// Ten seconds of work.
const TOKENS: u32 = 1_000;
/// When the client leaves.
const LEAVES_AFTER: Duration = Duration::from_secs(1);
/// A device that did no step for this long has stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(500);
/// The longest that the drill waits for a device to stop.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Runs it and gives its text.
pub(super) async fn run(harness: &Path, live: Option<Live>) -> anyhow::Result<String> {
    // First what may go wrong: a server of ours always answers.
    let beside = match &live {
        Some(live) => of_live(live).await?,
        None => "To see how long a server of yours goes on: --server http://HOST:PORT --model ID."
            .to_owned(),
    };
    let mut rows =
        vec![row(["server", "steps when it left", "steps in the end", "worked for nobody"])];
    for (name, kind) in [("never looks", Kind::Deaf), ("watches its client", Kind::Serial)] {
        let server = Server::start(harness, kind)?;
        let (before, after) = leave(&server).await?;
        let wasted = STEP * u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX);
        rows.push(vec![
            name.to_owned(),
            before.to_string(),
            after.to_string(),
            format!("{:.2} s", wasted.as_secs_f64()),
        ]);
    }
    Ok(format!(
        "A client asks for {TOKENS} tokens and leaves after {} s.\n\n{}\n\
         The first server's device goes on until the answer is complete, though nobody reads it, \
         and whoever comes next waits.\nThe second one stops within a few steps of the hang-up.\n\n{beside}\n",
        LEAVES_AFTER.as_secs(),
        table(&rows)
    ))
}

/// The same against a server that is there already.
async fn of_live(live: &Live) -> anyhow::Result<String> {
    let seen = live.leave(TOKENS, LEAVES_AFTER, WAIT_MAX).await?;
    let busy = match seen.busy_for {
        Some(time) => format!("{:.2} s", time.as_secs_f64()),
        None => format!("over {} s", WAIT_MAX.as_secs()),
    };
    let rows = [
        row(["server", "events when it left", "still busy for"]),
        vec![live.root.clone(), seen.events.to_string(), busy],
    ];
    Ok(format!("{}(by its own metrics)", table(&rows)))
}

/// The device's steps at the hang-up and when it has stopped.
async fn leave(server: &Server) -> anyhow::Result<(u64, u64)> {
    let body = format!("{{\"model\":\"drill\",\"stream\":true,\"max_tokens\":{TOKENS}}}");
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: drill\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).await?;
    stream.write_all(request.as_bytes()).await?;
    let read = async {
        let mut bytes = vec![0; 4096];
        while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    };
    // It listens until it leaves; an answer that ends before is no hang-up.
    let _ = tokio::time::timeout(LEAVES_AFTER, read).await;
    drop(stream);
    let before = steps(server).await?;
    let begun = Instant::now();
    let (mut last, mut changed) = (before, Instant::now());
    while changed.elapsed() < STOPPED_AFTER && begun.elapsed() < WAIT_MAX {
        tokio::time::sleep(STEP * 2).await;
        let now = steps(server).await?;
        if now != last {
            (last, changed) = (now, Instant::now());
        }
    }
    Ok((before, last))
}

async fn steps(server: &Server) -> anyhow::Result<u64> {
    let text = server.get("/device", Duration::from_secs(10)).await;
    let text = text.ok_or_else(|| anyhow::anyhow!("the drill's server does not answer"))?;
    Ok(text.trim().parse()?)
}
