//! One case for each refusal: what the message says, where, and of which tensor.

use crate::build::{bytes, entry, external, lying, model, number, tensor, varint, with_tensor};
use crate::fixture::{FORMAT, Opened, reader};
use apr_sdk::{ErrorKind, Limits, Look, MemorySource, Options, Score};

const FLOAT: u64 = 1;
const INT64: u64 = 7;
const STRING: u64 = 8;

/// Opens a file, and the payload of each tensor; checks kind, tensor and a piece of the message, and that there is a place.
fn refuse(file: &[u8], kind: ErrorKind, tensor: Option<&str>, message: &str) {
    let source = MemorySource::new("model.onnx", file).with("data.bin", vec![0; 64]);
    let read = || -> apr_sdk::Result<()> {
        let opened = Opened::new(source)?;
        for n in 0..opened.model.tensors.len() {
            apr_testkit::payload(&*opened.open, &opened.model, n, &opened.source)?;
        }
        Ok(())
    };
    let error = read().expect_err(message);
    assert_eq!((error.kind(), error.tensor_name()), (kind, tensor), "{error}");
    assert!(error.message().contains(message), "`{message}` is not in: {error}");
    assert!(error.file().is_some() && error.offset().is_some(), "{error}");
}

fn malformed(file: &[u8], message: &str) {
    refuse(file, ErrorKind::Malformed, None, message);
}

/// A model with an initialiser `w`.
fn bad_tensor(kind: u64, dims: &[u64], rest: &[u8], message: &str) {
    refuse(&with_tensor(kind, dims, rest), ErrorKind::Malformed, Some("w"), message);
}

#[test]
fn files_that_are_no_model() {
    malformed(b"", "none of the records of a model");
    malformed(&bytes(14, b""), "none of the records of a model");
    malformed(b"\x08", "a number extends past the end");
    malformed(b"hello, world", "field 13 is a group");
    malformed(&[0; 100], "0 is not a valid tag");
    malformed(&[0xff; 100], "more than 64 bits");
}

#[test]
fn records_that_are_none() {
    malformed(&model(&[0x0b]), "field 1 is a group");
    malformed(&model(&[0x0c]), "field 1 is a group");
    malformed(&model(&[0x0f, 0]), "unknown wire type 7");
    malformed(&model(&lying(5, 1 << 62, b"")), "field 5 has 4611686018427387904 bytes, but only 0 are left");
    malformed(&model(&lying(5, u64::MAX, b"")), "field 5 has 18446744073709551615 bytes");
    malformed(&model(&lying(99, 1, b"")), "field 99 has 1 bytes, but only 0 are left");
    malformed(&model(&[&[0x08][..], &[0x80; 9], &[2]].concat()), "more than 64 bits");
    malformed(&model(&[&[0x08][..], &[0xff; 11], &[0]].concat()), "more than 64 bits");
    malformed(&model(&[varint(1 << 40), vec![0]].concat()), "is not a valid tag of a record");
    malformed(&lying(7, 10, &[0x12, 0]), "field 7 has 10 bytes, but only 2 are left");
}

