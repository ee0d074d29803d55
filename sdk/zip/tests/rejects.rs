//! Archives that lie are refused, with the place and the entry.

use crate::forge::{Forged, archive, end_record};
use apr_sdk::{Error, ErrorKind, Limits, MemorySource, Stream};
use apr_zip::{Archive, Inflate};

fn open(bytes: Vec<u8>) -> Result<Archive, Error> {
    Archive::open(&MemorySource::new("a.zip", bytes), 0, &Limits::default())
}

/// Opens what must be refused, in these words.
fn refused(bytes: Vec<u8>, kind: ErrorKind, words: &str) {
    let error = open(bytes).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!((error.kind(), error.file()), (kind, Some("a.zip")), "{error}");
    assert!(error.offset().is_some(), "{error}");
}

fn malformed(bytes: Vec<u8>, words: &str) {
    refused(bytes, ErrorKind::Malformed, words);
}

#[test]
fn rejects_what_is_no_archive() {
    malformed(Vec::new(), "does not end with the end record");
    malformed(b"PK\x03\x04".to_vec(), "does not end with the end record");
    malformed(vec![0; 200_000], "does not end with the end record");
}

#[test]
fn rejects_every_truncation() {
    let (bytes, ..) = archive(&[Forged::stored("a", b"abc"), Forged::deflated("b", b"defdefdefdef")]);
    open(bytes.clone()).unwrap();
    for len in 0..bytes.len() {
        assert!(open(bytes[..len].to_vec()).is_err(), "{len}");
    }
}

#[test]
fn rejects_bytes_behind_the_end_record() {
    let (mut bytes, ..) = archive(&[Forged::stored("a", b"abc")]);
    bytes.push(0);
    malformed(bytes, "states that 0 bytes follow it, but 1 do");
}

#[test]
fn rejects_duplicate_entries() {
    let twice = [Forged::stored("a", b"abc"), Forged::stored("a", b"def")];
    malformed(archive(&twice).0, "has 2 entries, but only 1 names");
}

#[test]
fn rejects_overlapping_entries() {
    let mut quoted = Forged::stored("b", b"x");
    quoted.header = Some(0);
    quoted.local_name = "b";
    malformed(archive(&[Forged::stored("a", b"abc"), quoted]).0, "does not match the central directory");
    let inner = archive(&[Forged::stored("b", b"x")]).0;
    let (mut bytes, start, _) = archive(&[Forged::stored("a", &inner), Forged::stored("b", b"x")]);
    // The second entry of the directory is made to point at the local header inside the first one's data.
    let second = start + 46 + 1 + 42;
    bytes[second..second + 4].copy_from_slice(&31u32.to_le_bytes());
    malformed(bytes, "entries `a` and `b` overlap");
}

#[test]
fn rejects_entries_past_the_directory() {
    malformed(
        archive(&[Forged::stored("a", b"abc").sized(4000, 4000)]).0,
        "4000 bytes, but only 34 are left",
    );
    malformed(archive(&[Forged::stored("a", b"abc").sized(4, 4)]).0, "are left before the central directory");
    let mut far = Forged::stored("a", b"abc");
    far.header = Some(u32::MAX - 1);
    malformed(archive(&[far]).0, "no room for a local header");
    let mut inside = Forged::stored("a", b"abc");
    inside.header = Some(1);
    malformed(archive(&[inside]).0, "there is no local header");
}

#[test]
fn rejects_headers_that_disagree() {
    let good = Forged::stored("a", b"abc");
    for (change, words) in [
        ((|e: &mut Forged| e.local_crc ^= 1) as fn(&mut Forged), "the central directory"),
        (|e| e.local_sizes.0 = 2, "2 bytes stored, 3 uncompressed"),
        (|e| e.local_sizes.1 = 4, "3 bytes stored, 4 uncompressed"),
        (|e| e.local_name = "b", "does not match the central directory"),
        (|e| e.local_name = "ab", "does not match the central directory"),
        (|e| e.central_sizes.1 = 4, "3 stored bytes cannot decompress to 4"),
    ] {
        let mut entry = good.clone();
        change(&mut entry);
        malformed(archive(&[entry]).0, words);
    }
    let (mut bytes, start, _) = archive(&[good]);
    bytes[start + 10] = 8;
    malformed(bytes, "the local header has method 0, but the central directory 8");
}

