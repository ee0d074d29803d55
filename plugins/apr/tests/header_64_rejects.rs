//! Files with a 64-byte header that lie, each in one way.

use crate::setup::{of_tests, open, read, reader, refused, says};
use apr_sdk::{Error, ErrorKind, Limits, MemorySource, Options};

use ErrorKind::{LimitExceeded, Malformed, Unsupported};

/// A tensor's entry in the index.
#[derive(Clone)]
struct Raw {
    name: Vec<u8>,
    dtype: u8,
    dims: Vec<u64>,
    offset: u64,
    size: u64,
}

/// A row of U8.
fn raw(name: &str, offset: u64, size: u64) -> Raw {
    Raw { name: name.into(), dtype: 7, dims: vec![size], offset, size }
}

const METADATA: &[u8] = br#"{"model_type":"tensors"}"#;

/// A file of these entries, with `data` bytes of payload and a footer.
fn made(metadata: &[u8], entries: &[Raw], data: usize) -> Vec<u8> {
    let mut index = Vec::new();
    for raw in entries {
        index.extend((raw.name.len() as u16).to_le_bytes());
        index.extend(&raw.name);
        index.extend([raw.dtype, raw.dims.len() as u8]);
        index.extend(raw.dims.iter().flat_map(|dim| dim.to_le_bytes()));
        index.extend(raw.offset.to_le_bytes());
        index.extend(raw.size.to_le_bytes());
    }
    let index_at = (64 + metadata.len()).next_multiple_of(64);
    let data_at = (index_at + index.len()).next_multiple_of(64);
    let mut out = b"APR\0\x02\0\0\x04".to_vec();
    out.extend((entries.len() as u32).to_le_bytes());
    out.extend(64u64.to_le_bytes());
    out.extend((metadata.len() as u32).to_le_bytes());
    out.extend((index_at as u64).to_le_bytes());
    out.extend((data_at as u64).to_le_bytes());
    out.resize(64, 0);
    out.extend(metadata);
    out.resize(index_at, 0);
    out.extend(&index);
    out.resize((data_at + data).next_multiple_of(64), 0);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    summed(out)
}

/// The file with the checksum that its header must have.
fn summed(mut file: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&[&file[..40], &file[44..64]].concat());
    file[40..44].copy_from_slice(&sum.to_le_bytes());
    file
}

fn one(raw: Raw) -> Error {
    let error = refused(made(METADATA, &[raw], 64));
    assert_eq!(error.tensor_name(), Some("a"), "{error}");
    error
}

/// A file with two tensors, changed; its header's checksum is right.
fn changed(change: impl Fn(&mut Vec<u8>)) -> Error {
    let mut file = made(METADATA, &[raw("a", 0, 100), raw("b", 128, 10)], 138);
    change(&mut file);
    refused(summed(file))
}

#[test]
fn the_file_that_the_others_are_changed_from_opens() {
    let (model, payloads) = read(made(METADATA, &[raw("a", 0, 100), raw("b", 128, 10)], 138));
    assert_eq!((model.tensors.len(), payloads[0].len()), (2, 100));
}

#[test]
fn rejects_headers_that_are_damaged_or_of_another_version() {
    let mut file = made(METADATA, &[], 0);
    file[41] ^= 1;
    let error = refused(file);
    says(&error, Malformed, "the CRC-32 of the header is");
    assert_eq!((error.explicit_code(), error.offset()), (Some("E004"), Some(40)));
    let error = changed(|file| file[4] = 3);
    says(&error, Unsupported, "version 3.0");
    assert_eq!(error.explicit_code(), Some("E003"));
    let mut minor = made(METADATA, &[], 0);
    minor[5] = 1;
    assert!(open(summed(minor)).unwrap().model.notes[0].contains("version 2.1"));
}

#[test]
fn rejects_what_no_released_program_writes_or_reads() {
    for (flags, words) in [(0x0004u16, "encrypted"), (0x0800, "stored by columns")] {
        let error = changed(|file| file[6..8].copy_from_slice(&flags.to_le_bytes()));
        says(&error, Unsupported, words);
        assert_eq!((error.explicit_code(), error.offset()), (Some("E003"), Some(6)));
    }
    for (flags, words) in [(1, "compressed with LZ4"), (2, "compressed with zstd")] {
        let mut file = made(METADATA, &[Raw { dims: vec![100], ..raw("a", 0, 60) }], 60);
        file[6] = flags;
        let error = refused(summed(file));
        says(&error, Unsupported, words);
        assert_eq!((error.explicit_code(), error.tensor_name()), (Some("E003"), Some("a")));
    }
    says(&refused(of_tests("header_64/rejects/column_major.apr")), Unsupported, "stored by columns");
}