#[test]
fn messages_of_another_wire_type() {
    malformed(&model(&number(5, 1)), "field 5 has wire type 0, expected 2 for a message");
    malformed(&model(&number(1, 1)), "field 1 has wire type 0, expected 2 for a message");
    malformed(&[number(1, 8), number(7, 1)].concat(), "field 7 has wire type 0");
    malformed(&[bytes(1, b"8"), model(b"")].concat(), "field 1 of the model has wire type 2, expected 0");
    malformed(&[number(2, 8), model(b"")].concat(), "field 2 of the model has wire type 0, expected 2");
    malformed(&[number(14, 8), model(b"")].concat(), "field 14 has wire type 0");
    malformed(&[number(8, 8), model(b"")].concat(), "field 8 has wire type 0");
    malformed(&[bytes(8, &bytes(2, b"1")), model(b"")].concat(), "field 8: ");
    malformed(&model(&number(11, 8)), "field 11 has wire type 0");
    malformed(&model(&bytes(11, &bytes(2, b"\xff"))), "field 11: ");
    let raw = |rest: Vec<u8>| rest;
    bad_tensor(FLOAT, &[], &raw(number(9, 4)), "field 9 of a tensor has wire type 0, expected 2");
    bad_tensor(FLOAT, &[], &raw(number(4, 4)), "field 4 of a tensor has wire type 0, expected 5");
    bad_tensor(FLOAT, &[], &raw(number(8, 4)), "field 8 of a tensor has wire type 0");
    bad_tensor(FLOAT, &[], &raw(bytes(2, b"")), "field 2 of a tensor has wire type 2, expected 0");
    bad_tensor(FLOAT, &[], &raw(bytes(14, b"")), "field 14 of a tensor has wire type 2");
    bad_tensor(FLOAT, &[], &raw(number(13, 1)), "field 13 of a tensor has wire type 0");
    bad_tensor(
        FLOAT,
        &[],
        &raw([vec![1 << 3 | 1], vec![0; 8]].concat()),
        "field 1 of a tensor has wire type 1",
    );
}

#[test]
fn data_of_a_wrong_size() {
    bad_tensor(FLOAT, &[2], &bytes(9, &[0; 7]), "F32 [2] requires 8 bytes, but its data has 7");
    bad_tensor(FLOAT, &[2], &bytes(9, &[0; 9]), "F32 [2] requires 8 bytes, but its data has 9");
    bad_tensor(FLOAT, &[2], b"", "F32 [2] requires 8 bytes, but its message has 0");
    bad_tensor(FLOAT, &[2], &bytes(4, &[0; 4]), "F32 [2] requires 8 bytes, but its data has 4");
    bad_tensor(FLOAT, &[2], &bytes(4, &[0; 7]), "a run of 7 bytes is not a multiple of the number size 4");
    bad_tensor(FLOAT, &[2], &[bytes(4, &[0; 4]), bytes(4, &[0; 8])].concat(), "its typed field has 12");
    bad_tensor(22, &[5], &bytes(9, &[0; 2]), "I4 [5] requires 3 bytes, but its data has 2");
    bad_tensor(INT64, &[2], &bytes(7, &[1]), "2 numbers of 1 to 10 bytes, but its typed field has 1");
    bad_tensor(INT64, &[2], &bytes(7, &[1; 21]), "2 numbers of 1 to 10 bytes, but its typed field has 21");
    bad_tensor(INT64, &[2], &bytes(7, &[1; 3]), "more numbers than its dimensions require");
    bad_tensor(INT64, &[2], &bytes(7, &[0x80, 1]), "it has 1 numbers fewer than its dimensions require");
    bad_tensor(INT64, &[2], &bytes(7, &[1, 0x80]), "a number extends past the end of its message");
    bad_tensor(INT64, &[2], &bytes(7, &[0xff; 12]), "more than 64 bits");
}

#[test]
fn numbers_that_their_type_does_not_have() {
    for (kind, field, value, message) in [
        (3, 5, 128, "128 is out of range for I8"),
        (3, 5, u64::MAX - 128, "-129 is out of range for I8"),
        (2, 5, 256, "256 is out of range for U8"),
        (4, 5, 65_536, "65536 is out of range for U16"),
        (5, 5, 32_768, "32768 is out of range for I16"),
        (10, 5, u64::MAX, "-1 is out of range for F16"),
        (9, 5, 2, "2 is out of range for BOOL"),
        (12, 11, 1 << 32, "4294967296 is out of range for U32"),
        (22, 5, 256, "256 is out of range for I4"),
        (27, 5, 64, "64 is out of range for F6_E2M3"),
    ] {
        bad_tensor(kind, &[1], &number(field, value), message);
    }
}

