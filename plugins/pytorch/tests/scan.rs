//! What `scan` and `list-keys` say, of files that open and of files that do not.

use crate::fixture::{bytes, open, reader, single_files};
use crate::forge::{call, checkpoint, global, int, named, pickle, storage, stream, tensor, text, tuple, zip};
use apr_sdk::{Limits, MemorySource, Options, Report};
use serde_json::Value as Json;
use std::io::Write;

fn report(id: &str, bytes: &[u8]) -> (Report, Json) {
    let source = MemorySource::new("m.pt", bytes);
    let report = reader().report(id, &source, &Limits::default(), &Options::new()).unwrap();
    let json = serde_json::from_str(&report.json).unwrap();
    (report, json)
}

/// Flagged by `scan`, with this name and verdict; and refused on load.
fn flagged(file: &[u8], name: &str, verdict: &str) {
    let (report, json) = report("scan", file);
    assert!(!report.passed, "{name}: {}", report.text);
    assert_eq!(json["verdict"], verdict, "{name}: {}", report.text);
    let mut names = json["pickles"].as_array().unwrap().iter().flat_map(|p| p["names"].as_array().unwrap());
    assert!(names.any(|found| found["name"] == name), "{name}: {}", report.text);
    assert!(report.text.contains(name), "{}", report.text);
    assert!(open(file).is_err(), "{name} opens");
}

fn evil() -> Vec<u8> {
    call("os", "system", &[text("id")])
}

#[test]
fn what_torch_wrote_is_safe() {
    for name in single_files() {
        let (report, json) = report("scan", &bytes(&name));
        assert!(report.passed, "{name}: {}", report.text);
        assert_eq!(json["schema"], "pytorch.scan/1");
        assert_eq!(
            json["pickles"].as_array().unwrap().iter().filter(|p| p["opcodes"] == 0).count(),
            0,
            "{name}"
        );
    }
}

#[test]
fn dangerous_names_are_found_in_every_layout() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("runpy", "_run_code"),
        ("pip", "main"),
        ("numpy.testing._private.utils", "runstring"),
        ("torch", "load"),
        ("torch.serialization", "load"),
        ("_codecs", "decode"),
        ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
        ("idlelib.autocomplete", "AutoComplete.get_entity"),
        ("cProfile", "runctx"),
    ] {
        let full = format!("{module}.{name}");
        let object = pickle(&call(module, name, &[text("id")]));
        flagged(&checkpoint(&object, 16), &full, "dangerous");
        flagged(&stream(&object), &full, "dangerous");
        flagged(&object, &full, "dangerous");
        flagged(format!("c{module}\n{name}\n(S'id'\ntR.").as_bytes(), &full, "dangerous");
        flagged(format!("(S'id'\ni{module}\n{name}\n.").as_bytes(), &full, "dangerous");
        let stack = [text(module), b"q\0".to_vec(), text(name), b"q\x010h\0h\x01\x93)R".to_vec()].concat();
        flagged(&checkpoint(&pickle(&stack), 16), &full, "dangerous");
    }
    flagged(&pickle(&call("omegaconf.nodes", "AnyNode", &[])), "omegaconf.nodes.AnyNode", "unknown");
}

