//! A TLS server with a certificate of our own making, which gives one and the same answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

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
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl TlsServer {
    /// Serves `answer` to every request, under a certificate for `name` that lies in `folder`.
    pub(crate) fn start(folder: &Path, name: &str, validity: Validity, answer: Vec<u8>) -> Self {
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
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let accepting = {
            let (stop, config, answer) = (Arc::clone(&stop), Arc::new(config), Arc::new(answer));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let (config, answer) = (Arc::clone(&config), Arc::clone(&answer));
                    std::thread::spawn(move || serve(stream.unwrap(), config, &answer));
                }
            })
        };
        Self { port, pem, stop, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/v1", self.port)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)); // Wakes the accepting thread.
        let _ = self.accepting.take().unwrap().join();
    }
}

/// Ends when the client goes away, or with a handshake that fails.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, answer: &[u8]) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => request.extend_from_slice(&buffer[..n]),
        }
        // Every request of these tests ends with its body's last brace.
        if request.ends_with(b"}") {
            request.clear();
            if stream.write_all(answer).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}
