//! One case for each refusal: what the message says, and where.

use crate::fixture::{Opened, bytes};
use apr_sdk::{Error, ErrorKind, Options};
use std::io::Write;

fn open(name: &str, bytes: &[u8]) -> Result<Opened, Error> {
    Opened::new(name, bytes, &Options::new())
}

/// An array file of this header and data.
fn array(version: u8, text: &str, data: &[u8]) -> Vec<u8> {
    let len = (text.len() as u32).to_le_bytes();
    let len = if version == 1 { &len[..2] } else { &len[..] };
    [b"\x93NUMPY", &[version, 0][..], len, text.as_bytes(), data].concat()
}

fn refused(bytes: &[u8], kind: ErrorKind, offset: u64, words: &str) {
    let error = open("a.npy", bytes).err().unwrap_or_else(|| panic!("{words}"));
    assert_eq!((error.kind(), error.offset(), error.file()), (kind, Some(offset), Some("a.npy")), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

fn header(text: &str, kind: ErrorKind, offset: u64, words: &str) {
    refused(&array(1, text, &[0; 8]), kind, offset, words);
}

/// An archive of one deflated entry, by a small writer of its own.
pub fn deflated(name: &str, raw: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(raw).unwrap();
    let data = encoder.finish().unwrap();
    let crc = crc32fast::hash(raw);
    let common = [
        &[20u16, 0, 8, 0, 0x21].map(u16::to_le_bytes).concat()[..],
        &[crc, data.len() as u32, raw.len() as u32].map(u32::to_le_bytes).concat(),
        &[name.len() as u16, 0].map(u16::to_le_bytes).concat(),
    ]
    .concat();
    let local = [b"PK\x03\x04", &common[..], name.as_bytes(), &data].concat();
    let central = [b"PK\x01\x02\x14\0", &common[..], &[0; 14], name.as_bytes()].concat();
    let end = [
        &[0u16, 0, 1, 1].map(u16::to_le_bytes).concat()[..],
        &[central.len() as u32, local.len() as u32].map(u32::to_le_bytes).concat(),
        &[0, 0],
    ]
    .concat();
    [&local[..], &central, b"PK\x05\x06", &end].concat()
}

#[test]
fn rejects_headers_that_are_code() {
    for (code, at) in [
        ("__import__('os').system('touch /tmp/owned')", 10),
        ("{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (2,), }", 20),
        ("{'descr': '<f4', 'fortran_order': False or exit(), 'shape': (2,), }", 50),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2*1,), }", 62),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': tuple([2]), }", 60),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }.clear()", 67),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), **{}}", 66),
        ("{'descr': f'{exit()}', 'fortran_order': False, 'shape': (2,), }", 20),
        ("{'descr': '<f4' 'x', 'fortran_order': False, 'shape': (2,), }", 26),
        ("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,), }", 20),
        ("(lambda: 0)()", 10),
    ] {
        header(code, ErrorKind::Malformed, at, "nothing was executed");
    }
}

#[test]
fn rejects_headers_that_say_too_little_or_too_much() {
    header("", ErrorKind::Malformed, 10, "expected `{` in the header, found the end");
    header("{}", ErrorKind::Malformed, 10, "the header has no `descr`");
    header("{'descr': '<f4', 'shape': (2,)}", ErrorKind::Malformed, 10, "no `fortran_order`");
    header("{'descr': '<f4', 'fortran_order': True}", ErrorKind::Malformed, 10, "no `shape`");
    header("{'descr': '<f4', 'descr': '<f8', }", ErrorKind::Malformed, 27, "duplicate key `descr`");
    header("{'descr': '<f4', 'more': 1}", ErrorKind::Malformed, 27, "unknown key `more`");
    header("{'shape': (-1,)", ErrorKind::Malformed, 21, "expected a dimension");
    header("{'shape': (2", ErrorKind::Malformed, 22, "found the end");
}

