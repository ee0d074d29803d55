//! One case for each refusal: what the message says, where, and of which tensor.

use crate::fixture::{FORMAT, Folder, bytes, carries, file, open, reader, writer};
use apr_sdk::{
    DType, Error, ErrorKind, LayoutRequest, Limits, Look, MemorySource, Model, Options, Score, Source,
};
use apr_testkit::read_with_parts;

/// Opens `bytes` and checks the error: kind, offset, tensor, and a piece of the message.
fn refuse(bytes: &[u8], kind: ErrorKind, offset: u64, tensor: Option<&str>, message: &str) {
    let error = open(bytes).map(|_| ()).expect_err(message);
    check(&error, kind, Some(offset), tensor, message);
}

fn check(error: &Error, kind: ErrorKind, offset: Option<u64>, tensor: Option<&str>, message: &str) {
    let found = (error.kind(), error.offset(), error.tensor_name());
    assert_eq!(found, (kind, offset, tensor), "{error}");
    assert!(error.message().contains(message), "`{message}` is not in: {error}");
    assert!(error.file().is_some(), "{error}");
}

fn malformed(header: &str, data: &[u8], offset: u64, tensor: Option<&str>, message: &str) {
    refuse(&file(header, data), ErrorKind::Malformed, offset, tensor, message);
}

/// A header of one entry `a` with this text.
fn entry(fields: &str) -> String {
    format!("{{\"a\":{{{fields}}}}}")
}

const GOOD: &str = r#""dtype":"U8","shape":[2],"data_offsets":[0,2]"#;

#[test]
fn lengths_of_the_header() {
    refuse(&[], ErrorKind::Malformed, 0, None, "expected 8 bytes, only 0 are left");
    refuse(&[1; 7], ErrorKind::Malformed, 0, None, "expected 8 bytes, only 7 are left");
    refuse(&[0xff; 20], ErrorKind::Malformed, 0, None, "exceeds the format's limit of 100000000");
    let long = [&100_000_001u64.to_le_bytes()[..], b"{}"].concat();
    refuse(&long, ErrorKind::Malformed, 0, None, "a header of 100000001 bytes exceeds");
    let cut = [&100_000_000u64.to_le_bytes()[..], b"{}"].concat();
    refuse(
        &cut,
        ErrorKind::Malformed,
        0,
        None,
        "a header of 100000000 bytes, but only 2 are left in the file",
    );
}

#[test]
fn text_that_is_no_header() {
    malformed("", &[], 0, None, "the header is empty");
    malformed(" []", &[], 9, None, "the header starts with `[`");
    malformed("[]", &[], 8, None, "the header starts with `[`");
    malformed("{", &[], 8, None, "EOF while parsing an object");
    malformed("{}{}", &[], 10, None, "trailing characters");
    malformed("{}\0\0", &[], 10, None, "trailing characters");
    let bad = [&4u64.to_le_bytes()[..], b"{\"\xff\""].concat();
    refuse(&bad, ErrorKind::Malformed, 10, None, "the header is not valid UTF-8");
    malformed("{\"\\ud800\":1}", &[], 16, None, "unexpected end of hex escape");
    malformed("{\"a\nb\":1}", &[], 12, None, "control character");
}

#[test]
fn entries_that_are_none() {
    malformed("{\"a\":1}", &[], 13, Some("a"), "expected a map of `dtype`, `shape` and `data_offsets`");
    malformed(&entry(&GOOD.replace("\"U8\"", "8")), &[0; 2], 22, Some("a"), "expected a dtype's name");
    malformed(&entry(&GOOD.replace("[2]", "2")), &[0; 2], 35, Some("a"), "expected a list of integers");
    malformed(&entry(&GOOD.replace("[2]", "[2.0]")), &[0; 2], 38, Some("a"), "expected an integer from 0");
    malformed(&entry(&GOOD.replace("[2]", "[-2]")), &[0; 2], 37, Some("a"), "expected an integer from 0");
    malformed(
        &entry(&GOOD.replace("[2]", "[18446744073709551616]")),
        &[0; 2],
        55,
        Some("a"),
        "expected an integer from 0 to 2^64 - 1",
    );
    for offsets in ["[]", "[0]", "[0,2,2]"] {
        let bytes = file(&entry(&GOOD.replace("[0,2]", offsets)), &[0; 2]);
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert!(error.message().contains("exactly two integers, begin and end"), "{error}");
        assert_eq!(error.tensor_name(), Some("a"));
    }
    let unknown = file(&entry(&GOOD.replace("U8", "F12")), &[0; 2]);
    refuse(&unknown, ErrorKind::Unsupported, 26, Some("a"), "its dtype `F12` is not supported");
    for field in ["dtype", "shape", "data_offsets"] {
        let bytes = file(&entry(&GOOD.replace(field, "other")), &[0; 2]);
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert_eq!(
            (error.message(), error.tensor_name()),
            (&*format!("its entry has no `{field}`"), Some("a"))
        );
        assert!(error.offset().is_some_and(|at| at > 8));
    }
}

