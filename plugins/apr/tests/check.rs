//! The report `check`: what is read, and which files pass which points of the checklist.

use crate::setup::{METADATA, Raw, cut, footer, made, raw, reader, simple};
use apr_sdk::{Extent, FileId, Limits, LogLevel, MemorySource, Options, Report, Result, Source};
use serde_json::Value as Json;
use std::sync::Mutex;

fn file(metadata: &[u8], entries: &[Raw], data: usize) -> Vec<u8> {
    made(metadata, entries, &vec![0; data])
}

fn checked(source: &dyn Source) -> Report {
    reader().report("check", source, &Limits::default(), &Options::new()).unwrap()
}

fn json(report: &Report) -> Json {
    assert!(report.passed);
    serde_json::from_str(&report.json).unwrap()
}

/// The verdict on a point and its reason, `-` if it is not stated.
fn point(report: &Report, number: u64) -> (String, String) {
    let json = json(report);
    let found = json["points"].as_array().unwrap().iter().find(|point| point["number"] == number).cloned();
    let found = found.unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or("-").to_owned();
    (text("verdict"), text("reason"))
}

fn findings(report: &Report) -> usize {
    json(report)["findings"].as_array().unwrap().len()
}

fn of(bytes: Vec<u8>) -> Report {
    checked(&MemorySource::new("m.apr", bytes))
}

/// Two tensors, the second after 61 bytes of padding.
fn plain() -> Vec<u8> {
    file(METADATA.as_bytes(), &[raw("a", 0, 3), raw("b", 64, 1)], 65)
}

#[test]
fn a_written_file_passes_every_point_that_applies() {
    let report = of(simple().file());
    for number in [2, 5, 6, 7, 10, 11, 12, 13, 22] {
        assert_eq!(point(&report, number).0, "pass", "{}", report.text);
    }
    for number in [23, 24] {
        assert_eq!(point(&report, number).0, "not-applicable", "{}", report.text);
    }
    assert_eq!(findings(&report), 0);
}

#[test]
fn padding_that_is_not_zero_is_found_in_every_gap() {
    let bytes = plain();
    let data = u64::from(u32::from_le_bytes(bytes[28..32].try_into().unwrap()));
    let index_end = u64::from(u32::from_le_bytes(bytes[20..24].try_into().unwrap()))
        + u64::from(u32::from_le_bytes(bytes[24..28].try_into().unwrap()));
    assert_eq!(point(&of(bytes.clone()), 22).0, "pass");
    for at in [index_end, data - 1, data + 3, data + 63] {
        let mut bytes = bytes.clone();
        bytes[usize::try_from(at).unwrap()] = 0xff;
        let report = of(bytes);
        let (verdict, reason) = point(&report, 22);
        assert_eq!(verdict, "warn");
        assert!(reason.contains(&format!("byte {at} ")) && reason.contains("0xff"), "{reason}");
        assert!(reason.contains("1 of 2 gaps"), "{reason}");
        assert_eq!(findings(&report), 1);
    }
    let mut bytes = bytes;
    bytes[usize::try_from(data).unwrap()] = 0xff;
    assert_eq!(point(&of(bytes), 22).0, "pass", "the first byte of a tensor is no padding");
}

#[test]
fn an_alignment_that_is_not_promised_is_found() {
    let entries = [raw("a", 0, 3), raw("b", 63, 1)];
    let mut bytes = file(METADATA.as_bytes(), &entries, 64);
    bytes[8] = 0;
    let report = of(bytes);
    let (verdict, reason) = point(&report, 6);
    assert_eq!((verdict.as_str(), findings(&report)), ("warn", 1));
    assert!(reason.contains("`b`") && reason.contains("1 of 2 tensors"), "{reason}");
    let mut bytes = plain();
    bytes[8] = 0;
    assert_eq!(point(&of(bytes), 6).0, "pass", "aligned without a promise");
}

#[test]
fn what_opening_notes_is_a_point_but_no_second_finding() {
    let mut odd = plain();
    odd[9] = 1;
    let mut long = plain();
    long.push(7);
    let entry = Raw { flags: 64, ..raw("a", 0, 3) };
    let flagged = file(METADATA.as_bytes(), &[entry], 3);
    for (bytes, number, words) in
        [(odd, 11, "0x100"), (long, 13, "1 bytes after the footer"), (flagged, 11, "of 1 tensors")]
    {
        let report = of(bytes);
        let (verdict, reason) = point(&report, number);
        assert_eq!((verdict.as_str(), findings(&report)), ("warn", 0));
        assert!(reason.contains(words), "{reason}");
    }
    let mut signed = plain();
    signed[8] |= 32;
    assert_eq!(point(&of(signed), 23).0, "not-measured");
}

