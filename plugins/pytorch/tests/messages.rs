//! What is said: one case for each message that misled somebody once.

use crate::fixture::{FORMAT, bytes, open, reader};
use crate::forge::{call, checkpoint, global, int, named, pickle, storage, tensor, text, tuple};
use apr_sdk::{Error, ErrorKind, Limits, MemorySource, Options, Report};
use serde_json::Value as Json;

fn scan(file: &[u8]) -> (Report, Json) {
    let source = MemorySource::new("m.pt", file);
    let report = reader().report("scan", &source, &Limits::default(), &Options::new()).unwrap();
    let json = serde_json::from_str(&report.json).unwrap();
    (report, json)
}

#[test]
fn a_key_twice_in_an_index_is_refused() {
    let index = |text: &str| -> Error {
        let source =
            MemorySource::new("pytorch_model.bin.index.json", text).with("a.bin", "").with("b.bin", "");
        apr_testkit::read(&*reader(), FORMAT, &source, &Options::new()).map(drop).unwrap_err()
    };
    for text in [
        r#"{"weight_map": {"k": "a.bin", "k": "b.bin"}}"#,
        r#"{"weight_map": {"x": "a.bin"}, "metadata": {"k": 1, "k": 2}}"#,
        r#"{"k": 1, "weight_map": {"x": "a.bin"}, "k": {}}"#,
    ] {
        let error = index(text);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(error.message().contains("duplicate key `k`"), "{error}");
        assert!(error.offset().is_some_and(|at| at > 0), "{error}");
    }
}

#[test]
fn a_checkpoint_without_a_tensor_says_so() {
    let (_, model, _) = open(&bytes("no_tensors.pt")).unwrap();
    assert!(model.notes.iter().any(|note| note.contains("contains no tensors")), "{:?}", model.notes);
    let (_, model, _) = open(&bytes("tensor.pt")).unwrap();
    assert_eq!(model.notes, [""; 0]);
}

#[test]
fn scan_calls_nothing_safe_that_does_not_open() {
    let doubling: Vec<u8> = (0..20u8)
        .flat_map(|n| [b"0](".to_vec(), [b'h', n].repeat(10), vec![b'e', b'q', n + 1]].concat())
        .collect();
    let sparse = named(&call("torch._utils", "_rebuild_sparse_tensor", &[]));
    let short = named(&tensor(storage("FloatStorage", 5), 0, &[5], &[1]));
    for (object, why) in [
        (b"\x80\x02]q\0h\0a.".to_vec(), "contains itself"),
        ([b"\x80\x02]q\0", &doubling[..], b"."].concat(), "too often to be expanded"),
        (b"\x80\x04\x95\xff\xff\0\0\0\0\0\0}.".to_vec(), "a frame of 65535 bytes"),
        (sparse, "a sparse tensor"),
        (short, "the record has 16 bytes"),
    ] {
        let file = checkpoint(&object, 16);
        assert!(open(&file).is_err(), "{why}");
        let (report, json) = scan(&file);
        assert!(!report.passed && json["verdict"] == "does not load", "{}", report.text);
        assert!(json["refused"].as_str().unwrap().contains(why), "{json}");
        let last = report.text.lines().last().unwrap();
        assert!(last.starts_with("verdict: does not load: it only imports"), "{last}");
        assert!(last.contains(why), "{last}");
    }
}

#[test]
fn scan_counts_as_people_do() {
    let value = tensor(storage("FloatStorage", 4), 0, &[4], &[1]);
    let one = call("torch", "device", &[text("cpu")]);
    let object = pickle(&tuple(&[value.clone(), value, one]));
    let (report, _) = scan(&checkpoint(&object, 16));
    assert!(report.text.contains("torch.device: named once, first at"), "{}", report.text);
    assert!(report.text.contains("called once, first at"), "{}", report.text);
    assert!(report.text.contains("torch._utils._rebuild_tensor_v2: named 2 times"), "{}", report.text);
    assert!(!report.text.contains("1 times"), "{}", report.text);
}

#[test]
fn types_that_are_not_carried_say_so_with_a_way_out() {
    for (name, way) in [
        ("complex32", "complex64"),
        ("quint4x2", "dequantize"),
        ("quint2x4", "dequantize"),
        ("uint4", "uint8"),
        ("bits8", "uint8"),
    ] {
        let hooks = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
        let numbers = |n| tuple(&[int(n)]);
        let items = [
            [
                tuple(&[
                    text("storage"),
                    global("torch.storage", "UntypedStorage"),
                    text("0"),
                    text("cpu"),
                    int(16),
                ]),
                b"Q".to_vec(),
            ]
            .concat(),
            int(0),
            numbers(4),
            numbers(1),
            b"\x89".to_vec(),
            hooks,
            global("torch", name),
        ];
        let error = open(&checkpoint(&named(&call("torch._utils", "_rebuild_tensor_v3", &items)), 16))
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains(&format!("`torch.{name}`")), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains(way)), "{name}: {:?}", error.hint_text());
    }
    // By the class of its storage, as torch writes it.
    let value = tensor(storage("ComplexHalfStorage", 4), 0, &[4], &[1]);
    let error = open(&checkpoint(&named(&value), 16)).map(drop).unwrap_err();
    assert!(error.message().contains("`torch.complex32`"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("complex64")), "{:?}", error.hint_text());
}

#[test]
fn codes_that_share_bytes_are_read_whole_and_in_order() {
    let opened = |class: &str, bytes: i64, offset: i64, size: &[i64], stride: &[i64]| {
        open(&checkpoint(&named(&tensor(storage(class, bytes), offset, size, stride)), 16)).map(drop)
    };
    // A storage may be longer than the codes need.
    for (class, bytes, size) in [("QUInt4x2Storage", 6, [3, 3]), ("QUInt2x4Storage", 4, [3, 4])] {
        opened(class, bytes, 0, &size, &[size[1], 1]).unwrap();
        let errors = [
            (opened(class, bytes, 1, &[2], &[1]), ErrorKind::Unsupported, "a view of some of them"),
            (opened(class, bytes, 0, &[2, 3], &[1, 2]), ErrorKind::Unsupported, "in a different order"),
            (opened(class, 2, 0, &[3, 3], &[3, 1]), ErrorKind::Malformed, "its storage has 2"),
        ];
        for (error, kind, word) in errors {
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.tensor_name().is_some()), (kind, true), "{class}: {error}");
            assert!(error.message().contains(word), "{class}: {error}");
        }
    }
}

#[test]
fn list_keys_says_where_it_fails() {
    let wide = named(&tensor(storage("LongStorage", 2), 0, &[1 << 62], &[0]));
    for object in [wide, b"\x80\x02]q\0h\0a.".to_vec()] {
        let source = MemorySource::new("m.pt", checkpoint(&object, 16));
        let error = reader().report("list-keys", &source, &Limits::default(), &Options::new()).unwrap_err();
        assert!(error.offset().is_some() && error.file().is_some(), "{error}");
    }
}
