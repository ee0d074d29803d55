//! Small files that ask for much time or memory, and tricks that make a scanner see another program than Python runs.

use crate::fixture::{bytes, open, reader};
use crate::forge::{
    archive, call, checkpoint, deflated, global, int, named, pickle, storage, stream, text, tuple, zip,
};
use apr_sdk::{ErrorKind, Limits, MemorySource, Options};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// What `scan` says: the verdict, and the text.
fn scan(file: &[u8]) -> (String, String) {
    let source = MemorySource::new("m.pt", file);
    let report = reader().report("scan", &source, &Limits::default(), &Options::new()).unwrap();
    let json: Json = serde_json::from_str(&report.json).unwrap();
    assert_eq!(report.passed, json["verdict"] == "safe", "{}", report.text);
    (json["verdict"].as_str().unwrap().to_owned(), report.text)
}

fn evil() -> Vec<u8> {
    pickle(&call("os", "system", &[text("id")]))
}

/// `setup`, then `each` so many times.
fn repeated(setup: &[Vec<u8>], each: &[u8], times: usize) -> Vec<u8> {
    checkpoint(&pickle(&[setup.concat(), each.repeat(times), b"}".to_vec()].concat()), 64)
}

#[test]
fn one_long_value_used_often_costs_what_it_takes() {
    let long = |item: &[u8]| [b"(", &item.repeat(100_000)[..], b"lq\0"].concat();
    let set = [long(b"K\x01"), global("__builtin__", "set"), b"q\x010h\0\x85q\x020".to_vec()];
    let size = [long(b"K\x01"), global("torch", "Size"), b"q\x010h\0\x85q\x020".to_vec()];
    let metadata = [b"}(", &b"K\x01N".repeat(100_000)[..], b"uq\0"].concat();
    let ints = tuple(&[int(4)]);
    let arguments = [storage("FloatStorage", 4), int(0), ints.clone(), tuple(&[int(1)]), b"\x89".to_vec()];
    let tensor = [arguments.concat(), b"}h\0".to_vec()];
    let rebuild =
        [metadata, global("torch._utils", "_rebuild_tensor_v2"), b"q\x010".to_vec(), tuple(&tensor)];
    let rebuild = [rebuild.concat(), b"q\x020".to_vec()];
    for (setup, what) in [(&set[..], "set"), (&size[..], "Size"), (&rebuild[..], "metadata")] {
        let error = open(&repeated(setup, b"h\x01h\x02R0", 20_000)).map(drop).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{what}: {error}");
    }
}

#[test]
fn nothing_but_marks_costs_more_than_it_earns() {
    let error =
        open(&checkpoint(&[b"\x80\x02".to_vec(), b"(".repeat(8 << 20)].concat(), 64)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn a_long_text_used_often_is_not_read_often() {
    let begun = Instant::now();
    let location = text(&"c".repeat(4 << 20));
    let id = [text("storage"), global("torch", "FloatStorage"), text("0"), location, int(4)];
    let _ = open(&repeated(&[tuple(&id), b"q\x000".to_vec()], b"h\0Q0", 100_000));
    let many = [b"(".to_vec(), text(&"c".repeat(4 << 20)), b"q\0".to_vec(), b"h\0".repeat(100_000)];
    let list = [many.concat(), b"K\x01l".to_vec()].concat();
    assert!(open(&checkpoint(&named(&list), 64)).is_err());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_stack_or_memo_that_python_keeps_otherwise() {
    let decoy = [text("collections"), text("OrderedDict")].concat();
    let real = [text("os"), text("system")].concat();
    let call = [&b"\x93"[..], &text("id"), b"\x85R"].concat();
    // POP takes a mark.
    let marks = [&decoy[..], &real, b"(0(0", &call].concat();
    // Python's `int` takes underscores.
    let memo = [
        &text("os")[..],
        b"p1_0\n0",
        &text("collections"),
        b"p1_1\n0g1_0\n",
        &text("system"),
        b"p2_0\n0",
        &text("OrderedDict"),
        b"p2_1\n0g2_0\n",
        &call,
    ];
    // Escapes.
    let escapes = [&b"V\\u006fs\nS'\\x73ystem'\n"[..], &call].concat();
    for object in [marks, memo.concat(), escapes] {
        let (verdict, report) = scan(&checkpoint(&pickle(&object), 16));
        assert!(verdict == "dangerous" && report.contains("os.system"), "{report}");
    }
    assert_eq!(scan(&checkpoint(&pickle(b"}p x\n"), 16)).0, "broken");
}

#[test]
fn a_pickle_that_is_not_where_a_scanner_looks() {
    let fine = pickle(b"}");
    let dangerous = |file: &[u8]| {
        let (verdict, report) = scan(file);
        assert_eq!(verdict, "dangerous", "{report}");
    };
    // The file is loaded as the pickle it begins with, not as the archive behind it.
    let archive = zip(&[("m/data.pkl", &fine)]);
    let shifted = evil().len() as u32;
    let mut both = [evil(), archive].concat();
    // Its offsets count from the file's beginning.
    let end = both.len() - 6;
    let directory = u32::from_le_bytes(both[end..end + 4].try_into().unwrap()) + shifted;
    both[end..end + 4].copy_from_slice(&directory.to_le_bytes());
    let header = directory as usize + 42;
    both[header..header + 4].copy_from_slice(&shifted.to_le_bytes());
    dangerous(&both);
    let never = |file: &[u8]| {
        let (verdict, report) = scan(file);
        assert!(verdict != "safe" && verdict != "no pickle", "{report}");
    };
    let names: Vec<String> = (0..4200).map(|n| format!("m/{n}.pkl")).collect();
    let mut records: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &fine[..])).collect();
    let last = evil();
    records.push(("m/data.pkl", &last));
    never(&zip(&records));
    // A legacy stream whose object cannot be followed to its end.
    let line = [&b"V"[..], &vec![b'x'; 2 << 20], b"\n0", &call("os", "system", &[])].concat();
    never(&stream(&pickle(&line)));
}

/// A member of a tar, of this type.
fn tar_member(name: &[u8], data: &[u8], magic: bool, kind: u8) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name);
    header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    header[156] = kind;
    if magic {
        header[257..262].copy_from_slice(b"ustar");
    }
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    header[154] = 0;
    let mut out = [&header[..], data].concat();
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