#[test]
fn data_in_two_places() {
    let raw = bytes(9, &[0; 4]);
    bad_tensor(FLOAT, &[], &[raw.clone(), raw.clone()].concat(), "duplicate raw_data");
    bad_tensor(
        FLOAT,
        &[],
        &[raw.clone(), bytes(4, &[0; 4])].concat(),
        "its data is in raw_data and in a typed field",
    );
    bad_tensor(
        FLOAT,
        &[],
        &[raw.clone(), external(&[("location", "data.bin")])].concat(),
        "in raw_data and in another file",
    );
    bad_tensor(
        FLOAT,
        &[],
        &[bytes(4, &[0; 4]), number(5, 1)].concat(),
        "its data is in both field 4 and field 5",
    );
    bad_tensor(FLOAT, &[], &number(5, 1), "FLOAT data is in field 5, expected field 4");
    bad_tensor(FLOAT, &[], &bytes(6, b"x"), "string_data must be used for strings");
    bad_tensor(STRING, &[], &raw, "string_data must be used for strings");
    bad_tensor(STRING, &[], &external(&[("location", "data.bin")]), "string_data must be used for strings");
}

#[test]
fn types_and_dimensions_that_are_none() {
    let raw = bytes(9, &[0; 4]);
    bad_tensor(0, &[], &raw, "it has no data_type");
    refuse(&with_tensor(29, &[], &raw), ErrorKind::Unsupported, Some("w"), "its data_type 29 is unknown");
    refuse(
        &with_tensor(u64::MAX, &[], &raw),
        ErrorKind::Unsupported,
        Some("w"),
        "is unknown, the highest supported",
    );
    refuse(&with_tensor(FLOAT, &[1; 9], &raw), ErrorKind::Unsupported, None, "more than 8 dimensions");
    refuse(
        &with_tensor(FLOAT, &[], &bytes(3, b"")),
        ErrorKind::Unsupported,
        Some("w"),
        "tensors in segments",
    );
    refuse(&with_tensor(FLOAT, &[u64::MAX], &raw), ErrorKind::Malformed, None, "negative dimension -1");
    refuse(
        &with_tensor(FLOAT, &[1 << 63], &raw),
        ErrorKind::Malformed,
        None,
        "negative dimension -9223372036854775808",
    );
    bad_tensor(FLOAT, &[1 << 62, 1 << 62], &raw, "more than 2^63 elements");
    bad_tensor(FLOAT, &[1 << 62], &raw, "more than 2^63 bytes");
    bad_tensor(FLOAT, &[1 << 40], &raw, "requires 4398046511104 bytes, but its data has 4");
    bad_tensor(FLOAT, &[], &number(14, 2), "data_location is 2, expected 0 or 1");
}

#[test]
fn external_data_outside_the_folder_or_the_file() {
    for location in
        ["/etc/passwd", "../data.bin", "a/../../data.bin", "a\\b", "C:data.bin", "", "a//b", "data.bin/"]
    {
        let rest = external(&[("location", location), ("length", "4")]);
        bad_tensor(FLOAT, &[], &rest, "not a path inside the model's folder");
    }
    let at = |offset: &str, length: &str| {
        external(&[("location", "data.bin"), ("offset", offset), ("length", length)])
    };
    bad_tensor(FLOAT, &[], &at("61", "4"), "its 4 bytes start at 61, but the file has only 64");
    bad_tensor(FLOAT, &[], &at("18446744073709551615", "4"), "the file has only 64");
    bad_tensor(FLOAT, &[], &at("0", "5"), "F32 [] requires 4 bytes, but its `length` has 5");
    bad_tensor(
        FLOAT,
        &[17],
        &external(&[("location", "data.bin")]),
        "its 68 bytes start at 0, but the file has only 64",
    );
    refuse(
        &with_tensor(FLOAT, &[], &at("-1", "4")),
        ErrorKind::Malformed,
        Some("w"),
        "its offset `-1` is not a number",
    );
    for odd in ["0x10", "+1", "1e3", " 1", "18446744073709551616", ""] {
        refuse(&with_tensor(FLOAT, &[], &at("0", odd)), ErrorKind::Malformed, Some("w"), "is not a number");
    }
    let missing = external(&[("location", "other.bin")]);
    refuse(&with_tensor(FLOAT, &[], &missing), ErrorKind::NotFound, Some("w"), "its data is in `other.bin`");
    let long = external(&[("location", &"x".repeat(1 << 20))]);
    refuse(&with_tensor(FLOAT, &[], &long), ErrorKind::LimitExceeded, Some("w"), "for this kind of message");
}

