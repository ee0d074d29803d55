//! A disk that is too small, known before anything is written, and one that fills up while apr writes. Needs a file system of
//! a few MiB, so only root can run it; skipped aloud elsewhere.

use crate::build::big;
use crate::command::{apr, contents, fails, run, says, send, wait};
use apr_engine::progress::Progress;
use apr_host::convert::convert;
use apr_sdk::{DType, ErrorKind, LogLevel};
use apr_tests::kinds::{self, Kind, Tensor};
use apr_tests::{Scratch, assert_same_file, must, options, runs};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tmpfs of some MiB, unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, n_mib: u64) -> Option<SmallDisk> {
        fs::create_dir(at).unwrap();
        let size = format!("size={n_mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at).output();
        if mounted.is_ok_and(|out| out.status.success()) {
            return Some(SmallDisk(at.to_owned()));
        }
        apr_tests::skipped("tests/hostile: no tmpfs can be mounted here, so no disk is full");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_too_small_is_known_before() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 4) else { return };
    big(&scratch.at("in.safetensors"), 8);
    for output in ["disk/out.apr", "disk/out.gguf"] {
        let args = ["convert", "in.safetensors", output, "--arch", "none"];
        let ended =
            fails(&scratch, &args, 1, &["the output needs 83", "are free", "disk", "nothing was written"]);
        assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_ends_in_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 100) else { return };
    big(&scratch.at("in.safetensors"), 96);
    for journal in [false, true] {
        let args = ["convert", "in.safetensors", "disk/out.apr", "--arch", "none", "-j", "1"];
        let mut command = apr(&scratch.at(""), &args);
        if journal {
            command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "20");
        }
        let input = fs::read(scratch.at("in.safetensors")).unwrap().len();
        let began = Instant::now();
        let child = command.spawn().unwrap();
        // The check of the free space is done once the staged file is there: now the rest is taken away.
        while !scratch.at("disk/.out.apr.apr-part").exists() {
            assert!(began.elapsed() < Duration::from_secs(20), "it never began");
            std::thread::sleep(Duration::from_micros(100));
        }
        send(&child, Signal::STOP);
        let filler = fs::File::create(scratch.at("disk/filler")).unwrap();
        let block = vec![1; 1 << 20];
        for n in 0..40 {
            if std::os::unix::fs::FileExt::write_all_at(&filler, &block, n << 20).is_err() {
                break;
            }
        }
        send(&child, Signal::CONT);
        let ended = wait(child, began);
        says(&args, &ended, 1, &["the disk is full", "at ", "out.apr", "free some space"]);
        assert_eq!(contents(&scratch.at("disk")).len(), 1, "{:?}", contents(&scratch.at("disk")));
        assert_eq!(fs::read(scratch.at("in.safetensors")).unwrap().len(), input);
        fs::remove_file(scratch.at("disk/filler")).unwrap();
    }
    let again = run(&scratch.at(""), &["convert", "in.safetensors", "disk/out.apr", "--arch", "none"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let elsewhere = run(&scratch.at(""), &["convert", "in.safetensors", "out.apr", "--arch", "none"]);
    assert_eq!(elsewhere.code, 0, "{}", elsewhere.stderr);
    assert_same_file(&scratch.at("out.apr"), &scratch.at("disk/out.apr"));
}

/// Takes all room once some bytes are written.
struct Filler(PathBuf, u64);

impl Progress for Filler {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        if done < self.1 || self.0.exists() {
            return;
        }
        let filler = fs::File::create(&self.0).unwrap();
        let page = vec![1; 4096];
        (0..)
            .take_while(|n| std::os::unix::fs::FileExt::write_all_at(&filler, &page, n << 12).is_ok())
            .for_each(drop);
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[test]
fn encoded_payload_needs_room_for_the_most_that_it_can_be_and_may_run_out_of_it() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 12) else { return };
    let host = || {
        let mut host = apr_tests::host();
        apr_host::plugins::add_bundled(&mut host.registry, &kinds::PLUGIN);
        apr_host::plugins::add_bundled(&mut host.registry, &runs::PLUGIN);
        host
    };
    let tensor = |mib: u64| {
        let mut random = apr_testkit::Random::new(mib);
        let bytes: Vec<u8> = (0..mib << 17).flat_map(|_| random.bits().to_le_bytes()).collect();
        kinds::file(vec![Tensor::new("t", Kind::Plain, DType::U8, &[mib << 20], bytes)])
    };
    let o = options(&scratch.at("in.kinds"), &scratch.at("disk/out.runs"));
    fs::write(scratch.at("in.kinds"), tensor(16)).unwrap();
    let error = convert(&host(), &o).map(drop).unwrap_err();
    assert!(error.message().contains("the output needs 16"), "{error}");
    fs::write(scratch.at("in.kinds"), tensor(8)).unwrap();
    for mib in 1..8 {
        for journal in [false, true] {
            let mut host = host();
            // Another thread could write the rest before all room is taken.
            host.set_threads(1);
            host.progress = Arc::new(Filler(scratch.at("disk/filler"), mib << 20));
            host.journal_bytes = if journal { 0 } else { u64::MAX };
            let error = convert(&host, &o).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{mib}: {error}");
            assert!(error.message().contains("the disk is full"), "{mib}: {error}");
            assert_eq!(contents(&scratch.at("disk")).len(), 1, "{:?}", contents(&scratch.at("disk")));
            fs::remove_file(scratch.at("disk/filler")).unwrap();
        }
    }
    must(&host(), &o);
}
