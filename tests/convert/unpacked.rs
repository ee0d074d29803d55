//! Packed checkpoints, as the schemes' own packages write them (`tests/packed`): their true values, by any way out of the
//! folder.

use crate::packed::{
    Packed, case, casting, dequantizing, files, fp8_blocks, method, quantizing, tensors, to, write,
};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must, root};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The fixtures, by name.
pub(super) fn fixtures() -> Vec<(String, PathBuf)> {
    let folder = root().join("tests/packed/fixtures");
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut all: Vec<_> = all
        .filter(|path| path.is_dir() && path.to_str().unwrap().contains(&only))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    all.sort();
    assert!(!all.is_empty(), "there are no fixtures");
    all
}

/// A fixture as its users have it, without what is expected of it.
pub(super) fn folder(fixture: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (name, bytes) in files(fixture) {
        if !["expected.safetensors", "fixture.json"].contains(&name.as_str()) {
            std::fs::write(to.join(name), bytes).unwrap();
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Names and values of a file of F32.
fn values(host: &apr_host::host::Host, path: &Path) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
    let of = |(name, dtype, shape, bytes): (String, DType, Vec<u64>, Vec<u8>)| {
        let values = match dtype {
            DType::F32 => floats(&bytes),
            DType::BF16 => bytes.as_chunks().0.iter().map(|b| from_bf16(u16::from_le_bytes(*b))).collect(),
            DType::F16 => bytes.as_chunks().0.iter().map(|b| from_f16(u16::from_le_bytes(*b))).collect(),
            _ => panic!("{name} is {dtype}"),
        };
        (name, (shape, values))
    };
    tensors(host, path).into_iter().map(of).collect()
}

fn into(dtype: DType) -> Quantization {
    Quantization { dequantize: Some(dtype), ..Quantization::default() }
}

/// Whether two lists of values have the same bits, but for the sign of zero.
fn same(have: &[f32], want: &[f32], what: &str) {
    assert_eq!(have.len(), want.len(), "{what}");
    let differs =
        have.iter().zip(want).position(|(a, b)| a.to_bits() != b.to_bits() && !(*a == 0.0 && *b == 0.0));
    assert_eq!(differs.map(|at| (at, have[at], want[at])), None, "{what}");
}

#[test]
fn true_values_are_those_of_the_schemes_own_packages() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (name, fixture) in fixtures() {
        let input = scratch.at(&name);
        folder(&fixture, &input);
        let expected = values(&host, &fixture.join("expected.safetensors"));
        for (dtype, rounded) in [
            (DType::F32, (|value| value) as fn(f32) -> f32),
            (DType::BF16, |value| from_bf16(to_bf16(value))),
            (DType::F16, |value| from_f16(to_f16(value))),
        ] {
            let output = scratch.at(&format!("{name}-{dtype}.safetensors"));
            let wanted = ConvertOptions {
                quantization: into(dtype),
                arch: Some("none".to_owned()),
                ..to("safetensors", &input, &output)
            };
            let done = match convert(&host, &wanted) {
                Ok(done) => done,
                // What F16 cannot hold is refused rather than made infinite.
                Err(error) if dtype == DType::F16 && error.kind() == ErrorKind::Failed => continue,
                Err(error) => panic!("{name} to {dtype}: {error}"),
            };
            assert!(
                done.notes.iter().any(|note| note.starts_with("packed weights: ")),
                "{name}: {:?}",
                done.notes
            );
            let have = values(&host, &output);
            for (tensor, (shape, want)) in &expected {
                let what = format!("{name}: {tensor} as {dtype}");
                let (of, have) = have.get(tensor).unwrap_or_else(|| panic!("{what} is missing"));
                assert_eq!(of, shape, "{what}");
                let want: Vec<f32> = want.iter().map(|value| rounded(*value)).collect();
                same(have, &want, &what);
            }
        }
    }
}

#[test]
fn nothing_says_that_true_values_are_packed_and_a_copy_of_them_is_no_longer() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (name, fixture) in fixtures() {
        let (input, output) = (scratch.at(&name), scratch.at(&format!("{name}-out")));
        folder(&fixture, &input);
        // As it is, byte for byte.
        must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("huggingface", &input, &output) });
        assert_eq!(files(&output), files(&input), "{name}");
        std::fs::remove_dir_all(&output).unwrap();
        let wanted = ConvertOptions {
            quantization: dequantizing(),
            arch: Some("none".to_owned()),
            ..to("huggingface", &input, &output)
        };
        must(&host, &wanted);
        let config = std::fs::read_to_string(output.join("config.json")).unwrap();
        assert!(!config.contains("quantization"), "{name}: {config}");
        let weights = std::fs::read(output.join("model.safetensors")).unwrap();
        let (len, rest) = weights.split_first_chunk::<8>().unwrap();
        let header = &rest[..usize::try_from(u64::from_le_bytes(*len)).unwrap()];
        let header: serde_json::Value = serde_json::from_slice(header).unwrap();
        let said = header["__metadata__"].to_string();
        assert!(!said.contains("Tensor") && !said.contains("up_proj"), "{name}: {said}");
        let left = files(&output).into_iter().map(|(name, _)| name).find(|name| name.contains("quant"));
        assert_eq!(left, None, "{name}");
        let again = scratch.at(&format!("{name}-again"));
        let done = must(
            &host,
            &ConvertOptions { arch: Some("none".to_owned()), ..to("huggingface", &output, &again) },
        );
        assert!(!done.notes.iter().any(|note| note.contains("packed")), "{name}: {:?}", done.notes);
    }
}

