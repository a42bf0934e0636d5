//! Drill: a server that computes on its event loop.

use std::path::Path;
use std::time::{Duration, Instant};

use super::server::Kind;
use super::{Server, e2e, percentile, row, seconds, table, ttft};
use crate::bench::load::LevelSpec;

const TOKENS: u32 = 150;
const N: u32 = 4;
/// The longest that `/health` is waited for.
const HEALTH_WAIT: Duration = Duration::from_secs(20);

/// Runs it and gives its text.
pub(super) async fn run(harness: &Path) -> anyhow::Result<String> {
    let mut rows = vec![row(["server", "TTFT p50", "e2e p50", "TTFT ÷ e2e", "slowest /health"])];
    for (name, kind) in
        [("computes beside its event loop", Kind::Serial), ("computes on it", Kind::EventLoop)]
    {
        let server = Server::start(harness, kind)?;
        let endpoint = server.endpoint(TOKENS)?;
        let spec = LevelSpec { warmup: 0, ..LevelSpec::closed(1, N) };
        let (traces, health) =
            tokio::join!(server.level(&endpoint, &spec), slowest_health(&server));
        let traces = traces?;
        let (first, whole) = (percentile(&traces, 50.0, ttft), percentile(&traces, 50.0, e2e));
        let ratio =
            first.zip(whole).map_or("-".into(), |(first, whole)| format!("{:.2}", first / whole));
        rows.push(vec![name.into(), seconds(first), seconds(whole), ratio, health]);
    }
    Ok(format!(
        "Two servers with the same device, one request in flight, /health asked meanwhile.\n\n{}\n\
         On the event loop nothing is sent until the loop gets control back: the first token \
         arrives with the last one,\nand /health hangs for as long as an answer takes. The text \
         was streamed by neither the protocol nor the client.\n",
        table(&rows)
    ))
}

/// The slowest of several looks at `/health`, spread over the time of the requests.
async fn slowest_health(server: &Server) -> String {
    let mut slowest = Duration::ZERO;
    for _ in 0..N {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        if server.get("/health", HEALTH_WAIT).await.is_none() {
            return "no answer".to_owned();
        }
        slowest = slowest.max(asked.elapsed());
    }
    format!("{:.3} s", slowest.as_secs_f64())
}