#[test]
fn every_shard_is_judged_and_the_bad_one_named() {
    let of = |files: Vec<(String, Vec<u8>)>| {
        let all = files.into_iter();
        checked(&all.fold(MemorySource::default(), |source, (name, bytes)| source.with(name, bytes)))
    };
    let mut files = simple().write(&cut("m", 1)).unwrap();
    assert_eq!(point(&of(files.clone()), 22).0, "pass");
    let index_at = u32::from_le_bytes(files[2].1[20..24].try_into().unwrap());
    let index_len = u32::from_le_bytes(files[2].1[24..28].try_into().unwrap());
    files[2].1[(index_at + index_len) as usize] = 1;
    let (verdict, reason) = point(&of(files), 22);
    assert_eq!(verdict, "warn");
    assert!(reason.starts_with("m-00002-of-00002.apr: "), "{reason}");
}

#[test]
fn older_layouts_have_no_points_and_other_reports_do_not_exist() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let older = first_file(&folder.join("header_64"));
    assert_eq!(json(&of(older))["points"], Json::Array(Vec::new()));
    let source = MemorySource::new("m.apr", plain());
    assert!(reader().report("scan", &source, &Limits::default(), &Options::new()).is_err());
}

/// The first file of an older layout in a folder.
fn first_file(folder: &std::path::Path) -> Vec<u8> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let path = paths.into_iter().find(|path| path.extension().is_some_and(|e| e == "apr")).unwrap();
    std::fs::read(path).unwrap()
}

/// Zeros with something at the start and the end, which says what of it was read.
struct Sparse {
    head: Vec<u8>,
    tail: Vec<u8>,
    len: u64,
    reads: Mutex<Vec<(u64, u64)>>,
}

impl Source for Sparse {
    fn name(&self, _: FileId) -> String {
        "m.apr".to_owned()
    }

    fn len(&self, _: FileId) -> Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, _: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap().push((offset, out.len() as u64));
        let tail_at = self.len - self.tail.len() as u64;
        for (at, byte) in (offset..).zip(out) {
            let of_head = usize::try_from(at).ok().and_then(|at| self.head.get(at));
            let of_tail = at.checked_sub(tail_at).and_then(|at| self.tail.get(usize::try_from(at).unwrap()));
            *byte = of_tail.or(of_head).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn view(&self, _: Extent) -> Result<&[u8]> {
        panic!("nothing needs a view")
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        panic!("{path}")
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn is_folder(&self) -> bool {
        false
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// A file whose tensors are `entries`, with `len` bytes of data, all zero.
fn sparse(entries: &[Raw], len: u64) -> Sparse {
    let mut head = file(METADATA.as_bytes(), entries, 0);
    head.truncate(head.len() - 16);
    let len = head.len() as u64 + len + 16;
    let mut tail = footer(Vec::new());
    tail[8..].copy_from_slice(&len.to_le_bytes());
    Sparse { head, tail, len, reads: Mutex::default() }
}

#[test]
fn no_payload_is_read_and_of_padding_only_so_much() {
    let tensors = [raw("a", 0, 1 << 40), raw("b", (1 << 40) + 64, 1 << 40)];
    let source = sparse(&tensors, (2 << 40) + 64);
    assert_eq!(point(&checked(&source), 22).0, "pass");
    let data = source.head.len() as u64;
    let is_inside = |(at, len): &(u64, u64)| {
        tensors.iter().any(|t| *at < data + t.offset + t.size && at + len > data + t.offset)
    };
    let reads = source.reads.lock().unwrap().clone();
    assert!(reads.iter().all(|read| !is_inside(read)), "{reads:?}");

    let source = sparse(&[raw("a", 0, 1), raw("b", 1 << 40, 1)], (1 << 40) + 1);
    let (verdict, reason) = point(&checked(&source), 22);
    assert_eq!(verdict, "warn");
    assert!(reason.contains("more than any alignment requires"), "{reason}");
    let read: u64 = source.reads.lock().unwrap().iter().map(|(_, len)| len).sum();
    assert!(read < 65 << 20, "{read}");
}

#[test]
fn damage_is_an_error_or_a_verdict() {
    let whole = plain();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let source = MemorySource::new("m.apr", bytes);
            if let Ok(report) = reader().report("check", &source, &Limits::default(), &Options::new()) {
                json(&report);
            }
        }
    }
}
