//! Each refusal, with its message and its place.

use crate::{build::File, fixture};
use apr_sdk::{Error, ErrorKind, MemorySource, Options};

fn error(bytes: Vec<u8>) -> Error {
    let source = MemorySource::new("m.gguf", bytes);
    let Err(error) = fixture::open(&source) else { panic!("it opened") };
    assert_eq!(error.file(), Some("m.gguf"), "{error}");
    error
}

#[track_caller]
fn rejects(bytes: Vec<u8>, kind: ErrorKind, text: &str, offset: u64, tensor: Option<&str>) {
    let error = error(bytes);
    assert!(error.message().contains(text), "{error}\nlacks {text:?}");
    assert_eq!((error.kind(), error.offset(), error.tensor_name()), (kind, Some(offset), tensor), "{error}");
}

use ErrorKind::{LimitExceeded, Malformed, Unsupported};

#[test]
fn rejects_other_magic_and_versions() {
    rejects(b"GGML\x03\0\0\0".to_vec(), Malformed, "does not start with `GGUF`", 0, None);
    rejects(b"GG".to_vec(), Malformed, "expected 4 bytes, only 2 are left", 0, None);
    for version in [0u32, 4, 0x0003_0001] {
        let mut bytes = File::default().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let error = error(bytes);
        assert_eq!((error.kind(), error.offset(), error.stable_code()), (Unsupported, Some(4), Some("E003")));
        assert!(error.message().contains(&format!("version {version} is not supported")), "{error}");
    }
    let mut bytes = File::default().bytes();
    bytes[4..8].copy_from_slice(&4u32.to_be_bytes());
    rejects(bytes, Unsupported, "version 4 is not supported", 4, None);
}

#[test]
fn rejects_counts_that_the_file_cannot_hold() {
    for (at, what) in [(8, "the tensor count"), (16, "the key count")] {
        for count in [1u64 << 63, u64::MAX, 1 << 40] {
            let mut bytes = File::default().bytes();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            rejects(bytes, LimitExceeded, &format!("{what} {count} exceeds the limit"), at as u64, None);
        }
        let mut bytes = File::default().bytes();
        bytes[at..at + 8].copy_from_slice(&1000u64.to_le_bytes());
        rejects(bytes, Malformed, &format!("{what} 1000 requires at least"), at as u64, None);
    }
}

#[test]
fn rejects_damaged_keys() {
    let one = |key: Vec<u8>| File { keys: vec![key], ..File::default() }.bytes();
    let key = |name: &[u8], kind: u32, value: &[u8]| one(File::key(name, kind, value));
    // A key's record begins at 24; one named `k` has its type at 33 and its value at 37.
    rejects(
        one((1u64 << 62).to_le_bytes().repeat(2)),
        Malformed,
        "a key has 4611686018427387904 bytes",
        24,
        None,
    );
    rejects(key(b"\xff\xfe", 0, &[1]), Malformed, "the key is not valid UTF-8", 32, None);
    rejects(key(b"a\xffb", 0, &[1]), Malformed, "the key is not valid UTF-8", 33, None);
    rejects(key(b"k", 13, &[0; 8]), Malformed, "key `k`: a value of unknown type 13", 33, None);
    rejects(key(b"k", 10, &[0; 4]), Malformed, "key `k`: expected 8 bytes, only 4 are left", 37, None);
    let long = (1u64 << 62).to_le_bytes();
    rejects(
        key(b"k", 8, &long),
        Malformed,
        "key `k`: a string has 4611686018427387904 bytes, but only 0 are left",
        37,
        None,
    );
    rejects(key(b"k", 9, &File::array(13, 0, &[])), Malformed, "unknown element type 13", 37, None);
    let big = File::key(&vec![b'k'; 65_536], 0, &[1]);
    rejects(one(big), LimitExceeded, "a key has 65536 bytes, more than the limit of 65535", 24, None);
    let twice = File { keys: vec![File::key(b"k", 0, &[1]), File::key(b"k", 0, &[2])], ..File::default() };
    rejects(twice.bytes(), Malformed, "`k`: duplicate key", 38, None);
}

