//! Integers without scales where names are kept on request: a target that takes tensors for weights gets them with a warning.

use crate::packed::{dequantizing, quantizing, to, unscaled};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::ConvertOptions;
use apr_sdk::DType as T;
use apr_tests::{Scratch, host, must};

#[test]
fn integers_that_no_scales_were_found_for_are_copied_with_a_warning() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let int8 = unscaled(&scratch, "int8", |out, inner| vec![(".weight", T::I8, vec![out, inner])]);
    let words = unscaled(&scratch, "int32", |out, inner| vec![(".weight", T::I32, vec![out, inner])]);
    for (format, keeps, warns) in [("gguf", &int8, true), ("gguf", &words, true), ("apr", &int8, false)] {
        for quantization in [Quantization::default(), quantizing()] {
            let output = scratch.at(&format!("kept.{format}"));
            let arch = Some("none".to_owned());
            let done = must(&host, &ConvertOptions { quantization, arch, ..to(format, keeps, &output) });
            let says = |warning: &&String| {
                warning.starts_with("7 tensors are copied as integers, such as `model.layers.0.")
                    && warning.contains("no scales were found for them")
            };
            let count = done.warnings.iter().filter(says).count();
            assert_eq!(count, usize::from(warns), "{format}: {:?}", done.warnings);
            std::fs::remove_file(output).unwrap();
        }
    }
}

#[test]
fn codes_that_have_scales_are_not_warned_of() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let apr = scratch.at("rows.apr");
    let recipe = Quantization { recipe: Some("int8".to_owned()), ..Quantization::default() };
    let model = apr_tests::root().join("tests/model/weights");
    must(&host, &ConvertOptions { quantization: recipe, ..to("apr", &model, &apr) });
    let folder = scratch.at("folder");
    let arch = Some("none".to_owned());
    let done = must(&host, &ConvertOptions { arch, ..to("huggingface", &apr, &folder) });
    assert!(done.notes.iter().any(|note| note.contains("packed as int8 with scales")), "{:?}", done.notes);
    assert!(!done.warnings.iter().any(|warning| warning.contains("integers")), "{:?}", done.warnings);
}

#[test]
fn codes_with_zero_points_are_not_rows_of_integers() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let beside = unscaled(&scratch, "beside", |out, inner| {
        vec![
            (".weight", T::I8, vec![out, inner]),
            (".weight.scale", T::F32, vec![out]),
            (".weight.zero_point", T::I8, vec![out]),
        ]
    });
    let elsewhere = unscaled(&scratch, "elsewhere", |out, inner| {
        vec![
            (".weight", T::I8, vec![out, inner]),
            (".weight.scale", T::F32, vec![out]),
            (".zp", T::I8, vec![out]),
        ]
    });
    // Those of columns look like those of rows where there are as many.
    let square = unscaled(&scratch, "square", |out, _| {
        vec![(".weight", T::I8, vec![out, out]), (".weight.scale", T::F32, vec![out])]
    });
    let int8 = Quantization { recipe: Some("int8".to_owned()), ..Quantization::default() };
    for input in [beside, elsewhere, square] {
        for (format, quantization) in [("safetensors", dequantizing()), ("apr", int8.clone())] {
            let output = scratch.at(&format!("values.{format}"));
            let arch = Some("none".to_owned());
            let wanted = ConvertOptions { quantization, arch, ..to(format, &input, &output) };
            let error = apr_host::convert::convert(&host, &wanted).unwrap_err();
            assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains("int8 with scales") && !output.exists(), "{error}");
        }
    }
}

#[test]
fn indices_and_integers_that_are_not_called_weights_are_not_warned_of() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let other = unscaled(&scratch, "other", |out, inner| {
        vec![
            (".weight", T::I64, vec![out, inner]),
            (".index", T::I32, vec![out, inner]),
            (".mask.weight", T::I8, vec![out]),
        ]
    });
    let output = scratch.at("other.gguf");
    let done = must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("gguf", &other, &output) });
    assert!(!done.warnings.iter().any(|warning| warning.contains("integers")), "{:?}", done.warnings);
}
