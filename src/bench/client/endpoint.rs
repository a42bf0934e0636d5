//! Where requests go, and with what.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::body::BodyTemplate;

/// A server under test, as far as a request has to know it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) target: Target,
    headers: Vec<Header>,
    /// Everything of a request's body but its prompt.
    pub body: BodyTemplate,
    /// How long which wait may take.
    pub timeouts: Timeouts,
    /// The protocol spoken.
    pub http_version: HttpVersion,
    /// Trusted beside the system's own.
    pub(super) extra_ca: Vec<CertificateDer<'static>>,
    /// What is kept of the answers.
    pub keep: Keep,
    /// How long after a request, beyond two round trips, a close of its kept connection may be
    /// seen that was on its way before it: see [`STALE_SLACK`].
    pub stale_slack: Duration,
}

/// What a server's thread may be late to close a connection whose answer it has sent: a scheduler's
/// time slices, ten of them on a busy machine. Whoever hangs up later had the request in hand.
pub const STALE_SLACK: Duration = Duration::from_millis(50);

/// What a URL says of where to connect and what to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The `Host` header: as the URL spells it.
    pub(super) authority: String,
    /// Path and query.
    pub(super) path: String,
}

impl Endpoint {
    /// The host and port that it connects to; an IPv6 address stands without brackets.
    pub fn address(&self) -> (&str, u16) {
        (&self.target.host, self.target.port)
    }
}

impl Target {
    /// The whole URL again.
    pub(super) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

/// How long which wait may take; `None` is as long as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name resolution, TCP and TLS together.
    pub connect: Option<Duration>,
    /// Request sent → first text.
    pub first_token: Option<Duration>,
    /// One text → the next one, or the end. Comments and empty events do not count.
    pub stall: Option<Duration>,
    /// Request sent → end.
    pub request: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            first_token: None,
            stall: Some(Duration::from_secs(120)),
            request: None,
        }
    }
}

/// The protocol spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersion {
    /// HTTP/1.1: one connection for each worker.
    #[default]
    Http1,
    /// HTTP/2, one connection for each worker too, one stream at a time: by ALPN with TLS, by
    /// prior knowledge without.
    Http2,
}

/// What is kept of the answers beside their figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// The text's hash.
    #[default]
    Hash,
    /// The text as well.
    Text,
}

#[derive(Clone)]
struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A sensitive HeaderValue prints as "Sensitive".
        write!(f, "{}: {:?}", self.name, self.value)
    }
}

/// Why requests cannot be sent there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The base URL cannot be used.
    #[error("use the base URL {url:?}: {reason}")]
    Url {
        /// As it was given, a password left out.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file of certificates cannot be used.
    #[error("trust the certificates in {0}: {1}")]
    Certificates(PathBuf, String),
    /// A header's name or value holds what no header may hold. The value is not told.
    #[error("send the header {0:?}: its name or its value is no legal header text")]
    Header(String),
}

impl Endpoint {
    /// An endpoint under `base_url` (`http://host:port/v1`): the body's kind names what follows.
    pub fn new(base_url: &str, body: BodyTemplate) -> Result<Self, EndpointError> {
        let target = Target::parse(base_url, body.kind.path())?;
        Ok(Self {
            target,
            headers: Vec::new(),
            body,
            timeouts: Timeouts::default(),
            http_version: HttpVersion::default(),
            extra_ca: Vec::new(),
            keep: Keep::default(),
            stale_slack: STALE_SLACK,
        })
    }

