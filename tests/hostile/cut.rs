//! The input changes while it is read: cut in mid-work, by a callback at a known point and by another thread at any. The end
//! is an error that says so, and no output.

use crate::build::big;
use apr_engine::open::{OpenOptions, open};
use apr_engine::progress::Progress;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_engine::verify::validate::{ValidateOptions, validate};
use apr_host::convert::convert;
use apr_sdk::{ErrorKind, LogLevel};
use apr_tests::{Scratch, host, options};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the errors say: a read that found the end too early, or the file's length or time at the end of the work.
const CUT: [&str; 2] = ["was truncated while it was being read", "changed while it was being read"];

/// A file system keeps time in ticks of some milliseconds: a change in the tick of the last one has no time of its own.
fn let_time_pass() {
    std::thread::sleep(Duration::from_millis(30));
}

/// Cuts a file once the work has come this far.
struct Cut {
    path: PathBuf,
    after: u64,
    to: u64,
    /// Its length afterwards: as it was, with zeros for what was cut, or none.
    back: Option<u64>,
    done: AtomicBool,
}

impl Progress for Cut {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        if done >= self.after && !self.done.swap(true, Ordering::Relaxed) {
            let file = File::options().write(true).open(&self.path).unwrap();
            file.set_len(self.to).unwrap();
            self.back.into_iter().for_each(|len| file.set_len(len).unwrap());
        }
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[test]
fn a_file_cut_while_it_is_converted_is_an_error() {
    let mib = 1 << 20;
    // Cut before what was read, behind it, to nothing, and by one byte when all was read.
    for (after, to) in [(3 * mib, mib), (3 * mib, 6 * mib), (mib, 0), (8 * mib, 8 * mib)] {
        let scratch = Scratch::in_memory();
        let input = scratch.at("in.safetensors");
        big(&input, 8);
        for output in ["out.apr", "out.gguf"] {
            big(&input, 8);
            let_time_pass();
            let mut host = host();
            host.set_threads(1);
            host.progress =
                Arc::new(Cut { path: input.clone(), after, to, back: None, done: AtomicBool::new(false) });
            let error = convert(&host, &options(&input, &scratch.at(output))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(CUT.iter().any(|words| error.message().contains(words)), "{error}");
            assert_eq!(error.file(), input.to_str(), "{error}");
            assert!(error.hint_text().is_some(), "{error}");
            assert_eq!(scratch.names(), ["in.safetensors"]);
            assert_eq!(fs::metadata(&input).unwrap().len(), to);
        }
    }
}

#[test]
fn a_file_cut_and_filled_with_zeros_meanwhile_is_an_error() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.safetensors");
    for (after, to) in [(3 << 20, 1 << 20), (1 << 20, 6 << 20), (8 << 20, 100)] {
        big(&input, 8);
        let_time_pass();
        let back = Some(fs::metadata(&input).unwrap().len());
        let mut host = host();
        host.progress = Arc::new(Cut { path: input.clone(), after, to, back, done: AtomicBool::new(false) });
        let error = convert(&host, &options(&input, &scratch.at("out.apr"))).unwrap_err();
        // Another thread may read in the moment between the cut and the filling.
        assert!(CUT.iter().any(|words| error.message().contains(words)), "{error}");
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, input.to_str()), "{error}");
        assert_eq!(scratch.names(), ["in.safetensors"]);
    }
}

#[test]
fn a_file_cut_and_filled_by_another_thread_never_ends_in_a_crash() {
    let scratch = Scratch::in_memory();
    let input = scratch.at("in.safetensors");
    big(&input, 24);
    let whole = fs::metadata(&input).unwrap().len();
    let stop = AtomicBool::new(false);
    let (mut n_errors, mut n_done) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&input).unwrap();
            let mut state = 1u64;
            while !stop.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                std::thread::sleep(Duration::from_micros(state >> 50));
                file.set_len(4096 + (state >> 33) % whole).unwrap();
                std::thread::sleep(Duration::from_micros(state >> 50));
                file.set_len(whole).unwrap();
            }
        });
        for round in 0..24 {
            let host = host();
            let output = scratch.at("out.apr");
            let ended = match round % 3 {
                0 => convert(&host, &options(&input, &output)).map(drop),
                1 => open(&host, &input, &OpenOptions::default())
                    .and_then(|o| tensor_rows(&host, &o, RowOptions { sha256: true, stats: true }))
                    .map(drop),
                _ => open(&host, &input, &OpenOptions::default())
                    .and_then(|o| {
                        validate(
                            &host,
                            &o,
                            ValidateOptions { checksum: true, values: true, strict: false, points: true },
                        )
                    })
                    .map(drop),
            };
            match ended {
                Ok(()) => n_done += 1,
                Err(error) => {
                    n_errors += 1;
                    let kinds = [ErrorKind::Io, ErrorKind::Malformed];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!(error.file().is_some(), "{error}");
                }
            }
            let _ = fs::remove_file(&output);
            assert_eq!(scratch.names(), ["in.safetensors"]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    eprintln!("{n_errors} errors, {n_done} done");
}
