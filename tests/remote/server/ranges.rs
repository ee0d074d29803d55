//! What a right file server answers: the whole content, or the range that was asked for, if the conditions hold.

use super::content::Content;
use super::encoding::gzip;
use super::message::{Request, Response};

/// Up to this length a body is compressed for those who take gzip.
const GZIP_LIMIT: u64 = 8 << 20;

/// What a `Range` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Whole,
    /// First and last byte, both within the content.
    Part(u64, u64),
    /// Past the end.
    Nothing,
}

impl Wanted {
    /// What is wanted of a content. Several ranges, and what is no range of bytes, are answered by the whole.
    pub fn of(request: &Request, len: u64) -> Self {
        let Some(range) = request.header("range").and_then(|value| value.strip_prefix("bytes=")) else {
            return Self::Whole;
        };
        let Some((first, last)) = range.split_once('-') else { return Self::Whole };
        match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
            (Ok(first), Ok(last)) if last < first => Self::Whole,
            (Ok(first), _) if first >= len => Self::Nothing,
            (Ok(first), Ok(last)) => Self::Part(first, last.min(len - 1)),
            (Ok(first), Err(_)) if last.trim().is_empty() => Self::Part(first, len - 1),
            (Err(_), Ok(0)) if first.trim().is_empty() => Self::Nothing,
            (Err(_), Ok(_)) if first.trim().is_empty() && len == 0 => Self::Nothing,
            (Err(_), Ok(count)) if first.trim().is_empty() => Self::Part(len.saturating_sub(count), len - 1),
            _ => Self::Whole,
        }
    }
}

/// A file as a server has it.
#[derive(Clone, Debug)]
pub struct Served {
    pub content: Content,
    /// With its quotes.
    pub etag: Option<String>,
    /// As HTTP writes dates.
    pub modified: Option<String>,
    pub content_type: &'static str,
    /// Whether those who take gzip get it.
    pub compress: bool,
}

impl Served {
    /// Bytes under an entity tag, which is given without its quotes.
    pub fn tagged(content: Content, etag: &str) -> Self {
        let content_type = "application/octet-stream";
        Self { content, etag: Some(format!("\"{etag}\"")), modified: None, content_type, compress: false }
    }

    /// The answer that RFC 9110 wants.
    pub fn answer(&self, request: &Request) -> Response {
        let named = |header: &str| request.header(header).map(|value| self.matches(value));
        if named("if-match") == Some(false) {
            return self.described(Response::text(412, "the entity tag is another one"));
        }
        if named("if-none-match") == Some(true) {
            return self.described(Response::new(304));
        }
        if self.compress && request.accepts_gzip() && self.content.len() <= GZIP_LIMIT {
            return self.compressed();
        }
        let wanted = if self.holds_for_range(request) {
            Wanted::of(request, self.content.len())
        } else {
            Wanted::Whole
        };
        let response = match wanted {
            Wanted::Whole => self.whole(),
            Wanted::Part(first, last) => self.part(first, last),
            Wanted::Nothing => Response::text(416, "the range lies past the end")
                .header("Content-Range", format!("bytes */{}", self.content.len())),
        };
        response.header("Accept-Ranges", "bytes")
    }

    /// Everything, as a 200.
    pub fn whole(&self) -> Response {
        self.described(Response::with(200, self.content.clone()))
    }

    /// The bytes from one to another, both included, as a 206.
    pub fn part(&self, first: u64, last: u64) -> Response {
        let mut response = Response::with(206, self.content.clone())
            .header("Content-Range", format!("bytes {first}-{last}/{}", self.content.len()));
        response.offset = first;
        response.len = last + 1 - first;
        self.described(response)
    }

    /// Everything in gzip, as content delivery networks answer: the range is forgotten, and the tag is weak.
    pub fn compressed(&self) -> Response {
        let weak = |etag: &String| if etag.starts_with("W/") { etag.clone() } else { format!("W/{etag}") };
        let tagged = Self { etag: self.etag.as_ref().map(weak), ..self.clone() };
        let response = Response::with(200, Content::bytes(gzip(&self.content.whole())));
        tagged.described(response.header("Content-Encoding", "gzip"))
    }

    fn described(&self, mut response: Response) -> Response {
        if let Some(etag) = &self.etag {
            response = response.header("ETag", etag.as_str());
        }
        if let Some(modified) = &self.modified {
            response = response.header("Last-Modified", modified.as_str());
        }
        // A refusal has its own.
        if response.status < 300 { response.header("Content-Type", self.content_type) } else { response }
    }

    /// Whether `If-Range` lets the range be, which a weak tag never does.
    fn holds_for_range(&self, request: &Request) -> bool {
        request.header("if-range").is_none_or(|value| {
            let strong = !value.starts_with("W/") && self.etag.as_deref() == Some(value);
            strong || self.modified.as_deref() == Some(value)
        })
    }

    /// Whether a list of entity tags has this one, weak or not.
    fn matches(&self, list: &str) -> bool {
        let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let Some(etag) = &self.etag else { return list.trim() == "*" };
        list.trim() == "*" || list.split(',').any(|one| bare(one) == bare(etag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(range: &str) -> Request {
        Request { headers: vec![("Range".to_owned(), range.to_owned())], ..Request::default() }
    }

    #[test]
    fn a_range_is_clipped_to_the_content_and_refused_past_its_end() {
        let cases = [
            ("bytes=0-9", Wanted::Part(0, 9)),
            ("bytes=90-200", Wanted::Part(90, 99)),
            ("bytes=99-", Wanted::Part(99, 99)),
            ("bytes=-30", Wanted::Part(70, 99)),
            ("bytes=-300", Wanted::Part(0, 99)),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
        ];
        for (range, wanted) in cases {
            assert_eq!(Wanted::of(&asking(range), 100), wanted, "{range}");
        }
    }
}
