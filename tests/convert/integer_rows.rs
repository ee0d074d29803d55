//! Rows of integers and their scales, a model of them: other names, other rows and other types need the true values.

use crate::packed::dequantizing;
use crate::quantize::payload;
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must, options};
use std::path::Path;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The codes of a tensor, in order.
fn codes(dtype: DType, bytes: &[u8]) -> Vec<i8> {
    let halves = |byte: &u8| [(byte << 4).cast_signed() >> 4, byte.cast_signed() >> 4];
    match dtype {
        DType::I8 => bytes.iter().map(|byte| byte.cast_signed()).collect(),
        DType::I4 => bytes.iter().flat_map(halves).collect(),
        other => panic!("{other} has no codes"),
    }
}

/// The products of codes and scales.
fn products(apr: &Path, name: &str) -> Vec<f32> {
    let (dtype, bytes) = payload(apr, name);
    let (codes, scales) = (codes(dtype, &bytes), floats(&payload(apr, &format!("{name}.scale")).1));
    let rows = codes.chunks(codes.len() / scales.len()).zip(&scales);
    rows.flat_map(|(row, scale)| row.iter().map(move |code| f32::from(*code) * scale)).collect()
}

#[test]
fn rows_of_integers_are_undone_whatever_they_become() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let model = apr_tests::root().join("tests/model/weights");
    let recipe = |name: &str| Quantization { recipe: Some(name.to_owned()), ..Quantization::default() };
    for name in ["int8", "int4"] {
        let at = |end: &str| scratch.at(&format!("{name}{end}"));
        let to = |from: &Path, output: &Path, quantization: Quantization| {
            let to = output.extension().is_none().then(|| "huggingface".to_owned());
            ConvertOptions { quantization, to, arch: None, ..options(from, output) }
        };
        let apr = at(".apr");
        must(&host, &to(&model, &apr, recipe(name)));
        let folder = at("-f32");
        must(&host, &to(&apr, &folder, dequantizing()));
        let file = folder.join("model.safetensors");
        for weight in ["model.embed_tokens.weight", "model.layers.1.self_attn.q_proj.weight"] {
            assert_eq!(floats(&payload(&file, weight).1), products(&apr, weight), "{name} {weight}");
        }
        // Rows of attention are in another order in GGUF.
        let floats = Quantization { precision: Some(DType::F32), ..Quantization::default() };
        let ways = [("-f32", dequantizing(), floats), ("-q4", recipe("Q4_K_M"), recipe("Q4_K_M"))];
        for (what, of_codes, of_floats) in ways {
            let (one, other) = (at(&format!("{what}-1.gguf")), at(&format!("{what}-2.gguf")));
            must(&host, &to(&apr, &one, of_codes));
            must(&host, &to(&folder, &other, of_floats));
            for weight in ["token_embd.weight", "blk.1.attn_q.weight", "blk.3.ffn_down.weight"] {
                assert!(payload(&one, weight) == payload(&other, weight), "{name}{what} {weight}");
            }
        }
        let error = convert(&host, &to(&apr, &at(".gguf"), Quantization::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.hint_text().unwrap().contains("--dequantize"), "{error}");
        assert!(!at(".gguf").exists());
        must(&host, &options(&apr, &at("-copy.apr")));
        assert_eq!(std::fs::read(&apr).unwrap(), std::fs::read(at("-copy.apr")).unwrap());
    }
}

#[test]
fn scales_that_are_no_numbers_or_do_not_fit_are_refused() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let input = scratch.at("in.safetensors");
    let file = |scale: f32, rows: u64| {
        crate::scaled_codes::file(
            &input,
            &[("a.weight", DType::I8, &[4, 8]), ("a.weight.scale", DType::F32, &[rows])],
        );
        let mut bytes = std::fs::read(&input).unwrap();
        let n = bytes.len();
        bytes[n - 4..].copy_from_slice(&scale.to_le_bytes());
        std::fs::write(&input, bytes).unwrap();
        ConvertOptions { quantization: dequantizing(), ..options(&input, &scratch.at("out.safetensors")) }
    };
    for scale in [f32::NAN, f32::INFINITY] {
        let error = convert(&host, &file(scale, 4)).unwrap_err();
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some("a.weight")), "{error}");
    }
    // Scales for the columns are another scheme's, and an unknown one's.
    let error = convert(&host, &file(1.0, 8)).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("a.weight")), "{error}");
    assert!(!scratch.at("out.safetensors").exists());
}
