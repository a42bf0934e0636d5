//! Requests that are not timed: readiness, model lists, settings, metrics. The timed ones are
//! [`super::client`]'s.
//!
//! Bounded in time and in size, follows no redirect, uses no proxy.

use std::path::Path;
use std::time::Duration;

use super::client::{HttpVersion, certificates, client_config};

/// Most that is read of an answer: a page of Prometheus metrics is a tenth of it.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Sends requests that are not timed.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
}

/// An answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its HTTP status.
    pub status: u16,
    /// Its body, cut at 4 MiB.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("get an answer from {url}: {reason}")]
pub struct HttpError {
    /// Where from.
    pub url: String,
    /// The innermost reason.
    pub reason: String,
}

impl Http {
    /// A client that trusts what the timed path trusts: the system's certificates, if there are
    /// any, and those of a PEM file.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let extra_ca = ca_file.map(certificates).transpose();
        let extra_ca = extra_ca.map_err(|error| format!("failed to {error}"))?.unwrap_or_default();
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tls_backend_preconfigured(client_config(HttpVersion::Http1, &extra_ca));
        let client = builder.build().map_err(|error| innermost(&error))?;
        Ok(Self { client })
    }

    /// Gets a page.
    ///
    /// # Errors
    /// If there is no whole answer in time; a status other than 200 is no error.
    pub async fn get(&self, url: &str, deadline: Duration) -> Result<Reply, HttpError> {
        read_reply(url, self.client.get(url).timeout(deadline)).await
    }

    /// Sends JSON, with a bearer's key where there is one.
    ///
    /// # Errors
    /// If there is no whole answer in time; a status other than 200 is no error.
    pub async fn post_json(
        &self,
        url: &str,
        body: &serde_json::Value,
        key: Option<&str>,
        deadline: Duration,
    ) -> Result<Reply, HttpError> {
        let request = self.client.post(url).timeout(deadline);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let request = match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        read_reply(url, request).await
    }
}

/// Sends a request and reads its answer, up to a bound.
async fn read_reply(url: &str, request: reqwest::RequestBuilder) -> Result<Reply, HttpError> {
    let failed =
        |error: reqwest::Error| HttpError { url: url.to_owned(), reason: innermost(&error) };
    let mut response = request.send().await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        let room = BODY_BYTES_MAX - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if body.len() == BODY_BYTES_MAX {
            break;
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Reply { status: response.status().as_u16(), body })
}

/// The last cause of an error: "Connection refused", where the outer ones say only "error sending".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Answers one connection with these bytes, then closes it.
    fn serve(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(&answer);
        });
        url
    }

    #[tokio::test]
    async fn an_answer_comes_back_with_its_status() {
        let url = serve(b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nload".to_vec());
        let reply = Http::new(None).unwrap().get(&url, LONG).await.unwrap();
        assert_eq!(reply, Reply { status: 503, body: "load".into() });
    }

    #[tokio::test]
    async fn nobody_listening_is_said_in_plain_words() {
        // Bound and not listened on, so that nobody else can.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}/", socket.local_addr().unwrap());
        let error = Http::new(None).unwrap().get(&url, LONG).await.unwrap_err();
        assert!(error.reason.contains("Connection refused"), "{error}");
    }

    #[tokio::test]
    async fn an_endless_body_is_cut() {
        let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        answer.resize(BODY_BYTES_MAX * 2, b'x');
        let reply = Http::new(None).unwrap().get(&serve(answer), LONG).await.unwrap();
        assert_eq!(reply.body.len(), BODY_BYTES_MAX);
    }
}
