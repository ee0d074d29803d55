//! Numbers that lie: counts and lengths of 2^63, extents that overlap or leave the file, names twice or not text, too many
//! dimensions, an alignment that is none. Each with its place; one of each kind through the program.

use crate::build::{entry, gguf, gguf_with, info, key, safetensors, string};
use crate::command::fails;
use crate::judge::judged;
use apr_engine::open::{OpenOptions, open};
use apr_host::convert::convert;
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, fixtures, host, options};
use std::fs;

const HUGE: u64 = 1 << 63;
const I8: u32 = 24;
const U32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A damaged file: its bytes, what the error must say, the tensor it must name.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    words: &'static str,
    tensor: Option<&'static str>,
}

fn case(name: &'static str, bytes: Vec<u8>, words: &'static str, tensor: Option<&'static str>) -> Case {
    Case { name, bytes, words, tensor }
}

fn array(item: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&item.to_le_bytes()[..], &count.to_le_bytes(), items].concat()
}

fn gguf_counts() -> Vec<Case> {
    let huge_text = [&HUGE.to_le_bytes()[..], b"abc"].concat();
    let huge_key = [&huge_text[..], &STRING.to_le_bytes(), &string(b"v")].concat();
    let nested = (0..64).fold(array(0, 0, &[]), |inner, _| array(ARRAY, 1, &inner));
    let keyed = |value: &[u8], kind| gguf(&[key(b"k", kind, value)], &[], &[0; 64]);
    let one = |info: Vec<u8>| gguf(&[], &[info], &[0; 64]);
    let huge_name = [&huge_text[..], &info(b"t", &[8], I8, 0)[9..]].concat();
    vec![
        case("tensors.gguf", gguf_with(HUGE, 0, &[], &[], &[0; 64]), "9223372036854775808", None),
        case("keys.gguf", gguf_with(0, HUGE, &[], &[], &[0; 64]), "9223372036854775808", None),
        case("key-length.gguf", gguf(&[huge_key], &[], &[0; 64]), "9223372036854775808", None),
        case("text-length.gguf", keyed(&huge_text, STRING), "9223372036854775808", None),
        case("array-length.gguf", keyed(&array(0, HUGE, b"abc"), ARRAY), "9223372036854775808", None),
        case("texts.gguf", keyed(&array(STRING, HUGE, b"abc"), ARRAY), "9223372036854775808", None),
        case("arrays.gguf", keyed(&array(ARRAY, HUGE, b"abc"), ARRAY), "9223372036854775808", None),
        case("nested.gguf", keyed(&nested, ARRAY), "nested", None),
        case("value-type.gguf", keyed(&[0; 8], 99), "99", None),
        case("name-length.gguf", one(huge_name), "9223372036854775808", None),
        case("dim.gguf", one(info(b"t", &[HUGE], I8, 0)), "9223372036854775808", Some("t")),
        case("product.gguf", one(info(b"t", &[1 << 32, 1 << 32], I8, 0)), "4294967296", Some("t")),
        case("dims.gguf", one(info(b"t", &[1; 9], I8, 0)), "9 dimensions", Some("t")),
        case("type.gguf", one(info(b"t", &[8], 99, 0)), "99", Some("t")),
    ]
}

fn gguf_places() -> Vec<Case> {
    let one = |info: Vec<u8>| gguf(&[], &[info], &[0; 64]);
    let two = |a: Vec<u8>, b: Vec<u8>| gguf(&[], &[a, b], &[0; 128]);
    let aligned = |to: u32| {
        gguf(&[key(b"general.alignment", U32, &to.to_le_bytes())], &[info(b"t", &[8], I8, 0)], &[0; 64])
    };
    let bad_key = [key(b"k\xff", U32, &[0; 4])];
    let twice = [key(b"k", U32, &[0; 4]), key(b"k", U32, &[1; 4])];
    vec![
        case("offset.gguf", one(info(b"t", &[8], I8, HUGE)), "922337203685477", Some("t")),
        case("wraps.gguf", one(info(b"t", &[64], I8, 0u64.wrapping_sub(32))), "2^64", Some("t")),
        case("outside.gguf", one(info(b"t", &[65], I8, 0)), "past the end of the file", Some("t")),
        case("far.gguf", one(info(b"t", &[8], I8, 1 << 40)), "past the end of the file", Some("t")),
        case("unaligned.gguf", one(info(b"t", &[8], I8, 16)), "not a multiple of 32", Some("t")),
        case("overlap.gguf", two(info(b"a", &[33], I8, 0), info(b"b", &[8], I8, 32)), "overlap", Some("b")),
        case("same.gguf", two(info(b"a", &[8], I8, 0), info(b"b", &[8], I8, 0)), "overlap", Some("b")),
        case(
            "twice.gguf",
            two(info(b"a", &[8], I8, 0), info(b"a", &[8], I8, 32)),
            "duplicate tensor name",
            Some("a"),
        ),
        case("alignment-3.gguf", aligned(3), "power of two", None),
        case("alignment-0.gguf", aligned(0), "power of two", None),
        case("name-utf8.gguf", one(info(b"t\xff\xfe", &[8], I8, 0)), "UTF-8", None),
        case("key-utf8.gguf", gguf(&bad_key, &[], &[0; 64]), "UTF-8", None),
        case("key-twice.gguf", gguf(&twice, &[], &[0; 64]), "`k`", None),
    ]
}

