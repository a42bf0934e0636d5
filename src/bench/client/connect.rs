//! A connection is opened: name, TCP, TLS, each with its stamp.

use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connection::Connection;
use super::endpoint::{HttpVersion, Target};
use super::failure::{Failure, chain};
use super::wire::{Gated, Stamped, Wire};
use crate::measure::trace::FailureClass;

/// When which step of a connect was done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectStamps {
    pub(super) dns: Option<Instant>,
    pub(super) connected: Option<Instant>,
    pub(super) tls: Option<Instant>,
}

/// Opens connections to one target.
pub(super) struct Dialer {
    target: Target,
    version: HttpVersion,
    tls: Option<TlsConnector>,
}

impl Dialer {
    pub(super) fn new(
        target: Target,
        version: HttpVersion,
        extra_ca: &[CertificateDer<'static>],
    ) -> Self {
        let config = || Arc::new(client_config(version, extra_ca));
        let tls = target.secure.then(|| TlsConnector::from(config()));
        Self { target, version, tls }
    }

    /// Opens a connection; `stamps` keeps what was reached if that fails.
    pub(super) async fn open(&self, stamps: &mut ConnectStamps) -> Result<Connection, Failure> {
        let refused = |text: String| Failure::new(FailureClass::Connect, text);
        let Target { host, port, .. } = &self.target;
        let addresses = tokio::net::lookup_host((host.as_str(), *port))
            .await
            .map_err(|error| refused(format!("resolve {host}: {error}")))?;
        stamps.dns = Some(Instant::now());

        let mut last_error = None;
        let mut socket = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(connected) => {
                    socket = Some(connected);
                    break;
                }
                Err(error) => last_error = Some(format!("connect to {address}: {error}")),
            }
        }
        let socket = socket.ok_or_else(|| {
            refused(last_error.unwrap_or_else(|| format!("resolve {host}: it has no address")))
        })?;
        stamps.connected = Some(Instant::now());
        // Without it a request in two segments waits for the peer's delayed acknowledgement.
        socket.set_nodelay(true).map_err(|error| refused(format!("set TCP_NODELAY: {error}")))?;

        let wire = Wire::new(socket);
        let Some(tls) = &self.tls else {
            let stream = Stamped(Rc::clone(&wire));
            return Connection::new(Gated { stream, wire }, self.version).await;
        };
        let failed = |text: String| Failure::new(FailureClass::Tls, text);
        let name = ServerName::try_from(host.clone())
            .map_err(|error| failed(format!("verify {host}: {error}")))?;
        let stream = tls
            .connect(name, Stamped(Rc::clone(&wire)))
            .await
            .map_err(|error| failed(format!("shake hands with {host}: {}", chain(&error))))?;
        stamps.tls = Some(Instant::now());
        if self.version == HttpVersion::Http2
            && stream.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2)
        {
            return Err(Failure::protocol(format!("{host} does not offer HTTP/2")));
        }
        Connection::new(Gated { stream, wire }, self.version).await
    }
}

const ALPN_HTTP1: &[u8] = b"http/1.1";
const ALPN_HTTP2: &[u8] = b"h2";

/// TLS 1.2 or 1.3 with verification: the system's trust store, and `extra_ca`.
pub(in crate::bench) fn client_config(
    version: HttpVersion,
    extra_ca: &[CertificateDer<'static>],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    // What cannot be parsed in a trust store is passed over, as everybody does.
    roots.add_parsable_certificates(system_roots().iter().cloned());
    roots.add_parsable_certificates(extra_ca.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let alpn = match version {
        HttpVersion::Http1 => ALPN_HTTP1,
        HttpVersion::Http2 => ALPN_HTTP2,
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

/// Read once: it takes milliseconds, and every level of every target wants it.
fn system_roots() -> &'static [CertificateDer<'static>] {
    static ROOTS: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}