#[test]
fn a_key_twice() {
    let two = format!("{{\"a\":{{{GOOD}}},\"a\":{{{GOOD}}}}}");
    malformed(&two, &[0; 2], 63, Some("a"), "duplicate key `a`");
    let escaped = format!("{{\"a\":{{{GOOD}}},\"\\u0061\":{{{GOOD}}}}}");
    malformed(&escaped, &[0; 2], 68, Some("a"), "duplicate key `a`");
    for field in [
        "\"dtype\":\"U8\"",
        "\"shape\":[2]",
        "\"data_offsets\":[0,2]",
        "\"x\":1,\"x\":2",
        "\"x\":{\"y\":1,\"y\":1}",
    ] {
        let bytes = file(&entry(&format!("{GOOD},{field}")), &[0; 2]);
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert!(error.message().contains("duplicate key"), "{error}");
        assert_eq!(error.tensor_name(), Some("a"));
    }
    malformed("{\"__metadata__\":{},\"__metadata__\":{}}", &[], 40, None, "duplicate key `__metadata__`");
    malformed("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", &[], 34, None, "duplicate key `k`");
}

#[test]
fn metadata_other_than_strings() {
    malformed("{\"__metadata__\":[]}", &[], 23, None, "`__metadata__` as a map from strings to strings");
    malformed("{\"__metadata__\":7}", &[], 24, None, "`__metadata__` as a map from strings to strings");
    for value in ["1", "null", "{}", "[\"a\"]", "true"] {
        let bytes = file(&format!("{{\"__metadata__\":{{\"k\":{value}}}}}"), &[]);
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert!(
            error.message().contains("a string, as required for all values of `__metadata__`"),
            "{error}"
        );
    }
}

#[test]
fn sizes_that_disagree() {
    let sized = |dtype: &str, shape: &str, begin: u64, end: u64| {
        entry(&format!("\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{begin},{end}]"))
    };
    let at = |header: &str| 8 + header.len() as u64 - 1;
    for (header, message) in [
        (
            sized("F32", "[2,3]", 0, 20),
            "F32 [2, 3] requires 24 bytes, but its data_offsets [0, 20] give it 20",
        ),
        (sized("U8", "[2]", 2, 0), "its data_offsets end at 0, before they start at 2"),
        (sized("F4", "[3]", 0, 2), "F4_E2M1 [3] has 12 bits, which is not a whole number of bytes"),
        (sized("F6_E3M2", "[]", 0, 1), "F6_E3M2 [] has 6 bits, which is not a whole number of bytes"),
        (sized("U8", "[9223372036854775808,2]", 0, 0), "has more than 2^63 elements"),
        (sized("F64", "[2305843009213693952]", 0, 0), "more than 2^63 bytes"),
    ] {
        malformed(&header, &[0; 24], at(&header), Some("a"), message);
    }
    let nine = sized("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1);
    let error = open(&file(&nine, &[0])).map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("a")));
}