#[test]
fn without_a_word_only_types_that_hold_every_value_are_written() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let quants = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    for (name, fixture) in fixtures() {
        let (input, output) = (scratch.at(&name), scratch.at(&format!("{name}.gguf")));
        folder(&fixture, &input);
        let wanted = ConvertOptions { arch: Some("none".to_owned()), ..to("gguf", &input, &output) };
        let done = match convert(&host, &wanted) {
            Ok(done) => done,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
                assert!(error.message().contains("no type in GGUF can represent exactly"), "{name}: {error}");
                assert!(error.hint_text().unwrap().contains("--dequantize bf16"), "{name}: {error}");
                assert!(!output.exists(), "{name}");
                continue;
            }
        };
        let exactly = |note: &String| note.contains("which represents every value exactly");
        assert!(done.notes.iter().any(exactly), "{name}: {:?}", done.notes);
        let expected = values(&host, &fixture.join("expected.safetensors"));
        for (tensor, dtype, shape, bytes) in tensors(&host, &output) {
            let Some((_, want)) = expected.get(&tensor) else { continue };
            let mut have = vec![0.0; want.len()];
            match dtype {
                DType::BF16 => {
                    have = bytes.as_chunks().0.iter().map(|b| from_bf16(u16::from_le_bytes(*b))).collect()
                }
                DType::F32 => have = floats(&bytes),
                _ => quants.decode(dtype, &bytes, *shape.last().unwrap(), &mut have).unwrap(),
            }
            same(&have, want, &format!("{name}: {tensor} as {dtype}"));
        }
    }
}

/// A name, what announces the scheme, and the tensors of a linear module.
type Whole = (&'static str, Json, fn(u64, u64) -> Vec<Packed>);

/// Whole models of one layer.
fn models() -> Vec<Whole> {
    let words = |what: &str| method(json!({"quant_method": what, "bits": 4, "group_size": 32}));
    vec![
        ("fp8", method(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})), fp8_blocks),
        ("gptq", words("gptq"), |out, inner| {
            vec![
                (".qweight", DType::I32, vec![inner / 8, out]),
                (".qzeros", DType::I32, vec![inner / 32, out / 8]),
                (".scales", DType::F16, vec![inner / 32, out]),
            ]
        }),
        ("awq", words("awq"), |out, inner| {
            vec![
                (".qweight", DType::I32, vec![inner, out / 8]),
                (".qzeros", DType::I32, vec![inner / 32, out / 8]),
                (".scales", DType::F16, vec![inner / 32, out]),
            ]
        }),
    ]
}

#[test]
fn another_dialect_has_the_rows_of_true_values_wherever_they_were_unpacked() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (name, config, module) in models() {
        let at = |what: &str| scratch.at(&format!("{name}-{what}"));
        let input = at("in");
        write(&input, &case(name, "", config, module));
        for (what, quantization, between) in [
            ("bf16", into(DType::BF16), DType::BF16),
            ("f32", into(DType::F32), DType::F32),
            ("q8_0", quantizing(), DType::F32),
        ] {
            let (once, folder, twice) =
                (at(&format!("{what}-once.gguf")), at(what), at(&format!("{what}-twice.gguf")));
            let direct = ConvertOptions { quantization: quantization.clone(), ..to("gguf", &input, &once) };
            must(&host, &direct);
            must(
                &host,
                &ConvertOptions { quantization: into(between), ..to("huggingface", &input, &folder) },
            );
            // By itself, GGUF takes 16 bits for floats of 32.
            let rest = match what {
                "q8_0" => quantization,
                "f32" => casting(DType::F32),
                _ => Quantization::default(),
            };
            must(&host, &ConvertOptions { quantization: rest, ..to("gguf", &folder, &twice) });
            // What was never packed may have another type: that of most weights decides on it.
            let weights = |path: &Path| {
                let all = tensors(&host, path).into_iter();
                all.filter(|(name, ..)| {
                    name.contains(".attn_q.") || name.contains(".ffn_down.") || name.contains(".attn_k.")
                })
                .collect::<Vec<_>>()
            };
            assert_eq!(weights(&once).len(), 3);
            assert!(weights(&once) == weights(&twice), "{name} as {what}");
        }
    }
}

#[test]
fn the_configuration_states_the_type_of_the_true_values() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let input = scratch.at("in");
    folder(&root().join("tests/packed/fixtures/fp8-block"), &input);
    for (dtype, name) in [(DType::F32, "float32"), (DType::F16, "float16"), (DType::BF16, "bfloat16")] {
        let output = scratch.at(name);
        must(&host, &ConvertOptions { quantization: into(dtype), ..to("huggingface", &input, &output) });
        let config: Json =
            serde_json::from_slice(&std::fs::read(output.join("config.json")).unwrap()).unwrap();
        assert_eq!(config["torch_dtype"], name);
        assert!(config.get("quantization_config").is_none(), "{config}");
    }
}