#[test]
fn rejects_encryption_and_other_methods() {
    for flags in [1, 1 << 13] {
        let mut entry = Forged::stored("a", b"abc");
        entry.flags = flags;
        refused(archive(&[entry]).0, ErrorKind::Unsupported, "encrypted");
    }
    for method in [1, 9, 12, 14, 93, 95, 99, 12345] {
        let mut entry = Forged::stored("a", b"abc");
        entry.method = method;
        let error = open(archive(&[entry]).0).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Unsupported, Some(34)), "{method}: {error}");
        assert!(
            error.to_string().contains("entry `a`: its data uses an unsupported compression method"),
            "{method}: {error}"
        );
    }
}

#[test]
fn rejects_a_directory_that_is_cut_off_or_miscounted() {
    let (bytes, start, end) = archive(&[Forged::stored("a", b"abc"), Forged::stored("b", b"def")]);
    let with = |record: Vec<u8>| [&bytes[..end], &record].concat();
    let size = (end - start) as u32;
    malformed(with(end_record(2, size - 1, start as u32)), "the central directory");
    malformed(with(end_record(3, size, start as u32)), "requires at least 138 bytes");
    malformed(with(end_record(2, size, start as u32 + 1)), "extends past its end record");
    malformed(with(end_record(2, size, start as u32 - 1)), "the central directory");
    malformed(with(end_record(0xfffe, size, start as u32)), "requires at least");
    let mut disks = end_record(2, size, start as u32);
    disks[4] = 1;
    refused(with(disks), ErrorKind::Unsupported, "several disks");
}

