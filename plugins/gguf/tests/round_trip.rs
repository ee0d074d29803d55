//! What was read is written again.

use crate::fixture;
use apr_plugin_gguf::Gguf;
use apr_sdk::{
    Bytes, CheckedModel, Encoding, Foreign, ForeignFile, ForeignPolicy, LayoutRequest, LayoutSink,
    MemorySource, Model, Options, PartRequest, Result, Sum, Value, ValueType, Writer,
};

/// Little-endian version 3 fixtures of one file, laid out as this writer does.
const CANONICAL: [&str; 10] = [
    "small.gguf",
    "types.gguf",
    "nested.gguf",
    "long-values.gguf",
    "no-tensors.gguf",
    "align-8.gguf",
    "align-64.gguf",
    "align-4096.gguf",
    "shapes.gguf",
    "odd-values.gguf",
];

const SPLIT: [&str; 3] =
    ["split-00001-of-00003.gguf", "split-00002-of-00003.gguf", "split-00003-of-00003.gguf"];

fn request(foreign: ForeignPolicy) -> LayoutRequest {
    let mut request = LayoutRequest::file("out.gguf");
    request.foreign = foreign;
    request
}

#[test]
fn files_are_repeated_byte_for_byte() {
    for name in CANONICAL {
        for foreign in [ForeignPolicy::Default, ForeignPolicy::Typed, ForeignPolicy::Keep] {
            let source = fixture::source(&[name]);
            let files = fixture::rewrite(&source, &request(foreign)).unwrap();
            assert_eq!(files.len(), 1);
            assert_eq!(files[0].0, "out.gguf");
            assert!(files[0].1 == fixture::bytes(name), "{name} differs, {foreign:?}");
        }
    }
}

#[test]
fn unusual_padding_is_repeated_or_dropped_with_the_verbatim_form() {
    for name in ["unpadded.gguf", "odd-padding.gguf", "no-tensors-unpadded.gguf", "filled-padding.gguf"] {
        let source = fixture::source(&[name]);
        let files = fixture::rewrite(&source, &request(ForeignPolicy::Default)).unwrap();
        assert!(files[0].1 == fixture::bytes(name), "{name} differs");
        let files = fixture::rewrite(&source, &request(ForeignPolicy::Typed)).unwrap();
        assert!(files[0].1 != fixture::bytes(name), "{name}");
        assert_eq!(files[0].1.len() % 32, 0, "{name}");
        same_model(&source, &fixture::written(files), &Options::new());
    }
}

/// Compares names, dtypes, shapes, payloads and keys; the second model is little-endian version 3 in one file.
fn same_model(first: &MemorySource, second: &MemorySource, options: &Options) {
    let (a, b) = (fixture::open_with(first, options).unwrap(), fixture::open(second).unwrap());
    let facts = |model: &Model| -> Vec<_> {
        model.tensors.iter().map(|t| (t.name.clone(), t.dtype, t.shape.clone())).collect()
    };
    assert_eq!(facts(&a.model), facts(&b.model));
    assert_eq!(fixture::payloads(&a, first), fixture::payloads(&b, second));
    let keys = |model: &Model, source: &MemorySource| -> Vec<_> {
        let typed = &model.foreign_of("gguf").unwrap().files[0].typed;
        typed.iter().map(|(k, v)| (k.clone(), v.kind, fixture::value_bytes(v, source))).collect()
    };
    assert_eq!(keys(&a.model, first), keys(&b.model, second));
}

#[test]
fn other_versions_orders_and_offsets_keep_payloads_and_keys() {
    let gguf_py = Options::new().with("be-payload", "little");
    for (name, options) in [
        ("version-1.gguf", Options::new()),
        ("version-1-big-endian.gguf", Options::new()),
        ("version-2.gguf", Options::new()),
        ("version-2-big-endian.gguf", Options::new()),
        ("version-3-big-endian.gguf", Options::new()),
        ("big-endian.gguf", gguf_py),
        ("unsorted.gguf", Options::new()),
    ] {
        let source = fixture::source(&[name]);
        let opened = fixture::open_with(&source, &options).unwrap();
        let files =
            fixture::write(&opened, &opened.model, &source, &request(ForeignPolicy::Default)).unwrap();
        assert!(files[0].1.starts_with(b"GGUF\x03\0\0\0"), "{name}");
        same_model(&source, &fixture::written(files), &options);
    }
}

#[test]
fn a_big_endian_file_becomes_the_little_endian_one_of_the_same_content() {
    let source = fixture::source(&["big-endian.gguf"]);
    let opened = fixture::open_with(&source, &Options::new().with("be-payload", "little")).unwrap();
    let files = fixture::write(&opened, &opened.model, &source, &request(ForeignPolicy::Default)).unwrap();
    let again = fixture::rewrite(&fixture::written(files.clone()), &request(ForeignPolicy::Typed)).unwrap();
    assert!(files == again);
}

