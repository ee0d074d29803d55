//! The tests that the specification names (section 14): direct conversions, round trips and chains between real files.
//! What needs `--dequantize` is asserted to be refused as planned, so that it turns red once it works.

use apr_host::open::{OpenOptions, open};
use apr_host::rosetta::compare::compare;
use apr_tests::{Scratch, fixtures, host, must, options, program};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Without the quantizer a quantized model cannot become floats: refused, exit 4, and named as planned.
fn refuses_to_dequantize(input: &Path, extension: &str) {
    let scratch = Scratch::new();
    let output = scratch.at(&format!("o.{extension}"));
    let run = |more: &[&str]| {
        let mut command = Command::new(program());
        command.arg("convert").arg(input).arg(&output).args(["--arch", "none"]).args(more);
        command.output().unwrap()
    };
    let planned = run(&["--dequantize", "f32"]);
    let said = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert_eq!(planned.status.code(), Some(4), "{said}");
    assert!(said.contains("--dequantize") && said.contains("planned"), "{said}");
    assert!(!output.exists());
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
    refuses_to_dequantize(&quantized(), "safetensors");
}

#[test]
fn f_rosetta_006_safetensors_to_gguf() {
    chain(&Scratch::new(), &safetensors(), &["gguf"]);
    refuses_to_dequantize(&safetensors(), "gguf");
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
    refuses_to_dequantize(&quantized(), "safetensors");
}

#[test]
fn f_roundtrip_006_safetensors_gguf_safetensors() {
    chain(&Scratch::new(), &safetensors(), &["gguf", "safetensors"]);
    refuses_to_dequantize(&safetensors(), "gguf");
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
    refuses_to_dequantize(&safetensors(), "gguf");
}

#[test]
fn f_chain_006_apr_gguf_safetensors_gguf_apr() {
    let scratch = Scratch::new();
    let begin = apr(&scratch, &gguf());
    chain(&scratch, &begin, &["gguf", "safetensors", "gguf", "apr"]);
    let scratch = Scratch::new();
    refuses_to_dequantize(&apr(&scratch, &quantized()), "safetensors");
}
