//! A plain server: ranges, conditions, connections that are kept, many at a time, and what is noted of it.

use std::sync::Barrier;
use std::thread;

use super::super::{Content, FileServer, Options, Request, Response, Server, Validator};
use super::{Wire, get, head};

fn content() -> Content {
    Content::pattern(1000, 1)
}

#[test]
fn a_range_is_the_bytes_it_names() {
    let server = FileServer::honest(content());
    let url = server.url_of("model.gguf");
    for (range, first, last) in [("bytes=0-0", 0, 0), ("bytes=7-99", 7, 99), ("bytes=990-2000", 990, 999)] {
        let part = get(&url, &[("Range", range)]);
        assert_eq!(part.status, 206);
        assert_eq!(part.header("Content-Range").unwrap(), format!("bytes {first}-{last}/1000"));
        assert_eq!(part.body, content().whole()[first..=last]);
    }
    let past = get(&url, &[("Range", "bytes=1000-")]);
    assert_eq!((past.status, past.header("Content-Range")), (416, Some("bytes */1000")));
    let whole = get(&url, &[]);
    assert_eq!((whole.status, whole.body), (200, content().whole()));
}

#[test]
fn a_hundred_gigabytes_are_served_at_their_end() {
    let content = Content::pattern(100 << 30, 3);
    let server = FileServer::honest(content.clone());
    let part = get(&server.url_of("model"), &[("Range", "bytes=107374182390-107374182399")]);
    assert_eq!(part.body, content.at((100 << 30) - 10, 10));
    assert_eq!(head(&server.url_of("model"), &[]).header("Content-Length"), Some("107374182400"));
}

#[test]
fn conditions_are_kept() {
    let server = FileServer::honest(content());
    let url = server.url_of("model");
    let etag = head(&url, &[]).header("ETag").unwrap().to_owned();
    let status = |headers: &[(&str, &str)]| get(&url, headers).status;
    let range = ("Range", "bytes=0-1");
    assert_eq!(status(&[range, ("If-Range", &etag)]), 206);
    assert_eq!(status(&[range, ("If-Range", "\"other\"")]), 200);
    assert_eq!(status(&[range, ("If-Match", &etag)]), 206);
    assert_eq!(status(&[range, ("If-Match", "\"other\"")]), 412);
    assert_eq!(status(&[("If-None-Match", &etag)]), 304);
    server.put(content(), Validator::Weak);
    let weak = head(&url, &[]).header("ETag").unwrap().to_owned();
    assert!(weak.starts_with("W/"));
    assert_eq!(status(&[range, ("If-Range", &weak)]), 200);
    server.put(content(), Validator::Date);
    let date = head(&url, &[]).header("Last-Modified").unwrap().to_owned();
    assert_eq!(status(&[range, ("If-Range", &date)]), 206);
    server.put(content(), Validator::Nothing);
    assert_eq!(head(&url, &[]).header("Last-Modified"), None);
    assert_eq!(head(&url, &[]).header("ETag"), None);
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let server = FileServer::honest(content());
    let mut wire = Wire::to(server.port());
    wire.send("HEAD", "/model", &[]);
    assert!(wire.receive("HEAD").unwrap().body.is_empty());
    // Sent at once, and answered in order.
    wire.send("GET", "/model", &[("Range", "bytes=0-3")]);
    wire.send("GET", "/model", &[("Range", "bytes=4-7")]);
    let parts = [wire.receive("GET").unwrap().body, wire.receive("GET").unwrap().body].concat();
    assert_eq!(parts, content().at(0, 8));
    wire.send("GET", "/model", &[("Connection", "close")]);
    assert_eq!(wire.receive("GET").unwrap().body.len(), 1000);
    assert!(wire.rest().is_empty());
    assert_eq!(server.log().connections(server.port()), 1);
}

#[test]
fn requests_are_answered_at_one_time() {
    // Nobody gets an answer before all are asking.
    let barrier = Barrier::new(8);
    let server = Server::start(Options::default(), move |_: &Request| {
        barrier.wait();
        Response::text(200, "all are here")
    });
    let url = format!("{}/model", server.url());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| get(&url, &[]).status)).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 200));
    });
    assert_eq!(server.log().most_at_once(), 8);
    assert_eq!(server.log().connections(server.port()), 8);
}

#[test]
fn what_was_asked_is_noted() {
    let server = FileServer::honest(content());
    let mut wire = Wire::to(server.port());
    wire.get("/a%20b?c=d&e", &[("Range", "bytes=0-9"), ("authorization", "Bearer canary")]);
    wire.send("HEAD", "/x", &[]);
    wire.receive("HEAD").unwrap();
    let log = server.log();
    assert_eq!(log.lines(), ["GET /a%20b?c=d&e bytes=0-9", "HEAD /x"]);
    let seen = log.requests_to(server.port());
    assert_eq!((seen[0].authorized, seen[1].authorized), (true, false));
    assert_eq!((seen[0].contains("canary"), seen[1].contains("canary")), (true, false));
    assert_eq!((seen[0].status, seen[0].sent, seen[1].sent), (206, 10, 0));
    log.clear();
    assert_eq!(log.requests().len(), 0);
}

#[test]
fn a_dropped_server_ends_its_connections() {
    let server = FileServer::honest(content());
    let mut wire = Wire::to(server.port());
    wire.get("/model", &[]);
    drop(server);
    assert!(wire.rest().is_empty());
}
