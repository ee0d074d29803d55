//! Ctrl-C: the first asks, a later one ends at once. Exit 130, nothing under the final name, nothing left but what `--resume`
//! can use.

use crate::build::big;
use crate::command::{CONVERT, Ended, apr, resumes_to_the_whole, run, send, wait};
use apr_host::convert::convert;
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, options};
use rustix::process::Signal;
use std::fs::{self, metadata};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Starts a conversion and interrupts it once the staged file is there. `None` if it was done before.
fn interrupted(scratch: &Scratch, journal: bool, pause: Duration) -> Option<Ended> {
    let mut command = apr(&scratch.at(""), &CONVERT);
    if journal {
        command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "5");
    } else {
        // However slow the machine is.
        command.env("APR_JOURNAL_MILLISECONDS", "1000000");
    }
    let began = Instant::now();
    let child = command.spawn().unwrap();
    while !scratch.at(".out.apr.apr-part").exists() && !scratch.at("out.apr").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_micros(100));
    }
    std::thread::sleep(pause);
    send(&child, Signal::INT);
    let ended = wait(child, began);
    (ended.code != 0).then_some(ended)
}

/// Until it was in time: on a machine that is busy the conversion may be done before the signal comes.
fn tried(scratch: &Scratch, journal: bool) -> Ended {
    for round in 0..20u32 {
        let pause = Duration::from_millis(u64::from(20 / (round + 1)));
        match interrupted(scratch, journal, pause) {
            Some(ended) => return ended,
            None => fs::remove_file(scratch.at("out.apr")).unwrap(),
        }
    }
    panic!("every conversion was done before the signal came");
}

#[test]
fn ctrl_c_ends_with_130_and_leaves_nothing() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 128);
    let ended = tried(&scratch, false);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
    assert_eq!(scratch.names(), ["in.safetensors"]);
}

#[test]
fn ctrl_c_keeps_what_resume_needs_and_resume_gives_the_same_bytes() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 128);
    let ended = tried(&scratch, true);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    assert_eq!(scratch.names(), [".out.apr.apr-journal", ".out.apr.apr-part", "in.safetensors"]);
    resumes_to_the_whole(&scratch);
}

/// Starts a conversion that hangs: half-way it wants to tell of its progress on a stderr that nobody reads.
fn hanging(scratch: &Scratch) -> (Child, UnixStream) {
    // On a busy machine most conversions are done before they are seen.
    for _ in 0..40 {
        let (unread, mut stderr) = UnixStream::pair().unwrap();
        stderr.set_nonblocking(true).unwrap();
        while stderr.write(&[b'x'; 4096]).is_ok() {}
        stderr.set_nonblocking(false).unwrap();
        let mut command = apr(&scratch.at(""), &[&CONVERT[..], &["--progress", "json"]].concat());
        command.stderr(OwnedFd::from(stderr));
        command.env("APR_JOURNAL_MILLISECONDS", "1000000");
        let mut child = command.spawn().unwrap();
        let staged = scratch.at(".out.apr.apr-part");
        while !metadata(&staged).is_ok_and(|meta| meta.blocks() > 0) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        // Short work says nothing, so it has to be long.
        send(&child, Signal::STOP);
        std::thread::sleep(Duration::from_millis(700));
        send(&child, Signal::CONT);
        let written = || metadata(&staged).map(|meta| (meta.blocks(), meta.mtime_nsec())).ok();
        while child.try_wait().unwrap().is_none() {
            let before = written();
            // On a busy machine, work that waits for a processor writes nothing either; but it does not sleep.
            let sleeps = (0..10).all(|_| {
                std::thread::sleep(Duration::from_millis(50));
                is_asleep(&child)
            });
            if sleeps && before.is_some() && before == written() && child.try_wait().unwrap().is_none() {
                return (child, unread);
            }
        }
        child.wait().unwrap();
        fs::remove_file(scratch.at("out.apr")).unwrap();
    }
    panic!("every conversion was done before it could hang");
}

/// Whether every thread of a process sleeps.
fn is_asleep(child: &Child) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", child.id())) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses and may hold anything.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    })
}

