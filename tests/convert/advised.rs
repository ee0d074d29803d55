//! What a refusal advises works: its flags are taken from the hint and passed.

use crate::packed::{files, to};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::DType;
use apr_tests::{Scratch, host, must, root};
use std::path::Path;

/// The type that a hint names behind a flag: the first of several.
fn advised(hint: &str, flag: &str) -> Option<DType> {
    let (_, rest) = hint.split_once(flag)?;
    let name = rest.trim_start().split(['|', ' ', ',']).next()?;
    DType::from_name(&name.to_uppercase())
}

/// Converts by what each refusal advises, and returns how many were needed.
fn converted(input: &Path, format: &str, output: &Path, first: Quantization) -> usize {
    let host = host();
    let mut quantization = first;
    for n_refused in 0..3 {
        let arch = Some("none".to_owned());
        let wanted = ConvertOptions { quantization: quantization.clone(), arch, ..to(format, input, output) };
        let Err(error) = convert(&host, &wanted) else { return n_refused };
        let hint = error.hint_text().unwrap_or_else(|| panic!("{error:#?}")).to_owned();
        let (values, floats) = (advised(&hint, "--dequantize"), advised(&hint, "--precision "));
        let next = Quantization {
            dequantize: values.or(quantization.dequantize),
            precision: floats.or(quantization.precision),
            ..quantization.clone()
        };
        assert_ne!(
            (next.dequantize, next.precision),
            (quantization.dequantize, quantization.precision),
            "{hint}"
        );
        quantization = next;
    }
    panic!("each advice leads to the next");
}

#[test]
fn packed_weights_beside_floats_that_the_target_lacks_are_written_by_one_command_more() {
    let scratch = Scratch::in_memory();
    let folder = scratch.at("folder");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files(&root().join("tests/packed/fixtures/torchao-nvfp4")) {
        if name != "expected.safetensors" {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let nothing = Quantization::default;
    for (first, most) in [
        (nothing(), 1),
        (Quantization { dequantize: Some(DType::F32), ..nothing() }, 1),
        (Quantization { precision: Some(DType::F32), ..nothing() }, 1),
        (Quantization { dequantize: Some(DType::F32), precision: Some(DType::F16), ..nothing() }, 0),
    ] {
        let output = scratch.at("out.npz");
        let n_refused = converted(&folder, "npz", &output, first.clone());
        assert!(n_refused <= most, "{first:?}: {n_refused}");
        let written = crate::packed::tensors(&host(), &output);
        let of = |name: &str| written.iter().find(|tensor| tensor.0 == name).map(|tensor| tensor.1);
        let norm = first.precision.filter(|_| first.dequantize.is_some()).unwrap_or(DType::F32);
        assert_eq!(of("model.norm.weight"), Some(norm));
        assert_eq!(of("model.layers.0.mlp.up_proj.weight"), Some(DType::F32));
        std::fs::remove_file(output).unwrap();
    }
}

#[test]
fn integers_that_a_folder_s_weights_cannot_be_are_refused_as_in_a_file_with_what_works() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (apr, model) = (scratch.at("int4.apr"), root().join("tests/model/weights"));
    let quantization = Quantization { recipe: Some("int4".to_owned()), ..Quantization::default() };
    must(&host, &ConvertOptions { quantization, ..to("apr", &model, &apr) });
    let refused = |format: &str, name: &str| {
        let output = scratch.at(name);
        let arch = Some("none".to_owned());
        let error = convert(&host, &ConvertOptions { arch, ..to(format, &apr, &output) }).unwrap_err();
        assert!(!output.exists());
        error
    };
    let (in_file, in_folder) = (refused("safetensors", "out.safetensors"), refused("huggingface", "out"));
    assert!(in_file.hint_text().is_some());
    assert_eq!(in_file.hint_text(), in_folder.hint_text(), "{in_folder:#?}");
    assert_eq!(converted(&apr, "huggingface", &scratch.at("values"), Quantization::default()), 1);
}