#[test]
fn data_that_is_not_tiled() {
    let header = |a: (u64, u64), b: (u64, u64)| {
        let one = |name: &str, (begin, end): (u64, u64)| {
            let shape = end - begin;
            format!("\"{name}\":{{\"dtype\":\"U8\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}")
        };
        format!("{{{},{}}}", one("a", a), one("b", b))
    };
    let start = |text: &str| 8 + text.len() as u64;
    let hole = header((0, 2), (3, 5));
    let message =
        "its data starts at byte 3 of the data area, but `a` before it ends at 2: no tensor covers the bytes";
    malformed(&hole, &[0; 5], start(&hole) + 2, Some("b"), message);
    let overlap = header((0, 3), (2, 5));
    let message = "its data starts at byte 2 of the data area, inside `a` (0 to 3)";
    malformed(&overlap, &[0; 5], start(&overlap) + 2, Some("b"), message);
    let same = header((0, 3), (0, 3));
    malformed(
        &same,
        &[0; 3],
        start(&same),
        Some("b"),
        "starts at byte 0 of the data area, inside `a` (0 to 3)",
    );
    let late = header((1, 3), (3, 5));
    let message = "its data starts at byte 1 of the data area, but no tensor covers the bytes before it";
    malformed(&late, &[0; 5], start(&late), Some("a"), message);
    let good = header((0, 3), (3, 5));
    malformed(&good, &[0; 7], start(&good) + 5, None, "2 bytes after the last tensor `b` belong to no");
    let message = "its data ends at byte 5 of the data area, which has only 4";
    malformed(&good, &[0; 4], start(&good) + 3, Some("b"), message);
    malformed("{}      ", &[0; 3], 16, None, "3 bytes after the header belong to no tensor");
    let far = header((0, 2), (u64::MAX - 1, u64::MAX));
    malformed(&far, &[0; 2], u64::MAX, Some("b"), "of the data area, which has only 2");
}

#[test]
fn more_than_the_limits_allow() {
    let header = format!("{{\"a\":{{{GOOD}}},\"b\":{{{}}}}}", GOOD.replace("[0,2]", "[2,4]"));
    let source = MemorySource::new("m", file(&header, &[0; 4]));
    let limits = Limits { tensors: 1, ..Limits::default() };
    let error = reader().open(&source, &limits, &Options::new()).map(|_| ()).unwrap_err();
    check(&error, ErrorKind::LimitExceeded, Some(63), None, "the header has more than 1 tensors");
}

fn refuse_index(
    files: &[(&str, Vec<u8>)],
    kind: ErrorKind,
    offset: Option<u64>,
    tensor: Option<&str>,
    message: &str,
) {
    let files: Vec<_> = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
    let folder = Folder::new(&files);
    let error = read_with_parts(&*reader(), FORMAT, &folder, &Options::new()).map(|_| ()).expect_err(message);
    assert_eq!((error.kind(), error.offset(), error.tensor_name()), (kind, offset, tensor), "{error}");
    assert!(error.message().contains(message), "`{message}` is not in: {error}");
}

#[test]
fn indexes() {
    let name = "m.safetensors.index.json";
    let index = |text: &str| (name, text.as_bytes().to_vec());
    let shard = ("a.safetensors", file(&entry(GOOD), &[0; 2]));
    let bad = |text: &str, offset, tensor, message: &str| {
        refuse_index(&[index(text), shard.clone()], ErrorKind::Malformed, Some(offset), tensor, message);
    };
    bad("{\"metadata\":{}}", 0, None, "the index has no `weight_map`");
    bad("{\"weight_map\":[]}", 13, None, "`weight_map` as a map from tensor names to file names");
    bad("{\"weight_map\":{\"a\":1}}", 19, None, "expected a file name");
    bad("{\"weight_map\":{\"a\":\"\"}}", 21, Some("a"), "maps it to an empty file name");
    bad("{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", 25, None, "duplicate key `a`");
    bad("{\"weight_map\":{},\"weight_map\":{}}", 28, None, "duplicate key `weight_map`");
    bad("{\"metadata\":{\"a\":1,\"a\":2},\"weight_map\":{}}", 21, None, "duplicate key `a`");
    bad("{\"metadata\":[],\"weight_map\":{}}", 13, None, "`metadata` is not a map");
    bad("{\"weight_map\":{}} x", 18, None, "trailing characters");
    bad("{\"weight_map\":{\"\\ud800\":\"x\"}}", 22, None, "unexpected end of hex escape");
    let missing = index("{\"weight_map\":{\"a\":\"b.safetensors\",\"c\":\"b.safetensors\"}}");
    let message = "the index maps 2 tensors to `b.safetensors`, which is missing";
    refuse_index(&[missing, shard.clone()], ErrorKind::NotFound, None, None, message);
    let lacking = index("{\"weight_map\":{\"a\":\"a.safetensors\",\"c\":\"a.safetensors\"}}");
    refuse_index(&[lacking, shard.clone()], ErrorKind::Malformed, None, Some("c"), "");
    let more = ("a.safetensors", bytes("shapes.safetensors"));
    let some = index("{\"weight_map\":{\"odd\":\"a.safetensors\"}}");
    assert!(
        read_with_parts(
            &*reader(),
            FORMAT,
            &Folder::new(&[(some.0.into(), some.1), (more.0.into(), more.1)]),
            &Options::new()
        )
        .is_err()
    );
}

