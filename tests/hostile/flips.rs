//! One byte of a file changed: any byte of any header gives an error or a model that passes; any byte at all of an APR file
//! is found by its checksum.

use crate::command::{fails, run};
use crate::judge::{FORMATS, converted, judged};
use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::validate::{ValidateOptions, validate};
use apr_host::convert::convert;
use apr_sdk::Payload;
use apr_tests::{Scratch, fixtures_with, host, options};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MASKS: [u8; 3] = [0x01, 0x80, 0xff];

/// Headers longer than this are changed at every byte of their first and last 2 KiB and at every 61st between.
const LONG: usize = 4096;

fn places(len: usize) -> impl Iterator<Item = usize> {
    (0..len).filter(move |&at| len <= LONG || at < LONG / 2 || at >= len - LONG / 2 || at % 61 == 0)
}

/// The fixtures, each in the list of one of `n` threads.
fn dealt(paths: Vec<PathBuf>, n: usize) -> Vec<Vec<PathBuf>> {
    let mut hands = vec![Vec::new(); n];
    for (number, path) in paths.into_iter().enumerate() {
        hands[number % n].push(path);
    }
    hands
}

/// One past the last byte of the header: where the first payload begins, and what follows the last.
fn header(path: &Path, len: usize) -> Vec<usize> {
    let opened = open(&host(), path, &OpenOptions { bare: true, ..OpenOptions::default() }).unwrap();
    let extents = opened.model.tensors.iter().filter_map(|tensor| match &tensor.payload {
        Payload::Extent { extent, .. } if extent.len > 0 => Some((extent.offset, extent.offset + extent.len)),
        _ => None,
    });
    let (mut first, mut last) = (len as u64, 0);
    for (start, end) in extents {
        first = first.min(start);
        last = last.max(end);
    }
    let last = if last == 0 { len as u64 } else { last };
    places(first as usize).chain(last as usize..len).collect()
}

#[test]
fn every_byte_of_every_header_flipped_is_an_error_or_a_model_that_passes_slow() {
    let paths = FORMATS.iter().flat_map(|format| fixtures_with(format, format)).collect();
    std::thread::scope(|scope| {
        for hand in dealt(paths, 2) {
            scope.spawn(move || hand.iter().for_each(|path| flip_header(path)));
        }
    });
}

fn flip_header(path: &Path) {
    let (host, scratch) = (host(), Scratch::in_memory());
    let bytes = fs::read(path).unwrap();
    let copy = scratch.at(&path.file_name().unwrap().to_string_lossy());
    fs::write(&copy, &bytes).unwrap();
    let file = File::options().write(true).open(&copy).unwrap();
    let mut n_models = 0;
    for at in header(path, bytes.len()) {
        for mask in MASKS {
            file.write_all_at(&[bytes[at] ^ mask], at as u64).unwrap();
            if let Ok(opened) = judged(&host, &copy) {
                n_models += 1;
                // Each conversion syncs to disk, so only some of what opens is converted.
                if n_models % 97 == 1 {
                    converted(&host, &scratch, &copy, &opened);
                }
            }
        }
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
    assert_eq!(fs::read(&copy).unwrap(), bytes);
}

#[test]
fn validate_catches_every_flip_of_every_byte_of_an_apr_file_slow() {
    let paths = FORMATS.iter().flat_map(|format| fixtures_with(format, format)).collect();
    std::thread::scope(|scope| {
        for hand in dealt(paths, 2) {
            scope.spawn(move || hand.iter().for_each(|path| flip_apr(path)));
        }
    });
}

fn flip_apr(path: &Path) {
    let (host, scratch) = (host(), Scratch::in_memory());
    let apr = scratch.at("m.apr");
    convert(&host, &options(path, &apr)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = fs::read(&apr).unwrap();
    let passes = || {
        let opened = open(&host, &apr, &OpenOptions::default()).ok()?;
        let checksum = ValidateOptions { checksum: true, ..ValidateOptions::default() };
        Some(validate(&host, &opened, checksum).is_ok_and(|verdict| verdict.ok))
    };
    assert_eq!(passes(), Some(true), "{}", path.display());
    let file = File::options().write(true).open(&apr).unwrap();
    for at in places(bytes.len()) {
        // Another bit at each place: all masks at all places would take minutes and say nothing more of a CRC.
        let masks = [1 << (at % 8), 0xff];
        for mask in if bytes.len() <= LONG / 2 { &masks[..] } else { &masks[..1] } {
            file.write_all_at(&[bytes[at] ^ mask], at as u64).unwrap();
            assert_ne!(passes(), Some(true), "{}: byte {at} flipped by {mask:#x} passes", path.display());
        }
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
    assert_eq!(passes(), Some(true), "{}", path.display());
}

/// One of each kind through the program: the header, the payload, the checksum itself.
#[test]
fn the_program_says_that_an_apr_file_changed() {
    let scratch = Scratch::new();
    convert(&host(), &options(&fixtures_with("gguf", "gguf")[0], &scratch.at("m.apr"))).unwrap();
    let bytes = fs::read(scratch.at("m.apr")).unwrap();
    let (payload, sum) = (bytes.len() - 17, bytes.len() - 16);
    for at in [payload, sum] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(scratch.at("m.apr"), &changed).unwrap();
        let ended = run(&scratch.at(""), &["validate", "m.apr", "--checksum"]);
        assert_eq!(ended.code, 5, "{at}: {}{}", ended.stdout, ended.stderr);
        let said = ended.stdout + &ended.stderr;
        assert!(said.contains("E004") && said.contains("m.apr"), "{at}: {said}");
    }
    let mut changed = bytes.clone();
    changed[0] ^= 0x20;
    fs::write(scratch.at("m.apr"), &changed).unwrap();
    fails(&scratch, &["validate", "m.apr", "--checksum"], 4, &["error[E001]", "at m.apr"]);
}