#[test]
fn rejects_counts_of_2_to_the_32_before_they_cost_memory() {
    let (mut bytes, start, end) = archive(&[Forged::stored("a", b"abc")]);
    bytes.truncate(end);
    for count in [1u64 << 22, 1 << 32, u64::MAX] {
        let mut bytes = bytes.clone();
        bytes.extend_from_slice(b"PK\x06\x06");
        bytes.extend_from_slice(&44u64.to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        for number in [count, count, (end - start) as u64, start as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        bytes.extend_from_slice(&(end as u64).to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0]);
        bytes.extend_from_slice(&end_record(u16::MAX, u32::MAX, u32::MAX));
        let error = open(bytes).unwrap_err();
        assert!(error.message().contains("the entry count"), "{error}");
    }
}

#[test]
fn rejects_bombs() {
    // One megabyte of zeros in a thousand bytes is as dense as deflate gets; more cannot be meant.
    let dense = Forged::deflated("a", &vec![0; 1 << 20]);
    let stored = dense.central_sizes.0;
    open(archive(std::slice::from_ref(&dense)).0).unwrap();
    malformed(archive(&[dense.clone().sized(stored, u32::MAX - 1)]).0, "stored bytes cannot decompress");
    // One that says the truth is inflated as far as the budget goes.
    let big = Forged::deflated("a", &vec![0; 200 << 20]);
    let source = MemorySource::new("a.zip", archive(&[big]).0);
    let limits = Limits::default();
    let archive = Archive::open(&source, 0, &limits).unwrap();
    let error = archive.read(&source, &archive.entries()[0], &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

/// The error of reading the only entry, both whole and as a stream.
fn unreadable(entry: Forged) -> Error {
    let source = MemorySource::new("a.zip", archive(&[entry]).0);
    let limits = Limits::default();
    let archive = Archive::open(&source, 0, &limits).unwrap();
    let entry = &archive.entries()[0];
    let mut stream = Inflate::new(entry);
    let streamed = loop {
        match stream.read(&source, &mut [0; 100]) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error),
        }
    };
    let error = archive.read(&source, entry, &limits).unwrap_err();
    if entry.method == apr_zip::Method::Deflated {
        assert_eq!(streamed.unwrap().message(), error.message());
    }
    assert!(error.offset().is_some() && error.file() == Some("a.zip"), "{error}");
    error
}

#[test]
fn rejects_data_that_is_not_what_its_header_says() {
    let raw = [b"abcabcabc".as_slice(), &[9; 1000]].concat();
    let good = Forged::deflated("a", &raw);
    let (stored, len) = good.central_sizes;
    assert!(
        unreadable(good.clone().sized(stored, len + 1))
            .message()
            .contains("inflates to 1009 bytes, expected 1010")
    );
    assert!(
        unreadable(good.clone().sized(stored, len - 1)).message().contains("inflates to more than its 1008")
    );
    assert!(unreadable(good.clone().sized(stored - 1, len)).message().contains("unexpected end"));
    let mut longer = good.clone().sized(stored + 3, len);
    longer.data.extend_from_slice(&[1, 2, 3]);
    assert!(unreadable(longer).message().contains("extra bytes after the deflated data"));
    let mut damaged = good.clone();
    damaged.data[0] |= 6;
    assert!(unreadable(damaged).message().contains("corrupt"));
    for mut wrong in [good, Forged::stored("a", &raw)] {
        (wrong.local_crc, wrong.central_crc) = (1, 1);
        let error = unreadable(wrong);
        assert!(error.message().contains("its header states 00000001"), "{error}");
        assert_eq!(error.stable_code(), Some("E004"));
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_harmless() {
    let (bytes, ..) = archive(&[Forged::stored("a", b"abc"), Forged::deflated("b", &[5; 300])]);
    for at in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let source = MemorySource::new("a.zip", bytes);
        let limits = Limits::default();
        let Ok(archive) = Archive::open(&source, 0, &limits) else { continue };
        for entry in archive.entries() {
            if let Ok(raw) = archive.read(&source, entry, &limits) {
                assert!(raw == b"abc" || raw == [5; 300], "bit {at}");
            }
        }
    }
}

/// An archive whose end record has a comment.
fn commented(comment: &[u8]) -> Vec<u8> {
    let (mut bytes, ..) = archive(&[Forged::stored("a", b"abc")]);
    let at = bytes.len() - 2;
    bytes[at..].copy_from_slice(&(comment.len() as u16).to_le_bytes());
    bytes.extend_from_slice(comment);
    bytes
}

#[test]
fn rejects_a_comment_that_other_tools_take_for_the_end_record() {
    open(commented(b"a comment")).unwrap();
    let mut other = end_record(0, 0, 0);
    other.extend_from_slice(b"x");
    malformed(commented(&other), "states that 0 bytes follow it, but 1 do");
}

#[test]
fn rejects_two_end_records_that_disagree() {
    let (whole, start, end) = archive(&[Forged::stored("a", b"abc")]);
    let with = |start: u64| {
        let mut bytes = whole[..end].to_vec();
        bytes.extend_from_slice(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
        let numbers = [1, 1, (end as u64 - start), start];
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        bytes.extend_from_slice(&(end as u64).to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0]);
        bytes.extend_from_slice(&whole[end..]);
        bytes
    };
    assert_eq!(open(with(start as u64)).unwrap().entries().len(), 1);
    malformed(with(start as u64 - 1), "the ZIP64 end record do not match");
}

#[test]
fn rejects_entries_that_are_not_counted() {
    let (mut bytes, _, end) = archive(&[Forged::stored("a", b"abc"), Forged::stored("b", b"abc")]);
    for at in [end + 8, end + 10] {
        bytes[at] = 1;
    }
    malformed(bytes, "the 1 entries of the central directory do not fill its 94 bytes");
}

#[test]
fn rejects_a_second_name_in_an_extra_field() {
    let crc = crc32fast::hash(b"plain");
    let entry = || Forged::stored("plain", b"x");
    let two = archive(&[entry().also_called("other", crc)]).0;
    malformed(two, "the name in the local header does not match the central directory");
    // Twice the same name is one, and a field for another raw name is stale (APPNOTE 4.6.9).
    for (name, crc) in [("plain", crc), ("other", !crc)] {
        let found = open(archive(&[entry().also_called(name, crc)]).0).unwrap();
        assert_eq!(found.entries()[0].name, "plain", "{name}");
    }
    // What is not ASCII may be in any old code page, and the field say which name was meant: that is refused as well.
    let crc = crc32fast::hash("é".as_bytes());
    let two = archive(&[Forged::stored("é", b"x").also_called("漢", crc)]).0;
    malformed(two, "the name in the local header does not match the central directory");
}
