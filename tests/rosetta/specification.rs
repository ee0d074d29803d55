//! The tests that the specification names (section 14): direct conversions, round trips and chains between real files.
//! Quantized models reach formats of floats by `--dequantize`.

use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::quantization::Quantization;
use apr_engine::rosetta::compare::compare;
use apr_host::convert::ConvertOptions;
use apr_sdk::DType;
use apr_tests::{Scratch, fixtures, host, must, options};
use std::path::{Path, PathBuf};

/// F32, F16 and I8, written by the package `gguf`: what every format of the three can hold.
fn gguf() -> PathBuf {
    fixtures("gguf").join("small.gguf")
}

/// Every quantized type, by the same package.
fn quantized() -> PathBuf {
    fixtures("gguf").join("types.gguf")
}

/// Written by the package `safetensors`.
fn safetensors() -> PathBuf {
    fixtures("safetensors").join("metadata_one.safetensors")
}

/// An APR file of what `input` holds.
fn apr(scratch: &Scratch, input: &Path) -> PathBuf {
    let path = scratch.at("begin.apr");
    must(&host(), &options(input, &path));
    path
}

/// Converts along a chain of formats; every hop must hold the source's tensors, bit for bit. The last file.
fn chain(scratch: &Scratch, input: &Path, hops: &[&str]) -> PathBuf {
    let host = host();
    let source = open(&host, input, &OpenOptions::default()).unwrap();
    let mut here = input.to_owned();
    for (n, extension) in hops.iter().enumerate() {
        let next = scratch.at(&format!("hop{n}.{extension}"));
        must(&host, &options(&here, &next));
        let result = open(&host, &next, &OpenOptions::default()).unwrap();
        let comparison = compare(&host, &source, &result, None).unwrap();
        assert!(comparison.findings.is_empty(), "{}: {:?}", next.display(), comparison.findings);
        assert_eq!(comparison.identical, source.model.tensors.len());
        assert_eq!(comparison.max_abs_diff, 0.0);
        here = next;
    }
    here
}

/// Blocks become the floats that they stand for, to the last bit. Where a fixture's blocks have any bits, some are NaN.
fn dequantizes(input: &Path, extension: &str) {
    let (scratch, host) = (Scratch::new(), host());
    let output = scratch.at(&format!("o.{extension}"));
    let quantization = Quantization { dequantize: Some(DType::F32), ..Quantization::default() };
    let arch = Some("none".to_owned());
    let wanted = ConvertOptions { quantization, arch, allow_nonfinite: true, ..options(input, &output) };
    must(&host, &wanted);
    let [source, result] =
        [input, output.as_path()].map(|path| open(&host, path, &OpenOptions::default()).unwrap());
    assert!(result.model.tensors.iter().all(|tensor| !tensor.dtype.is_block()));
    let comparison = compare(&host, &source, &result, Some(0.0)).unwrap();
    assert!(comparison.findings.is_empty(), "{:?}", comparison.findings);
    assert_eq!(comparison.max_abs_diff, 0.0);
}

#[test]
fn f_rosetta_001_gguf_to_apr() {
    for input in [gguf(), quantized()] {
        chain(&Scratch::new(), &input, &["apr"]);
    }
}

#[test]
fn f_rosetta_002_apr_to_gguf() {
    for input in [gguf(), quantized()] {
        let scratch = Scratch::new();
        chain(&scratch, &apr(&scratch, &input), &["gguf"]);
    }
}

#[test]
fn f_rosetta_003_safetensors_to_apr() {
    chain(&Scratch::new(), &safetensors(), &["apr"]);
}

#[test]
fn f_rosetta_004_apr_to_safetensors() {
    let scratch = Scratch::new();
    chain(&scratch, &apr(&scratch, &safetensors()), &["safetensors"]);
}

#[test]
fn f_rosetta_005_gguf_to_safetensors() {
    chain(&Scratch::new(), &gguf(), &["safetensors"]);
    dequantizes(&quantized(), "safetensors");
}

#[test]
fn f_rosetta_006_safetensors_to_gguf() {
    chain(&Scratch::new(), &safetensors(), &["gguf"]);
    dequantizes(&safetensors(), "gguf");
}

#[test]
fn f_roundtrip_001_gguf_apr_gguf() {
    for input in [gguf(), quantized()] {
        let scratch = Scratch::new();
        let back = chain(&scratch, &input, &["apr", "gguf"]);
        apr_tests::assert_same_file(&input, &back);
    }
}

#[test]
fn f_roundtrip_002_apr_gguf_apr() {
    for input in [gguf(), quantized()] {
        let scratch = Scratch::new();
        let begin = apr(&scratch, &input);
        let back = chain(&scratch, &begin, &["gguf", "apr"]);
        apr_tests::assert_same_file(&begin, &back);
    }
}

#[test]
fn f_roundtrip_003_safetensors_apr_safetensors() {
    let scratch = Scratch::new();
    let back = chain(&scratch, &safetensors(), &["apr", "safetensors"]);
    apr_tests::assert_same_file(&safetensors(), &back);
}

#[test]
fn f_roundtrip_004_apr_safetensors_apr() {
    let scratch = Scratch::new();
    chain(&scratch, &apr(&scratch, &safetensors()), &["safetensors", "apr"]);
}

#[test]
fn f_roundtrip_005_gguf_safetensors_gguf() {
    chain(&Scratch::new(), &gguf(), &["safetensors", "gguf"]);
    dequantizes(&quantized(), "safetensors");
}

#[test]
fn f_roundtrip_006_safetensors_gguf_safetensors() {
    chain(&Scratch::new(), &safetensors(), &["gguf", "safetensors"]);
    dequantizes(&safetensors(), "gguf");
}

#[test]
fn f_chain_001_gguf_apr_safetensors() {
    chain(&Scratch::new(), &gguf(), &["apr", "safetensors"]);
}

#[test]
fn f_chain_002_gguf_apr_safetensors_apr() {
    chain(&Scratch::new(), &gguf(), &["apr", "safetensors", "apr"]);
}

#[test]
fn f_chain_003_gguf_apr_safetensors_apr_gguf() {
    chain(&Scratch::new(), &gguf(), &["apr", "safetensors", "apr", "gguf"]);
}

#[test]
fn f_chain_004_safetensors_apr_gguf_apr() {
    chain(&Scratch::new(), &safetensors(), &["apr", "gguf", "apr"]);
}

#[test]
fn f_chain_005_safetensors_gguf_apr_safetensors() {
    chain(&Scratch::new(), &safetensors(), &["gguf", "apr", "safetensors"]);
    dequantizes(&safetensors(), "gguf");
}

#[test]
fn f_chain_006_apr_gguf_safetensors_gguf_apr() {
    let scratch = Scratch::new();
    let begin = apr(&scratch, &gguf());
    chain(&scratch, &begin, &["gguf", "safetensors", "gguf", "apr"]);
    let scratch = Scratch::new();
    dequantizes(&apr(&scratch, &quantized()), "safetensors");
}
