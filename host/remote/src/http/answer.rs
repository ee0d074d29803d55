//! The answer to a request.

use apr_sdk::{Error, Result};
use std::io::Read;
use ureq::http::HeaderMap;
use url::Url;

/// An answer whose body is still to be read.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The URL that gave it, after redirects.
    pub url: Url,
    /// The headers of the redirects that led there, in order.
    pub hops: Vec<HeaderMap>,
    /// The body.
    pub body: Box<dyn Read + Send>,
}

/// Range of a `Content-Range`: the bytes from `start` up to `end` of `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last byte.
    pub end: u64,
    /// Length of the whole.
    pub total: u64,
}

impl Answer {
    /// The value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }

    /// The value of a header in this answer, or else in the last redirect that has it.
    pub fn header_of_any(&self, name: &str) -> Option<&str> {
        self.header(name).or_else(|| self.hops.iter().rev().find_map(|hop| text(hop, name)))
    }

    /// Length of the body, as stated.
    pub fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// The range that the body is, as stated; `None` also for one whose total is not known.
    pub fn content_range(&self) -> Option<ContentRange> {
        let (range, total) = self.header("content-range")?.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, last) = range.split_once('-')?;
        let (start, last, total) = (number(start)?, number(last)?, number(total)?);
        let end = last.checked_add(1)?;
        (start < end && end <= total).then_some(ContentRange { start, end, total })
    }

    /// The length that a refusal of a range states: `bytes */N`.
    pub fn refused_total(&self) -> Option<u64> {
        number(self.header("content-range")?.trim().strip_prefix("bytes */")?)
    }

    /// The version of the content: the strong entity tag without its quotes.
    pub fn strong_tag(&self) -> Option<&str> {
        let tag = self.header("etag")?.trim();
        tag.strip_prefix('"')?.strip_suffix('"').filter(|tag| !tag.is_empty())
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// Io; LimitExceeded for more than `limit` bytes.
    pub fn read(self, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut limited = self.body.take(limit + 1);
        let host = self.url.host_str().unwrap_or_default();
        limited.read_to_end(&mut bytes).map_err(|e| super::failure::broken(&e, host))?;
        if bytes.len() as u64 > limit {
            return Err(Error::limit(format!("the server's answer is longer than {limit} bytes")));
        }
        Ok(bytes)
    }
}

/// The value of a header, if it is text.
pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn number(text: &str) -> Option<u64> {
    // `parse` takes a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &'static str, value: &'static str) -> Answer {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        let url = Url::parse("https://example.org/").unwrap();
        Answer { status: 206, headers, url, hops: Vec::new(), body: Box::new(std::io::empty()) }
    }

    #[test]
    fn ranges_are_what_they_can_be() {
        let range = |text| answer("content-range", text).content_range();
        assert_eq!(range("bytes 0-9/100"), Some(ContentRange { start: 0, end: 10, total: 100 }));
        for bad in ["bytes 5-4/100", "bytes 0-100/100", "bytes 0-9/*", "bytes +0-9/10", "0-9/10", "bytes */7"]
        {
            assert_eq!(range(bad), None, "{bad}");
        }
        assert_eq!(answer("content-range", "bytes */7").refused_total(), Some(7));
    }

    #[test]
    fn weak_tags_identify_no_bytes() {
        assert_eq!(answer("etag", "\"abc\"").strong_tag(), Some("abc"));
        assert_eq!(answer("etag", "W/\"abc\"").strong_tag(), None);
    }

    #[test]
    fn a_body_beyond_its_limit_is_refused() {
        let mut long = answer("etag", "\"a\"");
        long.body = Box::new(std::io::repeat(1));
        assert_eq!(long.read(10).unwrap_err().kind(), apr_sdk::ErrorKind::LimitExceeded);
    }
}