#[test]
fn rejects_sections_out_of_order_or_outside() {
    let long = |at: usize, value: u64| changed(|file| file[at..at + 8].copy_from_slice(&value.to_le_bytes()));
    says(&long(12, 63), Malformed, "the metadata starts at byte 63, but the header ends at 64");
    says(&long(12, u64::MAX), Malformed, "past the end of the file");
    says(&long(24, 64), Malformed, "the index starts at byte 64, but the metadata ends at 88");
    says(&long(24, u64::MAX), Malformed, "the index ends at byte");
    says(&long(32, 64), Malformed, "the data section starts at byte 64, but the index ends at 128");
    says(&long(32, u64::MAX - 1), Malformed, "the data section ends at byte");
    let error = changed(|file| file[20..24].copy_from_slice(&u32::MAX.to_le_bytes()));
    says(&error, Malformed, "the metadata ends at byte 4294967359");
}

#[test]
fn rejects_indexes_that_are_not_sorted_or_not_whole() {
    let entries = |entries: &[Raw]| refused(made(METADATA, entries, 65));
    says(&entries(&[raw("b", 0, 1), raw("a", 64, 1)]), Malformed, "not sorted by name");
    says(&entries(&[raw("a", 0, 1), raw("a", 64, 1)]), Malformed, "duplicate name");
    let cut = "n".repeat(256);
    let error = entries(&[raw(&cut, 0, 1), raw(&cut, 64, 1)]);
    assert!(error.hint_text().unwrap().contains("names were cut"), "{error}");
    says(&changed(|file| file[8] = 3), Malformed, "expected");
    says(&changed(|file| file[9] = 1), Malformed, "tensor count 258 requires at least");
    says(&changed(|file| file[11] = 0x80), LimitExceeded, "exceeds the limit");
    says(&changed(|file| file[128] = 200), Malformed, "expected 200 bytes");
    let not_utf8 = |len: usize| {
        let mut name = vec![b'x'; len];
        name[len - 1] = 0xff;
        entries(&[Raw { name, ..raw("", 0, 1) }])
    };
    says(&not_utf8(2), Malformed, "not valid UTF-8");
    says(&not_utf8(256), Malformed, "not valid UTF-8");
}

#[test]
fn rejects_tensors_that_contradict_themselves() {
    says(&one(Raw { dims: vec![1; 9], ..raw("a", 0, 1) }), Unsupported, "9 dimensions");
    says(&one(Raw { dims: vec![1 << 62, 4], ..raw("a", 0, 1) }), Malformed, "2^63");
    says(
        &one(Raw { dims: vec![2], ..raw("a", 0, 1) }),
        Malformed,
        "requires 2 bytes, but the index gives it 1",
    );
    says(&one(raw("a", u64::MAX, 1)), Malformed, "past 2^63");
    says(&one(raw("a", 1 << 62, 1)), Malformed, "the file is truncated by");
    for number in [2, 10, 11, 13, 15, 29, 31, 127, 130, 255] {
        let error = one(Raw { dtype: number, ..raw("a", 0, 1) });
        says(&error, Malformed, &format!("dtype number {number} is not defined"));
    }
    // AprQ4 and AprQ8 under both of their numbers, one byte short and one too long.
    for (dtype, elements, size) in [(8, 33, 36), (128, 33, 36), (9, 33, 37), (129, 33, 37), (9, 0, 0)] {
        for wrong in [size + 1, size - u64::from(size > 0)].into_iter().filter(|wrong| *wrong != size) {
            let error = one(Raw { dtype, dims: vec![elements], ..raw("a", 0, wrong) });
            says(&error, Malformed, &format!("requires {size} bytes, but the index gives it {wrong}"));
        }
        open(made(METADATA, &[Raw { dtype, dims: vec![elements], ..raw("a", 0, size) }], 64)).unwrap();
    }
    // ggml's blocks under the old numbers have other sizes.
    says(&one(Raw { dtype: 8, dims: vec![32], ..raw("a", 0, 34) }), Malformed, "AprQ4");
}

