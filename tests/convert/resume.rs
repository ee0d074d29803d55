//! `--resume` takes up exactly the same work, gives the same bytes, and refuses anything else.

use crate::quantize::{quantizing, values, write};
use apr_engine::progress::Progress;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{ErrorKind, LogLevel};
use apr_tests::{Scratch, assert_same_file, host, must, options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stops the work after some bytes, and remembers how far it came.
pub struct StopAfter {
    bytes: u64,
    seen: AtomicU64,
    cancel: Arc<AtomicBool>,
}

impl Progress for StopAfter {
    fn bytes(&self, done: u64, _total: u64, _what: &str) {
        self.seen.fetch_max(done, Ordering::Relaxed);
        if done >= self.bytes {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

/// A host that keeps a journal for the smallest job and stops after `bytes`.
pub fn stopping(bytes: u64) -> (Host, Arc<StopAfter>) {
    stopping_at(host(), bytes)
}

/// The same of a host with other plugins.
pub fn stopping_at(mut host: Host, bytes: u64) -> (Host, Arc<StopAfter>) {
    host.journal_bytes = 0;
    let progress = Arc::new(StopAfter { bytes, seen: AtomicU64::new(0), cancel: host.cancel.clone() });
    host.progress = progress.clone();
    (host, progress)
}

/// A SafeTensors file of `n_mib` MiB in two tensors, written here by its specification.
fn input(path: &Path, n_mib: usize) {
    let half = n_mib * (1 << 20) / 2;
    let header = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{half}],"data_offsets":[0,{half}]}},"b":{{"dtype":"U8","shape":[{half}],"data_offsets":[{half},{}]}}}}"#,
        2 * half
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    let mut state = 1u32;
    bytes.extend((0..2 * half).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    }));
    std::fs::write(path, bytes).unwrap();
}

/// Stops a conversion of 16 MiB half way.
fn interrupted(scratch: &Scratch) -> ConvertOptions {
    input(&scratch.at("in.safetensors"), 16);
    let o = options(&scratch.at("in.safetensors"), &scratch.at("out.apr"));
    let (host, _) = stopping(8 << 20);
    let error = convert(&host, &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.hint_text().unwrap().contains("--resume"));
    assert_eq!(scratch.names(), [".out.apr.apr-journal", ".out.apr.apr-part", "in.safetensors"]);
    o
}

#[test]
fn resuming_does_only_the_rest_and_gives_the_same_bytes() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    o.resume = true;
    let (host, progress) = stopping(u64::MAX);
    must(&host, &o);
    let rest = progress.seen.load(Ordering::Relaxed);
    assert!(rest <= 9 << 20, "{rest} bytes were done again");
    must(&apr_tests::host(), &options(&scratch.at("in.safetensors"), &scratch.at("whole.apr")));
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr", "whole.apr"]);
}

#[test]
fn who_stops_a_short_conversion_hears_that_nothing_was_kept() {
    let scratch = Scratch::new();
    input(&scratch.at("in.safetensors"), 16);
    let (mut host, _) = stopping(8 << 20);
    (host.journal_bytes, host.journal_interval) = (u64::MAX, std::time::Duration::from_secs(3600));
    let o = options(&scratch.at("in.safetensors"), &scratch.at("out.apr"));
    let error = convert(&host, &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.hint_text(), Some("run the command again to start over: nothing was kept"));
    assert_eq!(scratch.names(), ["in.safetensors"]);
}

#[test]
fn what_an_earlier_run_quantized_is_said_to_be_in_no_figure() {
    let scratch = Scratch::new();
    let input = scratch.at("in.safetensors");
    write(&input, &[("blk.0.ffn_up.weight", &[1 << 14, 256], &values(1 << 22, 1))]);
    let mut o = quantizing(&input, &scratch.at("out.gguf"), "Q8_0");
    let whole = must(&host(), &ConvertOptions { output: Some(scratch.at("whole.gguf")), ..o.clone() });
    assert_eq!(whole.quantized.unwrap().unmeasured_tiles, 0);
    let (host, _) = stopping(2 << 20);
    assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::Cancelled);
    o.resume = true;
    let done = must(&apr_tests::host(), &o);
    assert!(done.quantized.unwrap().unmeasured_tiles > 0);
    let note = "quantization errors cover only this run: ";
    assert!(done.notes.iter().any(|found| found.starts_with(note)), "{:?}", done.notes);
    assert_same_file(&scratch.at("whole.gguf"), &scratch.at("out.gguf"));
}

