//! A blocking HTTP/1.1 client that hides nothing: tests see each frame of a body, and may send
//! anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No test waits longer for a byte: a server that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(300);

/// An answer, whole.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The frames of a chunked body, else the body as one.
    pub frames: Vec<String>,
}

impl Reply {
    pub fn text(&self) -> String {
        self.frames.concat()
    }

    pub fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The data of each event of a stream; every frame must be exactly one event.
    pub fn events(&self) -> Vec<String> {
        self.frames.iter().map(|frame| event_data(frame)).collect()
    }

    /// The events as JSON, without the `[DONE]` that must end them.
    pub fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{self:?}");
        events.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// The data of a frame that is one event.
pub fn event_data(frame: &str) -> String {
    let data = frame.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n"));
    let data = data.unwrap_or_else(|| panic!("not one event: {frame:?}"));
    assert!(!data.contains('\n'), "more than one event: {frame:?}");
    data.to_owned()
}

/// A connection whose answer is read frame by frame. Dropping it hangs up.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Sends what may not all be taken: a server may refuse before it has read everything.
    pub fn send_as_far_as_it_goes(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    pub fn post(&mut self, path: &str, body: &str) {
        self.post_and(path, body, "");
    }

    /// A request, and `more` in the same piece.
    pub fn post_and(&mut self, path: &str, body: &str, more: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body.as_bytes(), more.as_bytes()].concat());
    }

    /// No more is sent; an answer may still be read.
    pub fn half_close(&self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// The status and the headers.
    pub fn read_head(&mut self) -> (u16, Vec<(String, String)>) {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return (status, headers);
            }
            let (key, value) = line.split_once(':').unwrap();
            headers.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }

    /// The next frame of a chunked body; `None` at its end.
    pub fn frame(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut frame = vec![0; length];
        self.reader.read_exact(&mut frame).unwrap();
        assert_eq!(self.line(), "");
        (length > 0).then(|| String::from_utf8(frame).unwrap())
    }

    /// The next event's data; `None` at the end of the body.
    pub fn event(&mut self) -> Option<String> {
        self.frame().map(|frame| event_data(&frame))
    }

    /// The whole answer.
    pub fn reply(&mut self) -> Reply {
        let (status, headers) = self.read_head();
        let mut reply = Reply { status, headers, frames: Vec::new() };
        if reply.header("transfer-encoding").is_some() {
            while let Some(frame) = self.frame() {
                reply.frames.push(frame);
            }
        } else {
            let length = reply.header("content-length").map_or(0, |text| text.parse().unwrap());
            let mut body = vec![0; length];
            self.reader.read_exact(&mut body).unwrap();
            reply.frames.push(String::from_utf8(body).unwrap());
        }
        reply
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Whether the server has closed the connection, without a further byte.
    pub fn is_at_its_end(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok([]))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("cut line: {line:?}")).to_owned()
    }
}

/// `GET path` on a connection of its own.
pub fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
}

/// `POST path` with a JSON body, on a connection of its own.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    let mut connection = Connection::open(address);
    connection.post(path, body);
    connection.reply()
}

/// These bytes on a connection of its own.
pub fn request(address: SocketAddr, bytes: &str) -> Reply {
    let mut connection = Connection::open(address);
    connection.send(bytes.as_bytes());
    connection.reply()
}