fn safetensors_cases() -> Vec<Case> {
    let head = |entries: &[String]| format!("{{{}}}", entries.join(","));
    let file = |entries: &[String], n: usize| safetensors(head(entries).as_bytes(), &vec![0; n]);
    let one = |shape: &str, begin, end, n| file(&[entry("t", shape, begin, end)], n);
    let two = |a: (u64, u64), b: (u64, u64), n: usize| {
        let shape = |(from, to): (u64, u64)| format!("[{}]", to - from);
        file(&[entry("a", &shape(a), a.0, a.1), entry("b", &shape(b), b.0, b.1)], n)
    };
    let length = |n: u64| [&n.to_le_bytes()[..], b"{}"].concat();
    let meta = br#"{"__metadata__":{"k":"1","k":"2"}}"#;
    let nines = format!("[{}]", ["1"; 9].join(","));
    let deep = [&b"{\"__metadata__\":"[..], &b"[".repeat(100_000)].concat();
    vec![
        case("header.safetensors", length(HUGE), "9223372036854775808", None),
        case("header-max.safetensors", length(u64::MAX), "18446744073709551615", None),
        case("header-long.safetensors", length(3), "3 bytes", None),
        case("dim.safetensors", one("[9223372036854775808]", 0, 8, 8), "9223372036854775808", Some("t")),
        case("product.safetensors", one("[4294967296,4294967296]", 0, 8, 8), "4294967296", Some("t")),
        case("dim-big.safetensors", one("[99999999999999999999]", 0, 8, 8), "1e+20", Some("t")),
        case("negative.safetensors", one("[-1]", 0, 8, 8), "", Some("t")),
        case("float.safetensors", one("[1.5]", 0, 8, 8), "", Some("t")),
        case("end.safetensors", one("[8]", 0, HUGE, 8), "9223372036854775808", Some("t")),
        case("backwards.safetensors", one("[8]", 8, 0, 8), "", Some("t")),
        case("outside.safetensors", one("[9]", 0, 9, 8), "data area", Some("t")),
        case("overlap.safetensors", two((0, 5), (4, 8), 8), "inside `a`", Some("b")),
        case("hole.safetensors", two((0, 3), (4, 8), 8), "no tensor covers", Some("b")),
        case("rest.safetensors", two((0, 4), (4, 8), 9), "belong to no tensor", None),
        case(
            "twice.safetensors",
            file(&[entry("a", "[4]", 0, 4), entry("a", "[4]", 4, 8)], 8),
            "duplicate key",
            Some("a"),
        ),
        case("dims.safetensors", one(&nines, 0, 1, 1), "9 dimensions", Some("t")),
        case("utf8.safetensors", safetensors(b"{\"\xff\":{}}", &[]), "UTF-8", None),
        case("surrogate.safetensors", file(&[entry("\\ud800", "[8]", 0, 8)], 8), "", None),
        case("keys.safetensors", safetensors(meta, &[]), "`k`", None),
        case("deep.safetensors", safetensors(&deep, &[]), "", None),
    ]
}

