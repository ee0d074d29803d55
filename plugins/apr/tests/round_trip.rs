//! What is written comes back, and is written again byte for byte.

use crate::setup::{Fixture, cut, fixture, open, open_parts, open_source, request, simple, with};
use apr_sdk::{
    Bytes, Checksum, DType, Extent, Fact, ForeignPolicy, LayoutRequest, MemorySource, ModelSink, Sum, Value,
    ValueType,
};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn keeps_order_dtypes_shapes_and_payload() {
    let made = simple();
    let back = made.again();
    assert_eq!(back.names(), ["b", "a"]);
    assert_eq!(back.model.tensors[0].shape, [2, 3]);
    assert_eq!(back.model.tensors[1].dtype, DType::Q8_0);
    assert_eq!(back.model.dialect, "gguf");
    for name in ["a", "b"] {
        assert_eq!(back.payload(name), made.payload(name));
    }
    assert!(back.model.foreign.is_empty() && back.model.notes.is_empty());
    assert_eq!(back.file(), made.file());
}

#[test]
fn files_of_an_independent_writer_are_written_again_byte_for_byte() {
    for name in ["carried.apr", "every_dtype.apr", "empty.apr", "other_program.apr"] {
        let file = std::fs::read(data(name)).unwrap();
        assert_eq!(open(file.clone()).unwrap().file(), file, "{name}");
    }
}

#[test]
fn shards_are_written_again_byte_for_byte() {
    let (whole, _) = open_parts(&data("sharded"), "m.apr");
    for (request, what) in [(LayoutRequest::folder("other"), "as they were"), (cut("m", 40), "cut again")] {
        let files = whole.write(&request).unwrap();
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["m.apr", "m-00001-of-00003.apr", "m-00002-of-00003.apr", "m-00003-of-00003.apr"]);
        for (name, bytes) in files {
            assert_eq!(bytes, std::fs::read(data("sharded").join(&name)).unwrap(), "{name} {what}");
        }
    }
    let one = whole.write(&LayoutRequest::file("one.apr")).unwrap();
    let back = open(one[0].1.clone()).unwrap();
    assert_eq!(back.names(), ["b", "a", "c", "d"]);
    assert_eq!(back.model.architecture.as_ref().unwrap().id, "llama");
}

