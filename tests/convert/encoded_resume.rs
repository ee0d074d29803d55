//! Encoded payload that is stopped, killed or has no room: the longest prefix that is still there is kept, and not encoded
//! again; a sink may fail at any call.

use crate::encoded::{host, mixed, set};
use crate::memory::{INJECTED, with_failing};
use crate::resume::stopping_at;
use apr_engine::open::{Held, Listed};
use apr_engine::planned::request::VerifyMode;
use apr_engine::progress::Progress;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{DType, ErrorKind, LogLevel};
use apr_tests::kinds::{self, Kind, Tensor};
use apr_tests::{Scratch, assert_same_file, must, options, runs};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// MiB of a tensor.
const MIB: usize = 4;

/// A model of three tensors; the second is written raw.
fn model() -> Vec<Tensor> {
    let tensor =
        |name, kind, len: usize, seed| Tensor::new(name, kind, DType::U8, &[len as u64], mixed(len, seed));
    vec![
        tensor("a", Kind::Plain, (MIB << 20) + 5, 1),
        tensor("b", Kind::Plain, MIB << 20, 2),
        tensor("c", Kind::Blocks, MIB << 20, 3),
    ]
}

fn wanted(scratch: &Scratch, output: &str, tag: &str) -> ConvertOptions {
    let mut o = options(&scratch.at("in.kinds"), &scratch.at(output));
    set(&mut o, &[("raw", "b"), ("tag", tag), ("align", "64")]);
    o
}

/// Stops a conversion after some MiB; gives what was to be done.
fn interrupted(scratch: &Scratch, mib: u64, tag: &str) -> ConvertOptions {
    fs::write(scratch.at("in.kinds"), kinds::file(model())).unwrap();
    let o = wanted(scratch, "out.runs", tag);
    let (host, _) = stopping_at(host(), mib << 20);
    let error = convert(&host, &o).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert_eq!(scratch.names(), [".out.runs.apr-journal", ".out.runs.apr-part", "in.kinds"]);
    o
}

/// Resumes it; gives how many blocks were encoded before and then.
fn resumed(scratch: &Scratch, mut o: ConvertOptions, tag: &str) -> (usize, usize) {
    let before = runs::n_encoded(tag);
    (o.resume, o.verify) = (true, VerifyMode::Full);
    must(&host(), &o);
    must(&host(), &wanted(scratch, "whole.runs", ""));
    assert_same_file(&scratch.at("whole.runs"), &scratch.at("out.runs"));
    assert_eq!(scratch.names(), ["in.kinds", "out.runs", "whole.runs"]);
    (before, runs::n_encoded(tag) - before)
}

/// Where the records of a journal lie in it.
fn records(journal: &[u8]) -> Vec<Range<usize>> {
    let mut at = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut found = Vec::new();
    while let Some(len) = journal.get(at + 8..at + 12) {
        let end = at + 12 + u32::from_le_bytes(len.try_into().unwrap()) as usize + 4;
        found.push(at..end);
        at = end;
    }
    found
}

/// Gives a record that was changed the checksum of what it is now.
fn seal(journal: &mut [u8], record: Range<usize>) {
    let (content, sum) = journal[record].split_last_chunk_mut().unwrap();
    *sum = crc32fast::hash(content).to_le_bytes();
}

/// Blocks of the two tensors that are encoded.
const BLOCKS: usize = 2 * MIB * 16 + 1;

#[test]
fn what_is_committed_is_not_encoded_again() {
    for (mib, tag) in [(1, "r1"), (3, "r3"), (6, "r6"), (12, "r12")] {
        let scratch = Scratch::new();
        let o = interrupted(&scratch, mib, tag);
        let n_records = records(&fs::read(scratch.at(".out.runs.apr-journal")).unwrap()).len();
        assert!(n_records >= (mib as usize).min(3), "{n_records} records of {mib} MiB");
        let (before, then) = resumed(&scratch, o, tag);
        // What was encoded and not committed when it was stopped is encoded twice.
        assert!(before + then >= BLOCKS && before + then <= BLOCKS + 16 * 16, "{mib}: {before} and {then}");
    }
}

#[test]
fn a_damaged_unit_costs_it_and_what_follows() {
    let scratch = Scratch::new();
    let o = interrupted(&scratch, 10, "damaged");
    let journal = fs::read(scratch.at(".out.runs.apr-journal")).unwrap();
    let third = records(&journal)[2].clone();
    let offset = u64::from_le_bytes(journal[third.start + 12..third.start + 20].try_into().unwrap());
    let mut staged = fs::read(scratch.at(".out.runs.apr-part")).unwrap();
    staged[usize::try_from(offset).unwrap() + 100] ^= 1;
    fs::write(scratch.at(".out.runs.apr-part"), staged).unwrap();
    let (_, then) = resumed(&scratch, o, "damaged");
    assert_eq!(then, BLOCKS - 2 * 16);
}

