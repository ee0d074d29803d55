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

/// Answers with a content as RFC 9110 wants it. The entity tag comes with its quotes.
pub fn serve(request: &Request, content: &Content, etag: Option<&str>, compress: bool) -> Response {
    let named = |header: &str| request.header(header).map(|value| matches(value, etag));
    if named("if-match") == Some(false) {
        return tagged(Response::text(412, "the entity tag is another one"), etag);
    }
    if named("if-none-match") == Some(true) {
        return tagged(Response::new(304), etag);
    }
    if compress && request.accepts_gzip() && content.len() <= GZIP_LIMIT {
        // As content delivery networks do: the range is forgotten.
        let response = Response::with(200, Content::bytes(gzip(&content.whole())));
        let weak =
            etag.map(|etag| if etag.starts_with("W/") { etag.to_owned() } else { format!("W/{etag}") });
        return tagged(response.header("Content-Encoding", "gzip"), weak.as_deref());
    }
    // A weak tag never holds for a range.
    let still =
        request.header("if-range").is_none_or(|value| Some(value) == etag && !value.starts_with("W/"));
    let wanted = if still { Wanted::of(request, content.len()) } else { Wanted::Whole };
    let response = match wanted {
        Wanted::Whole => Response::with(200, content.clone()),
        Wanted::Part(first, last) => part(content, first, last),
        Wanted::Nothing => Response::text(416, "the range lies past the end")
            .header("Content-Range", format!("bytes */{}", content.len())),
    };
    tagged(response.header("Accept-Ranges", "bytes"), etag)
}

/// The bytes from one to another, both included, as a 206.
pub fn part(content: &Content, first: u64, last: u64) -> Response {
    let mut response = Response::with(206, content.clone())
        .header("Content-Range", format!("bytes {first}-{last}/{}", content.len()));
    response.offset = first;
    response.len = last + 1 - first;
    response
}

fn tagged(response: Response, etag: Option<&str>) -> Response {
    match etag {
        Some(etag) => response.header("ETag", etag),
        None => response,
    }
}

/// Whether a list of entity tags has this one, weak or not.
fn matches(list: &str, etag: Option<&str>) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    list.trim() == "*" || etag.is_some_and(|etag| list.split(',').any(|one| bare(one) == bare(etag)))
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
