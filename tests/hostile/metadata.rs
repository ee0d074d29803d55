//! 200 MB of metadata: read, carried through APR and back to the same bytes, in little memory.

use crate::build::{gguf, info, key, string};
use crate::command::{Ended, apr, wait};
use apr_tests::{Scratch, assert_same_file};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const STRING: u32 = 8;
const ARRAY: u32 = 9;
const I8: u32 = 24;
const MIB: u64 = 1 << 20;

/// Runs `apr` and watches its private memory; gives how it ended and the most it held, in bytes.
fn watched(folder: &Path, args: &[&str]) -> (Ended, u64) {
    let began = Instant::now();
    let child = apr(folder, args).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watcher = std::thread::spawn(move || {
        let mut most = 0;
        while let Ok(text) = fs::read_to_string(&status) {
            let field = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(name))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            };
            // A process that ended has no memory any more.
            let Some(private) = field("RssAnon:") else { break };
            most = most.max(private * 1024);
            std::thread::sleep(Duration::from_millis(1));
        }
        most
    });
    let ended = wait(child, began);
    (ended, watcher.join().unwrap())
}

fn tensors() -> [Vec<u8>; 1] {
    [info(b"t", &[32], I8, 0)]
}

/// One array of 4 million strings, as a vocabulary has them.
fn one_array(n_bytes: u64) -> Vec<u8> {
    let item = string(b"a token of a vocabulary, about forty bytes");
    let count = n_bytes / item.len() as u64;
    let mut value = [&STRING.to_le_bytes()[..], &count.to_le_bytes()].concat();
    (0..count).for_each(|_| value.extend(&item));
    gguf(&[key(b"tokenizer.ggml.tokens", ARRAY, &value)], &tensors(), &[7; 32])
}

/// Many keys, each below the length from which values stay in the file.
fn many_keys(n_bytes: u64) -> Vec<u8> {
    let text = string(&[b'x'; 50_000]);
    let keys: Vec<_> =
        (0..n_bytes / 50_000).map(|n| key(format!("key.{n}").as_bytes(), STRING, &text)).collect();
    gguf(&keys, &tensors(), &[7; 32])
}

/// A few strings that are longer than any header should be.
fn long_strings(n_bytes: u64) -> Vec<u8> {
    let text = string(&vec![b'y'; (n_bytes / 4) as usize]);
    let keys: Vec<_> = (0..4).map(|n| key(format!("key.{n}").as_bytes(), STRING, &text)).collect();
    gguf(&keys, &tensors(), &[7; 32])
}

/// GGUF -> APR -> GGUF of a file that is all header; no step may hold more than `most`.
fn there_and_back(name: &str, bytes: &[u8], most: u64) {
    let scratch = Scratch::in_memory();
    let folder = scratch.at("");
    let input = scratch.at("in.gguf");
    fs::write(&input, bytes).unwrap();
    let header = bytes.len() as u64;
    assert!(most <= 16 * header + 64 * MIB, "design section 9");
    for args in [
        &["inspect", "in.gguf"][..],
        &["convert", "in.gguf", "m.apr", "--arch", "none"],
        &["inspect", "m.apr"],
        &["convert", "m.apr", "back.gguf", "--arch", "none"],
        &["validate", "m.apr", "--checksum"],
    ] {
        let (ended, held) = watched(&folder, args);
        assert_eq!(ended.code, 0, "{name}: {args:?}: {}", ended.stderr);
        eprintln!(
            "{name} ({} MB): {}: {} MB private, {:.1} s",
            header / 1_000_000,
            args.join(" "),
            held / 1_000_000,
            ended.took.as_secs_f64()
        );
        assert!(held <= most, "{name}: {args:?} held {held} bytes, {most} are allowed");
        // Values are cut, keys are not: 4000 of them take as many lines.
        assert!(ended.stdout.len() < 2_000_000, "{name}: {args:?} floods the screen");
    }
    assert_same_file(&input, &scratch.at("back.gguf"));
}

#[test]
fn an_array_of_200_mb_stays_in_the_file_slow() {
    there_and_back("one array", &one_array(200_000_000), 64 * MIB);
}

#[test]
fn strings_of_200_mb_stay_in_the_file_slow() {
    there_and_back("long strings", &long_strings(200_000_000), 64 * MIB);
}

#[test]
fn many_keys_of_200_mb_are_held_a_few_times_slow() {
    let bytes = many_keys(200_000_000);
    // Measured: 3 times the header to open, 6 times to convert, for APR spells what is short as JSON.
    there_and_back("many keys", &bytes, 64 * MIB + 8 * bytes.len() as u64);
}