#[test]
fn rejects_arrays_longer_than_the_file() {
    // bool, u8, u16, u32, u64, string, array: each is refused before anything is allocated.
    for (kind, size) in [(7, 1), (0, 1), (2, 2), (4, 4), (10, 8), (8, 8), (9, 12)] {
        for count in [2u64, 1 << 32, 1 << 61, 1 << 63, u64::MAX] {
            let value = File::array(kind, count, &vec![0; size]);
            let file = File { keys: vec![File::key(b"k", 9, &value)], ..File::default() };
            let text = format!("key `k`: the array's length {count} requires at least");
            rejects(file.bytes(), Malformed, &text, 37, None);
        }
    }
}

#[test]
fn rejects_arrays_nested_a_hundred_deep() {
    let mut value = File::array(0, 1, &[7]);
    for _ in 0..100 {
        value = File::array(9, 1, &value);
    }
    let file = File { keys: vec![File::key(b"k", 9, &value)], ..File::default() };
    rejects(file.bytes(), LimitExceeded, "arrays are nested more than 8 levels deep", 37 + 9 * 12, None);
}

#[test]
fn rejects_alignments_that_are_none() {
    for (kind, value, text) in [
        (4, 0u32.to_le_bytes().to_vec(), "0 is not a power of two"),
        (4, 3u32.to_le_bytes().to_vec(), "3 is not a power of two"),
        (10, 32u64.to_le_bytes().to_vec(), "its type is u64, expected u32"),
    ] {
        let file = File { keys: vec![File::key(b"general.alignment", kind, &value)], ..File::default() };
        rejects(file.bytes(), Malformed, text, 24 + 8 + 17 + 4, None);
    }
}

#[test]
fn accepts_the_largest_alignment_if_the_file_reaches_the_data() {
    let keys = vec![File::key(b"general.alignment", 4, &(1u32 << 31).to_le_bytes())];
    let empty = File { keys: keys.clone(), alignment: 1, ..File::default() };
    let source = MemorySource::new("m.gguf", empty.bytes());
    assert_eq!(fixture::open(&source).unwrap().model.tensors.len(), 0);
    let infos = vec![File::info(b"t", &[4], 0, 0)];
    let file = File { keys, infos, data: vec![0; 16], alignment: 1 };
    rejects(file.bytes(), Malformed, "past the end of the file", 1 << 31, Some("t"));
}

/// A file of one tensor `t`, whose record begins at 24: dimension count at 33.
fn one(info: Vec<u8>) -> Vec<u8> {
    File { infos: vec![info], data: vec![0; 64], ..File::default() }.bytes()
}

#[test]
fn rejects_damaged_tensor_records() {
    rejects(one(File::info(b"t\xff", &[4], 0, 0)), Malformed, "the tensor name is not valid UTF-8", 33, None);
    let five = one(File::info(b"t", &[1; 5], 0, 0));
    rejects(five, Malformed, "it has 5 dimensions, but the format allows at most 4", 33, Some("t"));
    // One dimension: the type is at 45, the offset at 49.
    rejects(one(File::info(b"t", &[4], 43, 0)), Unsupported, "type 43 is unknown", 45, Some("t"));
    rejects(
        one(File::info(b"t", &[4], u32::MAX, 0)),
        Unsupported,
        "type 4294967295 is unknown",
        45,
        Some("t"),
    );
    for (id, name) in [
        (4, "Q4_2"),
        (5, "Q4_3"),
        (31, "Q4_0_4_4"),
        (32, "Q4_0_4_8"),
        (33, "Q4_0_8_8"),
        (36, "IQ4_NL_4_4"),
        (37, "IQ4_NL_4_8"),
        (38, "IQ4_NL_8_8"),
    ] {
        let text = format!("its type {id} is {name}, which was removed from ggml");
        rejects(one(File::info(b"t", &[32], id, 0)), Unsupported, &text, 45, Some("t"));
    }
    let rows = one(File::info(b"t", &[33], 2, 0));
    rejects(
        rows,
        Malformed,
        "rows of 33 elements are not a multiple of the Q4_0 block size 32",
        33,
        Some("t"),
    );
    let many = one(File::info(b"t", &[1 << 62, 4], 0, 0));
    rejects(many, Malformed, "more than 2^63 elements", 33, Some("t"));
    let negative = one(File::info(b"t", &[1 << 63], 24, 0));
    rejects(negative, Malformed, "more than 2^63 elements", 33, Some("t"));
}

