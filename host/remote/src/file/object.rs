//! A file on a server: its length and version, and ranges of it.

use crate::http::answer::ContentRange;
use crate::http::retry::{ATTEMPTS, backoff};
use crate::http::{Answer, Client, Query, failure};
use apr_sdk::{Error, Result, escape};
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// Bytes of the longest file: 16 TiB, four times the largest models in one file.
const LONGEST: u64 = 16 << 40;

/// Mark of a version of a file: a strong entity tag, or the time of the last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag(Option<String>);

impl Tag {
    /// The tag of an answer.
    fn of(answer: &Answer) -> Tag {
        let changed = || answer.header("last-modified").map(|time| format!("last changed {time}"));
        Tag(answer.strong_tag().map(|tag| format!("ETag {tag}")).or_else(changed))
    }

    /// Returns whether two tags are known to differ.
    fn differs(&self, other: &Tag) -> bool {
        self.0.is_some() && other.0.is_some() && self != other
    }

    fn text(&self) -> &str {
        self.0.as_deref().unwrap_or("unknown")
    }
}

/// Turns the refusal of a server into words; the servers of a hub say more than others.
pub type Refusal = fn(&Answer) -> Error;

/// Commit and content of a file on the hub, by the first answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The commit, 40 hexadecimal digits.
    pub commit: Option<String>,
    /// The hub's name for the content: SHA-256 in hexadecimal digits of a large file, git's id of a small one.
    pub content: Option<String>,
}

/// A file on a server.
pub struct Object {
    client: Arc<Client>,
    query: Query,
    refusal: Refusal,
    shown: String,
    len: u64,
    tag: Tag,
    identity: Identity,
    takes_ranges: bool,
    /// True if the server calls it a web page.
    is_page: bool,
    /// Target of the last redirect: asked directly until it refuses, since links with a signature expire.
    direct: Mutex<Option<Url>>,
}

/// A file as its first answer described it, and the bytes that came with it.
pub struct Opened {
    /// The file.
    pub object: Arc<Object>,
    /// Its first bytes; all of them from a server that gives no ranges.
    pub first: Stretch,
}

impl Object {
    /// Asks for the first `len` bytes of a file, which also tells its length.
    ///
    /// # Errors
    /// As [`Client::send`]; the refusal, if the server does not give it.
    pub fn open(
        client: &Arc<Client>,
        query: Query,
        shown: String,
        len: u64,
        refusal: Refusal,
    ) -> Result<Opened> {
        let answer = client.send(&Query { range: Some(0..len), ..query.clone() })?;
        let (len, takes_ranges) = match (answer.status, answer.content_range(), answer.content_length()) {
            (206, Some(ContentRange { start: 0, total, .. }), _) => (total, true),
            // A range of no bytes cannot be had.
            (416, ..) if answer.refused_total() == Some(0) => (0, true),
            (200, _, Some(len)) => (len, false),
            (200, _, None) => (u64::MAX, false),
            (206, ..) => return Err(wrong_range(&answer).in_file(shown)),
            _ => return Err(refusal(&answer).with_file(shown)),
        };
        if len > LONGEST && len != u64::MAX {
            let message = format!("the server says that the file has {len} bytes, more than any has");
            return Err(Error::limit(message).in_file(shown).hint("check the address"));
        }
        refuse_encoded(&answer, &shown)?;
        let identity = Identity {
            commit: answer.header_of_any("x-repo-commit").map(str::to_owned),
            content: content_id(&answer),
        };
        let direct = (!answer.hops.is_empty()).then(|| answer.url.clone());
        let end = match (answer.status, answer.content_range()) {
            (206, Some(range)) => range.end,
            (416, _) => 0,
            _ => len,
        };
        let object = Arc::new(Object {
            client: Arc::clone(client),
            query,
            refusal,
            shown,
            len,
            tag: Tag::of(&answer),
            identity,
            takes_ranges,
            is_page: answer.header("content-type").is_some_and(|kind| kind.trim().starts_with("text/html")),
            direct: Mutex::new(direct),
        });
        let first = Stretch { object: Arc::clone(&object), at: 0, end, body: Some(answer.body), failed: 0 };
        Ok(Opened { object, first })
    }

