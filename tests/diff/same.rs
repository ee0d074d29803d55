//! What is the same: a model and itself, whatever its format.

use crate::{compare, compared};
use apr_engine::diff::{DiffOptions, Status, diff};
use apr_engine::open::{OpenOptions, open};
use apr_engine::rosetta::compare::compare as verify;
use apr_engine::survey::{self, survey};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::DType;
use apr_tests::{Scratch, fixtures, fixtures_with, host, must, options};
use std::path::PathBuf;

fn everything() -> Vec<PathBuf> {
    let mut all = fixtures_with("apr", "apr");
    all.extend(fixtures_with("gguf", "gguf"));
    all.extend(fixtures_with("safetensors", "safetensors"));
    all.push(fixtures("gguf").join("split"));
    all.push(fixtures("safetensors").join("sharded"));
    all
}

#[test]
fn every_fixture_is_the_same_as_itself_with_and_without_a_tolerance() {
    for path in everything() {
        for tolerance in [None, Some(0.0)] {
            let diff = compared(&path, &path, &DiffOptions { tolerance, ..DiffOptions::default() });
            let shown = path.display();
            assert!(diff.same && diff.tensors.is_empty() && diff.facts.is_empty(), "{shown}: {diff:?}");
        }
    }
}

#[test]
fn every_fixture_is_the_same_as_what_it_was_converted_to() {
    let scratch = Scratch::new();
    let host = host();
    for path in everything() {
        let out = scratch.at("out.apr");
        let wanted = ConvertOptions { force: true, ..options(&path, &out) };
        must(&host, &wanted);
        for (a, b) in [(&path, &out), (&out, &path)] {
            let diff = compare(&host, a, b, &DiffOptions::default()).unwrap();
            assert!(diff.same && diff.tensors.is_empty(), "{}: {diff:?}", path.display());
        }
        let _ = std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out));
    }
}

#[test]
fn packed_weights_are_the_same_as_what_they_unpack_to() {
    let (host, scratch) = (host(), Scratch::new());
    let folders = apr_tests::root().join("tests/packed/fixtures");
    let mut count = 0;
    for name in apr_tests::names_in(&folders).iter().filter(|name| folders.join(name).is_dir()) {
        let path = folders.join(name);
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let out = scratch.at("out.safetensors");
            let mut wanted = ConvertOptions { force: true, ..options(&path, &out) };
            wanted.quantization.dequantize = Some(dtype);
            // Integers of 16 bits and more do not fit every float.
            if convert(&host, &wanted).is_err() {
                continue;
            }
            for (a, b) in [(&path, &out), (&out, &path)] {
                let [a, b] = [a, b].map(|path| {
                    let mut opened = open(&host, path, &OpenOptions::default()).unwrap();
                    opened.unpack(&host).unwrap();
                    opened
                });
                let diff = diff(&host, &a, &b, &DiffOptions::default()).unwrap();
                assert!(diff.same, "{name} as {dtype}: {:?}", diff.tensors);
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn packed_weights_differ_where_their_scales_do_by_less_than_a_step_of_their_type() {
    let (host, scratch) = (host(), Scratch::new());
    let fixture = apr_tests::root().join("tests/packed/fixtures/fp8-block-ue8m0");
    let changed = scratch.at("changed");
    std::fs::create_dir(&changed).unwrap();
    std::fs::copy(fixture.join("config.json"), changed.join("config.json")).unwrap();
    let mut file = std::fs::read(fixture.join("model.safetensors")).unwrap();
    let data = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    // The first of the scales, a power of two: 2^-16 more of it is lost in BF16, as which the weights are listed.
    let scale = file[data..].first_chunk_mut::<4>().unwrap();
    *scale = (f32::from_le_bytes(*scale) * (1.0 + f32::EPSILON * 128.0)).to_le_bytes();
    std::fs::write(changed.join("model.safetensors"), file).unwrap();

    let [a, b] = [&fixture, &changed].map(|path| {
        let mut opened = open(&host, path, &OpenOptions::default()).unwrap();
        opened.unpack(&host).unwrap();
        opened
    });
    let diff = diff(&host, &a, &b, &DiffOptions::default()).unwrap();
    let [tensor] = &diff.tensors[..] else { panic!("{:?}", diff.tensors) };
    assert_eq!(tensor.status, Status::Different, "{tensor:?}");
    // So do the other comparisons of two models, which pair their tensors likewise.
    let compared = verify(&host, &a, &b, None).unwrap();
    let codes: Vec<&str> = compared.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["ROSETTA-CRC-001"], "{:?}", compared.findings);
    let survey = survey(&host, &a, Some(&b), 0).unwrap();
    let apart = survey.tensors.iter().filter(|tensor| tensor.status == Some(survey::Status::Different));
    assert_eq!(apart.count(), 1, "{:?}", survey.tensors);
}
