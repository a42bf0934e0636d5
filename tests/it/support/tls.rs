//! The scripted server behind TLS, with a certificate of our own making.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio_rustls::TlsAcceptor;

use super::scripted::{Peer, Script, serve};

/// When a certificate is good.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Validity {
    Now,
    Past,
}

/// A running server; stops when it is dropped.
pub(crate) struct TlsServer {
    pub(crate) port: u16,
    pub(crate) pem: PathBuf,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl TlsServer {
    /// Deals out `scripts` under a certificate for `name` that lies in `folder`.
    pub(crate) fn start(
        folder: &Path,
        name: &str,
        validity: Validity,
        scripts: Vec<Script>,
    ) -> Self {
        let (config, pem) = config(folder, name, validity, &[]);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let accepting = {
            let (stop, requests) = (Arc::clone(&stop), Arc::clone(&requests));
            let (config, scripts) = (Arc::new(config), Arc::new(scripts));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let (scripts, requests) = (Arc::clone(&scripts), Arc::clone(&requests));
                    let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                    let stream = StreamOwned::new(connection, stream.unwrap());
                    // Ends when the client goes away, or with a handshake that fails.
                    std::thread::spawn(move || serve(stream, &scripts, &requests));
                }
            })
        };
        Self { port, pem, requests, stop, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/v1", self.port)
    }

    /// Every request so far: head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)); // Wakes the accepting thread.
        let _ = self.accepting.take().unwrap().join();
    }
}

impl Peer for StreamOwned<ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn say_goodbye(&mut self) -> std::io::Result<()> {
        self.conn.send_close_notify();
        std::io::Write::flush(self)
    }
}

/// What an asynchronous server needs to accept TLS, and the certificate to trust.
pub(crate) fn acceptor(
    folder: &Path,
    name: &str,
    validity: Validity,
    alpn: &[&[u8]],
) -> (TlsAcceptor, PathBuf) {
    let (config, pem) = config(folder, name, validity, alpn);
    (TlsAcceptor::from(Arc::new(config)), pem)
}

/// A certificate for `name` that lies in `folder`, and a server's settings with it.
fn config(
    folder: &Path,
    name: &str,
    validity: Validity,
    alpn: &[&[u8]],
) -> (ServerConfig, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if matches!(validity, Validity::Past) {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let certificate = params.self_signed(&key).unwrap();
    let pem = folder.join("ca.pem");
    std::fs::write(&pem, certificate.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    (config, pem)
}