#[test]
fn rejects_overlapping_tensors() {
    let error = refused(made(METADATA, &[raw("a", 0, 65), raw("b", 64, 1)], 65));
    says(&error, Malformed, "overlaps that of `a`");
    assert_eq!(error.tensor_name(), Some("b"));
    says(&refused(made(METADATA, &[raw("a", 0, 1), raw("b", 0, 1)], 1)), Malformed, "overlaps");
}

#[test]
fn rejects_truncation_anywhere_but_before_the_footer() {
    let whole = made(METADATA, &[raw("a", 0, 100), raw("b", 128, 10)], 138);
    let bare = whole.len() - 4;
    for cut in (0..whole.len()).filter(|cut| *cut != bare) {
        assert!(open(whole[..cut].to_vec()).is_err(), "cut to {cut} bytes");
    }
    assert!(open(whole[..bare].to_vec()).is_ok());
    let cut = refused(whole[..bare - 60].to_vec());
    says(&cut, Malformed, "the file is truncated by 60 bytes");
    assert_eq!((cut.tensor_name(), cut.hint_text().unwrap().contains("1 of 2 tensors")), (Some("b"), true));
    says(&refused(whole[..bare + 1].to_vec()), Malformed, "the file is truncated by 3 bytes");
    says(&refused(whole[..63].to_vec()), Malformed, "its header requires 64");
    let longer = [&whole[..], b"xyz"].concat();
    assert!(open(longer).unwrap().model.notes[0].contains("3 bytes after the footer"));
}

#[test]
fn rejects_metadata_that_is_no_object() {
    for text in ["", "[]", "{\"a\":}", "{} x", "{\"a\""] {
        let error = refused(made(text.as_bytes(), &[], 0));
        assert_eq!(error.kind(), Malformed, "{text}: {error}");
    }
    says(&refused(made(b"{\"\xff\":1}", &[], 0)), Malformed, "not valid UTF-8");
    let twice = open(made(br#"{"a":1,"a":2}"#, &[], 0)).unwrap().model;
    assert!(twice.notes[0].contains("1 metadata keys are repeated"), "{:?}", twice.notes);
    assert_eq!(twice.foreign_of("apr_64").unwrap().get("a").unwrap().as_u64(), Some(2));
}

#[test]
fn metadata_may_be_longer_than_the_memory_that_opening_begins_with() {
    let text = format!("{{\"tokenizer.vocabulary\":[\"{}\"]}}", "x".repeat(80 << 20));
    let model = open(made(text.as_bytes(), &[], 0)).unwrap().model;
    let vocabulary = model.foreign_of("apr_64").unwrap().get("tokenizer.vocabulary").unwrap();
    assert!(vocabulary.bytes.len() > 80 << 20);
}

#[test]
fn rejects_more_than_the_limits_allow() {
    let open = |limits: &Limits| {
        let many: Vec<_> = (0..3).map(|n| raw(&format!("{n}"), n * 64, 1)).collect();
        let source = MemorySource::new("m.apr", made(br#"{"a":1,"b":2}"#, &many, 129));
        reader().open(&source, limits, &Options::new()).err().unwrap()
    };
    let error = open(&Limits { tensors: 2, ..Limits::default() });
    says(&error, LimitExceeded, "tensor count 3 exceeds the limit of 2");
    let error = open(&Limits { metadata_keys: 1, ..Limits::default() });
    says(&error, LimitExceeded, "more than 1 keys");
}

#[test]
fn rejects_them_as_shards() {
    let old = of_tests("header_64/no_flags.apr");
    let manifest = format!(
        r#"{{"apr_version":"2.0.0","sharded":true,"shard_count":1,"shards":[{{"file":"a.apr","size":{}}}],"tensor_shard_map":{{}}}}"#,
        old.len()
    );
    let source = MemorySource::new("m.apr", manifest.into_bytes()).with("a.apr", old);
    let error = reader().open(&source, &Limits::default(), &Options::new()).err().unwrap();
    assert_eq!((error.kind(), error.explicit_code()), (Unsupported, Some("E003")), "{error}");
    assert!(error.message().contains("a shard must be an `APR2` file"), "{error}");
}