#[test]
fn tricks_that_hide_a_pickle_from_scanners() {
    let evil_pickle = pickle(&evil());
    let fine = pickle(b"}");
    // A second pickle behind the first; a record under another name; inside a storage; behind a broken opcode.
    flagged_only(&[fine.clone(), evil_pickle.clone()].concat());
    flagged_only(&[stream(&fine), evil_pickle.clone()].concat());
    flagged_only(&zip(&[("m/data.pkl", &fine), ("m/notes.txt", &evil_pickle)]));
    flagged_only(&zip(&[("m/data.pkl", &fine), ("m/data/0", &evil_pickle)]));
    flagged_only(&zip(&[("m/data.pkl", &fine), ("m/constants.pkl", &evil_pickle)]));
    flagged_only(&zip(&[("config.p", &evil_pickle)]));
    flagged_only(&zip(&[("a/data.pkl", &fine), ("b/data.pkl", &evil_pickle)]));
    flagged_only(&[b"\x80\x02", &evil()[..], b"\xff\xff"].concat());
    flagged_only(&[b"\x80\x02", &evil()[..]].concat());
    flagged_only(&[b"\x80\x02", &evil()[..], b"X\xff\xff\xff\x7f"].concat());
    // An archive without its directory, with a lying one, with two entries of one name.
    let whole = zip(&[("m/data.pkl", &evil_pickle)]);
    flagged_only(&whole[..whole.len() - 30]);
    let mut lying = whole.clone();
    let at = lying.len() - 6;
    lying[at] ^= 1;
    flagged_only(&lying);
    flagged_only(&zip(&[("m/data.pkl", &evil_pickle), ("m/data.pkl", &fine)]));
    let mut encrypted = whole.clone();
    encrypted[6] |= 1;
    flagged_only(&encrypted);
    // A pickle before an archive.
    flagged_only(&[evil_pickle.clone(), whole].concat());
    // A pickle inside a pickle: the inner one is loaded by a name.
    let inner = call("pickle", "loads", &[[b"C", &[evil_pickle.len() as u8][..], &evil_pickle].concat()]);
    flagged_only(&checkpoint(&pickle(&inner), 16));
    // The call made by NEWOBJ, OBJ or BUILD instead of REDUCE.
    flagged_only(&pickle(&[global("os", "system"), tuple(&[text("id")]), b"\x81".to_vec()].concat()));
    flagged_only(&pickle(&[b"(".to_vec(), global("os", "system"), text("id"), b"o".to_vec()].concat()));
    flagged_only(&pickle(b"\x82\x01)R"));
    flagged_only(&pickle(&[int(1), text("x"), b"\x93".to_vec()].concat()));
    // A carriage return or a space in the name.
    flagged_only(b"cos\r\nsystem\r\n(S'id'\ntR.");
    flagged_only(b"\x80\x02c os\nsystem\n)R.");
}

fn flagged_only(file: &[u8]) {
    let (report, json) = report("scan", file);
    assert!(!report.passed && json["verdict"] == "dangerous", "{}", report.text);
}

#[test]
fn calls_and_offsets_are_told() {
    let (report, json) = report("scan", &pickle(&evil()));
    let name = &json["pickles"][0]["names"][0];
    assert_eq!((&name["first"]["at"], &name["first"]["opcode"]), (&Json::from(2), &Json::from("GLOBAL")));
    assert_eq!(name["called"][0]["opcode"], "REDUCE");
    assert_eq!(json["pickles"][0]["trace"][1][2], "os.system");
    assert_eq!(json["pickles"][0]["trace_is_whole"], true);
    assert!(
        report.text.ends_with("verdict: dangerous: loading it elsewhere would run code"),
        "{}",
        report.text
    );
}