#[test]
fn rejects_payloads_that_are_out_of_place() {
    rejects(
        one(File::info(b"t", &[4], 0, 8)),
        Malformed,
        "its offset 8 is not a multiple of 32",
        49,
        Some("t"),
    );
    let far = one(File::info(b"t", &[4], 0, u64::MAX - 31));
    rejects(far, Malformed, "its offset 18446744073709551584 exceeds 2^64", 49, Some("t"));
    // The data begins at 64 and has 64 bytes.
    rejects(one(File::info(b"t", &[17], 0, 0)), Malformed, "ends at byte 132, 4 bytes past", 64, Some("t"));
    rejects(
        one(File::info(b"t", &[4], 0, 1 << 40)),
        Malformed,
        "past the end of the file",
        (1 << 40) + 64,
        Some("t"),
    );
    let infos = |a: u64, b: u64| vec![File::info(b"t", &[16], 0, a), File::info(b"u", &[16], 0, b)];
    let file = |infos| File { infos, data: vec![0; 128], ..File::default() }.bytes();
    // Two records of 33 bytes: the second one's offset is at 82, the first one's at 49.
    rejects(file(infos(0, 32)), Malformed, "that of `t` ends at 160: they overlap", 82, Some("u"));
    rejects(file(infos(32, 0)), Malformed, "that of `u` ends at 160: they overlap", 49, Some("t"));
    rejects(file(infos(0, 0)), Malformed, "they overlap", 82, Some("u"));
    let twice = vec![File::info(b"t", &[8], 0, 0), File::info(b"t", &[8], 0, 32)];
    rejects(file(twice), Malformed, "duplicate tensor name", 57, Some("t"));
}

#[test]
fn rejects_every_truncation() {
    for name in ["small.gguf", "version-1.gguf", "big-endian.gguf", "nested.gguf"] {
        let bytes = fixture::bytes(name);
        let whole = MemorySource::new("m.gguf", bytes.clone());
        let end = fixture::open(&whole).unwrap().model.tensors.iter().map(extent_end).max().unwrap();
        for len in (0..end).step_by(7).chain([end - 1]) {
            let error = error(bytes[..len].to_vec());
            assert!(matches!(error.kind(), Malformed | Unsupported), "{name} at {len}: {error}");
            assert!(error.offset().is_some(), "{name} at {len}: {error}");
        }
    }
}

fn extent_end(tensor: &apr_sdk::Tensor) -> usize {
    let apr_sdk::Payload::Extent { extent, .. } = &tensor.payload else { panic!("no extent") };
    (extent.offset + extent.len) as usize
}

#[test]
fn flipped_header_bytes_never_panic_and_keep_payload_inside() {
    for name in
        ["small.gguf", "nested.gguf", "odd-values.gguf", "version-2-big-endian.gguf", "version-1.gguf"]
    {
        let bytes = fixture::bytes(name);
        for at in 0..bytes.len().min(1500) {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let source = MemorySource::new("m.gguf", bytes);
                let Ok(opened) = fixture::open(&source) else { continue };
                fixture::payloads(&opened, &source);
            }
        }
    }
}