#[test]
fn parts_are_repeated_in_a_folder_and_merged_in_a_file() {
    for names in [SPLIT.map(str::to_owned), SPLIT.map(|name| name.replace("split-", "split-first-empty-"))] {
        let names = names.each_ref().map(String::as_str);
        let source = fixture::source(&names);
        let mut files = fixture::rewrite(&source, &LayoutRequest::folder("out")).unwrap();
        files.sort();
        for ((name, bytes), expected) in files.iter().zip(names) {
            assert_eq!(name, expected);
            assert!(*bytes == fixture::bytes(expected), "{name} differs");
        }
        let merged = fixture::rewrite(&source, &LayoutRequest::file("one.gguf")).unwrap();
        assert_eq!(merged.len(), 1);
        let one = fixture::written(merged);
        let model = fixture::open(&one).unwrap().model;
        assert_eq!((model.tensors.len(), model.foreign[0].files.len()), (5, 1));
        assert!(model.foreign[0].files[0].typed.iter().all(|(key, _)| !key.starts_with("split.")));
    }
}

#[test]
fn shards_hold_at_most_the_wanted_size() {
    let source = fixture::source(&SPLIT);
    let mut request = LayoutRequest::folder("big");
    // A tensor has 96 bytes, a multiple of the alignment: two fit.
    request.max_shard_size = Some(200);
    let files = fixture::rewrite(&source, &request).unwrap();
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["big-00001-of-00003.gguf", "big-00002-of-00003.gguf", "big-00003-of-00003.gguf"]);
    // As the Python package split them, but for the name.
    for ((_, bytes), expected) in files.iter().zip(SPLIT) {
        assert!(*bytes == fixture::bytes(expected), "{expected} differs");
    }
    request.max_shard_size = Some(1);
    assert_eq!(fixture::rewrite(&source, &request).unwrap().len(), 5);
    request.max_shard_size = Some(1 << 20);
    let files = fixture::rewrite(&source, &request).unwrap();
    assert_eq!((files.len(), files[0].0.as_str()), (1, "big.gguf"));
}

#[test]
fn every_shard_states_an_unusual_alignment() {
    let source = fixture::source(&["align-64.gguf"]);
    let mut request = LayoutRequest::folder("out");
    request.max_shard_size = Some(128);
    let files = fixture::rewrite(&source, &request).unwrap();
    assert_eq!(files.len(), 5);
    let opened = fixture::open(&fixture::written(files)).unwrap();
    for file in &opened.model.foreign[0].files {
        assert_eq!(file.get("general.alignment").and_then(Value::as_u32), Some(64));
        assert_eq!(file.get("split.tensors.count").and_then(Value::as_i32), Some(5));
    }
}

#[test]
fn a_set_that_an_edit_put_wrong_can_still_be_opened() {
    let source = fixture::source(&SPLIT);
    let opened = fixture::open(&source).unwrap();
    let mut model = opened.model.clone();
    let file = &mut model.foreign_mut("gguf").files[0];
    file.typed.retain(|(key, _)| key != "split.count");
    file.set("split.no", Value::from_u16(9));
    let files = fixture::write(&opened, &model, &source, &LayoutRequest::folder("out")).unwrap();
    fixture::open(&fixture::written(files)).unwrap();
}

#[test]
fn a_model_of_another_format_gets_no_made_up_keys() {
    let source = fixture::source(&["types.gguf"]);
    let opened = fixture::open(&source).unwrap();
    let mut model = opened.model.clone();
    model.foreign.clear();
    let files = fixture::write(&opened, &model, &source, &request(ForeignPolicy::Default)).unwrap();
    let keys = fixture::open(&fixture::written(files)).unwrap().model.foreign[0].files[0].typed.clone();
    // There are block types, so their version must be stated.
    assert_eq!(keys, [("general.quantization_version".to_owned(), Value::from_u32(2))]);
}