#[test]
fn files_without_a_pickle_or_with_a_broken_one_do_not_pass() {
    for (file, verdict) in [
        (Vec::new(), "no pickle"),
        (b"\x80\x02}X".to_vec(), "broken"),
        (bytes("state_dict.pth")[..100].to_vec(), "broken"),
    ] {
        let (report, json) = report("scan", &file);
        assert!(!report.passed && json["verdict"] == verdict, "{}", report.text);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar of one member of this kind, whose size is written like this.
fn tar(name: &str, kind: u8, size: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..124 + size.len()].copy_from_slice(size);
    header[148..156].fill(b' ');
    header[156] = kind;
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = [&header[..], bytes].concat();
    out.resize(out.len().next_multiple_of(512) + 1024, 0);
    out
}

fn octal(bytes: &[u8]) -> Vec<u8> {
    format!("{:011o}\0", bytes.len()).into_bytes()
}

#[test]
fn pickles_are_found_in_archives_and_compressed_files() {
    let evil = pickle(&evil());
    let in_tar = tar("weights.dat", b'0', &octal(&evil), &evil);
    let in_zip = zip(&[("a/weights.dat", &evil)]);
    let array = [b"\x93NUMPY\x01\0\x0e\0{'descr': '|O'", &evil[..]].concat();
    for file in [&evil, &in_tar, &in_zip, &array, &checkpoint(&evil, 16)] {
        flagged_only(&gzip(file));
        flagged_only(&zlib(file));
        flagged_only(&zip(&[("x", file)]));
        flagged_only(&tar("x", b'0', &octal(file), file));
        flagged_only(&gzip(&tar("x", b'0', &octal(file), file)));
    }
    // Cut off, or with something behind; two streams in one file; behind the end of the tar; behind a folder that states a size.
    flagged_only(&gzip(&[evil.clone(), (0..=255).collect()].concat())[..evil.len() + 30]);
    flagged_only(&[gzip(b"}"), gzip(&evil)].concat());
    flagged_only(&[tar("a", b'0', b"0", b""), in_tar.clone()].concat());
    flagged_only(&[&tar("a", b'5', &octal(&in_tar), b"")[..512], &in_tar].concat());
    // A size in binary, and one in a header of its own.
    let binary = [b"\x80\0\0\0".to_vec(), (evil.len() as u64).to_be_bytes().to_vec()].concat();
    flagged_only(&tar("x", b'0', &binary, &evil));
    let record = format!("12 size={:03}\n", evil.len());
    let said = tar("x", b'x', &octal(record.as_bytes()), record.as_bytes());
    flagged_only(&[&said[..1024], &tar("x", b'0', b"00000000001\0", &evil)].concat());
}

#[test]
fn what_is_not_looked_into_does_not_pass() {
    let deep = (0..6).fold(b"hello".to_vec(), |inner, _| gzip(&inner));
    let harmless = tar("x", b'0', &octal(b"hello"), b"hello");
    let bomb = gzip(&[b"\x80\x02X\xff\xff\xff\x0f".to_vec(), vec![0; 300 << 20]].concat());
    for (file, why) in [
        (b"\xfd7zXZ\0\0\x04".to_vec(), "apr does not read xz"),
        (zip(&[("a.bz2", b"BZh91AY&SY")]), "a.bz2: it is not looked into: apr does not read bzip2"),
        (deep, "nested too deeply"),
        (tar("x", b'0', b"00000010000\0", b""), "extends past the end"),
        (tar("x", b'S', b"0", b""), "sparse"),
        ([&harmless[..1024], &[b'x'; 512]].concat(), "header is damaged"),
        ([zlib(b"hello"), b"more".to_vec()].concat(), "something follows"),
        (bomb, "budget"),
    ] {
        let (report, json) = report("scan", &file);
        assert!(!report.passed && json["verdict"] == "broken", "{}", report.text);
        assert!(report.text.contains(why), "{why}: {}", report.text);
    }
}

#[test]
fn archives_without_pickles_and_with_checkpoints_pass() {
    let whole = bytes("state_dict.pth");
    for file in [
        zip(&[("x.txt", b"hello")]),
        zip(&[]),
        gzip(b"hello"),
        tar("x", b'0', &octal(b"hello"), b"hello"),
        tar("x/", b'5', b"0", b""),
        tar("model.ckpt", b'0', &octal(&whole), &whole),
        gzip(&whole),
        zip(&[("model.pt", &whole), ("config.json", b"{}")]),
    ] {
        let (report, json) = report("scan", &file);
        assert!(report.passed && json["verdict"] == "safe", "{}", report.text);
    }
}

#[test]
fn list_keys_counts_tensors_below_each_path() {
    let (report, json) = report("list-keys", &bytes("nested.pt"));
    let lines: Vec<_> = report.text.lines().collect();
    assert_eq!(
        lines,
        [
            "4 tensors, 32 bytes",
            "ema: 3 tensors, 24 bytes",
            "  ema.1: 2 tensors, 20 bytes",
            "model: 1 tensors, 8 bytes"
        ]
    );
    assert_eq!(json["paths"][1]["path"], "ema.1");
    let value = tensor(storage("FloatStorage", 4), 0, &[4], &[1]);
    assert!(self::report("list-keys", &checkpoint(&named(&value), 16)).0.passed);
}
