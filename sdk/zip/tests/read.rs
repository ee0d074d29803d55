//! What other programs wrote is read as Python's `zipfile` reads it.

use crate::forge::{Forged, archive};
use apr_sdk::{Limits, MemorySource, Source, Stream};
use apr_zip::{Archive, Inflate, Method};
use serde_json::Value as Json;

pub fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn archives_of_other_programs_are_read_as_zipfile_reads_them() {
    let golden: Json = serde_json::from_slice(&data("golden.json")).unwrap();
    let golden = golden.as_object().unwrap();
    assert!(golden.len() >= 5, "{:?}", golden.keys());
    for (name, expected) in golden {
        let source = MemorySource::new(name, data(name));
        let limits = Limits::default();
        let archive = Archive::open(&source, 0, &limits).unwrap();
        let found: Vec<_> = archive
            .entries()
            .iter()
            .map(|entry| {
                let raw = archive.read(&source, entry, &limits).unwrap();
                assert_eq!(raw.len() as u64, entry.raw_len);
                let begins: String = raw.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
                let method = if entry.method == Method::Stored { 0 } else { 8 };
                serde_json::json!({"name": entry.name, "method": method, "stored": entry.data.len,
                    "raw": entry.raw_len, "crc32": entry.crc32, "begins": begins})
            })
            .collect();
        assert_eq!(Json::from(found), *expected, "{name}");
    }
}

#[test]
fn stored_data_lies_where_the_entry_says() {
    let source = MemorySource::new("torch.zip", data("torch.zip"));
    let archive = Archive::open(&source, 0, &Limits::default()).unwrap();
    let entry = archive.find("torch/data/0").unwrap();
    assert_eq!(entry.data.offset % 64, 0, "torch aligns what it stores");
    let expected: Vec<u8> = (0..6u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    assert_eq!(source.view(entry.data).unwrap(), expected);
    assert!(archive.find("torch/data/2").is_none());
}

#[test]
fn a_stream_gives_the_same_bytes_in_pieces_of_any_length() {
    let raw: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    let (bytes, ..) = archive(&[Forged::deflated("a", &raw)]);
    let source = MemorySource::new("a.zip", bytes);
    let archive = Archive::open(&source, 0, &Limits::default()).unwrap();
    for (piece, skip) in [(1usize, 299_000u64), (7, 250_000), (4096, 1), (1 << 20, 0), (1, 300_000)] {
        let mut stream = Inflate::new(&archive.entries()[0]).skipping(skip);
        assert_eq!(stream.left(), 300_000 - skip);
        let (mut out, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            match stream.read(&source, &mut buffer).unwrap() {
                0 => break,
                n => out.extend_from_slice(&buffer[..n]),
            }
        }
        assert!(out == raw[skip as usize..], "pieces of {piece}");
        assert_eq!(stream.read(&source, &mut buffer).unwrap(), 0);
    }
}

#[test]
fn names_are_kept_as_they_are() {
    let names = ["../up", "/root", "a\0b", "a//b", "a\\b", ""];
    let entries: Vec<_> = names.iter().map(|name| Forged::stored(name, b"x")).collect();
    let source = MemorySource::new("a.zip", archive(&entries).0);
    let archive = Archive::open(&source, 0, &Limits::default()).unwrap();
    let found: Vec<_> = archive.entries().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(found, names);
}

#[test]
fn opening_reads_headers_only() {
    let entries: Vec<_> = ["a", "b", "c"].iter().map(|name| Forged::stored(name, &[7; 1 << 20])).collect();
    let source = MemorySource::new("a.zip", archive(&entries).0);
    let metering = apr_testkit::MeteringSource::new(&source);
    Archive::open(&metering, 0, &Limits::default()).unwrap();
    assert!(metering.distinct_bytes() < 2048, "{}", metering.distinct_bytes());
}

#[test]
fn forged_extra_fields_and_descriptors_are_understood() {
    let mut forced = Forged::stored("forced", b"abc");
    forced.local_sizes = (u32::MAX, u32::MAX);
    forced.extra = [&b"\x01\x00\x10\x00"[..], &3u64.to_le_bytes(), &3u64.to_le_bytes()].concat();
    let mut later = Forged::stored("later", b"abc");
    (later.flags, later.local_crc, later.local_sizes) = (0x0808, 0, (0, 0));
    later.extra = b"FB\x05\x00ZZZZZ".to_vec();
    let source = MemorySource::new("a.zip", archive(&[forced, later]).0);
    let limits = Limits::default();
    let archive = Archive::open(&source, 0, &limits).unwrap();
    for entry in archive.entries() {
        assert_eq!(archive.read(&source, entry, &limits).unwrap(), b"abc", "{}", entry.name);
    }
}