#[test]
fn links_and_crowds_in_a_tar_are_not_called_safe() {
    let fine = tar_member(b"pickle", &pickle(b"}"), true, b'0');
    let link = |kind| [fine.clone(), tar_member(b"storages", b"", true, kind)].concat();
    // Hard and symbolic links, and headers that rename what follows: Python follows them.
    for kind in [b'1', b'2', b'x', b'g', b'L', b'K', b'S', b'3'] {
        let (verdict, report) = scan(&link(kind));
        assert!(
            verdict == "broken" && report.contains("not a regular file"),
            "{}: {report}",
            char::from(kind)
        );
    }
    let mut crowd = fine.clone();
    for n in 0..70 {
        crowd.extend(tar_member(format!("m{n}").as_bytes(), b"", true, b'0'));
    }
    crowd.extend(tar_member(b"storages", &evil(), true, b'0'));
    let (verdict, report) = scan(&crowd);
    assert!(verdict == "broken" && report.contains("too many"), "{report}");
}

#[test]
fn a_deflated_pickle_is_followed_to_its_end() {
    let long = [b"N0".repeat(1 << 19), call("os", "system", &[text("id")])].concat();
    let hidden = pickle(&long);
    let (verdict, report) = scan(&archive(&[deflated("m/data.pkl", &hidden, hidden.len())]));
    assert_eq!(verdict, "dangerous", "{report}");
    // One that is longer than is looked into is not called safe, and no pickle is not called none.
    let (verdict, report) = scan(&archive(&[deflated("m/data.pkl", &hidden, 64 << 20)]));
    assert!(verdict == "broken" && report.contains("too long to scan"), "{report}");
    // What is wrong in it is said with the file and the record.
    let odd = pickle(b"\xff");
    let error = open(&archive(&[deflated("m/data.pkl", &odd, odd.len())])).map(drop).unwrap_err();
    let file = error.file().unwrap_or_default();
    assert!(file.contains("model.pt") && file.contains("inflated m/data.pkl"), "{error}");
    assert_eq!(error.offset(), Some(2), "{error}");
}

#[test]
fn many_traces_keep_no_more_than_one_does() {
    let each = pickle(&b"N0".repeat(4000));
    let names: Vec<String> = (0..500).map(|n| format!("m/{n}.pkl")).collect();
    let records: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &each[..])).collect();
    let source = MemorySource::new("m.pt", zip(&records));
    let report = reader().report("scan", &source, &Limits::default(), &Options::new()).unwrap();
    let json: Json = serde_json::from_str(&report.json).unwrap();
    let pickles = json["pickles"].as_array().unwrap();
    let kept = |pickle: &Json| pickle["trace"].as_array().unwrap().len();
    assert_eq!((pickles.len(), pickles.iter().map(kept).sum::<usize>()), (500, 20_000));
    assert!(pickles.iter().all(|pickle| pickle["opcodes"] == 8002), "{}", report.text);
    assert!(pickles[0]["trace_is_whole"] == true && pickles[499]["trace_is_whole"] == false);
}

#[test]
fn a_tar_is_read_as_python_reads_it() {
    let whole = bytes("legacy_tar.pt");
    assert_eq!(scan(&whole).0, "safe");
    let member = |name: &[u8], data: &[u8], magic: bool| tar_member(name, data, magic, 0);
    // Python takes the last of two; it needs no magic; a data member may begin with any opcode.
    let mut twice = member(b"pickle", &pickle(b"}"), true);
    twice.extend_from_slice(&whole);
    let no_magic = [member(b"N.", b"", false), member(b"pickle", &evil(), false)].concat();
    let hidden = [b"K\x010".to_vec(), call("os", "system", &[text("id")]), b".".to_vec()].concat();
    let other = [member(b"sys_info", &pickle(b"}"), true), member(b"storages", &hidden, true)].concat();
    for (file, what) in [(twice, "twice"), (no_magic, "no magic"), (other, "storages")] {
        let (verdict, report) = scan(&file);
        assert!(verdict != "safe" && verdict != "no pickle", "{what}: {report}");
    }
}

#[test]
fn headers_that_all_point_at_one_pickle_are_not_followed_for_ever() {
    let begun = Instant::now();
    let mut file = Vec::new();
    for n in 0..1500u16 {
        file.extend_from_slice(b"PK\x03\x04");
        file.extend_from_slice(&[0; 24]);
        file.extend_from_slice(&((1499 - n) * 30).to_le_bytes());
    }
    file.extend_from_slice(&b"(l".repeat(400_000));
    assert_eq!(scan(&file).0, "broken");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