/// An APR file made of a fixture, with 8 bytes of its first index entry changed. The entry: name length, name, type, number
/// of dimensions, dimensions, offset, size, raw size, flags.
fn apr_cases() -> Vec<Case> {
    let scratch = Scratch::new();
    convert(&host(), &options(&fixtures("gguf").join("small.gguf"), &scratch.at("m.apr"))).unwrap();
    let bytes = fs::read(scratch.at("m.apr")).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let index = (12..32).step_by(4).map(number).find(|&at| {
        // The index begins with its count, 5, and a reserved word.
        at > 32 && at + 8 < bytes.len() && bytes[at..at + 8] == [5, 0, 0, 0, 0, 0, 0, 0]
    });
    let index = index.expect("the index is one of the header's offsets");
    let name_len = usize::from(u16::from_le_bytes(bytes[index + 8..index + 10].try_into().unwrap()));
    let dims_at = index + 8 + 2 + name_len + 2;
    let n_dims = usize::from(bytes[dims_at - 1]);
    let offset_at = dims_at + 8 * n_dims;
    let changed = |at: usize, new: &[u8]| {
        let mut out = bytes.clone();
        out[at..at + new.len()].copy_from_slice(new);
        out
    };
    let huge = HUGE.to_le_bytes();
    vec![
        case("count.apr", changed(index, &u32::MAX.to_le_bytes()), "4294967295", None),
        case("name.apr", changed(index + 8, &[0xff, 0xff]), "65535", None),
        case("utf8.apr", changed(index + 10, &[0xff]), "UTF-8", None),
        case("dims.apr", changed(dims_at - 1, &[9]), "9 dimensions", Some("")),
        case("dim.apr", changed(dims_at, &huge), "922337203685477", Some("")),
        case("offset.apr", changed(offset_at, &huge), "", Some("")),
        case("size.apr", changed(offset_at + 8, &huge), "", Some("")),
        case("overlap.apr", changed(offset_at, &[64]), "", Some("")),
    ]
}

#[test]
fn numbers_that_lie_are_refused_with_their_place() {
    let (host, scratch) = (host(), Scratch::new());
    for case in [gguf_counts(), gguf_places(), safetensors_cases(), apr_cases()].into_iter().flatten() {
        let path = scratch.at(case.name);
        fs::write(&path, &case.bytes).unwrap();
        let Err(mut error) = judged(&host, &path) else { panic!("{} opens", case.name) };
        if error.stable_code() == Some("E001") {
            // So wrong that no format takes it for its own: asked for, its format says what is wrong.
            let from = path.extension().map(|e| e.to_string_lossy().into_owned());
            error = open(&host, &path, &OpenOptions { from, ..OpenOptions::default() }).err().unwrap();
        }
        assert!(error.message().contains(case.words), "{}: `{}` is not in {error}", case.name, case.words);
        assert!(error.offset().is_some(), "{}: no offset: {error}", case.name);
        let way_out = error.hint_text().is_some() || error.kind() == ErrorKind::Unsupported;
        assert!(way_out, "{}: no way out: {error}", case.name);
        match case.tensor {
            Some("") => assert!(error.tensor_name().is_some(), "{}: {error}", case.name),
            tensor => assert_eq!(error.tensor_name(), tensor, "{}: {error}", case.name),
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_program_says_so_too() {
    let scratch = Scratch::new();
    let (outside, twice) = (gguf_places().remove(2), gguf_places().remove(7));
    let cases =
        [gguf_counts().remove(0), outside, twice, safetensors_cases().remove(11), apr_cases().remove(4)];
    for case in &cases {
        fs::write(scratch.at(case.name), &case.bytes).unwrap();
        let target = if case.name.ends_with(".apr") { "out.gguf" } else { "out.apr" };
        let place = format!("  at {}, offset ", case.name);
        let tensor = case.tensor.map_or(String::new(), |tensor| format!("tensor {tensor}"));
        let words = [case.words, &place, &tensor, "\n  help: "];
        for args in [
            &["convert", case.name, target, "--arch", "none"][..],
            &["tensors", case.name],
            &["validate", case.name],
        ] {
            fails(&scratch, args, 4, &words);
        }
    }
}

/// What is odd but right: no tensors, no dimensions, a dimension of 0.
#[test]
fn what_is_odd_but_right_is_read_and_kept() {
    let (host, scratch) = (host(), Scratch::new());
    let odd = [
        ("none.gguf", gguf(&[], &[], &[])),
        ("scalar.gguf", gguf(&[], &[info(b"s", &[], I8, 0)], &[&[7][..], &[0; 31]].concat())),
        ("none.safetensors", safetensors(b"{}", &[])),
        ("scalar.safetensors", safetensors(format!("{{{}}}", entry("s", "[]", 0, 1)).as_bytes(), &[7])),
        (
            "eight.safetensors",
            safetensors(format!("{{{}}}", entry("s", "[1,1,1,1,1,1,1,1]", 0, 1)).as_bytes(), &[7]),
        ),
    ];
    for (name, bytes) in odd {
        let (path, apr, back) = (scratch.at(name), scratch.at("m.apr"), scratch.at(&format!("back-{name}")));
        fs::write(&path, bytes).unwrap();
        judged(&host, &path).unwrap_or_else(|e| panic!("{e}"));
        convert(&host, &options(&path, &apr)).unwrap_or_else(|e| panic!("{e}"));
        convert(&host, &options(&apr, &back)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(fs::read(&path).unwrap(), fs::read(&back).unwrap(), "{name}");
        fs::remove_file(&apr).unwrap();
    }
}
