//! What is read is what the generator wrote, and what it packed into older blocks.

use crate::build::{File, Tensor};
use crate::fixture;
use apr_plugin_ggml_legacy::GgmlLegacy;
use apr_sdk::{DType, Extent, Look, MemorySource, Options, Payload, Reader, Score};
use apr_testkit::MeteringSource;
use serde_json::{Value as Json, json};

/// The golden file with one of its two digests.
fn expected(name: &str, digest: &str) -> Json {
    let mut golden = fixture::golden(name);
    for tensor in golden["tensors"].as_array_mut().unwrap() {
        let digest = tensor[digest].clone();
        let tensor = tensor.as_object_mut().unwrap();
        tensor.remove("f32_sha256");
        tensor.insert("sha256".into(), digest);
    }
    json!({"keys": golden["keys"], "tensors": golden["tensors"]})
}

#[test]
fn every_fixture_is_what_its_generator_says() {
    let names = fixture::names();
    assert_eq!(names.len(), 18);
    for name in names {
        let source = fixture::source(&name);
        let opened = fixture::open(&source, &Options::new()).unwrap();
        assert_eq!(fixture::described(&opened, &source), expected(&name, "sha256"), "{name}");
        assert_eq!(opened.model.dialect, "none");
    }
}

#[test]
fn older_blocks_decode_to_the_values_that_were_packed() {
    let mut decoded = 0;
    let rejects = ["rejects/q4_2.bin", "rejects/inexact-v1.bin", "rejects/inexact-v2.bin"].map(str::to_owned);
    for name in fixture::names().into_iter().chain(rejects) {
        let source = fixture::source(&name);
        let exact = fixture::open(&source, &Options::new()).ok();
        let opened = fixture::open(&source, &fixture::decoding()).unwrap();
        let golden = fixture::golden(&name);
        for (n, tensor) in opened.model.tensors.iter().enumerate() {
            if !matches!(tensor.payload, Payload::Blocks { .. }) {
                // What has today's layout stays as it is.
                assert_eq!(
                    exact.as_ref().map_or(tensor, |o| &o.model.tensors[n]).dtype,
                    tensor.dtype,
                    "{name}"
                );
                continue;
            }
            assert_eq!(tensor.dtype, DType::F32);
            let payload = opened.payload(n, &source).unwrap();
            let wanted = &golden["tensors"][n];
            assert_eq!(json!(fixture::sha256(&payload)), wanted["f32_sha256"], "{name}: {}", tensor.name);
            assert_eq!(json!(tensor.shape), wanted["shape"], "{name}: {}", tensor.name);
            decoded += 1;
        }
    }
    assert!(decoded > 60, "{decoded} tensors of older layouts");
}

#[test]
fn payloads_of_todays_layouts_are_plain_extents() {
    for (name, plain) in [("ggjt-v3.bin", 21), ("whisper-qnt2.bin", 74), ("ggla.bin", 4), ("gpt2.bin", 28)] {
        let model = fixture::open(&fixture::source(name), &Options::new()).unwrap().model;
        let extents =
            model.tensors.iter().filter(|t| matches!(t.payload, Payload::Extent { view: None, .. }));
        assert_eq!((extents.count(), model.tensors.len()), (plain, plain), "{name}");
    }
    // Q5_0 and Q5_1 had f16 scales from the start: since May 2023 they are today's.
    let model = fixture::open(&fixture::source("ggjt-v2.bin"), &Options::new()).unwrap().model;
    for tensor in model.tensors {
        let is_old = [DType::Q4_0, DType::Q4_1, DType::Q8_0].contains(&tensor.dtype);
        assert_eq!(matches!(tensor.payload, Payload::Blocks { .. }), is_old, "{}", tensor.name);
    }
}

#[test]
fn aligned_payloads_begin_at_multiples_of_32() {
    for name in ["ggjt-v1.bin", "ggjt-v3.bin", "ggla.bin"] {
        let model = fixture::open(&fixture::source(name), &fixture::decoding()).unwrap().model;
        let starts = model.tensors.iter().filter_map(|tensor| match tensor.payload {
            Payload::Extent { extent: Extent { offset, .. }, .. } => Some(offset % 32),
            _ => None,
        });
        assert!(starts.clone().count() > 3 && starts.max() == Some(0), "{name}");
    }
}