    /// Length in bytes; `u64::MAX` if the server does not say, which only one without ranges does.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Returns whether the server calls it a web page.
    pub fn is_page(&self) -> bool {
        self.is_page
    }

    /// Returns whether the server gives ranges.
    pub fn takes_ranges(&self) -> bool {
        self.takes_ranges
    }

    /// The file as the user would type it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Commit and content, by the hub.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A number that differs for versions of the file that are known to differ.
    pub fn version(&self) -> i128 {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        for part in [&self.identity.commit, &self.identity.content, &self.tag.0] {
            hash.update(part.as_deref().unwrap_or_default());
            hash.update([0]);
        }
        let digest = hash.finalize();
        let first: [u8; 8] = std::array::from_fn(|at| digest[at]);
        i128::from(u64::from_le_bytes(first) >> 1)
    }

    /// Returns whether the server says which version of the file it gives.
    pub fn has_tag(&self) -> bool {
        self.tag.0.is_some() || self.identity.content.is_some()
    }

    /// The client that gets it.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The bytes of a range, which ends at the end of the file at the latest.
    ///
    /// # Errors
    /// As [`Object::open`]; Io if the file is another by now, or the server gives other bytes than were asked for.
    pub fn stretch(self: &Arc<Object>, range: Range<u64>) -> Result<Stretch> {
        let mut stretch = Stretch {
            object: Arc::clone(self),
            at: range.start,
            end: range.end.min(self.len),
            body: None,
            failed: 0,
        };
        stretch.connect()?;
        Ok(stretch)
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// As [`Object::stretch`] and [`Stretch::fill`].
    pub fn read_at(self: &Arc<Object>, offset: u64, out: &mut [u8]) -> Result<()> {
        self.stretch(offset..offset.saturating_add(out.len() as u64))?.fill(out)
    }

    /// The host that the bytes come from.
    fn host(&self) -> String {
        let direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        direct.as_ref().unwrap_or(&self.query.url).host_str().unwrap_or_default().to_owned()
    }

    fn ask(&self, range: Range<u64>) -> Result<Answer> {
        let known = self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut headers = self.query.headers.clone();
        if let Some(tag) = self.tag.0.as_deref().and_then(|tag| tag.strip_prefix("ETag ")) {
            headers.push(("if-range", format!("\"{tag}\"")));
        }
        if let Some(url) = known {
            let answer =
                self.client.send(&Query { url, range: Some(range.clone()), headers: headers.clone() })?;
            if answer.status == 206 || answer.status == 200 {
                return Ok(answer);
            }
            // The link has expired, or the file moved: the first URL knows.
        }
        let query = Query { range: Some(range), headers, ..self.query.clone() };
        let answer = self.client.send(&query)?;
        let direct = (!answer.hops.is_empty()).then(|| answer.url.clone());
        *self.direct.lock().unwrap_or_else(PoisonError::into_inner) = direct;
        let commit = answer.header_of_any("x-repo-commit");
        if let (Some(then), Some(now)) = (&self.identity.commit, commit)
            && then != now
        {
            return Err(self.changed(&format!("commit {then}"), &format!("commit {now}")));
        }
        Ok(answer)
    }

    fn changed(&self, then: &str, now: &str) -> Error {
        let message = format!(
            "the file changed while it was being read: it was {}, and is {}",
            escape(then, 120),
            escape(now, 120)
        );
        Error::io(message).in_file(self.shown.clone()).hint("run the command again")
    }

    /// The body of exactly this range.
    fn body(&self, range: Range<u64>) -> Result<Box<dyn Read + Send>> {
        let answer = self.ask(range.clone())?;
        let tag = Tag::of(&answer);
        if self.tag.differs(&tag) {
            return Err(self.changed(self.tag.text(), tag.text()));
        }
        match (answer.status, answer.content_range()) {
            (206, Some(got)) if got.total != self.len => {
                Err(self.changed(&format!("{} bytes long", self.len), &format!("{} bytes long", got.total)))
            }
            (206, Some(got)) if got.start == range.start && got.end == range.end => {
                refuse_encoded(&answer, &self.shown)?;
                Ok(answer.body)
            }
            (206, _) => Err(wrong_range(&answer).in_file(self.shown.clone())),
            (200, _) if range.start == 0 && !self.takes_ranges => Ok(answer.body),
            (200, _) => Err(Error::io("the server answered a request for a range with the whole file")
                .in_file(self.shown.clone())
                .hint("run the command again: either the file changed, or the server stopped giving ranges")),
            _ => Err((self.refusal)(&answer).with_file(self.shown.clone())),
        }
    }
}

fn wrong_range(answer: &Answer) -> Error {
    let got = escape(answer.header("content-range").unwrap_or("none"), 80);
    let host = answer.url.host_str().unwrap_or_default().to_owned();
    Error::io(format!("`{host}` answered with another range than was asked for ({got})"))
        .hint("get the file with another program first: this server's ranges cannot be trusted")
}

/// Fails for a body that is compressed, which nobody asked for: its ranges would be those of other bytes.
fn refuse_encoded(answer: &Answer, shown: &str) -> Result<()> {
    match answer.header("content-encoding").map(str::trim) {
        None | Some("" | "identity") => Ok(()),
        Some(encoding) => {
            let message = format!("the server compresses the file ({}) unasked", escape(encoding, 40));
            Err(Error::io(message).in_file(shown).hint("get the file with another program first"))
        }
    }
}

/// The hub's name for the content: without quotes and the mark of a weak tag.
fn content_id(answer: &Answer) -> Option<String> {
    // No hub's if it does not say the commit.
    answer.header_of_any("x-repo-commit")?;
    let tag = answer.header_of_any("x-linked-etag").or_else(|| answer.header_of_any("etag"))?.trim();
    let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    let is_hexadecimal = tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    (matches!(tag.len(), 40 | 64) && is_hexadecimal).then(|| tag.to_ascii_lowercase())
}

/// Bytes of a file as they arrive. A connection that is lost is made again, at the byte where it was.
pub struct Stretch {
    object: Arc<Object>,
    at: u64,
    end: u64,
    body: Option<Box<dyn Read + Send>>,
    /// Attempts since the last byte.
    failed: u32,
}

impl Stretch {
    /// Offset of the next byte in the file.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Offset behind the last byte; of a server that does not say the length, the end is found by reading.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Fills `out` with the next bytes.
    ///
    /// # Errors
    /// As [`Stretch::read`]; Io if there are fewer.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            match self.read(&mut out[filled..])? {
                0 => {
                    let error = Error::io("the server has fewer bytes of the file than it said");
                    return Err(error
                        .at(self.at)
                        .in_file(self.object.shown.clone())
                        .hint("run the command again"));
                }
                n => filled += n,
            }
        }
        Ok(())
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// As [`Object::stretch`], if attempts did not help.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(out.len());
        if left == 0 {
            return Ok(0);
        }
        loop {
            self.object.client.refuse_cancelled()?;
            let failure = match self.body.as_mut().map(|body| body.read(&mut out[..left])) {
                Some(Ok(0)) if self.end == u64::MAX => {
                    self.end = self.at;
                    return Ok(0);
                }
                Some(Ok(0)) => Error::io("the server ended the transfer early"),
                Some(Ok(n)) => {
                    self.at += n as u64;
                    self.failed = 0;
                    if self.at == self.end {
                        // A body that is read to its end leaves its connection for the next request.
                        let _ = self.body.take().map(|mut body| body.read(&mut [0]));
                    }
                    return Ok(n);
                }
                Some(Err(error)) => failure::broken(&error, &self.object.host()),
                None => Error::io("no connection"),
            };
            self.body = None;
            self.failed += 1;
            let is_lost = !self.object.takes_ranges && self.at > 0;
            if is_lost || self.failed == ATTEMPTS {
                return Err(failure.at(self.at).in_file(self.object.shown.clone()));
            }
            let wait = backoff(self.object.client.options().first_backoff, self.failed);
            self.object.client.wait(&format!("{} ({})", failure.message(), self.object.shown), wait)?;
            self.connect()?;
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.at < self.end {
            self.body = Some(self.object.body(self.at..self.end)?);
        }
        Ok(())
    }
}
