//! Ctrl-C: the first asks, the second ends at once. Exit 130, nothing under the final name, nothing left but what `--resume`
//! can use.

use crate::build::big;
use crate::command::{Ended, apr, run, wait};
use apr_tests::{Scratch, assert_same_file};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const CONVERT: [&str; 7] = ["convert", "in.safetensors", "out.apr", "--arch", "none", "-j", "1"];

/// Starts a conversion and interrupts it `n_times` once the staged file is there. `None` if it was done before.
fn interrupted(scratch: &Scratch, journal: bool, n_times: u32, pause: Duration) -> Option<Ended> {
    let mut command = apr(&scratch.at(""), &CONVERT);
    if journal {
        command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "5");
    }
    let began = Instant::now();
    let child = command.spawn().unwrap();
    while !scratch.at(".out.apr.apr-part").exists() && !scratch.at("out.apr").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it never began");
        std::thread::sleep(Duration::from_micros(100));
    }
    std::thread::sleep(pause);
    for _ in 0..n_times {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).output();
        assert!(sent.is_ok());
    }
    let ended = wait(child, began);
    (ended.code != 0).then_some(ended)
}

/// Until it was in time: on a machine that is busy the conversion may be done before the signal comes.
fn tried(scratch: &Scratch, journal: bool, n_times: u32) -> Ended {
    for round in 0..20u32 {
        let pause = Duration::from_millis(u64::from(20 / (round + 1)));
        match interrupted(scratch, journal, n_times, pause) {
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
    let ended = tried(&scratch, false, 1);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
    assert_eq!(scratch.names(), ["in.safetensors"]);
}

#[test]
fn ctrl_c_keeps_what_resume_needs_and_resume_gives_the_same_bytes() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 128);
    let ended = tried(&scratch, true, 1);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    assert_eq!(scratch.names(), [".out.apr.apr-journal", ".out.apr.apr-part", "in.safetensors"]);
    let resumed = run(&scratch.at(""), &[&CONVERT[..], &["--resume"]].concat());
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let whole = run(&scratch.at(""), &["convert", "in.safetensors", "whole.apr", "--arch", "none"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr", "whole.apr"]);
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_the_next_run_cleans_up() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 128);
    let ended = tried(&scratch, false, 2);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(!scratch.at("out.apr").exists());
    let again = run(&scratch.at(""), &CONVERT);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr"]);
}