#[test]
fn rejects_elements_that_are_no_numbers_by_name() {
    let refuse = |descr: &str, words: &str| {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        header(&text, ErrorKind::Unsupported, 20, words);
    };
    refuse("'|O'", "(`|O`) are Python objects, which are pickled: nothing was executed");
    refuse("'<U5'", "strings");
    refuse("'|S3'", "strings");
    refuse("'<M8[ns]'", "dates or times");
    refuse("'<m8[s]'", "dates or times");
    refuse("'<f16'", "long doubles");
    refuse("'<c32'", "long doubles");
    refuse("'<i3'", "numbers of an unsupported width");
    refuse("'|V16'", "raw bytes");
    refuse("[('x', '<f4'), ('y', '<f8')]", "an array of records");
    refuse("('<f4', (2,))", "an array of records");
    let text = "{'descr': 'é4', 'fortran_order': False, 'shape': (1,), }";
    header(text, ErrorKind::Malformed, 20, "`é4` is not an element type");
    header(&text.replace("'é4'", "''"), ErrorKind::Malformed, 20, "`` is not an element type");
}

#[test]
fn rejects_header_bombs() {
    let lying = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes()].concat();
    refused(&lying, ErrorKind::LimitExceeded, 8, "a header of 4294967295 bytes exceeds the limit of 65535");
    let cut = [b"\x93NUMPY\x01\x00".as_slice(), &[0xff, 0xff]].concat();
    refused(&cut, ErrorKind::Malformed, 10, "expected 65535 bytes, only 0 are left");
    let deep = format!("{{'shape': {}", "(".repeat(60_000));
    header(&deep, ErrorKind::Malformed, 21, "expected a dimension");
    let long = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", "1, ".repeat(20_000));
    header(&long, ErrorKind::LimitExceeded, 60, "20000 dimensions exceed the limit of 8");
}

#[test]
fn rejects_sizes_that_lie() {
    let shaped = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let end = |shape: &str| 10 + shaped(shape).len() as u64;
    header(&shaped("(3,)"), ErrorKind::Malformed, end("(3,)"), "expected 12 bytes, only 8 are left");
    header(
        &shaped("(1,)"),
        ErrorKind::Malformed,
        end("(1,)") + 4,
        "4 extra bytes after the array's elements",
    );
    header(&shaped("(4611686018427387904,)"), ErrorKind::Malformed, 60, "more than 2^63 bytes");
    header(&shaped("(18446744073709551615, 2)"), ErrorKind::Malformed, 60, "more than 2^63");
    let twice = [bytes("matrix.npy"), bytes("scalar.npy")].concat();
    refused(
        &twice,
        ErrorKind::Unsupported,
        bytes("matrix.npy").len() as u64,
        "a second array follows the first",
    );
}

#[test]
fn rejects_versions_and_magics_that_are_not_known() {
    let mut file = bytes("matrix.npy");
    file[6] = 4;
    refused(&file, ErrorKind::Unsupported, 6, "version 4.0 of the array format");
    file[0] = 0x92;
    refused(&file, ErrorKind::Malformed, 0, "the magic of an array file");
    refused(b"", ErrorKind::Malformed, 0, "expected 8 bytes, only 0 are left");
}

#[test]
fn rejects_entries_with_the_tensor_named() {
    let code = array(1, "__import__('os')", &[]);
    let error = open("a.npz", &deflated("layer/w.npy", &code)).err().unwrap();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some("layer/w")), "{error}");
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    for (data, words) in [(7, "expected 8 bytes of elements, found 7"), (9, "found 9")] {
        let error = open("a.npz", &deflated("w.npy", &array(1, good, &vec![0; data]))).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
    let mut bomb = deflated("w.npy", &array(1, good, &[0; 8]));
    // The raw length in both headers.
    let central = bomb.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    for at in [22, central + 24] {
        bomb[at..at + 4].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    }
    let error = open("a.npz", &bomb).err().unwrap();
    assert!(error.to_string().contains("cannot decompress to 4294967280"), "{error}");
}

#[test]
fn rejects_two_arrays_of_one_name() {
    // "a" and "a.npy" are two entries, and one name.
    let mut file = bytes("old_archive.npz");
    let name = |file: &mut [u8], from: &[u8], to: &[u8]| {
        for at in 0..file.len() - from.len() {
            if file[at..].starts_with(from) {
                file[at..at + from.len()].copy_from_slice(to);
            }
        }
    };
    name(&mut file, b"w.npy", b"x.npy");
    name(&mut file, b"b.npy", b"x.npy");
    assert!(open("a.npz", &file).err().unwrap().to_string().contains("names"));
}
