//! Headers of very many small things: the time that they take grows as they do.

use crate::build::{gguf, info, key};
use crate::command::{LONGEST, apr};
use apr_tests::Scratch;
use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// The time that the command keeps a processor busy, the lesser of two runs. Others keep the machine busy too, which makes
/// it wait; so this is not the time from begin to end.
fn time_of(scratch: &Scratch, args: &[&str]) -> Duration {
    let run = |_| {
        let mut child = apr(&scratch.at(""), args).stdout(Stdio::null()).spawn().unwrap();
        let busy = busy(&mut child);
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "apr {args:?}: {}", String::from_utf8_lossy(&ended.stderr));
        busy
    };
    (0..2).map(run).min().unwrap()
}

/// How long a child kept processors busy when it ended, in units that Linux counts it by.
fn busy(child: &mut Child) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let began = Instant::now();
    loop {
        // The program's name is in parentheses, and may have any others inside; a process that ended and was not waited for is
        // still listed.
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        if fields[0] == "Z" {
            let ticks: u32 = fields[11..13].iter().map(|ticks| ticks.parse::<u32>().unwrap()).sum();
            return TICK * ticks.max(1);
        }
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("apr hangs");
        }
        sleep(Duration::from_millis(2));
    }
}

/// Four times as many take less than ten times as long: with a step for each pair it would be sixteen.
fn grows(scratch: &Scratch, [few, many]: [&[&str]; 2]) {
    let (short, long) = (time_of(scratch, few), time_of(scratch, many));
    // Times are in hundredths of a second: the shortest tell little.
    assert!(
        long < short.max(Duration::from_millis(50)) * 10,
        "apr {few:?} takes {short:?}, apr {many:?} {long:?}"
    );
}

/// Writes `few.gguf`, of `n`, and `many.gguf`, of four times as many.
fn write_both(make: fn(u32) -> Vec<u8>, n: u32) -> Scratch {
    let scratch = Scratch::in_memory();
    fs::write(scratch.at("few.gguf"), make(n)).unwrap();
    fs::write(scratch.at("many.gguf"), make(4 * n)).unwrap();
    scratch
}

/// Every verb takes time in proportion.
fn grows_as_they_do(make: fn(u32) -> Vec<u8>, n: u32) {
    let scratch = write_both(make, n);
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
        let of = |file: &'static str| {
            let twice = if verb[0] == "diff" { &[file][..] } else { &[] };
            [&verb[..1], &[file], twice, &verb[1..]].concat()
        };
        grows(&scratch, [&of("few.gguf"), &of("many.gguf")]);
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

/// Writing a format, and reading what was written, takes time in proportion.
fn grows_there_and_back(name: &str, to: &[&str]) {
    let scratch = write_both(tensors, 3_000);
    let (few, many) = (format!("few{name}"), format!("many{name}"));
    let there = |from, out| [&["convert", from, out, "--force", "--arch", "none"], to].concat();
    grows(&scratch, [&there("few.gguf", &few), &there("many.gguf", &many)]);
    let back = |from| ["convert", from, "back.gguf", "--force", "--arch", "none"];
    grows(&scratch, [&back(&few), &back(&many)]);
}

#[test]
fn npz_takes_time_as_its_entries_are_many() {
    grows_there_and_back(".npz", &[]);
}

#[test]
fn pytorch_takes_time_as_its_entries_are_many() {
    grows_there_and_back(".pt", &[]);
}

#[test]
fn onnx_takes_time_as_its_tensors_are_many() {
    grows_there_and_back(".onnx", &[]);
}

#[test]
fn apr_takes_time_as_its_tensors_are_many() {
    grows_there_and_back(".apr", &[]);
}

#[test]
fn a_hugging_face_folder_takes_time_as_its_tensors_are_many() {
    grows_there_and_back("", &["--to", "huggingface"]);
}