#[test]
fn what_a_journal_records_twice_is_looked_at_once() {
    let scratch = Scratch::new();
    let input = scratch.at("in.safetensors");
    // Half of them zeros is no finding; the first half alone would be one.
    let mut half_zeros = values(1 << 22, 1);
    half_zeros[..1 << 21].fill(0.0);
    write(&input, &[("blk.0.ffn_up.weight", &[1 << 14, 256], &half_zeros)]);
    let mut o = options(&input, &scratch.at("out.apr"));
    let (host, _) = stopping(8 << 20);
    assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::Cancelled);
    let journal = scratch.at(".out.apr.apr-journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(bytes.len() - first >= 7 * RECORD, "too little was recorded");
    bytes.extend_from_within(first..);
    std::fs::write(&journal, bytes).unwrap();
    o.resume = true;
    let done = must(&apr_tests::host(), &o);
    let whole = must(&apr_tests::host(), &options(&input, &scratch.at("whole.apr")));
    assert_eq!(done.looked, whole.looked);
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
}

#[test]
fn damaged_staging_is_done_again() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    let staged = scratch.at(".out.apr.apr-part");
    let mut bytes = std::fs::read(&staged).unwrap();
    bytes.iter_mut().for_each(|b| *b ^= 0x55);
    std::fs::write(&staged, bytes).unwrap();
    o.resume = true;
    must(&host(), &o);
    must(&host(), &options(&scratch.at("in.safetensors"), &scratch.at("whole.apr")));
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
}

#[test]
fn a_changed_input_or_plan_is_refused_and_keeps_what_is_there() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    o.resume = true;
    let mut other = o.clone();
    other.set.push(("author:str".to_owned(), "me".to_owned()));
    let error = convert(&host(), &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("plan"), "{error}");
    input(&scratch.at("in.safetensors"), 16);
    let error = convert(&host(), &o).unwrap_err();
    assert!(error.message().contains("inputs"), "{error}");
    assert_eq!(scratch.names(), [".out.apr.apr-journal", ".out.apr.apr-part", "in.safetensors"]);
    o.resume = false;
    must(&host(), &o);
    assert_eq!(scratch.names(), ["in.safetensors", "out.apr"]);
}

#[test]
fn what_an_earlier_run_read_counts_for_the_checksums_of_the_input() {
    for damaged in [false, true] {
        let scratch = Scratch::new();
        input(&scratch.at("in.safetensors"), 16);
        must(&host(), &options(&scratch.at("in.safetensors"), &scratch.at("in.apr")));
        if damaged {
            let mut bytes = std::fs::read(scratch.at("in.apr")).unwrap();
            bytes[1 << 20] ^= 1;
            std::fs::write(scratch.at("in.apr"), bytes).unwrap();
        }
        let mut o = options(&scratch.at("in.apr"), &scratch.at("out.safetensors"));
        assert_eq!(convert(&stopping(8 << 20).0, &o).unwrap_err().kind(), ErrorKind::Cancelled);
        o.resume = true;
        let done = convert(&host(), &o);
        match done {
            Ok(done) => {
                assert!(!damaged, "{:?}", done.verified);
                let compared = "1 of 1 stored checksum of the input".to_owned();
                assert!(done.verified.contains(&compared), "{:?}", done.verified);
            }
            Err(error) => assert_eq!((damaged, error.stable_code()), (true, Some("E004")), "{error}"),
        }
        assert_eq!(scratch.at("out.safetensors").exists(), !damaged);
    }
}

