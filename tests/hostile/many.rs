//! Headers of very many small things: the time that they take grows as they do.

use crate::build::{gguf, info, key};
use crate::command::run;
use apr_tests::Scratch;
use std::fs;
use std::time::Duration;

const U32: u32 = 4;
const I8: u32 = 24;

/// A GGUF file of `n` keys and one tensor.
pub fn keys(n: u32) -> Vec<u8> {
    let keys: Vec<_> = (0..n).map(|n| key(format!("k.{n}").as_bytes(), U32, &n.to_le_bytes())).collect();
    gguf(&keys, &[info(b"t", &[32], I8, 0)], &[7; 32])
}

/// A GGUF file of `n` tensors without elements.
pub fn tensors(n: u32) -> Vec<u8> {
    let infos: Vec<_> = (0..n).map(|n| info(format!("t.{n}").as_bytes(), &[0], I8, 0)).collect();
    gguf(&[], &infos, &[])
}

/// The least time that the command takes in a few runs: others keep the machine busy, and never make it faster.
fn time_of(scratch: &Scratch, args: &[&str]) -> Duration {
    let run = |_| {
        let ended = run(&scratch.at(""), args);
        assert_eq!(ended.code, 0, "apr {args:?}: {}", ended.stderr);
        ended.took
    };
    (0..3).map(run).min().unwrap()
}

/// Four times as many take less than ten times as long, of every verb: with a step for each pair it would be sixteen.
fn grows_as_they_do(make: fn(u32) -> Vec<u8>, n: u32) {
    let scratch = Scratch::in_memory();
    fs::write(scratch.at("few.gguf"), make(n)).unwrap();
    fs::write(scratch.at("many.gguf"), make(4 * n)).unwrap();
    let verbs: [&[&str]; 7] = [
        &["inspect"],
        &["tensors", "--json"],
        &["validate", "--values"],
        &["diff"],
        &["convert", "out.apr", "--plan", "--arch", "none"],
        &["convert", "out.apr", "--force", "--arch", "none"],
        &["convert", "out.gguf", "--force", "--arch", "none"],
    ];
    for verb in verbs {
        let time = |file: &'static str| {
            let twice = if verb[0] == "diff" { &[file][..] } else { &[] };
            time_of(&scratch, &[&verb[..1], &[file], twice, &verb[1..]].concat())
        };
        let (few, many) = (time("few.gguf"), time("many.gguf"));
        assert!(many < few * 10, "apr {verb:?}: {few:?} for {n}, {many:?} for {}", 4 * n);
    }
}

#[test]
fn keys_take_time_as_they_are_many() {
    grows_as_they_do(keys, 10_000);
}

#[test]
fn tensors_take_time_as_they_are_many() {
    grows_as_they_do(tensors, 5_000);
}
