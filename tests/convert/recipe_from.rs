//! `--recipe-from`: a model quantized with the types of another, tensor by tensor.

use crate::quantize::{COLUMNS, payload, quantizing, refused, values, write};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::ConvertOptions;
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must, options};
use std::path::{Path, PathBuf};

const NAMES: [&str; 4] =
    ["blk.0.attn_v.weight", "blk.0.ffn_down.weight", "blk.0.ffn_up.weight", "token_embd.weight"];

/// A model whose matrices a mixture gives several types, beside a norm.
fn model(scratch: &Scratch) -> PathBuf {
    let path = scratch.at("in.safetensors");
    let matrix = values(8 * COLUMNS, 1);
    let mut tensors: Vec<(&str, &[usize], &[f32])> =
        vec![("blk.0.attn_norm.weight", &[COLUMNS], &matrix[..COLUMNS])];
    tensors.extend(NAMES.map(|name| (name, &[8, COLUMNS][..], &matrix[..])));
    write(&path, &tensors);
    path
}

fn like(input: &Path, output: &Path, example: &Path) -> ConvertOptions {
    let quantization = Quantization { recipe_from: Some(example.to_owned()), ..Quantization::default() };
    ConvertOptions { arch: Some("none".to_owned()), quantization, ..options(input, output) }
}

#[test]
fn the_types_of_a_mixture_give_the_same_file() {
    let (host, scratch) = (host(), Scratch::new());
    let input = model(&scratch);
    for recipe in ["Q4_K_M", "Q3_K_L", "Q8_0"] {
        let [first, again] =
            ["first", "again"].map(|name| scratch.at(&format!("{name}-{recipe}/model.gguf")));
        for path in [&first, &again] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        must(&host, &quantizing(&input, &first, recipe));
        must(&host, &like(&input, &again, &first));
        assert!(std::fs::read(&first).unwrap() == std::fs::read(&again).unwrap(), "{recipe}");
    }
    let types =
        |recipe: &str| NAMES.map(|name| payload(&scratch.at(&format!("again-{recipe}/model.gguf")), name).0);
    assert_ne!(types("Q4_K_M"), [DType::Q4_K; 4], "a mixture has several types");
}

#[test]
fn tensors_without_a_counterpart_keep_their_types_and_are_counted() {
    let (host, scratch) = (host(), Scratch::new());
    let (input, example, output) = (model(&scratch), scratch.at("one.gguf"), scratch.at("out.gguf"));
    let mut first = quantizing(&input, &example, "Q8_0");
    first.choice.include = vec!["blk.0.ffn_up.weight".to_owned()];
    must(&host, &first);
    let done = must(&host, &like(&input, &output, &example));
    assert_eq!(NAMES.map(|name| payload(&output, name).0), [DType::F32, DType::F32, DType::Q8_0, DType::F32]);
    let warning = done.warnings.iter().find(|warning| warning.contains("which keep theirs"));
    assert!(warning.is_some_and(|warning| warning.contains("4 tensors")), "{:?}", done.warnings);
}

#[test]
fn models_without_a_common_tensor_or_a_fitting_row_are_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let (input, output) = (model(&scratch), scratch.at("out.gguf"));
    let other = scratch.at("other.safetensors");
    write(&other, &[("h.0.w", &[2], &[0.0, 1.0])]);
    let error = refused(&host, &like(&input, &output, &other));
    assert!(error.message().contains("which has 1 tensor (such as `h.0.w`)"), "{error}");

    let example = scratch.at("example.gguf");
    must(&host, &quantizing(&input, &example, "Q4_K_M"));
    let narrow = scratch.at("narrow.safetensors");
    write(&narrow, &[(NAMES[0], &[2, 40], &values(80, 3))]);
    let error = refused(&host, &like(&narrow, &output, &example));
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::InvalidArgument, Some(NAMES[0])), "{error}");
}

#[test]
fn types_that_need_importance_ask_for_it() {
    let (host, scratch) = (host(), Scratch::new());
    let (input, output, example) = (model(&scratch), scratch.at("out.gguf"), scratch.at("small.gguf"));
    let matrix = scratch.at("imatrix.dat");
    let even = vec![1.0; COLUMNS];
    crate::quantize::write_matrix(&matrix, &NAMES.map(|name| (name, &even[..])));
    let mut small = quantizing(&input, &example, "IQ2_XXS");
    small.quantization.importance = Some(matrix.clone());
    must(&host, &small);
    let error = refused(&host, &like(&input, &output, &example));
    assert!(error.message().contains("requires an importance matrix"), "{error}");
    let mut with = like(&input, &output, &example);
    with.quantization.importance = Some(matrix);
    must(&host, &with);
    for name in NAMES {
        assert_eq!(payload(&output, name), payload(&example, name), "{name}");
    }
}