#[test]
fn nothing_to_resume_is_an_error() {
    let scratch = Scratch::new();
    input(&scratch.at("in.safetensors"), 2);
    let mut o = options(&scratch.at("in.safetensors"), &scratch.at("out.apr"));
    o.resume = true;
    let error = convert(&host(), &o).unwrap_err();
    assert!(error.message().contains("nothing to resume"), "{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(scratch.names(), ["in.safetensors"]);
    assert_eq!(scratch.names(), ["in.safetensors"]);
}

#[test]
fn a_wrong_resume_leaves_the_staged_bytes_alone() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    let staged = std::fs::read(scratch.at(".out.apr.apr-part")).unwrap();
    input(&scratch.at("in.safetensors"), 2);
    o.resume = true;
    assert_eq!(convert(&host(), &o).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(std::fs::read(scratch.at(".out.apr.apr-part")).unwrap() == staged);
}

#[test]
fn a_source_whose_time_was_set_back_after_a_change_is_another() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    let path = scratch.at("in.safetensors");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    // In what is still to be converted, where no sample is.
    std::os::unix::fs::FileExt::write_all_at(&file, b"!", (15 << 20) + 12_345).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    o.resume = true;
    let error = convert(&host(), &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("inputs"), "{error}");
}

#[test]
fn other_threads_and_another_spelling_of_the_path_are_the_same_work() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    o.resume = true;
    o.input = scratch.at("./in.safetensors");
    let (mut host, progress) = stopping(u64::MAX);
    host.set_threads(7);
    must(&host, &o);
    assert!(progress.seen.load(Ordering::Relaxed) <= 9 << 20);
}

/// Bytes of a record of the journal.
const RECORD: usize = 40;

#[test]
fn a_torn_record_costs_its_tile_alone() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    let journal = scratch.at(".out.apr.apr-journal");
    let whole = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &whole[..whole.len() - 5]).unwrap();
    o.resume = true;
    let (host, _) = stopping(3 << 20);
    assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::Cancelled);
    let again = std::fs::read(&journal).unwrap();
    let begin = again.iter().position(|&b| b == b'\n').unwrap() + 1;
    assert_eq!((again.len() - begin) % RECORD, 0);
    let number = |record: &[u8]| u64::from_le_bytes(record[..8].try_into().unwrap());
    let mut tiles: Vec<_> = again[begin..].chunks(RECORD).map(number).collect();
    tiles.sort_unstable();
    let n_records = tiles.len();
    tiles.dedup();
    assert!(tiles.len() == n_records && tiles.iter().all(|&tile| tile < 16), "{tiles:?}");
    o.resume = true;
    must(&apr_tests::host(), &o);
    must(&apr_tests::host(), &options(&scratch.at("in.safetensors"), &scratch.at("whole.apr")));
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
}

#[test]
fn a_record_that_changed_on_disk_costs_no_more_than_what_it_tells() {
    let scratch = Scratch::new();
    let mut o = interrupted(&scratch);
    o.resume = true;
    must(&apr_tests::host(), &options(&scratch.at("in.safetensors"), &scratch.at("whole.apr")));
    let (journal, part) = (scratch.at(".out.apr.apr-journal"), scratch.at(".out.apr.apr-part"));
    let (records, staged) = (std::fs::read(&journal).unwrap(), std::fs::read(&part).unwrap());
    let begin = records.iter().position(|&b| b == b'\n').unwrap() + 1;
    // Every byte of a record: its number, its length, each sum and count that the engine keeps, its checksum.
    for at in begin..begin + RECORD {
        let mut changed = records.clone();
        changed[at] ^= 0x10;
        std::fs::write(&journal, &changed).unwrap();
        std::fs::write(&part, &staged).unwrap();
        let done = must(&apr_tests::host(), &o);
        assert!(done.warnings.is_empty(), "byte {}: {:?}", at - begin, done.warnings);
        assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
        std::fs::remove_file(scratch.at("out.apr")).unwrap();
    }
}

#[test]
fn a_stop_after_the_payload_keeps_what_is_finished() {
    let scratch = Scratch::new();
    input(&scratch.at("in.safetensors"), 4);
    let mut o = options(&scratch.at("in.safetensors"), &scratch.at("out.apr"));
    // The stop comes with the last byte of payload.
    let (host, _) = stopping(4 << 20);
    assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(scratch.names(), [".out.apr.apr-journal", ".out.apr.apr-part", "in.safetensors"]);
    o.resume = true;
    let (host, progress) = stopping(u64::MAX);
    must(&host, &o);
    assert_eq!(progress.seen.load(Ordering::Relaxed), 0);
}
