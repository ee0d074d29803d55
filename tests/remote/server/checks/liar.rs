//! Each lie is told as it is described, and nothing else is wrong.

use super::super::{Content, FileServer, Lie};
use super::{Answer, Wire, get, head};

const LEN: u64 = 1000;

fn content() -> Content {
    Content::pattern(LEN, 5)
}

/// The answer of a liar to a request for bytes 100 to 199.
fn part(lie: Lie) -> Answer {
    let liar = FileServer::lying(lie, content());
    get(&liar.url_of("model"), &[("Range", "bytes=100-199")])
}

/// The answer of a liar to a request for everything.
fn whole(lie: Lie) -> Answer {
    let liar = FileServer::lying(lie, content());
    get(&liar.url_of("model"), &[])
}

fn asked() -> Vec<u8> {
    content().at(100, 100)
}

#[test]
fn too_much_and_too_little() {
    let liar = FileServer::lying(Lie::TooLong(7), content());
    let mut wire = Wire::to(liar.port());
    assert_eq!(wire.get("/model", &[]).body, content().whole());
    assert_eq!(wire.rest(), b"+++++++");
    let short = whole(Lie::TooShort(10));
    assert_eq!(short.header("Content-Length"), Some("1000"));
    assert_eq!((short.body.len(), short.cut), (990, Some(std::io::ErrorKind::UnexpectedEof)));
    let long = part(Lie::LongPart(3));
    assert_eq!((long.body.len(), long.header("Content-Range")), (103, Some("bytes 100-199/1000")));
    let clipped = part(Lie::ClippedPart(10));
    assert_eq!((clipped.body, clipped.status), (content().at(100, 90), 206));
}

#[test]
fn ranges_that_are_none_or_others() {
    let ignored = part(Lie::IgnoresRange);
    assert_eq!((ignored.status, ignored.body.len()), (200, 1000));
    let said = |lie: Lie| {
        let answer = part(lie);
        assert_eq!((answer.status, &answer.body), (206, &asked()));
        answer.header("Content-Range").map(str::to_owned)
    };
    assert_eq!(said(Lie::WrongStart(1)).as_deref(), Some("bytes 101-200/1000"));
    assert_eq!(said(Lie::WrongTotal(1)).as_deref(), Some("bytes 100-199/1001"));
    assert_eq!(said(Lie::NoTotal).as_deref(), Some("bytes 100-199/*"));
    assert_eq!(said(Lie::NoContentRange), None);
    let shifted = part(Lie::ShiftedPart(8));
    assert_eq!(shifted.header("Content-Range"), Some("bytes 100-199/1000"));
    assert_eq!(shifted.body, content().at(108, 100));
    assert_eq!(part(Lie::Unsatisfiable).status, 416);
    assert_eq!(whole(Lie::Unsatisfiable).status, 200);
}

#[test]
fn framings_nobody_expects() {
    let gzip = part(Lie::Gzip);
    assert_eq!((gzip.status, gzip.header("Content-Encoding")), (200, Some("gzip")));
    assert_eq!(gzip.body[..3], [0x1f, 0x8b, 8]);
    let until_close = whole(Lie::NoLength);
    assert_eq!(until_close.header("Content-Length"), None);
    assert_eq!(until_close.body, content().whole());
    let chunked = whole(Lie::Chunked);
    assert_eq!(chunked.header("Content-Length"), None);
    assert!(chunked.body.starts_with(b"3e8\r\n") && chunked.body.ends_with(b"\r\n0\r\n\r\n"));
    let liar = FileServer::lying(Lie::NoHead, content());
    assert_eq!(head(&liar.url_of("model"), &[]).status, 405);
    assert_eq!(get(&liar.url_of("model"), &[]).status, 200);
}

#[test]
fn headers_without_end() {
    let liar = FileServer::lying(Lie::EndlessHeaders, content());
    let mut wire = Wire::to(liar.port());
    wire.send("GET", "/model", &[]);
    let mut n = 0;
    while n < 4 << 20 {
        wire.read_more().unwrap();
        assert!(!wire.unread.windows(4).any(|four| four == b"\r\n\r\n"));
        n += std::mem::take(&mut wire.unread).len();
    }
}

/// Of two answers of a liar whether the entity tags, and whether the bodies, are the same.
fn twice(lie: Lie) -> (bool, bool) {
    let liar = FileServer::lying(lie, content());
    let [one, other] = [0, 1].map(|_| get(&liar.url_of("model"), &[]));
    assert_eq!(one.body, content().whole());
    (one.header("ETag") == other.header("ETag"), one.body == other.body)
}

#[test]
fn another_file_after_a_while() {
    assert_eq!(twice(Lie::ChangedAfter(1)), (false, false));
    assert_eq!(twice(Lie::SecretlyChangedAfter(1)), (true, false));
    assert_eq!(twice(Lie::RetaggedAfter(1)), (false, true));
    assert_eq!(twice(Lie::ShrunkAfter(1, 10)), (false, false));
    assert_eq!(twice(Lie::ChangedAfter(2)), (true, true));
}

#[test]
fn something_else_altogether() {
    let pointer = part(Lie::Pointer);
    assert!(pointer.text().starts_with("version https://git-lfs.github.com/spec/v1\noid sha256:"));
    assert!(pointer.text().ends_with("\nsize 1000\n"));
    let page = whole(Lie::Html);
    assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"));
    let disguised = whole(Lie::DisguisedHtml);
    assert_eq!(disguised.header("Content-Type"), Some("application/octet-stream"));
    assert_eq!(disguised.body, page.body);
    assert_eq!(whole(Lie::JsonError).json()["error"], "Not found");
}

#[test]
fn wrong_bytes_under_right_headers() {
    let wrong = part(Lie::OtherBytes);
    assert_eq!(wrong.header("Content-Range"), Some("bytes 100-199/1000"));
    let different: Vec<_> = (0..100).filter(|at| wrong.body[*at] != asked()[*at]).collect();
    assert_eq!(different, [50]);
    assert_eq!(part(Lie::Zeros).body, [0; 100]);
}