    /// Adds a header to every request.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, EndpointError> {
        self.headers.push(Header::parse(name, value)?);
        Ok(self)
    }

    /// Adds a header whose value is never printed.
    pub fn secret_header(mut self, name: &str, value: &str) -> Result<Self, EndpointError> {
        let mut header = Header::parse(name, value)?;
        header.value.set_sensitive(true);
        self.headers.push(header);
        Ok(self)
    }

    /// Adds `Authorization: Bearer KEY`.
    pub fn bearer(self, key: &str) -> Result<Self, EndpointError> {
        self.secret_header("authorization", &format!("Bearer {key}"))
    }

    /// Trusts the certificates of a PEM file, beside the system's own.
    pub fn trust(mut self, pem: &Path) -> Result<Self, EndpointError> {
        self.extra_ca.extend(certificates(pem)?);
        Ok(self)
    }

    /// A text of the server's, with every secret that it was sent blacked out.
    pub(in crate::bench) fn redact(&self, text: &str) -> String {
        let secrets = self.headers.iter().filter(|header| header.value.is_sensitive());
        secrets.filter_map(|header| header.value.to_str().ok()).fold(
            text.to_owned(),
            |text, value| {
                let bare = value.split_once(' ').map_or(value, |(_, bare)| bare);
                text.replace(bare, "[redacted]")
            },
        )
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|header| (&header.name, &header.value))
    }
}

impl Header {
    fn parse(name: &str, value: &str) -> Result<Self, EndpointError> {
        let illegal = || EndpointError::Header(name.to_owned());
        Ok(Self {
            name: name.parse().map_err(|_| illegal())?,
            value: value.parse().map_err(|_| illegal())?,
        })
    }
}

impl Target {
    fn parse(base_url: &str, path: &str) -> Result<Self, EndpointError> {
        let refused = |reason| {
            let url = match base_url.split_once('@') {
                Some((_, host)) => format!("…@{host}"),
                None => base_url.to_owned(),
            };
            EndpointError::Url { url, reason }
        };
        let url: Uri = base_url.trim().parse().map_err(|_| refused("it is no URL"))?;
        let secure = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused("it must begin with http:// or https://")),
        };
        let authority = url.authority().ok_or_else(|| refused("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("a user name in it is not supported: use a header"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(refused("it names no host"));
        }
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self {
            secure,
            host: host.to_owned(),
            port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: format!("{}{path}{query}", url.path().trim_end_matches('/')),
        })
    }
}

/// The certificates of a PEM file.
pub(in crate::bench) fn certificates(
    pem: &Path,
) -> Result<Vec<CertificateDer<'static>>, EndpointError> {
    let refused = |reason: String| EndpointError::Certificates(pem.into(), reason);
    let certificates = CertificateDer::pem_file_iter(pem)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("it holds none".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, expected) in [
            ("http://127.0.0.1:8000/v1", (false, "127.0.0.1", 8000, "127.0.0.1:8000", "/v1/x")),
            ("https://a.example/v1/", (true, "a.example", 443, "a.example", "/v1/x")),
            ("http://[::1]:80", (false, "::1", 80, "[::1]:80", "/x")),
            ("https://a.example/o?api=1", (true, "a.example", 443, "a.example", "/o/x?api=1")),
        ] {
            let target = Target::parse(url, "/x").unwrap();
            let Target { secure, host, port, authority, path } = &target;
            let got = (*secure, host.as_str(), *port, authority.as_str(), path.as_str());
            assert_eq!(got, expected, "{url}");
        }
        for url in ["", "/v1", "ftp://a/v1", "a.example/v1", "http://", "http://a b/"] {
            assert!(Target::parse(url, "/x").is_err(), "{url}");
        }
        let error = Target::parse("http://me:secret@a.example/", "/x").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_secret_is_printed_nowhere() {
        let endpoint = Endpoint::new("http://a.example/v1", BodyTemplate::new("m", 1)).unwrap();
        let endpoint = endpoint.bearer("sk-123").unwrap().header("x-a", "open").unwrap();
        let printed = format!("{endpoint:?}");
        assert!(!printed.contains("sk-123"), "{printed}");
        assert!(printed.contains("open"), "{printed}");
        assert_eq!(endpoint.redact("bad key: sk-123!"), "bad key: [redacted]!");
        let error = endpoint.bearer("sk-123\n").unwrap_err().to_string();
        assert!(!error.contains("sk-123"), "{error}");
    }
}
