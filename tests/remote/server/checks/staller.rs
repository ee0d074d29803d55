//! Each stall comes where and when it is said to.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::super::{Content, FileServer, Stall, When};
use super::{Answer, Wire, get};

/// Long enough for what a server sends at once, and short enough to wait for what it never sends.
const MOMENT: Duration = Duration::from_secs(1);

fn content() -> Content {
    Content::pattern(100_000, 9)
}

fn answers<const N: usize>(stall: Stall) -> [Answer; N] {
    let staller = FileServer::stalling(stall, content());
    let url = staller.url_of("model");
    [(); N].map(|()| get(&url, &[]))
}

/// How much came, and how it ended.
fn end(answer: &Answer) -> (usize, Option<ErrorKind>) {
    assert_eq!(answer.body, content().at(0, answer.body.len()));
    (answer.body.len(), answer.cut)
}

#[test]
fn silence_before_and_after_the_request() {
    let mute = FileServer::mute();
    let silent = FileServer::stalling(Stall::silent(), content());
    for server in [&mute, &silent] {
        let mut wire = Wire::to(server.port()).patient(MOMENT);
        wire.send("GET", "/model", &[]);
        assert_eq!(wire.receive("GET").unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(mute.log().requests().len(), 0);
    assert_eq!(silent.log().requests().len(), 1);
}

#[test]
fn a_stop_leaves_the_connection_open() {
    let staller = FileServer::stalling(Stall::stops_after(50_000), content());
    let mut wire = Wire::to(staller.port()).patient(MOMENT);
    assert_eq!(end(&wire.get("/model", &[])), (50_000, Some(ErrorKind::WouldBlock)));
}

#[test]
fn a_crawl_goes_on() {
    let staller = FileServer::stalling(Stall::crawls(20), content());
    let began = Instant::now();
    let body = get(&staller.url_of("model"), &[("Range", "bytes=0-9")]).body;
    assert_eq!(body, content().at(0, 10));
    assert!(began.elapsed() >= Duration::from_millis(499), "{:?}", began.elapsed());
}

#[test]
fn resets_and_ends_come_when_they_are_due() {
    let reset = (7000, Some(ErrorKind::ConnectionReset));
    let whole = (100_000, None);
    let [one, other] = answers(Stall::resets_after(7000, When::Always));
    assert_eq!((end(&one), end(&other)), (reset, reset));
    let [one, other, third] = answers(Stall::resets_after(7000, When::First(2)));
    assert_eq!((end(&one), end(&other), end(&third)), (reset, reset, whole));
    let [one, other] = answers(Stall::resets_after(7000, When::FirstConnection));
    assert_eq!((end(&one), end(&other)), (reset, whole));
    let [one] = answers(Stall::closes_after(7000, When::Always));
    assert_eq!(end(&one), (7000, Some(ErrorKind::UnexpectedEof)));
    let [one] = answers(Stall::resets_after(0, When::Always));
    assert_eq!(end(&one), (0, Some(ErrorKind::ConnectionReset)));
}

#[test]
fn a_bad_byte_is_bad_in_every_range() {
    let staller = FileServer::stalling(Stall::closes_after(0, When::AtByte(60)), content());
    let url = staller.url_of("model");
    let len = |range: &str| get(&url, &[("Range", range)]).body.len();
    assert_eq!(
        (len("bytes=0-59"), len("bytes=50-99"), len("bytes=60-99"), len("bytes=61-99")),
        (60, 10, 0, 39)
    );
}