#[test]
fn other_formats_metadata_is_carried_when_asked() {
    let source = fixture::source(&["small.gguf"]);
    let opened = fixture::open(&source).unwrap();
    let mut model = opened.model.clone();
    let other = Foreign {
        format: "safetensors".to_owned(),
        files: vec![ForeignFile {
            name: "x".to_owned(),
            n_tensors: 5,
            // Long enough for the whole text not to be held.
            typed: vec![
                ("k".to_owned(), Value::from_strings(&["a", "b"])),
                ("long".to_owned(), Value::from_string("x".repeat(100_000))),
            ],
            verbatim: Some(Bytes::from(&[0, 255][..])),
        }],
    };
    // The record that every reader leaves says nothing.
    model.foreign.push(Foreign { files: vec![ForeignFile::default()], ..other.clone() });
    let files = fixture::write(&opened, &model, &source, &request(ForeignPolicy::Keep)).unwrap();
    assert!(files[0].1 == fixture::bytes("small.gguf"));
    *model.foreign_mut("safetensors") = other.clone();
    let files = fixture::write(&opened, &model, &source, &request(ForeignPolicy::Default)).unwrap();
    assert!(files[0].1 == fixture::bytes("small.gguf"));
    let files = fixture::write(&opened, &model, &source, &request(ForeignPolicy::Keep)).unwrap();
    let kept = fixture::written(files.clone());
    let again = fixture::open(&kept).unwrap();
    assert_eq!(again.model.foreign_of("safetensors"), Some(&other));
    assert_eq!(again.model.foreign_of("gguf"), opened.model.foreign_of("gguf"));
    let repeated = fixture::write(&again, &again.model, &kept, &request(ForeignPolicy::Keep)).unwrap();
    assert!(repeated == files);
}

/// A sink that only counts: how many bytes are handed over as they lie in a file, how many are held, what is fetched.
#[derive(Default)]
struct Counts {
    copied: u64,
    inline: u64,
    fetched: u64,
}

impl LayoutSink for Counts {
    fn file(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }
    fn entry(&mut self) -> Result<()> {
        Ok(())
    }
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.inline += bytes.len() as u64;
        Ok(())
    }
    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.copied += bytes.len();
        Ok(())
    }
    fn payload(&mut self, _tensor: u64, _align: u64, _encoding: Encoding) -> Result<()> {
        Ok(())
    }
    fn pad_to(&mut self, _n: u64) -> Result<()> {
        Ok(())
    }
    fn hole(&mut self, _id: u32, _len: u64) -> Result<()> {
        Ok(())
    }
    fn part(&mut self, _part: PartRequest<'_>) -> Result<()> {
        Ok(())
    }
    fn digest(&mut self, _sum: Sum) -> Result<()> {
        Ok(())
    }
    fn position(&self) -> Option<u64> {
        None
    }
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        self.fetched += bytes.len();
        Ok(bytes.clone())
    }
    fn note(&mut self, _note: &str) {}
}

#[test]
fn long_values_are_copied_not_fetched() {
    let source = fixture::source(&["long-values.gguf"]);
    let model = fixture::open(&source).unwrap().model;
    let mut counts = Counts::default();
    let model = CheckedModel::new(model, &fixture::carries()).unwrap();
    Gguf.layout(&model, &request(ForeignPolicy::Default), &mut counts).unwrap();
    assert_eq!(counts.fetched, 0);
    assert!(
        counts.copied > Bytes::INLINE_LIMIT && counts.inline < 1000,
        "{} {}",
        counts.copied,
        counts.inline
    );
}

#[test]
fn says_what_llama_cpp_does_not_load() {
    for (name, notes) in [("nested.gguf", 1), ("small.gguf", 0)] {
        let source = fixture::source(&[name]);
        let opened = fixture::open(&source).unwrap();
        let payload = |n| opened.payload(n, &source);
        let request = request(ForeignPolicy::Default);
        let rendered =
            apr_testkit::render(&Gguf, &fixture::carries(), &opened.model, &source, &payload, &request)
                .unwrap();
        assert_eq!(rendered.notes.len(), notes, "{:?}", rendered.notes);
    }
}

#[test]
fn refuses_what_the_format_cannot_hold() {
    let source = fixture::source(&["small.gguf"]);
    let opened = fixture::open(&source).unwrap();
    let refused = |edit: &dyn Fn(&mut Model)| {
        let mut model = opened.model.clone();
        edit(&mut model);
        fixture::write(&opened, &model, &source, &request(ForeignPolicy::Default)).unwrap_err()
    };
    let error = refused(&|model| model.tensors[0].name = "n".repeat(64));
    assert!(error.message().contains("names of at most 63 bytes, this has 64"), "{error}");
    let error = refused(&|model| model.tensors[0].name = "a\0b".to_owned());
    assert!(error.message().contains("control characters in a name"), "{error}");
    let error = refused(&|model| model.tensors[1].shape = vec![1, 1, 1, 1, 16]);
    assert!(error.message().contains("at most 4 dimensions, this has 5"), "{error}");
    let error = refused(&|model| model.tensors[1].dtype = apr_sdk::DType::U32);
    assert!(error.message().contains("cannot hold U32"), "{error}");
    for (value, text) in [
        (Value::from_u64(32), "its type is u64"),
        (Value::from_u32(48), "48 is not a power"),
        (Value { kind: ValueType::U32, bytes: Bytes::from(&[0; 4][..]) }, "0 is not a power"),
    ] {
        let error = refused(&|model| model.foreign[0].files[0].set("general.alignment", value.clone()));
        assert!(error.message().contains(text), "{error}");
    }
}