/// A model with everything that a model can have.
fn full(sink: &mut dyn ModelSink, extra: u64) {
    sink.fact(Fact::Dialect("hf")).unwrap();
    sink.fact(Fact::Architecture("whisper", r#"{ "n_mels": 80 }"#.into())).unwrap();
    sink.fact(Fact::Recipe("Q4_K_M")).unwrap();
    sink.fact(Fact::Tokenizer("{\"schema\": 1}\n".into())).unwrap();
    sink.fact(Fact::ModelCard(r#"{"name":"é"}"#.into())).unwrap();
    sink.asset("README.md", "# é".into()).unwrap();
    sink.asset("big.bin", Extent::new(0, extra, 70_000).into()).unwrap();
    sink.asset("small.bin", Extent::new(0, extra, 3).into()).unwrap();
    for (name, n) in [("one", 1), ("two", 2)] {
        sink.foreign_file("toy", name, n).unwrap();
        sink.foreign("z", Value::from_string([0xff, 0])).unwrap();
        sink.foreign("a", Value::from_items(ValueType::U8, 70_000, &vec![7; 70_000])).unwrap();
        sink.foreign("", Value::from_f64(f64::NEG_INFINITY)).unwrap();
        sink.verbatim(Extent::new(0, extra, 65_537).into()).unwrap();
    }
    sink.foreign_file("bare", "", 3).unwrap();
}

fn full_fixture() -> Fixture {
    let extra: Vec<u8> = (0..70_000u32).map(|n| (n % 253) as u8).collect();
    let tensors: &[(&str, DType, &[u64])] =
        &[("t", DType::F32, &[2]), ("empty", DType::F32, &[0]), ("a\0\n", DType::I4, &[3])];
    fixture(tensors, &extra, &full)
}

#[test]
fn carries_everything_and_then_the_same_bytes() {
    let made = full_fixture();
    let back = made.again();
    let held = |fixture: &Fixture, bytes: &Bytes| fixture.fetch(bytes);
    assert_eq!(back.names(), made.names());
    assert_eq!((&back.model.dialect, &back.model.recipe), (&made.model.dialect, &made.model.recipe));
    let strings = |fixture: &Fixture| -> Vec<Vec<u8>> {
        let model = &fixture.model;
        let facts =
            model.architecture.iter().map(|a| &a.config).chain(&model.tokenizer).chain(&model.model_card);
        let assets = model.assets.iter().map(|a| &a.bytes);
        let files = model.foreign.iter().flat_map(|f| &f.files);
        let foreign = files.flat_map(|f| f.typed.iter().map(|(_, v)| &v.bytes).chain(&f.verbatim));
        facts.chain(assets).chain(foreign).map(|bytes| held(fixture, bytes)).collect()
    };
    assert!(strings(&back) == strings(&made));
    let shape = |fixture: &Fixture| -> Vec<String> {
        let files =
            fixture.model.foreign.iter().flat_map(|f| f.files.iter().map(|file| (f.format.clone(), file)));
        let shown = files.map(|(format, f)| {
            let keys: Vec<_> = f.typed.iter().map(|(k, v)| (k, v.kind)).collect();
            format!("{format} {} {} {keys:?} {}", f.name, f.n_tensors, f.verbatim.is_some())
        });
        shown.collect()
    };
    assert_eq!(shape(&back), shape(&made));
    assert!(back.model.foreign_of("apr").is_none());
    assert_eq!(back.file(), made.file());
    assert_eq!(back.model.architecture.as_ref().unwrap().id, "whisper");
}

#[test]
fn policies_leave_out_what_they_say() {
    let made = full_fixture();
    let written = |policy| {
        let request = with(|r| r.foreign = policy);
        open(made.write(&request).unwrap().remove(0).1).unwrap().model
    };
    let typed = written(ForeignPolicy::Typed);
    let files = &typed.foreign_of("toy").unwrap().files;
    assert!(files.len() == 2 && files.iter().all(|f| f.typed.len() == 3 && f.verbatim.is_none()));
    let drop = written(ForeignPolicy::Drop);
    assert!(drop.foreign.is_empty() && drop.assets.len() == 3 && drop.tokenizer.is_some());
    assert_eq!(drop.model_card, Some(r#"{"name":"é"}"#.into()));
    assert!(written(ForeignPolicy::Keep).foreign_of("toy").unwrap().files[0].verbatim.is_some());
}

#[test]
fn text_of_other_programs_is_used_only_while_it_holds() {
    let file = std::fs::read(data("other_program.apr")).unwrap();
    let back = open(file.clone()).unwrap();
    let text = |bytes: &[u8]| {
        let size = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        String::from_utf8(bytes[32..32 + size].to_vec()).unwrap()
    };
    let typed = back.write(&with(|r| r.foreign = ForeignPolicy::Typed)).unwrap().remove(0).1;
    let compact = text(&typed);
    assert!(
        compact.starts_with(r#"{"apr_version":"2.0.0","model_type":"whisper","architecture":{"#),
        "{compact}"
    );
    assert!(compact.contains(r#""mel_filterbank_shape":["#) && compact.contains("1e-30"), "{compact}");
    let mut changed = Fixture { model: back.model.clone(), source: back.source };
    changed.model.dialect = "hf".to_owned();
    let anew = text(&changed.file());
    assert!(anew.contains(r#""dialect":"hf""#) && anew.contains("\"vocab\":[\n"), "{anew}");
    let dropped = changed.write(&with(|r| r.foreign = ForeignPolicy::Drop)).unwrap().remove(0).1;
    assert!(!text(&dropped).contains("\"vocab\""));
    assert_ne!(typed, file);
}

#[test]
fn provenance_is_made_once_and_then_kept() {
    let made = simple();
    let back = made.again();
    let text = String::from_utf8(back.fetch(back.model.provenance.as_ref().unwrap())).unwrap();
    let payload = [made.payload("b"), made.payload("a")].concat();
    let crc = crc32fast::hash(&payload);
    let wanted =
        format!(r#"{{"versions":{{"apr":"0.1.0"}},"inputs":[{{"bytes":1234,"crc32":"{crc:08x}"}}]}}"#);
    assert_eq!(text, wanted);
    let mut later = request();
    later.versions = vec![("apr".to_owned(), "9.9.9".to_owned())];
    assert_eq!(back.write(&later).unwrap(), back.write(&request()).unwrap());
}

#[test]
fn empty_tensors_keep_their_place() {
    let tensors: &[(&str, DType, &[u64])] = &[
        ("z", DType::U8, &[0]),
        ("y", DType::F32, &[0, 7]),
        ("x", DType::U8, &[1]),
        ("w", DType::U8, &[2, 0]),
        ("v", DType::U8, &[64]),
        ("u", DType::U8, &[0]),
        ("t", DType::U8, &[0]),
    ];
    let made = fixture(tensors, &[], &|_, _| {});
    let back = made.again();
    assert_eq!(back.names(), made.names());
    assert_eq!(back.file(), made.file());
}

#[test]
fn folders_hold_one_file_unless_asked() {
    let made = simple();
    let names = |request: &LayoutRequest| -> Vec<String> {
        made.write(request).unwrap().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&LayoutRequest::folder("model")), ["model.apr"]);
    let roomy = cut("model", 1 << 30);
    assert_eq!(names(&roomy), ["model.apr"]);
    let tight = cut("model", 1);
    assert_eq!(names(&tight), ["model.apr", "model-00001-of-00002.apr", "model-00002-of-00002.apr"]);
}

/// Whether every stored checksum of a model is that of the bytes it covers.
fn intact(fixture: &Fixture) -> bool {
    let sums = &fixture.model.checksums;
    assert!(!sums.is_empty());
    sums.iter().all(|Checksum { covers, stored, sum, .. }| {
        let computed = crc32fast::hash(&fixture.fetch(&Bytes::Extent(*covers)));
        sum.crc32(&fixture.fetch(stored)).unwrap() == Some(computed)
    })
}

#[test]
fn every_flipped_byte_is_refused_or_caught_by_the_checksum() {
    let file = full_fixture_small().file();
    assert!(intact(&open(file.clone()).unwrap()));
    let (mut refused, mut caught) = (0, 0);
    for at in 0..file.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut flipped = file.clone();
            flipped[at] ^= mask;
            match open(flipped) {
                Err(_) => refused += 1,
                Ok(fixture) if !intact(&fixture) => caught += 1,
                Ok(_) => panic!("byte {at} flipped by {mask:#04x} goes unnoticed"),
            }
        }
    }
    assert!(refused > 100 && caught > 500, "{refused} refused, {caught} caught");
}

fn full_fixture_small() -> Fixture {
    fixture(
        &[("b", DType::F32, &[2, 3]), ("a", DType::Q8_0, &[32]), ("none", DType::U8, &[0])],
        &[],
        &|sink, _| {
            sink.foreign_file("toy", "", 3).unwrap();
            sink.foreign("k", Value::from_string("v")).unwrap();
        },
    )
}

#[test]
fn manifests_hold_the_checksums_of_the_shards_footers() {
    let request = cut("m", 1);
    let files = simple().write(&request).unwrap();
    let source =
        files.iter().fold(MemorySource::default(), |source, (name, bytes)| source.with(name, bytes.clone()));
    let manifest = open_source(source).unwrap();
    assert!(intact(&manifest));
    assert_eq!(manifest.model.checksums.len(), 2);
    assert!(manifest.model.checksums.iter().all(|sum| sum.sum == Sum::CRC32_HEX));
}
