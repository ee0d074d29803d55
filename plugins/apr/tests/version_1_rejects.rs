//! Files of version 1 that lie, each in one way.

use crate::setup::{open, read, reader, refused, says};
use apr_sdk::{Error, ErrorKind, Limits, MemorySource, Options};

use ErrorKind::{LimitExceeded, Malformed, Unsupported};

/// The metadata `{"a": 1}`.
const METADATA: &[u8] = &[0x81, 0xa1, b'a', 1];
const CUSTOM: u16 = 0xff;

/// A file of a model type whose payload is not compressed.
fn made(metadata: &[u8], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = b"APRN\x01\0".to_vec();
    out.extend(kind.to_le_bytes());
    for len in [metadata.len(), payload.len(), payload.len()] {
        out.extend((len as u32).to_le_bytes());
    }
    out.resize(32, 0);
    out.extend(metadata);
    out.extend(payload);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

fn changed(change: impl Fn(&mut Vec<u8>)) -> Error {
    let mut file = made(METADATA, CUSTOM, &[7; 12]);
    change(&mut file);
    refused(file)
}

fn metadata(bytes: &[u8]) -> Error {
    refused(made(bytes, CUSTOM, &[]))
}

#[test]
fn the_file_that_the_others_are_changed_from_opens() {
    let (model, payloads) = read(made(METADATA, CUSTOM, &[7; 12]));
    assert_eq!((model.tensors[0].name.as_str(), payloads[0].as_slice()), ("payload", &[7; 12][..]));
}

#[test]
fn rejects_what_is_of_another_version_or_encrypted_or_not_defined() {
    for (at, value, words) in [
        (4, 2, "version 2.0"),
        (4, 0, "version 0.0"),
        (6, 0x50, "model type 0x0050"),
        (20, 4, "compression number 4"),
        (21, 1, "encrypted"),
    ] {
        let error = changed(|file| file[at] = value);
        says(&error, Unsupported, words);
        assert_eq!((error.explicit_code(), error.offset()), (Some("E003"), Some(at as u64)));
    }
}

#[test]
fn rejects_lengths_that_lie() {
    let word = |at: usize, value: u32| changed(|file| file[at..at + 4].copy_from_slice(&value.to_le_bytes()));
    says(&word(8, u32::MAX), Malformed, "the file is truncated by");
    says(&word(12, 13), Malformed, "cannot have 12 uncompressed bytes");
    says(&word(16, 11), Malformed, "cannot have 11 uncompressed bytes");
    says(&word(16, (1 << 30) + 1), LimitExceeded, "more than the format's limit of 1073741824");
    // Twelve bytes of zstd or LZ4 are not a gigabyte.
    for compression in [1, 2, 3] {
        let error = changed(|file| {
            file[20] = compression;
            file[16..20].copy_from_slice(&(1u32 << 30).to_le_bytes());
        });
        says(&error, Malformed, "a payload of 12 bytes cannot have 1073741824 uncompressed bytes");
    }
}

#[test]
fn rejects_truncation_anywhere() {
    let whole = made(METADATA, CUSTOM, &[7; 12]);
    for cut in 0..whole.len() {
        assert!(open(whole[..cut].to_vec()).is_err(), "cut to {cut} bytes");
    }
    says(&refused(whole[..31].to_vec()), Malformed, "its header requires 32");
    says(&refused(whole[..whole.len() - 1].to_vec()), Malformed, "truncated by 1 bytes");
    let mut signed = whole.clone();
    signed[21] = 2;
    says(&refused(signed), Malformed, "truncated by 96 bytes");
    let longer = [&whole[..], b"xyz"].concat();
    assert!(open(longer).unwrap().model.notes[0].contains("3 bytes between payload and checksum"));
}

#[test]
fn reads_a_signed_file_with_a_note() {
    let mut file = made(METADATA, CUSTOM, &[7; 12]);
    file[21] = 2;
    let end = file.len() - 4;
    file.splice(end.., [9; 96]);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    let model = open(file).unwrap().model;
    assert!(model.notes[0].contains("signed"), "{:?}", model.notes);
}

#[test]
fn rejects_message_pack_that_lies() {
    says(&metadata(&[]), Malformed, "expected 1 bytes, 0 are left");
    says(&metadata(&[0x91, 1]), Malformed, "not a map");
    says(&metadata(&[0x81, 1, 1]), Malformed, "a metadata key is not a text");
    says(&metadata(&[0x80, 0]), Malformed, "1 bytes of metadata are left");
    says(&metadata(&[0x81, 0xa1, 0xff, 1]), Malformed, "not valid UTF-8");
    // Lengths of 2^32 - 1: of the map, a text, an array, a map, bytes.
    says(&metadata(&[0xdf, 0xff, 0xff, 0xff, 0xff]), Malformed, "states 4294967295 items");
    for marker in [0xdb, 0xdd, 0xdf, 0xc6] {
        let error = metadata(&[0x81, 0xa1, b'a', marker, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(error.kind(), Malformed, "{marker:#x}: {error}");
    }
    // A number, a text and an extension that end too early, and a byte that is never used.
    for value in [&[0xcf, 1, 2][..], &[0xa5, b'x'], &[0xd4, 1, 1], &[0xc1], &[0xc7, 1, 1, 1]] {
        let error = metadata(&[&[0x81, 0xa1, b'a'], value].concat());
        assert_eq!(error.kind(), Malformed, "{value:?}: {error}");
    }
    let deep = |depth: usize| [&[0x81, 0xa1, b'a'][..], &vec![0x91; depth], &[1]].concat();
    assert!(open(made(&deep(64), CUSTOM, &[])).is_ok());
    says(&metadata(&deep(65)), LimitExceeded, "nests more than 64 deep");
    says(&metadata(&deep(100_000)), LimitExceeded, "nests more than 64 deep");
}

#[test]
fn reads_every_kind_of_value() {
    let entries: &[(&[u8], &str)] = &[
        (&[0xc0], "null"),
        (&[0x92, 0xc2, 0xc3], "[false,true]"),
        (&[0x82, 0xa1, b'k', 0xe0, 0xa1, b'l', 0x7f], r#"{"k":-32,"l":127}"#),
        (&[0x91, 0xca, 0x7f, 0xc0, 0, 0], r#"["NaN"]"#),
        (&[0x91, 0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0], "[0.5]"),
        (&[0xc4, 2, 1, 255], "[1,255]"),
        (&[0x94, 0xd0, 0x80, 0xd1, 0x80, 0, 0xcd, 1, 0, 0xd9, 1, b'"'], r#"[-128,-32768,256,"\""]"#),
        (&[0xdc, 0, 1, 0xd2, 0xff, 0xff, 0xff, 0xff], "[-1]"),
        (&[0xdd, 0, 0, 0, 1, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], "[-2]"),
        (&[0xde, 0, 1, 0xda, 0, 1, b'k', 0xce, 0xff, 0xff, 0xff, 0xff], r#"{"k":4294967295}"#),
    ];
    for (value, json) in entries {
        let model = open(made(&[&[0x81, 0xa1, b'a'], *value].concat(), CUSTOM, &[])).unwrap().model;
        let value = model.foreign_of("apr_1").unwrap().get("a").unwrap();
        assert_eq!(value.items()[0].as_str(), Some(*json));
    }
}

/// A linear regression with these coefficients.
fn regression(coefficients: &[f32]) -> Vec<u8> {
    let mut out = vec![1];
    out.extend((coefficients.len() as u64).to_le_bytes());
    out.extend(coefficients.iter().flat_map(|value| value.to_le_bytes()));
    out.extend(0.5f32.to_le_bytes());
    out.push(1);
    out
}

#[test]
fn does_not_guess_what_nearly_is_a_known_type() {
    let whole = regression(&[1.0, 2.0]);
    let names = |payload: &[u8]| {
        let model = read(made(METADATA, 1, payload)).0;
        model.tensors.iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&whole), "coefficients intercept");
    assert_eq!(names(&[&whole[..], &[0]].concat()), "payload");
    assert_eq!(names(&whole[..whole.len() - 1]), "payload");
    for (at, value) in [(0, 2), (1, 3), (8, 0x80), (whole.len() - 1, 2)] {
        let mut changed = whole.clone();
        changed[at] = value;
        assert_eq!(names(&changed), "payload", "byte {at}");
    }
    // Under another model type it is only bytes.
    assert_eq!(read(made(METADATA, 2, &whole)).0.tensors[0].name, "payload");
}

#[test]
fn rejects_compressed_payload_that_does_not_decode() {
    // Opened at once, since the type is known.
    for compression in [1, 3] {
        let mut file = made(METADATA, 1, &regression(&[1.0, 2.0]));
        file[20] = compression;
        let error = refused(file);
        assert_eq!((error.kind(), error.offset()), (Malformed, Some(36)), "{error}");
    }
    // Decoded when its payload is read.
    let mut file = made(METADATA, CUSTOM, &[7; 12]);
    file[20] = 1;
    let source = MemorySource::new("m.apr", file);
    let (open, model) = apr_testkit::read_open(reader().as_ref(), "apr", &source, &Options::new()).unwrap();
    let error = apr_testkit::payload(open.as_ref(), &model, 0, &source).unwrap_err();
    assert!(error.message().contains("zstd payload is corrupt"), "{error}");
}

#[test]
fn rejects_more_than_the_limits_allow() {
    let source = MemorySource::new("m.apr", made(METADATA, CUSTOM, &[]));
    let limits = Limits { metadata_keys: 2, ..Limits::default() };
    let error = reader().open(&source, &limits, &Options::new()).err().unwrap();
    says(&error, LimitExceeded, "more than 2 keys");
}