#[test]
fn a_vocabulary_alone_opens_with_a_note() {
    let model = fixture::open(&fixture::source("vocabulary-only.bin"), &Options::new()).unwrap().model;
    assert_eq!(model.tensors.len(), 0);
    assert_eq!(
        model.notes,
        ["the file has no tensors: it contains only a vocabulary, or is truncated after it"]
    );
}

#[test]
fn option_program_decides_where_several_layouts_fit() {
    // Seven numbers and as many tokens as the first says: LLaMA's layout, StableLM's and BERT's.
    let mut file = File::ggml();
    file.tensors.clear();
    let source = MemorySource::new("m.bin", file.bytes());
    let error = fixture::open(&source, &Options::new()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "m.bin: at offset 4: the file matches the layouts of several programs: `llama`, `stablelm`, `bert`: \
         specify one with `-O ggml_legacy.program=NAME`"
    );
    for (name, third) in [("llama", "n_mult"), ("stablelm", "n_embd"), ("bert", "n_embd")] {
        let model = fixture::open(&source, &Options::new().with("program", name)).unwrap().model;
        assert_eq!(model.foreign[0].get("model").and_then(|v| v.as_str()), Some(name));
        assert_eq!(model.foreign[0].get(third).and_then(|v| v.as_i32()), Some(1), "{name}");
    }
}

#[test]
fn a_file_of_one_layout_opens_with_that_option_too() {
    for name in fixture::names() {
        let source = fixture::source(&name);
        let opened = fixture::open(&source, &Options::new()).unwrap();
        let Some(program) = opened.model.foreign[0].get("model").and_then(|v| v.as_str()) else { continue };
        let again = fixture::open(&source, &Options::new().with("program", program)).unwrap();
        assert_eq!(fixture::described(&again, &source), fixture::described(&opened, &source), "{name}");
    }
}

#[test]
fn opening_reads_the_header_only() {
    // 12 tensors, the first of 64 MiB.
    let file = File::ggjt(3).with(1, |t| *t = Tensor::new("norm.weight", 0, &[1 << 24], 64 << 20));
    let source = MemorySource::new("m.bin", file.bytes());
    let metering = MeteringSource::new(&source);
    let opened = fixture::open(&metering, &Options::new()).unwrap();
    assert_eq!(opened.model.tensors.len(), 12);
    // The cursor's buffer over the vocabulary, and the records.
    assert!(metering.bytes_read() < 70 * 1024, "{}", metering.bytes_read());
}

#[test]
fn blocks_of_a_long_tensor_are_converted_piece_by_piece() {
    // 3,000 blocks of Q8_0 with scale 1, in three calls.
    let block: Vec<u8> = [&1f32.to_le_bytes()[..], &[5; 32]].concat();
    let file = File::ggjt(1).with(0, |t| {
        *t = Tensor::new("tok_embeddings.weight", 8, &[32, 3000], 0);
        t.payload = block.repeat(3000);
    });
    let file = File { hparams: vec![2, 32, 1, 1, 1, 1, 7], ..file };
    let source = MemorySource::new("m.bin", file.bytes());
    let payload = fixture::open(&source, &Options::new()).unwrap().payload(0, &source).unwrap();
    let today: Vec<u8> = [&[0x00, 0x3c][..], &[5; 32]].concat();
    assert!(payload == today.repeat(3000));
    let payload = fixture::open(&source, &fixture::decoding()).unwrap().payload(0, &source).unwrap();
    assert!(payload == 5f32.to_le_bytes().repeat(96_000));
}

#[test]
fn probe_knows_magic_and_version() {
    let look = |head: &[u8]| {
        let look = Look { name: "a.bin", len: 0, head, tail: &[], is_folder: false, entries: &[] };
        GgmlLegacy.probe(&look)
    };
    assert_eq!(look(b"tjgg\x03\0\0\0"), Score::MAGIC_AND_VERSION);
    assert_eq!(look(b"fmgg\x01\0\0\0"), Score::MAGIC_AND_VERSION);
    assert_eq!(look(b"algg\x01\0\0\0"), Score::MAGIC_AND_VERSION);
    assert_eq!(look(b"tjgg\x04\0\0\0"), Score::MAGIC);
    assert_eq!(look(b"lmgg\x03\0\0\0"), Score::MAGIC);
    assert_eq!(look(b"lmgg"), Score::MAGIC);
    assert_eq!(look(b"ggml\x03\0\0\0"), Score::NO);
    assert_eq!(look(b"lmg"), Score::NO);
}
