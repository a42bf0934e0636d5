//! A scripted TCP server: any bytes at any moment, and every way of ending.
//!
//! It speaks no HTTP of its own. It reads one request (as far as its `Content-Length` says), then
//! does what the script for that request says. Scripts are dealt out in the order in which
//! requests arrive; the last one is for all that follow.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::patience::wait_until;

/// One thing that the server does after it has read a request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, each in a segment of its own.
    Drip(Vec<u8>),
    /// Sends bytes again and again until the client goes away.
    Flood(Vec<u8>),
    /// Waits, so that what follows arrives in a read of its own.
    Pause(Duration),
    /// Closes the connection with a FIN.
    Close,
    /// Closes the connection with a RST.
    Reset,
    /// Waits until the server has read so many requests, whichever connections they came on.
    AwaitRequests(usize),
    /// Waits until bytes of the next request have arrived, and leaves them unread.
    AwaitNext,
    /// Sends a FIN and keeps the socket: whatever still comes is taken without a word.
    HalfClose,
    /// Ends TLS in words; nothing where there is none.
    Farewell,
    /// Keeps the connection open and says nothing, until the client goes away.
    Hang,
}

/// What is done with one request; the connection stays open for the next one.
pub(crate) type Script = Vec<Step>;

/// A running server; stops when it is dropped.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    accepting: Option<JoinHandle<()>>,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl ScriptedServer {
    pub(crate) fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let accepting = {
            let (requests, connections) = (Arc::clone(&requests), Arc::clone(&connections));
            let (stop, scripts) = (Arc::clone(&stop), Arc::new(scripts));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    connections.fetch_add(1, Ordering::SeqCst);
                    let (requests, scripts) = (Arc::clone(&requests), Arc::clone(&scripts));
                    // Ends when the client closes its side, which every client here does.
                    std::thread::spawn(move || serve(stream.unwrap(), &scripts, &requests));
                }
            })
        };
        Self { address, requests, connections, accepting: Some(accepting), stop }
    }

    /// A base URL for it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request so far: head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// How many those are.
    pub(crate) fn n_requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Connections so far.
    pub(crate) fn n_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // Wakes the accepting thread.
        let _ = self.accepting.take().unwrap().join();
    }
}

/// The server's end of a connection, with TLS or without.
pub(super) trait Peer: Read + Write {
    fn socket(&self) -> &TcpStream;
    fn say_goodbye(&mut self) -> std::io::Result<()>;
}

impl Peer for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn say_goodbye(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Deals out scripts to the requests of one connection, until one of the two sides ends it.
pub(super) fn serve(mut stream: impl Peer, scripts: &[Script], requests: &Mutex<Vec<String>>) {
    stream.socket().set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream) {
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        let script = &scripts[number.min(scripts.len() - 1)];
        for step in script {
            if let Step::AwaitRequests(n) = step {
                wait_until("enough requests", || requests.lock().unwrap().len() >= *n);
            } else if run(step, &mut stream).is_err() {
                return;
            }
        }
    }
}

/// Does one step; an error ends the connection.
fn run(step: &Step, stream: &mut impl Peer) -> std::io::Result<()> {
    let ended = || Err(std::io::ErrorKind::NotConnected.into());
    match step {
        Step::Send(bytes) => stream.write_all(bytes).and_then(|()| stream.flush()),
        Step::Drip(bytes) => bytes.iter().try_for_each(|byte| {
            stream.write_all(&[*byte])?;
            std::thread::sleep(Duration::from_micros(200));
            Ok(())
        }),
        Step::Flood(bytes) => loop {
            stream.write_all(bytes)?;
        },
        Step::Pause(pause) => {
            std::thread::sleep(*pause);
            Ok(())
        }
        Step::AwaitRequests(_) => unreachable!("what knows all connections does it"),
        Step::Close => ended(),
        Step::Reset => {
            let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            nix::sys::socket::setsockopt(
                stream.socket(),
                nix::sys::socket::sockopt::Linger,
                &linger,
            )?;
            ended()
        }
        Step::AwaitNext => match stream.socket().peek(&mut [0])? {
            0 => ended(),
            _ => Ok(()),
        },
        Step::HalfClose => stream.socket().shutdown(std::net::Shutdown::Write),
        Step::Farewell => stream.say_goodbye(),
        Step::Hang => {
            while stream.read(&mut [0; 1024])? > 0 {}
            ended()
        }
    }
}

/// One request; `None` once the client has gone.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

/// A chunked 200 with an event stream, head only.
pub(crate) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                                      Transfer-Encoding: chunked\r\n\r\n";
/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &str = "0\r\n\r\n";

/// One chunk of a chunked body.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// An event with a piece of answer.
pub(crate) fn text_event(text: &str) -> String {
    let json = serde_json::json!({"choices": [{"delta": {"content": text}}]});
    format!("data: {json}\n\n")
}

/// The event with a finish reason.
pub(crate) fn finish_event(reason: &str) -> String {
    let json = serde_json::json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    format!("data: {json}\n\n")
}

/// The event with the usage.
pub(crate) fn usage_event(prompt: u64, output: u64) -> String {
    let usage = serde_json::json!({"prompt_tokens": prompt, "completion_tokens": output});
    format!("data: {}\n\n", serde_json::json!({"choices": [], "usage": usage}))
}

/// A whole good answer of `n` events, each in a chunk of its own, all in one write.
pub(crate) fn good_answer(n: usize) -> Vec<u8> {
    let mut events: Vec<String> = (0..n).map(|i| text_event(&format!("t{i} "))).collect();
    events.push(finish_event("length"));
    events.push(usage_event(5, n as u64));
    events.push("data: [DONE]\n\n".to_owned());
    let chunks: String = events.iter().map(|event| chunk(event)).collect();
    format!("{STREAM_HEAD}{chunks}{LAST_CHUNK}").into_bytes()
}
