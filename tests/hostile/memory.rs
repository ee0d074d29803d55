//! Headers of very many small things: telling what they say takes memory in proportion (design section 9).

use crate::build::{gguf, key, string};
use crate::command::apr;
use crate::many::{keys, tensors};
use apr_tests::Scratch;
use std::fs;
use std::io::Read;

/// What opening may use: 16 times the header, and 64 MiB.
fn bound(header: u64) -> u64 {
    16 * header + (64 << 20)
}

/// The most memory that process `id` had, in bytes, or `None` if it ended.
fn peak(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The most memory that the command took until it had written its answer, which is longer than a pipe holds: it cannot end
/// before it was measured.
fn peak_of(scratch: &Scratch, args: &[&str]) -> u64 {
    let mut child = apr(&scratch.at(""), args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut piece, mut most, mut written) = (vec![0; 1 << 16], 0, 0);
    loop {
        most = most.max(peak(child.id()).unwrap_or(0));
        match out.read(&mut piece).unwrap() {
            0 => break,
            n => written += n,
        }
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "apr {args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    assert!(written > 1 << 20, "apr {args:?} wrote {written} bytes");
    most
}

fn stay_in_bound(file: &[u8], verbs: &[&[&str]]) {
    let scratch = Scratch::in_memory();
    fs::write(scratch.at("many.gguf"), file).unwrap();
    let bound = bound(file.len() as u64);
    for verb in verbs {
        let args = [&verb[..1], &["many.gguf"], &verb[1..]].concat();
        let most = peak_of(&scratch, &args);
        assert!(most > 1 << 20 && most <= bound, "apr {args:?}: {most} bytes, the bound is {bound}");
    }
}

#[test]
fn many_keys_stay_in_the_bound_of_memory() {
    stay_in_bound(&keys(300_000), &[&["inspect", "--metadata"], &["inspect", "--json"]]);
}

#[test]
fn many_tensors_stay_in_the_bound_of_memory() {
    let verbs: [&[&str]; 3] = [&["tensors"], &["tensors", "--json"], &["inspect", "--full", "--json"]];
    stay_in_bound(&tensors(200_000), &verbs);
}

#[test]
fn a_long_array_of_strings_stays_in_the_bound_of_memory() {
    const STRING: u32 = 8;
    const ARRAY: u32 = 9;
    const N: u64 = 500_000;
    let mut value = [&STRING.to_le_bytes()[..], &N.to_le_bytes()].concat();
    (0..N).for_each(|n| value.extend(string(format!("a a{n}").as_bytes())));
    let file = gguf(&[key(b"tokenizer.ggml.merges", ARRAY, &value)], &[], &[]);
    stay_in_bound(&file, &[&["inspect", "--full"], &["inspect", "--full", "--json"]]);
}

/// A conversion writes a header as long as the one that it reads, and reads it again: the bound is that of both.
#[test]
fn conversions_of_many_tensors_stay_in_the_bound_of_both_headers() {
    let scratch = Scratch::in_memory();
    let file = tensors(200_000);
    fs::write(scratch.at("many.gguf"), &file).unwrap();
    for (output, plan) in
        [("out.gguf", &[][..]), ("out.apr", &[]), ("out.safetensors", &[]), ("out.apr", &["--plan"])]
    {
        let args = [&["convert", "many.gguf", output, "--arch", "none", "--force", "--json"], plan].concat();
        let most = peak_of(&scratch, &args);
        let written = fs::metadata(scratch.at(output)).unwrap().len();
        let bound = bound(file.len() as u64 + written);
        assert!(most > 1 << 20 && most <= bound, "apr {args:?}: {most} bytes, the bound is {bound}");
    }
}