#[test]
fn folders_with_several_models_or_none() {
    let open = |names: &[&str]| {
        let files: Vec<_> = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        let folder = Folder::new(&files);
        let entries = folder.entries().unwrap();
        let look = Look { name: "f", len: 0, head: &[], tail: &[], is_folder: true, entries: &entries };
        let error = reader().open(&folder, &Limits::default(), &Options::new()).map(|_| ()).unwrap_err();
        (reader().probe(&look), error)
    };
    let (score, error) = open(&["a.safetensors", "b.safetensors", "c.txt"]);
    assert_eq!(score, Score::STRUCTURE);
    assert_eq!(error.message(), "the folder contains several models: `a.safetensors`, `b.safetensors`");
    let (_, error) = open(&["a.safetensors.index.json", "a.safetensors", "a.safetensors.index.fp16.json"]);
    assert!(
        error.message().ends_with("`a.safetensors.index.fp16.json`, `a.safetensors.index.json`"),
        "{error}"
    );
    let (score, error) = open(&["a.txt"]);
    assert_eq!((score, error.kind()), (Score::NO, ErrorKind::NotFound));
}

#[test]
fn what_the_probe_does_not_take() {
    let score = |name: &str, bytes: &[u8]| {
        let look =
            Look { name, len: bytes.len() as u64, head: bytes, tail: &[], is_folder: false, entries: &[] };
        reader().probe(&look)
    };
    let whole = bytes("shapes.safetensors");
    assert_eq!(score("x", &whole), Score::STRUCTURE);
    assert_eq!(score("x", &whole[..20]), Score::NO);
    assert_eq!(score("x.safetensors", &whole[..20]), Score::STRUCTURE);
    assert_eq!(score("a.safetensors.index.json", b"{\"weight_map\": {}}"), Score::MAGIC);
    assert_eq!(score("a.bin.index.json", b"{\"weight_map\": {}}"), Score::NO);
    for text in
        ["version https://git-lfs.github.com/spec/v1\noid sha256:", "<!DOCTYPE html><html>", "", "text\n"]
    {
        assert_eq!(score("x.safetensors", text.as_bytes()), Score::NO, "{text}");
    }
    assert_eq!(score("x.safetensors", &[0; 32]), Score::NO);
}

/// Writes a changed model of the fixture `metadata_one` and gives the error.
fn refuse_to_write(change: impl FnOnce(&mut Model)) -> Error {
    let (opened, mut model, source) = open(&bytes("metadata_one.safetensors")).unwrap();
    change(&mut model);
    let request = LayoutRequest::file("out.safetensors");
    apr_testkit::write_model(&*writer(), &carries(), &*opened, &model, &source, &request).unwrap_err()
}

#[test]
fn models_that_the_format_cannot_hold() {
    let error = refuse_to_write(|model| model.tensors[0].name = "__metadata__".into());
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("__metadata__")));
    let error = refuse_to_write(|model| model.tensors[0].dtype = DType::Q8_0);
    assert_eq!(error.message(), "the format cannot hold Q8_0");
    let error = refuse_to_write(|model| {
        model.tensors[0].dtype = DType::F4_E2M1;
        model.tensors[0].shape = vec![3];
    });
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("weight")));
}
