//! The hang-up against a server that is running already: how long it goes on is what its own page
//! of metrics says.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bench::http::Http;

/// A server to leave.
#[derive(Debug, Clone)]
pub struct Live {
    /// `http://HOST:PORT`, `/v1` left out.
    pub root: String,
    /// The model id to ask for.
    pub model: String,
}

/// What was seen.
pub(super) struct Seen {
    /// Events that the client had when it left.
    pub(super) events: u64,
    /// From then until the server said that nothing runs; `None` if it still did at the end.
    pub(super) busy_for: Option<Duration>,
}

/// Between two looks at the metrics.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A page of metrics comes at once, or not at all.
const PAGE_DEADLINE: Duration = Duration::from_secs(10);
/// What is kept of an answer's beginning: the head and the text of an error.
const ANSWER_START_BYTES: usize = 4096;

impl Live {
    /// Looks whether the drill can be done there.
    ///
    /// # Errors
    /// If nobody answers, not in plain HTTP, or its metrics do not tell how many requests run.
    pub async fn check(&self) -> anyhow::Result<()> {
        self.address()?;
        let http = Http::new(None).map_err(|error| anyhow!(error))?;
        self.running(&http).await.map(drop)
    }

    /// Asks for `tokens` tokens, leaves `after` that time, and watches the server for at most
    /// `wait`.
    pub(super) async fn leave(
        &self,
        tokens: u32,
        after: Duration,
        wait: Duration,
    ) -> anyhow::Result<Seen> {
        let http = Http::new(None).map_err(|error| anyhow!(error))?;
        let events = self.ask_and_leave(tokens, after).await?;
        let left = Instant::now();
        let mut busy_for = None;
        while busy_for.is_none() && left.elapsed() < wait {
            if self.running(&http).await? < 1.0 {
                busy_for = Some(left.elapsed());
            } else {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(Seen { events, busy_for })
    }

    /// Events until the client left.
    async fn ask_and_leave(&self, tokens: u32, after: Duration) -> anyhow::Result<u64> {
        let address = self.address()?;
        let message = json!({"role": "user", "content": "Tell me a very long story."});
        let body = json!({"model": self.model, "messages": [message], "stream": true,
            "max_tokens": tokens, "ignore_eos": true})
        .to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("failed to connect to {address}"))?;
        stream.write_all(request.as_bytes()).await?;
        let (mut events, mut start) = (0, Vec::new());
        let read = async {
            let mut bytes = vec![0; 65_536];
            while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                let room = ANSWER_START_BYTES - start.len();
                start.extend_from_slice(&bytes[..read.min(room)]);
                events += bytes[..read].windows(5).filter(|five| five == b"data:").count() as u64;
            }
        };
        // It listens until it leaves; an answer that ends before is no hang-up.
        let over = tokio::time::timeout(after, read).await.is_ok();
        if let Some(refusal) = refusal(&String::from_utf8_lossy(&start)) {
            return Err(anyhow!("{} answers {refusal}", self.root));
        }
        if over {
            return Err(anyhow!("{}: the answer was over before the client left", self.root));
        }
        drop(stream);
        Ok(events)
    }

    fn address(&self) -> anyhow::Result<&str> {
        self.root.strip_prefix("http://").ok_or_else(|| {
            anyhow!("{}: the drill speaks plain HTTP to a server on this machine", self.root)
        })
    }

    /// Requests that run, by the server's metrics.
    async fn running(&self, http: &Http) -> anyhow::Result<f64> {
        let url = format!("{}/metrics", self.root);
        let page = http
            .get(&url, PAGE_DEADLINE)
            .await
            .map_err(|error| anyhow!("{}: nothing answers there ({})", self.root, error.reason))?;
        requests_running(&page.body)
            .ok_or_else(|| anyhow!("{url} does not say how many requests run"))
    }
}

/// The status and the body's beginning of an answer that is no 200; `None` of one that is, or of
/// which nothing has come.
fn refusal(start: &str) -> Option<String> {
    let (status, rest) = start.strip_prefix("HTTP/1.1 ")?.split_once("\r\n")?;
    let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (!status.starts_with("200")).then(|| format!("{status}: {}", body.trim()))
}

/// The gauge of running requests: servers agree on the end of its name, if on anything.
fn requests_running(page: &str) -> Option<f64> {
    const ENDINGS: [&str; 2] = ["requests_running", "requests_processing"];
    let mut lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.find_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let name = name.split('{').next().unwrap_or(name);
        ENDINGS.iter().any(|ending| name.ends_with(ending)).then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_an_answer_that_streams() {
        assert_eq!(refusal(""), None);
        assert_eq!(refusal("HTTP/1.1 200 OK\r\n\r\ndata: 1"), None);
        let refused = "HTTP/1.1 404 Not Found\r\na: b\r\n\r\n{\"error\": \"no model\"}\n";
        assert_eq!(refusal(refused).unwrap(), "404 Not Found: {\"error\": \"no model\"}");
    }

    #[test]
    fn the_gauge_is_found_whoever_names_it() {
        assert_eq!(requests_running("# TYPE x gauge\nspark_serve_requests_running 1\n"), Some(1.0));
        assert_eq!(requests_running("a_total 5\nx:requests_processing 0\n"), Some(0.0));
        assert_eq!(requests_running("y:num_requests_running{m=\"z\"} 2.0\n"), Some(2.0));
        assert_eq!(requests_running("requests_total 3\n"), None);
    }
}
