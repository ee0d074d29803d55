//! Codes whose scales are not among the tensors that are opened: in another part of the model, or outside of a prefix.

use crate::packed::{casting, to};
use crate::scaled_codes::file;
use apr_engine::planned::selection::Renaming;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{DType as T, ErrorKind};
use apr_tests::{Scratch, host_without, must};
use std::path::{Path, PathBuf};

/// Converts a file to one in another format, cast to F16.
fn cast(input: &Path, output: PathBuf, renaming: Renaming) -> ConvertOptions {
    ConvertOptions {
        quantization: casting(T::F16),
        renaming,
        force: true,
        ..to("safetensors", input, &output)
    }
}

#[test]
fn scales_outside_of_a_prefix_are_seen() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    let (plain, input) = (scratch.at("in.safetensors"), scratch.at("in.pt"));
    let codes = ("state_dict.a.weight", T::F8_E4M3, &[4u64, 8][..]);
    let scale = ("scales.a.weight_scale_inv", T::F32, &[1u64, 1][..]);
    let prefix = |prefix: &str| Renaming { prefix: Some(prefix.to_owned()), ..Renaming::default() };
    file(&plain, &[codes, scale]);
    must(&host, &to("pytorch", &plain, &input));
    for input in [&plain, &input] {
        for below in ["state_dict", "state_dict."] {
            let output = scratch.at("out.safetensors");
            let error = convert(&host, &cast(input, output.clone(), prefix(below))).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains("FP8 with"), "{error}");
            assert!(!output.exists());
        }
        // A copy stays one.
        let copy = scratch.at("copy.safetensors");
        let copied =
            ConvertOptions { renaming: prefix("state_dict"), force: true, ..to("safetensors", input, &copy) };
        let done = must(&host, &copied);
        assert!(done.notes.iter().any(|note| note.contains("copied as they are")), "{:?}", done.notes);
    }
    // What an optimizer holds as codes is no matter of plain weights beside it.
    let optimizer = [("o.a.weight", T::F8_E4M3, &[4u64, 8][..]), ("o.a.weight_scale", T::F32, &[4, 1])];
    file(&plain, &[&[("state_dict.a.weight", T::F32, &[4u64, 8][..])][..], &optimizer].concat());
    let input = scratch.at("with_optimizer.pt");
    must(&host, &to("pytorch", &plain, &input));
    must(&host, &cast(&input, scratch.at("plain.safetensors"), prefix("state_dict")));
}

#[test]
fn a_part_alone_says_so_and_keeps_its_floats_of_8_bits() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    let part = scratch.at("model-00001-of-00002.safetensors");
    let missing = "model-00001-of-00002.safetensors is part 1 of 2, opened without the others: \
                   model-00002-of-00002.safetensors";
    file(&part, &[("a.weight", T::F8_E4M3, &[4, 8])]);
    let error = convert(&host, &cast(&part, scratch.at("out.safetensors"), Renaming::default())).map(drop);
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("a.weight")), "{error}");
    assert!(error.message().contains("missing parts"), "{error}");
    let done = must(&host, &to("apr", &part, &scratch.at("copy.apr")));
    assert!(done.warnings.iter().any(|warning| warning == missing), "{:?}", done.warnings);
    // Other floats are cast; a model of one part is whole.
    file(&part, &[("a.weight", T::F32, &[4, 8])]);
    let done = must(&host, &cast(&part, scratch.at("out.safetensors"), Renaming::default()));
    assert!(done.warnings.iter().any(|warning| warning == missing), "{:?}", done.warnings);
    let whole = scratch.at("model-00001-of-00001.safetensors");
    file(&whole, &[("a.weight", T::F8_E4M3, &[4, 8])]);
    let done = must(&host, &cast(&whole, scratch.at("out.safetensors"), Renaming::default()));
    assert!(!done.warnings.iter().any(|warning| warning.contains("part")), "{:?}", done.warnings);
}
