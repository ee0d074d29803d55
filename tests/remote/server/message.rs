//! What goes over the wire: a request as it was read, and a response as it will be written, faults included.

use super::content::Content;
use super::encoding::{percent_decoded, query_pairs};

/// A request, with its target as the client wrote it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// What comes before the `?`, still percent-encoded.
    pub path: String,
    /// What comes after the `?`, still percent-encoded, or nothing.
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which connection of its server it came over, counted from 0.
    pub connection: u64,
    /// Which request of its server it is, counted from 0.
    pub ordinal: u64,
}

impl Request {
    /// The first header of a name, whose case does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The pieces of the path between its slashes, each decoded after the cut: `refs%2Fpr%2F1` is one.
    pub fn segments(&self) -> Vec<String> {
        self.path.split('/').filter(|piece| !piece.is_empty()).map(percent_decoded).collect()
    }

    /// The decoded value of a key of the query.
    pub fn query_value(&self, key: &str) -> Option<String> {
        query_pairs(&self.query).into_iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Whether the client would take gzip.
    pub fn accepts_gzip(&self) -> bool {
        self.header("accept-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("gzip"))
    }
}

/// How the end of a body is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` with the body's own length.
    Length,
    /// `Content-Length` with another number. The connection ends after the body.
    Declared(u64),
    /// Nothing; the body ends with the connection.
    UntilClose,
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What goes wrong while a response is written. Offsets count bytes of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Nothing is written at all; the connection stays open.
    Silent,
    /// The connection ends in order once so many bytes are out.
    Close(u64),
    /// The connection is reset once so many bytes are out.
    Reset(u64),
    /// Nothing more comes once so many bytes are out; the connection stays open.
    Hang(u64),
    /// The body comes at so many bytes a second.
    Drip(u64),
    /// Header after header comes, and no end of them.
    EndlessHeaders,
}

/// A response, right or wrong.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content: Content,
    /// Where in the content the body begins.
    pub offset: u64,
    /// How many bytes of the content are the body.
    pub len: u64,
    pub framing: Framing,
    pub fault: Fault,
}

impl Response {
    /// A status without a body.
    pub fn new(status: u16) -> Self {
        Self::with(status, Content::bytes(Vec::new()))
    }

    /// A status with the whole of a content as the body.
    pub fn with(status: u16, content: Content) -> Self {
        let len = content.len();
        Self {
            status,
            headers: Vec::new(),
            content,
            offset: 0,
            len,
            framing: Framing::Length,
            fault: Fault::None,
        }
    }

    /// A text.
    pub fn text(status: u16, text: &str) -> Self {
        Self::with(status, Content::bytes(text)).header("Content-Type", "text/plain; charset=utf-8")
    }

    /// A JSON value.
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::with(status, Content::bytes(value.to_string()))
            .header("Content-Type", "application/json; charset=utf-8")
    }

    /// A redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::text(status, &format!("Redirecting to {location}")).header("Location", location)
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same without the headers of a name.
    pub fn losing(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// The same with this value in place of every header of the name.
    pub fn replacing(self, name: &str, value: impl Into<String>) -> Self {
        self.losing(name).header(name, value)
    }

    /// The same, framed otherwise.
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The same, going wrong.
    pub fn failing(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// The head as it is written, blank line included.
    pub fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // These statuses have no body, and say so by themselves.
        let bodiless = self.status == 204 || self.status == 304;
        match self.framing {
            Framing::Length if bodiless => {}
            Framing::Length => head.push_str(&format!("Content-Length: {}\r\n", self.len)),
            Framing::Declared(len) => head.push_str(&format!("Content-Length: {len}\r\n")),
            Framing::UntilClose => head.push_str("Connection: close\r\n"),
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        }
        head.push_str("\r\n");
        head
    }
}

/// The words that go with a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
