//! One connection: requests are read, answered and written, faults included, until it ends.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::listen::Shared;
use super::log::Flight;
use super::message::{Fault, Framing, Request, Response};
use super::pace::Rate;

/// The longest head of a request that is read.
const HEAD_LIMIT: usize = 256 << 10;

/// How much of a body is written at a time.
const PIECE: usize = 64 << 10;

/// How often a wait looks whether the server has stopped.
const GLANCE: Duration = Duration::from_millis(20);

/// Bytes both ways: a socket, or TLS over one.
pub(super) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// How long what was written has to arrive before a reset.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// What became of a connection with a response.
#[derive(PartialEq, Eq)]
enum Ending {
    KeepAlive,
    Close,
}

/// A connection at work.
pub(super) struct Connection<'a> {
    pub shared: &'a Shared,
    pub stream: Box<dyn Stream>,
    /// The socket below, for what only it can do.
    pub socket: TcpStream,
    /// Counted from 0.
    pub number: u64,
    /// What was read and belongs to no request yet.
    pub unread: Vec<u8>,
    pub rate: Option<Rate>,
}

impl Connection<'_> {
    /// Answers until either side ends it.
    pub(super) fn run(&mut self) -> io::Result<()> {
        self.wait_until(Instant::now() + self.shared.pace.connecting)?;
        while let Some(mut request) = self.read_request()? {
            request.connection = self.number;
            request.ordinal = self.shared.next_ordinal();
            let flight = self.shared.log.arrived(&request, self.shared.port);
            self.wait_until(Instant::now() + self.shared.pace.answering)?;
            let response = self.shared.service.answer(&request);
            flight.answered(response.status);
            let ending = self.write(&request, &response, &flight)?;
            let last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            if ending == Ending::Close || last {
                break;
            }
        }
        Ok(())
    }

    /// The next request, or none where the client has ended.
    fn read_request(&mut self) -> io::Result<Option<Request>> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if self.unread.len() > HEAD_LIMIT || self.read_more()? == 0 {
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        self.unread.drain(..end + 4);
        let mut request = parsed(&head);
        let len = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        while self.unread.len() < len {
            if self.read_more()? == 0 {
                return Ok(None);
            }
        }
        request.body = self.unread.drain(..len).collect();
        Ok(Some(request))
    }

    fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 8 << 10];
        let n = self.stream.read(&mut piece)?;
        self.unread.extend(&piece[..n]);
        Ok(n)
    }

    fn write(&mut self, request: &Request, response: &Response, flight: &Flight) -> io::Result<Ending> {
        if response.fault == Fault::Silent {
            return self.hang();
        }
        if response.fault == Fault::EndlessHeaders {
            return self.write_headers_for_ever();
        }
        self.stream.write_all(response.head().as_bytes())?;
        self.stream.flush()?;
        if request.method == "HEAD" {
            let last = response.framing == Framing::UntilClose;
            return Ok(if last { Ending::Close } else { Ending::KeepAlive });
        }
        let stop = match response.fault {
            Fault::Close(after) | Fault::Reset(after) | Fault::Hang(after) => after.min(response.len),
            _ => response.len,
        };
        self.write_body(response, stop, flight)?;
        match response.fault {
            Fault::Close(_) => return Ok(Ending::Close),
            Fault::Hang(_) => return self.hang(),
            Fault::Reset(_) => {
                // A reset overtakes what is still on its way.
                self.wait_until(Instant::now() + BEFORE_RESET)?;
                set_socket_linger(&self.socket, Some(Duration::ZERO))?;
                self.shared.forget(self.number);
                return Ok(Ending::Close);
            }
            _ => {}
        }
        match response.framing {
            Framing::Chunked => self.stream.write_all(b"0\r\n\r\n")?,
            Framing::UntilClose => return Ok(Ending::Close),
            Framing::Declared(len) if len != response.len => return Ok(Ending::Close),
            _ => {}
        }
        self.stream.flush()?;
        Ok(Ending::KeepAlive)
    }

    fn write_body(&mut self, response: &Response, stop: u64, flight: &Flight) -> io::Result<()> {
        let drip = match response.fault {
            Fault::Drip(per_second) => Some(Rate::new(per_second)),
            _ => None,
        };
        let shared = self.shared;
        let pieces = [&self.rate, &shared.total_rate, &drip].into_iter().flatten().map(Rate::piece);
        let piece = pieces.min().unwrap_or(PIECE).min(PIECE);
        let mut done = 0;
        while done < stop {
            let len = usize::try_from(stop - done).map_or(piece, |left| left.min(piece));
            let bytes = response.content.at(response.offset + done, len);
            assert_eq!(bytes.len(), len, "a content gives as many bytes as it is asked for");
            let free =
                [&self.rate, &shared.total_rate, &drip].into_iter().flatten().map(|rate| rate.book(len));
            if let Some(until) = free.max() {
                self.wait_until(until)?;
            }
            if response.framing == Framing::Chunked {
                self.stream.write_all(format!("{len:x}\r\n").as_bytes())?;
                self.stream.write_all(&bytes)?;
                self.stream.write_all(b"\r\n")?;
            } else {
                self.stream.write_all(&bytes)?;
            }
            self.stream.flush()?;
            done += len as u64;
            flight.sent(len as u64);
        }
        Ok(())
    }

    fn write_headers_for_ever(&mut self) -> io::Result<Ending> {
        self.stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
        for n in 0_u64.. {
            self.stream.write_all(format!("X-Header-{n}: {}\r\n", "a".repeat(100)).as_bytes())?;
        }
        Ok(Ending::Close)
    }

    /// Does nothing until the client has gone or the server stops.
    fn hang(&mut self) -> io::Result<Ending> {
        self.socket.set_read_timeout(Some(GLANCE))?;
        while !self.shared.stopped() {
            match self.socket.peek(&mut [0]) {
                Ok(0) => break,
                // What the client says is not listened to.
                Ok(_) => thread::sleep(GLANCE),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Ending::Close)
    }

    fn wait_until(&self, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.shared.stopped() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}

/// A request from its head.
fn parsed(head: &str) -> Request {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or("").split(' ');
    let method = words.next().unwrap_or("").to_owned();
    let target = words.next().unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.filter_map(|line| line.split_once(':'));
    Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect(),
        ..Request::default()
    }
}