/// Sends all of these to a child that hangs, again to another one if this process had to wait in between.
fn together(scratch: &Scratch, signals: &[Signal]) -> (Child, UnixStream) {
    loop {
        let (mut child, unread) = hanging(scratch);
        let began = Instant::now();
        signals.iter().for_each(|signal| send(&child, *signal));
        if began.elapsed() < Duration::from_millis(100) {
            return (child, unread);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for left in [".out.apr.apr-lock", ".out.apr.apr-part", "out.apr"] {
            let _ = fs::remove_file(scratch.at(left));
        }
    }
}

#[test]
fn signals_that_come_together_are_one_and_a_later_one_ends_at_once() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 200);
    const INT: Signal = Signal::INT;
    const TERM: Signal = Signal::TERM;
    for first in [&[INT][..], &[INT, TERM], &[TERM, INT, INT, TERM]] {
        let (mut child, _unread) = together(&scratch, first);
        std::thread::sleep(Duration::from_millis(900));
        assert!(child.try_wait().unwrap().is_none(), "{first:?} are more than one");
        let began = Instant::now();
        // Until one comes late enough in the eyes of a process that may have had to wait itself.
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(20), "the second does not end it");
            send(&child, TERM);
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(scratch.names(), [".out.apr.apr-lock", ".out.apr.apr-part", "in.safetensors"]);
        // The next run cleans up.
        let again = run(&scratch.at(""), &CONVERT);
        assert_eq!(again.code, 0, "{}", again.stderr);
        assert_eq!(scratch.names(), ["in.safetensors", "out.apr"]);
        fs::remove_file(scratch.at("out.apr")).unwrap();
    }
}

#[test]
fn what_writes_no_file_ends_soon_after_the_first_signal_whatever_it_does() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 1);
    for signal in [Signal::INT, Signal::TERM] {
        // Nobody takes what it has to say.
        let (unread, mut stdout) = UnixStream::pair().unwrap();
        stdout.set_nonblocking(true).unwrap();
        while stdout.write(&[b'x'; 4096]).is_ok() {}
        stdout.set_nonblocking(false).unwrap();
        let mut command = apr(&scratch.at(""), &["tensors", "in.safetensors"]);
        let mut child = command.stdout(OwnedFd::from(stdout)).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        assert!(child.try_wait().unwrap().is_none(), "it waits for a reader");
        let began = Instant::now();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        drop(unread);
    }
}

#[test]
fn ctrl_c_and_a_supervisors_term_leave_the_old_output_and_nothing_else() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 128);
    fs::write(scratch.at("out.apr"), "old").unwrap();
    let staged = scratch.at(".out.apr.apr-part");
    for round in 0..20u32 {
        let began = Instant::now();
        let mut command = apr(&scratch.at(""), &[&CONVERT[..], &["--force"]].concat());
        command.env("APR_JOURNAL_MILLISECONDS", "1000000");
        let mut child = command.spawn().unwrap();
        while !staged.exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_millis(u64::from(20 / (round + 1))));
        [Signal::INT, Signal::TERM].iter().for_each(|signal| send(&child, *signal));
        let ended = wait(child, began);
        if ended.code == 0 {
            fs::write(scratch.at("out.apr"), "old").unwrap();
            continue;
        }
        assert_eq!(ended.code, 130, "{}", ended.stderr);
        assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
        assert_eq!(scratch.names(), ["in.safetensors", "out.apr"]);
        assert_eq!(fs::read(scratch.at("out.apr")).unwrap(), b"old");
        return;
    }
    panic!("every conversion was done before the signals came");
}

#[test]
fn a_conversion_that_is_stopped_before_it_writes_says_how_to_go_on() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 1);
    for (resume, words) in
        [(false, "start over: nothing was kept"), (true, "run the command again to continue")]
    {
        let host = apr_tests::host();
        host.cancel.store(true, Ordering::Relaxed);
        let mut o = options(&scratch.at("in.safetensors"), &scratch.at("out.apr"));
        o.resume = resume;
        let error = convert(&host, &o).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains(words)), "{error:?}");
        assert_eq!(scratch.names(), ["in.safetensors"]);
    }
}
