//! The servers do what they say, to a client that is nothing but a socket.

mod access;
mod forms;
mod hostile;
mod hub;
mod liar;
mod pace;
mod redirector;
mod staller;
mod tls;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take, so that no fault of a server hangs the tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Why the body is shorter than announced, if it is: its end, or an error.
    pub cut: Option<io::ErrorKind>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A connection.
pub struct Wire<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

impl Wire {
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::over(stream)
    }

    /// Waits no longer than this for anything from now on.
    pub fn patient(self, patience: Duration) -> Self {
        self.stream.set_read_timeout(Some(patience)).unwrap();
        self
    }
}

impl<S: Read + Write> Wire<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends a request without a body.
    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.stream.write_all(head.as_bytes()).unwrap();
    }

    /// Receives the answer to what was sent by a method.
    pub fn receive(&mut self, method: &str) -> io::Result<Answer> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            self.read_more()?;
        };
        let head = String::from_utf8(self.unread[..end].to_vec()).unwrap();
        self.unread.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new(), cut: None };
        if method != "HEAD" && status != 304 {
            self.receive_body(&mut answer);
        }
        Ok(answer)
    }

    /// The body as it is framed; chunks are left as they come.
    fn receive_body(&mut self, answer: &mut Answer) {
        let len: Option<usize> = answer.header("content-length").map(|value| value.parse().unwrap());
        let chunked = answer.header("transfer-encoding").is_some();
        let is_whole = |unread: &[u8]| match len {
            Some(len) => unread.len() >= len,
            None => chunked && unread.ends_with(b"0\r\n\r\n"),
        };
        while !is_whole(&self.unread) {
            if let Err(error) = self.read_more() {
                answer.cut = (len.is_some() || chunked).then_some(error.kind());
                break;
            }
        }
        let n = len.map_or(self.unread.len(), |len| len.min(self.unread.len()));
        answer.body = self.unread.drain(..n).collect();
    }

    /// Everything that is still to come until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.read_more().is_ok() {}
        std::mem::take(&mut self.unread)
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut piece = [0; 16 << 10];
        let n = self.stream.read(&mut piece)?;
        self.unread.extend(&piece[..n]);
        if n == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Sends a GET and receives its answer.
    pub fn get(&mut self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", target, headers);
        self.receive("GET").unwrap()
    }
}

/// A GET over a connection of its own, by an absolute address.
pub fn get(url: &str, headers: &[(&str, &str)]) -> Answer {
    ask("GET", url, headers)
}

/// A HEAD over a connection of its own.
pub fn head(url: &str, headers: &[(&str, &str)]) -> Answer {
    ask("HEAD", url, headers)
}

fn ask(method: &str, url: &str, headers: &[(&str, &str)]) -> Answer {
    let (port, target) = split(url);
    let mut wire = Wire::to(port);
    wire.send(method, &target, headers);
    wire.receive(method).unwrap()
}

/// The port and the rest of an address of the loopback interface.
pub fn split(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{url} leads away"));
    let (port, path) = rest.split_once('/').unwrap();
    (port.parse().unwrap(), format!("/{path}"))
}
