//! Lies of a file server: what it says and what it sends are two things.

use super::content::Content;
use super::encoding::lfs_pointer;
use super::message::{Fault, Framing, Request, Response};
use super::ranges::{Served, Wanted};

/// What kind of lie is told, to every request unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// So many bytes more than `Content-Length` says.
    TooLong(u64),
    /// The connection ends so many bytes before `Content-Length` is reached.
    TooShort(u64),
    /// A part has so many bytes more than were asked for and than `Content-Range` says; `Content-Length` is right.
    LongPart(u64),
    /// A part ends so many bytes early, and says so: this is no lie, but must be noticed.
    ClippedPart(u64),
    /// A range is answered by everything, as a 200.
    IgnoresRange,
    /// A part begins so many bytes later, in `Content-Range` only.
    WrongStart(u64),
    /// The bytes of a part are so many bytes further on, and `Content-Range` is as asked for.
    ShiftedPart(u64),
    /// `Content-Range` claims so many bytes more in total.
    WrongTotal(u64),
    /// `Content-Range` says `*` for the total, which is allowed.
    NoTotal,
    /// A 206 without `Content-Range`.
    NoContentRange,
    /// gzip that nobody asked for.
    Gzip,
    /// No `Content-Length`: the body ends with the connection.
    NoLength,
    /// No `Content-Length`: the body comes in chunks.
    Chunked,
    /// After so many requests, one byte and the entity tag are others.
    ChangedAfter(u64),
    /// After so many requests, one byte is another. The entity tag stays.
    SecretlyChangedAfter(u64),
    /// After so many requests, the entity tag is another. The bytes stay.
    RetaggedAfter(u64),
    /// After so many requests, the content ends so many bytes earlier, under another entity tag.
    ShrunkAfter(u64, u64),
    /// The pointer of Git LFS in place of the file.
    Pointer,
    /// A page for people, as `text/html`, with 200.
    Html,
    /// The same page under the file's own type.
    DisguisedHtml,
    /// A JSON error with 200.
    JsonError,
    /// Header after header.
    EndlessHeaders,
    /// One byte in the middle of each answer is another; the headers are right.
    OtherBytes,
    /// Zeros of the right length.
    Zeros,
    /// Every range lies past the end.
    Unsatisfiable,
    /// HEAD is not allowed.
    NoHead,
}

impl Lie {
    /// The answer to a request, before which so many others were answered.
    pub(super) fn answer(self, request: &Request, served: &Served, n_before: u64) -> Response {
        let honest = served.answer(request);
        let is_part = honest.status == 206;
        match self {
            Self::TooLong(n) => {
                let said = honest.len;
                surplus(honest, n).framed(Framing::Declared(said))
            }
            Self::TooShort(n) => {
                let until = honest.len.saturating_sub(n);
                honest.failing(Fault::Close(until))
            }
            Self::LongPart(n) if is_part => surplus(honest, n),
            Self::ClippedPart(n) => match Wanted::of(request, served.content.len()) {
                Wanted::Part(first, last) => served.part(first, last.saturating_sub(n).max(first)),
                _ => honest,
            },
            Self::IgnoresRange => served.whole(),
            Self::WrongStart(n) if is_part => {
                let (first, last) = (honest.offset + n, honest.offset + honest.len - 1);
                let said = format!("bytes {first}-{}/{}", last + n, served.content.len());
                honest.replacing("Content-Range", said)
            }
            Self::ShiftedPart(n) if is_part => Response { content: shifted(&served.content, n), ..honest },
            Self::WrongTotal(n) if is_part => total(honest, &(served.content.len() + n).to_string()),
            Self::NoTotal if is_part => total(honest, "*"),
            Self::NoContentRange if is_part => honest.losing("Content-Range"),
            Self::Gzip => served.compressed(),
            Self::NoLength => honest.framed(Framing::UntilClose),
            Self::Chunked => honest.framed(Framing::Chunked),
            Self::ChangedAfter(n) if n_before >= n => retagged(&flipped(served)).answer(request),
            Self::SecretlyChangedAfter(n) if n_before >= n => flipped(served).answer(request),
            Self::RetaggedAfter(n) if n_before >= n => retagged(served).answer(request),
            Self::ShrunkAfter(n, by) if n_before >= n => {
                let content = served.content.clone();
                let len = content.len().saturating_sub(by);
                let content = Content::generated(len, move |offset, len| content.at(offset, len));
                retagged(&Served { content, ..served.clone() }).answer(request)
            }
            Self::Pointer => {
                let digest = served.content.sha256().unwrap_or_else(|| "0".repeat(64));
                Response::text(200, &lfs_pointer(&digest, served.content.len()))
            }
            Self::Html => page(),
            Self::DisguisedHtml => page().replacing("Content-Type", served.content_type),
            Self::JsonError => Response::json(200, &serde_json::json!({ "error": "Not found" })),
            Self::EndlessHeaders => honest.failing(Fault::EndlessHeaders),
            Self::OtherBytes => {
                let place = honest.offset + honest.len / 2;
                Response { content: honest.content.flipped(place), ..honest }
            }
            Self::Zeros => Response { content: Content::zeros(honest.content.len()), ..honest },
            Self::Unsatisfiable if request.header("range").is_some() => {
                Response::text(416, "no").header("Content-Range", format!("bytes */{}", served.content.len()))
            }
            Self::NoHead if request.method == "HEAD" => Response::text(405, "HEAD is not allowed"),
            _ => honest,
        }
    }
}

/// So many bytes more behind the body.
fn surplus(honest: Response, n: u64) -> Response {
    let end = honest.offset + honest.len;
    let content = honest.content.clone();
    let longer = Content::generated(end + n, move |offset, len| {
        let mut bytes = content.at(offset, len);
        bytes.resize(len, b'+');
        bytes
    });
    Response { content: longer, len: honest.len + n, ..honest }
}

/// The bytes that stand so many bytes further on, and zeros where there are none.
fn shifted(content: &Content, by: u64) -> Content {
    let content = content.clone();
    Content::generated(content.len(), move |offset, len| {
        let mut bytes = content.at(offset + by, len);
        bytes.resize(len, 0);
        bytes
    })
}

fn total(honest: Response, total: &str) -> Response {
    let said = format!("bytes {}-{}/{total}", honest.offset, honest.offset + honest.len - 1);
    honest.replacing("Content-Range", said)
}

fn flipped(served: &Served) -> Served {
    Served { content: served.content.clone().flipped(served.content.len() / 2), ..served.clone() }
}

fn retagged(served: &Served) -> Served {
    let modified = Some("Fri, 02 Jan 2026 03:04:06 GMT".to_owned());
    Served { etag: Some("\"another\"".to_owned()), modified, ..served.clone() }
}

fn page() -> Response {
    let html =
        "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in to go on.</body></html>\n";
    Response::with(200, Content::bytes(html)).header("Content-Type", "text/html; charset=utf-8")
}
