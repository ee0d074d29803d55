//! What the servers saw: every request, in the order of arrival, over all servers that share a log.

use std::sync::{Arc, Mutex, MutexGuard};

use super::message::Request;

/// One request, and what became of it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Still percent-encoded.
    pub path: String,
    pub query: String,
    pub range: Option<String>,
    /// Whether an `Authorization` header came.
    pub authorized: bool,
    pub headers: Vec<(String, String)>,
    /// The port it came to.
    pub port: u16,
    /// Which connection of that port it came over, counted from 0.
    pub connection: u64,
    /// 0 until the answer begins.
    pub status: u16,
    /// The bytes of the body that were handed to the system so far.
    pub sent: u64,
}

impl Seen {
    /// `GET /path?query bytes=0-7`: the request in a line.
    pub fn line(&self) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let range = self.range.as_ref().map_or(String::new(), |range| format!(" {range}"));
        format!("{} {}{query}{range}", self.method, self.path)
    }

    /// Whether a text, such as a token, stands anywhere in it.
    pub fn contains(&self, text: &str) -> bool {
        self.path.contains(text)
            || self.query.contains(text)
            || self.headers.iter().any(|(name, value)| name.contains(text) || value.contains(text))
    }
}

#[derive(Default)]
struct Entries {
    seen: Vec<Seen>,
    /// Of each connection the port it came to.
    connections: Vec<u16>,
    in_flight: usize,
    most_in_flight: usize,
}

/// A log. Clones write into the same one.
#[derive(Clone, Default)]
pub struct Log {
    entries: Arc<Mutex<Entries>>,
}

impl Log {
    /// Every request so far.
    pub fn requests(&self) -> Vec<Seen> {
        self.entries().seen.clone()
    }

    /// The requests that came to one port.
    pub fn requests_to(&self, port: u16) -> Vec<Seen> {
        self.entries().seen.iter().filter(|seen| seen.port == port).cloned().collect()
    }

    /// Every request so far in a line each.
    pub fn lines(&self) -> Vec<String> {
        self.entries().seen.iter().map(Seen::line).collect()
    }

    /// How many connections were accepted on a port.
    pub fn connections(&self, port: u16) -> usize {
        self.entries().connections.iter().filter(|p| **p == port).count()
    }

    /// The bytes of bodies that a port sent.
    pub fn sent_by(&self, port: u16) -> u64 {
        self.entries().seen.iter().filter(|seen| seen.port == port).map(|seen| seen.sent).sum()
    }

    /// The most requests that were being answered at one time.
    pub fn most_at_once(&self) -> usize {
        self.entries().most_in_flight
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        let mut entries = self.entries();
        let in_flight = entries.in_flight;
        *entries = Entries { in_flight, most_in_flight: in_flight, ..Entries::default() };
    }

    pub(super) fn connected(&self, port: u16) {
        self.entries().connections.push(port);
    }

    /// Notes a request, which is in flight until what is returned is dropped.
    pub(super) fn arrived(&self, request: &Request, port: u16) -> Flight {
        let mut entries = self.entries();
        let seen = Seen {
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            range: request.header("range").map(str::to_owned),
            authorized: request.header("authorization").is_some(),
            headers: request.headers.clone(),
            port,
            connection: request.connection,
            status: 0,
            sent: 0,
        };
        entries.seen.push(seen);
        entries.in_flight += 1;
        entries.most_in_flight = entries.most_in_flight.max(entries.in_flight);
        Flight { log: self.clone(), index: entries.seen.len() - 1 }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("nobody panics while it is held")
    }
}

/// A request that is being answered.
pub(super) struct Flight {
    log: Log,
    index: usize,
}

impl Flight {
    pub(super) fn answered(&self, status: u16) {
        // The log may have been cleared since.
        if let Some(seen) = self.log.entries().seen.get_mut(self.index) {
            seen.status = status;
        }
    }

    pub(super) fn sent(&self, len: u64) {
        if let Some(seen) = self.log.entries().seen.get_mut(self.index) {
            seen.sent += len;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.log.entries().in_flight -= 1;
    }
}
