//! Weights that a format's own description makes of stored codes (`tests/packed/derived`): DequantizeLinear and operators on
//! codes in ONNX, quantized tensors of torch. The same flags as for packed checkpoints, and the values that the formats' own packages compute.

use crate::packed::{dequantizing, tensors, to};
use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::quantization::Quantization;
use apr_engine::planned::selection::Choice;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must, root};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The models, each with its true values: a folder more is a case more.
fn fixtures() -> Vec<(PathBuf, PathBuf)> {
    let all = std::fs::read_dir(root().join("tests/packed/derived/fixtures")).unwrap();
    let of = |folder: PathBuf| {
        let names = ["model.onnx", "model.pt"].map(|name| folder.join(name));
        (names.into_iter().find(|path| path.exists()).unwrap(), folder.join("expected.safetensors"))
    };
    let mut all: Vec<_> = all.map(|entry| of(entry.unwrap().path())).collect();
    all.sort();
    assert!(all.len() > 8, "{all:?}");
    all
}

fn values(host: &apr_host::host::Host, path: &Path) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
    let half = |bytes: &[u8], value: fn(u16) -> f32| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|bytes| value(u16::from_le_bytes(*bytes))).collect()
    };
    let of = |(name, dtype, shape, bytes): (String, DType, Vec<u64>, Vec<u8>)| {
        let values = match dtype {
            DType::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            DType::BF16 => half(&bytes, from_bf16),
            DType::F16 => half(&bytes, from_f16),
            _ => panic!("{name} is {dtype}"),
        };
        (name, (shape, values))
    };
    // Shapes for nodes that reshape are no weights.
    let all = tensors(host, path).into_iter().filter(|(_, dtype, ..)| *dtype != DType::I64);
    all.map(of).collect()
}

#[test]
fn derived_weights_have_the_values_that_their_own_packages_compute() {
    let host = host();
    for (input, expected) in fixtures() {
        let scratch = Scratch::in_memory();
        let expected = values(&host, &expected);
        let stored = open(&host, &input, &OpenOptions::default()).unwrap().model.tensors;
        let floats = stored.into_iter().filter(|tensor| tensor.dtype == DType::F32);
        let floats: HashSet<String> = floats.map(|tensor| tensor.name).collect();
        for (dtype, rounded) in [
            (DType::F32, (|value| value) as fn(f32) -> f32),
            (DType::BF16, |value| from_bf16(to_bf16(value))),
            (DType::F16, |value| from_f16(to_f16(value))),
        ] {
            for (target, end) in [
                ("safetensors", "safetensors"),
                ("gguf", "gguf"),
                ("apr", "apr"),
                ("onnx", "onnx"),
                ("pytorch", "pt"),
            ] {
                let what = format!("{} to {target} in {dtype}", input.display());
                let output = scratch.at(&format!("{dtype}.{end}"));
                let quantization = Quantization { dequantize: Some(dtype), ..Quantization::default() };
                let wanted = ConvertOptions {
                    quantization,
                    arch: Some("none".to_owned()),
                    ..to(target, &input, &output)
                };
                let done = convert(&host, &wanted).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(done.notes.iter().any(|note| note.starts_with("packed weights: ")), "{what}");
                let is_idle = |warning: &String| warning.contains("has no effect");
                assert!(!done.warnings.iter().any(is_idle), "{what}: {:?}", done.warnings);
                let have = values(&host, &output);
                assert!(have.keys().eq(expected.keys()), "{what}: {:?}", have.keys());
                for (name, (shape, want)) in &expected {
                    // GGUF has no more than four dimensions, and keeps all of these.
                    let (of, have) = &have[name];
                    assert_eq!(of, shape, "{what}: {name}");
                    // What is a float already stays as it is.
                    let is_float = floats.contains(name);
                    let want = want.iter().map(|value| if is_float { *value } else { rounded(*value) });
                    let differs = have.iter().zip(want).find(|(a, b)| *a != b);
                    assert_eq!(differs, None, "{what}: {name}");
                }
            }
        }
    }
}

#[test]
fn derived_weights_stay_codes_within_their_format_and_never_reach_gguf_as_weights() {
    let host = host();
    for (input, _) in fixtures() {
        let scratch = Scratch::in_memory();
        let format = if input.extension().unwrap() == "pt" { "pytorch" } else { "onnx" };
        let end = input.extension().unwrap().to_str().unwrap();
        // Once, a list of numbers becomes raw data, and a view a tensor of its own, as everywhere.
        let (first, second) = (scratch.at(&format!("first.{end}")), scratch.at(&format!("second.{end}")));
        if input.ends_with("torch-packed/model.pt") {
            // Codes that share bytes are only read in this format: it gets the values, in a type that holds each.
            let done = must(&host, &to(format, &input, &first));
            assert!(
                done.notes.iter().any(|note| note.contains("become F32, which represents")),
                "{:?}",
                done.notes
            );
            assert!(tensors(&host, &first).iter().all(|(_, dtype, ..)| *dtype == DType::F32));
            continue;
        }
        must(&host, &to(format, &input, &first));
        must(&host, &to(format, &first, &second));
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert_eq!(bytes(&first), bytes(&second), "{format}");
        let output = scratch.at("codes.gguf");
        let wanted = ConvertOptions { arch: Some("none".to_owned()), ..to("gguf", &input, &output) };
        // Weights of half precision have no type that holds them without being asked for.
        let Err(error) = convert(&host, &wanted) else {
            assert!(!input.ends_with("onnx/model.onnx"));
            let all = tensors(&host, &output);
            let is_value = |dtype: &DType| [DType::F32, DType::Q8_0, DType::Q4_0, DType::I64].contains(dtype);
            assert!(all.iter().all(|(_, dtype, ..)| is_value(dtype)), "{}", input.display());
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("no type in GGUF can represent exactly"), "{error}");
        assert!(error.hint_text().unwrap().contains("--dequantize bf16"), "{error}");
        assert!(!output.exists());
    }
}