/// A part with the given place; `None` leaves a key out.
fn part(no: Option<u16>, count: Option<u16>, total: Option<i32>, n_tensors: u64) -> Vec<u8> {
    let mut keys = Vec::new();
    keys.extend(no.map(|n| File::key(b"split.no", 2, &n.to_le_bytes())));
    keys.extend(count.map(|n| File::key(b"split.count", 2, &n.to_le_bytes())));
    keys.extend(total.map(|n| File::key(b"split.tensors.count", 5, &n.to_le_bytes())));
    let name = |n| format!("t{}.{n}", no.unwrap_or(0));
    let infos = (0..n_tensors).map(|n| File::info(name(n).as_bytes(), &[8], 0, n * 32)).collect();
    File { keys, infos, data: vec![0; n_tensors as usize * 32], ..File::default() }.bytes()
}

fn set(first: Vec<u8>, second: Vec<u8>) -> Option<Error> {
    let source = MemorySource::new("a-00001-of-00002.gguf", first).with("a-00002-of-00002.gguf", second);
    fixture::open(&source).err()
}

#[track_caller]
fn rejects_set(first: Vec<u8>, second: Vec<u8>, text: &str, file: &str) {
    let error = set(first, second).expect("the set opened");
    assert!(error.message().contains(text), "{error}\nlacks {text:?}");
    assert_eq!((error.kind(), error.file()), (Malformed, Some(file)), "{error}");
}

const FIRST: &str = "a-00001-of-00002.gguf";
const SECOND: &str = "a-00002-of-00002.gguf";

#[test]
fn rejects_parts_that_do_not_belong_together() {
    let first = || part(Some(0), Some(2), Some(3), 1);
    assert!(set(first(), part(Some(1), Some(2), Some(3), 2)).is_none());
    // Only what llama.cpp demands.
    assert!(set(first(), part(Some(1), None, None, 2)).is_none());
    rejects_set(first(), part(Some(1), None, None, 1), "is 3, but the 2 parts have 2 tensors", FIRST);
    rejects_set(first(), part(Some(1), None, Some(4), 2), "is 4, but 3 in an earlier part", SECOND);
    rejects_set(
        first(),
        part(Some(0), Some(2), Some(3), 2),
        "`split.no` is 0, but 1 according to its name",
        SECOND,
    );
    rejects_set(
        first(),
        part(Some(1), Some(3), Some(3), 2),
        "`split.count` is 3, but 2 according to its name",
        SECOND,
    );
    rejects_set(first(), part(None, None, None, 2), "part 2 of 2 has no `split.no`", SECOND);
    rejects_set(part(Some(0), None, None, 1), part(Some(1), None, None, 2), "has no `split.count`", FIRST);
    rejects_set(
        part(Some(0), Some(3), None, 1),
        part(Some(1), None, None, 2),
        "its name is not `NAME-00001-of-00003.gguf`",
        FIRST,
    );
}

#[test]
fn rejects_a_missing_part_by_name() {
    let alone = MemorySource::new("a-00002-of-00003.gguf", part(Some(1), Some(3), Some(3), 1))
        .with("a-00001-of-00003.gguf", part(Some(0), Some(3), Some(3), 1));
    let error = fixture::open(&alone).err().expect("the set opened");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("part 3 of 3, `a-00003-of-00003.gguf`, is missing"), "{error}");
}

#[test]
fn rejects_a_part_without_a_part_name() {
    let source = MemorySource::new("model.gguf", part(Some(0), Some(2), Some(3), 1));
    let error = fixture::open(&source).err().expect("the part opened");
    assert!(error.message().contains("it is one of 2 parts, but its name is not"), "{error}");
    let part_options = Options::new().with(Options::PART, "true");
    assert!(fixture::open_with(&source, &part_options).is_ok());
    let text = File::key(b"split.count", 8, &[0; 8]);
    let file = File { keys: vec![text], ..File::default() };
    rejects(file.bytes(), Malformed, "`split.count`: it is not an integer", 24 + 8 + 11 + 4, None);
}
