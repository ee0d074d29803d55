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
fn encoded_payload_may_run_out_of_room_at_any_byte() {
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

/// Writes a SafeTensors file of `noise` and then `zeros` MiB.
fn noise_and_zeros(path: &Path, noise: usize, zeros: usize) {
    let mut random = apr_testkit::Random::new(5);
    let mut payload: Vec<u8> = (0..noise << 17).flat_map(|_| random.bits().to_le_bytes()).collect();
    payload.resize((noise + zeros) << 20, 0);
    let [noise, all] = [noise << 20, payload.len()];
    let header = serde_json::json!({
        "noise": {"dtype": "U8", "shape": [noise], "data_offsets": [0, noise]},
        "zeros": {"dtype": "U8", "shape": [all - noise], "data_offsets": [noise, all]},
    })
    .to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &payload].concat();
    fs::write(path, bytes).unwrap();
}

/// What `apr convert in.safetensors disk/out.apr` with these arguments needs.
fn compressing<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["convert", "in.safetensors", "disk/out.apr", "--arch", "none"], more].concat()
}

#[test]
fn compressed_output_is_refused_only_where_what_is_not_compressed_does_not_fit() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 12) else { return };
    // Fits, but not if it could not be compressed.
    noise_and_zeros(&scratch.at("in.safetensors"), 4, 12);
    let ended = run(&scratch.at(""), &compressing(&["--compress", "zstd"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("warning: the output may need up to 16"), "{}", ended.stderr);
    assert!(ended.stderr.contains("are free in "), "{}", ended.stderr);
    fs::remove_file(scratch.at("disk/out.apr")).unwrap();
    // `auto` leaves the noise as it is.
    noise_and_zeros(&scratch.at("in.safetensors"), 16, 1);
    let words = ["the output needs at least 16", "are free", "nothing was written"];
    fails(&scratch, &compressing(&["--compress", "auto"]), 1, &words);
    assert_eq!(contents(&scratch.at("disk")).len(), 0);
}

#[test]
fn compressed_output_that_runs_out_of_room_leaves_what_was_there() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 12) else { return };
    noise_and_zeros(&scratch.at("in.safetensors"), 16, 1);
    let words = ["the output may need up to 17", "the disk is full", "out.apr", "free some space"];
    for threads in ["1", "4"] {
        fails(&scratch, &compressing(&["--compress", "zstd", "-j", threads]), 1, &words);
        assert_eq!(contents(&scratch.at("disk")).len(), 0);
        fs::write(scratch.at("disk/out.apr"), "what was there").unwrap();
        fails(&scratch, &compressing(&["--compress", "lz4", "--force", "-j", threads]), 1, &words);
        assert_eq!(contents(&scratch.at("disk")).len(), 1);
        assert_eq!(fs::read(scratch.at("disk/out.apr")).unwrap(), b"what was there");
        fs::remove_file(scratch.at("disk/out.apr")).unwrap();
    }
}

#[test]
fn a_limit_on_the_size_of_files_applies_to_what_is_written() {
    let scratch = Scratch::new();
    noise_and_zeros(&scratch.at("in.safetensors"), 4, 12);
    fs::create_dir(scratch.at("disk")).unwrap();
    let limited = |kib: u32, args: &[&str]| {
        let program = apr_tests::program();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -f {}; exec \"$@\"", kib * 2)).arg("sh").arg(program);
        command.args(args).current_dir(scratch.at("")).output().unwrap()
    };
    let fits = limited(8 << 10, &compressing(&["--compress", "zstd"]));
    assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stderr));
    let whole = fs::read(scratch.at("disk/out.apr")).unwrap();
    let ended = limited(2 << 10, &compressing(&["--compress", "zstd", "--force"]));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("would exceed the size limit") && stderr.contains("ulimit -f"), "{stderr}");
    assert_eq!(contents(&scratch.at("disk")).len(), 1);
    assert_eq!(fs::read(scratch.at("disk/out.apr")).unwrap(), whole);
}

#[test]
fn a_trace_into_a_full_disk_ends_in_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch.at("disk"), 1) else { return };
    let model = apr_tests::root().join("tests/model/weights");
    let model = model.to_str().unwrap();
    let ids: Vec<String> = (3..200).map(|id: u32| id.to_string()).collect();
    let ids = ids.join(",");
    for (flag, at) in [("--dump", "disk/arrays"), ("--output", "disk/trace.json")] {
        let words = ["trace", model, "--ids", &ids, "--no-gpu", "--per-token", flag, at];
        let form: &[&str] = if flag == "--output" { &["--format", "json"] } else { &[] };
        let args = [&words[..], form].concat();
        fails(&scratch, &args, 1, &["the disk is full", "at disk/", "free some space"]);
        assert!(contents(&scratch.at("disk")).is_empty(), "{:?}", contents(&scratch.at("disk")));
    }
}
