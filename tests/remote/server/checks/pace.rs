//! Delays and rates are what they were set to. Bounds are one-sided where a busy machine would break the other.

use std::thread;
use std::time::{Duration, Instant};

use super::super::{Content, FileServer, Habit, Options, Pace};
use super::{Wire, get};

fn server(pace: Pace, len: u64) -> FileServer {
    FileServer::start(Options { pace, ..Options::default() }, Habit::Honest, Content::zeros(len))
}

#[test]
fn each_answer_waits_and_connecting_waits_once() {
    let server = server(Pace::round_trip(Duration::from_millis(30)), 10);
    let began = Instant::now();
    let mut wire = Wire::to(server.port());
    for _ in 0..3 {
        wire.get("/model", &[]);
    }
    assert!(began.elapsed() >= Duration::from_millis(4 * 30), "{:?}", began.elapsed());
}

#[test]
fn a_connection_has_its_rate() {
    let server = server(Pace { per_connection: Some(1_000_000), ..Pace::default() }, 300_000);
    let began = Instant::now();
    assert_eq!(get(&server.url_of("model"), &[]).body.len(), 300_000);
    assert!(began.elapsed() >= Duration::from_millis(299), "{:?}", began.elapsed());
}

#[test]
fn all_connections_share_the_total() {
    let server = server(Pace { total: Some(1_000_000), ..Pace::default() }, 100_000);
    let url = server.url_of("model");
    let began = Instant::now();
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| get(&url, &[]))));
    });
    assert!(began.elapsed() >= Duration::from_millis(399), "{:?}", began.elapsed());
}