#[test]
fn a_derived_weight_becomes_blocks_that_hold_every_value() {
    let host = host();
    for (input, expected) in fixtures() {
        if !values(&host, &expected).contains_key("even") {
            continue;
        }
        let scratch = Scratch::in_memory();
        let (blocks, floats) = (scratch.at("even.gguf"), scratch.at("even.safetensors"));
        let wanted = ConvertOptions {
            arch: Some("none".to_owned()),
            choice: Choice { include: vec!["even".to_owned()], ..Choice::default() },
            ..to("gguf", &input, &blocks)
        };
        let done = must(&host, &wanted);
        assert!(
            done.notes.iter().any(|note| note.contains("Q8_0, which represents every value")),
            "{:?}",
            done.notes
        );
        let wanted = ConvertOptions {
            quantization: dequantizing(),
            arch: Some("none".to_owned()),
            ..to("safetensors", &blocks, &floats)
        };
        must(&host, &wanted);
        assert_eq!(values(&host, &floats)["even"], values(&host, &expected)["even"]);
    }
}

/// Models with codes whose values are not certain: the file, the tensor, and what the refusal says of it.
const REFUSED: [(&str, &str, &str); 35] = [
    ("computed-scale", "w", "their scales are computed while the model runs"),
    ("computed-zero", "w", "their zero points are computed while the model runs"),
    ("gathered-scale", "w", "their scales are computed while the model runs"),
    ("integer", "w", "the scale of their product is not known for certain"),
    ("integer-folded", "w", "the scale of their product is not known for certain"),
    ("integer-across", "w", "the scale of their product is not known for certain"),
    ("integer-halved", "w", "the scale of their product is not known for certain"),
    ("integer-gained", "w", "the scale of their product is not known for certain"),
    ("moved", "w", "`Transpose` moves them before, and they have several scales"),
    ("scanned", "w", "the body of a loop takes it as an input"),
    ("added", "w", "they have several scales along unknown axes"),
    ("assigned", "w", "rows are assigned to groups by a deprecated input"),
    ("three-bits", "w", "they have 3 bits"),
    ("bnb4", "w", "the packing of that operator is not known"),
    ("in-function", "w", "their scales are computed while the model runs"),
    ("joined", "w", "`Concat` changes them before they are scaled"),
    ("shifted", "w", "`BitShift` changes them before they are scaled"),
    ("widened", "w", "`Cast` changes them before they are scaled"),
    ("chosen", "w", "`If` changes them before they are scaled"),
    ("carried", "w", "`Loop` changes them before they are scaled"),
    ("returned", "w", "`Joins` changes them before they are scaled"),
    ("narrowed", "w", "`Cast` changes them before they are scaled"),
    ("flags", "w", "`Cast` changes them before they are scaled"),
    ("rounded", "w", "`Cast` changes them before they are scaled"),
    ("joined-ones", "w", "`Concat` changes them before they are scaled"),
    ("multiplied", "w", "`MatMul` changes them before they are scaled"),
    ("fed-back", "w", "the body of a loop takes it as an input"),
    ("scanned-in-batches", "w", "the body of a loop takes it as an input"),
    ("given-branch", "y/else_branch/b/value", "`If` changes them before they are scaled"),
    (
        "default-branch",
        "functions/local.Choose/else_branch/e/value",
        "`If` changes them before they are scaled",
    ),
    ("sparse", "w.values", "they are the values of a sparse tensor"),
    ("sparse-constant", "w/sparse_value/values", "they are the values of a sparse tensor"),
    ("uncalled", "functions/local.Uncalled/q/value", "it is in a function that no node calls"),
    ("of-others", "w", "what it computes in the domain `trt` is not known"),
    ("of-a-layout", "w", "what it computes in the domain `com.ms.internal.nhwc` is not known"),
];

#[test]
fn codes_whose_values_are_not_certain_are_refused_by_name_and_copied_as_they_are() {
    let host = host();
    let folder = root().join("tests/packed/derived/refused");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), REFUSED.len());
    for (file, tensor, why) in REFUSED {
        let scratch = Scratch::in_memory();
        let input = folder.join(format!("{file}.onnx"));
        for (target, end, is_asked) in [("safetensors", "safetensors", true), ("gguf", "gguf", false)] {
            let output = scratch.at(&format!("values.{end}"));
            let mut wanted = ConvertOptions { arch: Some("none".to_owned()), ..to(target, &input, &output) };
            if is_asked {
                wanted.quantization = dequantizing();
            }
            let error = convert(&host, &wanted).expect_err(file);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{file}: {error}");
            assert_eq!(error.tensor_name(), Some(tensor), "{file}: {error}");
            assert!(error.message().contains(why), "{file}: {error}");
            assert!(!output.exists());
        }
        let copy = scratch.at("copy.onnx");
        must(&host, &to("onnx", &input, &copy));
        assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(&copy).unwrap(), "{file}");
    }
}