/// A graph in an attribute of a node in a graph, `depth` times.
fn nested(depth: usize) -> Vec<u8> {
    let mut graph = Vec::new();
    for _ in 0..depth {
        let attribute = [bytes(1, b"g"), bytes(6, &graph)].concat();
        graph = bytes(1, &bytes(5, &attribute));
    }
    model(&graph)
}

#[test]
fn messages_nested_too_deep() {
    assert!(Opened::new(MemorySource::new("a", nested(33))).is_ok());
    refuse(&nested(34), ErrorKind::LimitExceeded, None, "nested more than 100 levels deep");
    refuse(&nested(20_000), ErrorKind::LimitExceeded, None, "nested more than 100 levels deep");
    // Types are decoded whole, by a decoder with the same limit.
    let mut kind = Vec::new();
    for _ in 0..5000 {
        kind = bytes(4, &bytes(1, &kind));
    }
    assert!(Opened::new(MemorySource::new("a", model(&bytes(11, &bytes(2, &kind))))).is_ok());
}

#[test]
fn an_attribute_with_two_values() {
    let value = bytes(5, &tensor(FLOAT, &[], &bytes(9, &[0; 4])));
    let node = bytes(5, &[bytes(1, b"value"), value.clone(), value].concat());
    malformed(&model(&bytes(1, &node)), "an attribute with two values");
}

#[test]
fn names_and_counts_above_the_limits() {
    let long = tensor(FLOAT, &[], &[bytes(8, &[b'n'; 65_536]), bytes(9, &[0; 4])].concat());
    refuse(
        &model(&bytes(5, &long)),
        ErrorKind::LimitExceeded,
        Some("w"),
        "a name of 65536 bytes, more than the limit of 65535",
    );
    refuse(
        &[model(b""), entry(14, &"k".repeat(65_536), "")].concat(),
        ErrorKind::LimitExceeded,
        None,
        "a name of 65536",
    );
    // 300 000 tensors of 40 bytes, whose names are 60 kB long by the way to them, would take 18 GB.
    let one = bytes(5, &tensor(FLOAT, &[0], b""));
    let attribute = [bytes(1, b"g"), bytes(6, &one.repeat(300_000))].concat();
    let node = [bytes(3, &[b'n'; 60_000]), bytes(5, &attribute)].concat();
    let source = MemorySource::new("a", model(&bytes(1, &node)));
    let error = Opened::new(source).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn a_folder_with_several_models_or_none() {
    let looks = |entries: &[&str]| {
        let entries: Vec<_> = entries.iter().map(|name| (*name).to_owned()).collect();
        let look = Look { name: "folder", len: 0, head: &[], tail: &[], is_folder: true, entries: &entries };
        reader().probe(&look)
    };
    assert_eq!(looks(&["a.txt"]), Score::NO);
    assert_eq!(looks(&["a.onnx", "a.onnx.data"]), Score::STRUCTURE);
}

#[test]
fn reading_stops_when_the_budget_is_spent() {
    let limits = Limits { budget: apr_sdk::Budget::new(0), ..Limits::default() };
    let file = crate::fixture::bytes("graph.onnx");
    let source = MemorySource::new("a.onnx", file);
    let outcome = apr_testkit::read_limited(&*reader(), FORMAT, &source, &Options::new(), &limits);
    // What was read earns sixteenfold: a real file opens on that alone.
    assert!(outcome.is_ok(), "{:?}", outcome.err());
}
