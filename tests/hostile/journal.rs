//! A conversion that was killed can be resumed if it was to write 256 MB, or had lasted for five seconds: no setting asks for that.

use crate::build::{entry, safetensors};
use crate::command::{CONVERT, apr, resumes_to_the_whole, send, wait};
use apr_tests::Scratch;
use rustix::process::Signal;
use std::fs::{File, metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A SafeTensors file of one tensor of `n_mib` MiB, of which only the begin of each MiB is on the disk.
fn sparse(path: &Path, n_mib: u64) {
    let len = n_mib << 20;
    let header = safetensors(format!("{{{}}}", entry("a", &format!("[{len}]"), 0, len)).as_bytes(), &[]);
    let file = File::create(path).unwrap();
    file.write_all_at(&header, 0).unwrap();
    file.set_len(header.len() as u64 + len).unwrap();
    for mib in 0..n_mib {
        file.write_all_at(&(mib + 1).to_le_bytes(), header.len() as u64 + (mib << 20)).unwrap();
    }
}

/// Starts the conversion and stops it once `begun` of what is staged. `None` if it was done before.
fn stopped(scratch: &Scratch, begun: impl Fn() -> bool) -> Option<Child> {
    let began = Instant::now();
    let mut child = apr(&scratch.at(""), &CONVERT).spawn().unwrap();
    while !begun() {
        assert!(began.elapsed() < Duration::from_secs(30), "it never began");
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    send(&child, Signal::STOP);
    Some(child)
}

/// Kills it, resumes it, and compares what comes of that with what comes of a conversion that nobody disturbed.
fn killed_and_resumed(scratch: &Scratch, child: Child) {
    let began = Instant::now();
    send(&child, Signal::KILL);
    assert_eq!(wait(child, began).code, 128 + 9);
    let left = [".out.apr.apr-journal", ".out.apr.apr-lock", ".out.apr.apr-part", "in.safetensors"];
    assert_eq!(scratch.names(), left);
    resumes_to_the_whole(scratch);
}

#[test]
fn what_is_to_write_256_mb_can_be_resumed_from_its_first_moment() {
    let scratch = Scratch::new();
    sparse(&scratch.at("in.safetensors"), 290);
    let staged = scratch.at(".out.apr.apr-part");
    // Half of its first blocks: before any tile can have been recorded.
    let child = (0..20).find_map(|_| {
        let child = stopped(&scratch, || metadata(&staged).is_ok_and(|meta| meta.blocks() * 512 > 8 << 20));
        child.or_else(|| std::fs::remove_file(scratch.at("out.apr")).map(|()| None).unwrap())
    });
    killed_and_resumed(&scratch, child.expect("every conversion was done before it could be stopped"));
}

#[test]
fn what_has_lasted_for_five_seconds_can_be_resumed_slow() {
    let scratch = Scratch::new();
    sparse(&scratch.at("in.safetensors"), 200);
    let (staged, journal) = (scratch.at(".out.apr.apr-part"), scratch.at(".out.apr.apr-journal"));
    let child = (0..5).find_map(|_| {
        let child = stopped(&scratch, || metadata(&staged).is_ok_and(|meta| meta.blocks() * 512 > 4 << 20));
        let resumed = child.and_then(|mut child| {
            assert!(!journal.exists(), "it keeps a journal of the smallest job");
            // A disk that hangs takes time off the clock like this does.
            std::thread::sleep(Duration::from_millis(5100));
            send(&child, Signal::CONT);
            // Its first line is written at once.
            while !metadata(&journal).is_ok_and(|meta| meta.len() > 0) {
                if child.try_wait().unwrap().is_some() {
                    return None;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            send(&child, Signal::STOP);
            Some(child)
        });
        resumed.or_else(|| std::fs::remove_file(scratch.at("out.apr")).map(|()| None).unwrap())
    });
    killed_and_resumed(&scratch, child.expect("every conversion was done before it kept a journal"));
}