#[test]
fn a_journal_that_is_torn_or_lies_costs_no_more_than_the_work() {
    // Cut in the last record, a record twice, the first one gone, lengths and offsets that cannot be.
    type Damage = fn(&mut Vec<u8>, Vec<Range<usize>>);
    let damages: [Damage; 6] = [
        |journal, _| drop(journal.split_off(journal.len() - 3)),
        |journal, records| journal.extend_from_within(records[0].start..),
        |journal, records| drop(journal.drain(records[0].clone())),
        |journal, records| journal[records[1].start + 8..][..4].fill(0xff),
        |journal, records| {
            journal[records[1].start + 12..][..8].fill(0xff);
            seal(journal, records[1].clone());
        },
        |journal, records| {
            journal[records[1].start + 28..records[1].end].fill(0xff);
            seal(journal, records[1].clone());
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let scratch = Scratch::new();
        let o = interrupted(&scratch, 6, "torn");
        let mut journal = fs::read(scratch.at(".out.runs.apr-journal")).unwrap();
        let found = records(&journal);
        damage(&mut journal, found);
        fs::write(scratch.at(".out.runs.apr-journal"), journal).unwrap();
        let (_, then) = resumed(&scratch, o, "torn");
        assert!(then <= BLOCKS, "{number}: {then}");
    }
}

#[test]
fn what_was_encoded_of_other_bytes_is_refused() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch, 6, "other");
    // The raw checksum of the second unit.
    let mut journal = fs::read(scratch.at(".out.runs.apr-journal")).unwrap();
    let second = records(&journal)[1].clone();
    journal[second.start + 24] ^= 1;
    seal(&mut journal, second);
    fs::write(scratch.at(".out.runs.apr-journal"), journal).unwrap();
    o.resume = true;
    let error = convert(&host(), &o).map(drop).unwrap_err();
    assert!(
        error.message().contains("the encoded bytes differ from those of the interrupted run"),
        "{error}"
    );
    assert!(error.hint_text().unwrap().contains("without --resume"), "{error}");
    assert_eq!(scratch.names(), ["in.kinds"]);
}

#[test]
fn stopped_again_and_again_it_comes_to_the_same_end() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch, 2, "again");
    o.resume = true;
    for mib in [5, 8, 11] {
        let (host, _) = stopping_at(host(), mib << 20);
        assert_eq!(convert(&host, &o).map(drop).unwrap_err().kind(), ErrorKind::Cancelled);
    }
    resumed(&scratch, o, "again");
}

#[test]
fn a_sink_may_fail_at_any_call() {
    let tensors = || {
        let tensor = |name, kind, seed| Tensor::new(name, kind, DType::U8, &[70_000], mixed(70_000, seed));
        vec![tensor("a", Kind::Plain, 1), tensor("b", Kind::Stream, 2), tensor("c", Kind::Plain, 3)]
    };
    for threads in [1, 3] {
        let mut host = host();
        host.set_threads(threads);
        let held: Arc<dyn apr_engine::place::Backing> = Arc::new(Held(kinds::file(tensors()).into()));
        host.places = Arc::new(Listed { files: [("in.kinds".to_owned(), held)].into(), ..Listed::default() });
        let mut o = options("in.kinds".as_ref(), "out.runs".as_ref());
        set(&mut o, &[("raw", "b"), ("align", "64")]);
        let (done, n_calls) = with_failing(&host, &o, usize::MAX);
        done.unwrap();
        assert!(n_calls > 10, "{n_calls} calls");
        for last in 0..n_calls {
            let error = with_failing(&host, &o, last).0.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "call {last}: {error}");
            assert!(error.message().contains(INJECTED), "call {last}: {error}");
        }
    }
}

/// Copies what is staged and recorded, as a kill at that moment would leave it.
struct CopyAt {
    bytes: u64,
    from: PathBuf,
    to: PathBuf,
    is_done: AtomicBool,
}

impl Progress for CopyAt {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        let journal = self.from.join(".out.runs.apr-journal");
        if done < self.bytes || !journal.exists() || self.is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        // What is recorded is durable by then, so the records come first.
        for name in [".out.runs.apr-journal", ".out.runs.apr-part"] {
            fs::copy(self.from.join(name), self.to.join(name)).unwrap();
        }
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[test]
fn what_a_kill_leaves_is_resumed() {
    for mib in [2, 5, 9] {
        let (scratch, killed) = (Scratch::new(), Scratch::new());
        fs::write(scratch.at("in.kinds"), kinds::file(model())).unwrap();
        let mut host = host();
        (host.journal_bytes, host.journal_interval) = (0, Duration::from_millis(1));
        let (from, to) = (scratch.path().to_owned(), killed.path().to_owned());
        let copying = Arc::new(CopyAt { bytes: mib << 20, from, to, is_done: AtomicBool::new(false) });
        host.progress = copying.clone();
        must(&host, &wanted(&scratch, "out.runs", ""));
        assert!(copying.is_done.load(Ordering::Relaxed), "it was done before {mib} MiB");
        let mut o = wanted(&scratch, "out.runs", "");
        (o.output, o.resume) = (Some(killed.at("out.runs")), true);
        must(&crate::encoded::host(), &o);
        assert_same_file(&scratch.at("out.runs"), &killed.at("out.runs"));
        assert_eq!(killed.names(), ["out.runs"]);
    }
}

#[test]
fn a_stop_after_the_payload_was_cut_to_its_length_is_resumed() {
    let scratch = Scratch::new();
    let o = interrupted(&scratch, 12, "late");
    // As if the file had been cut, and something appended, when it was stopped.
    let staged = fs::OpenOptions::new().write(true).open(scratch.at(".out.runs.apr-part")).unwrap();
    let len = staged.metadata().unwrap().len();
    staged.set_len(len - (1 << 20)).unwrap();
    resumed(&scratch, o, "late");
}
