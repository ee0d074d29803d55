//! Every input of a corpus, and every seed as it is and damaged.

use crate::property::{
    Subject, check_archive, check_emulated_program, check_importance, check_library, check_model,
    check_older, check_packed, check_program, check_reports, check_section,
};
use crate::seeds;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An input of a corpus.
type Input = (String, Vec<u8>);

/// Replays inputs; those that break a rule are named together. Gives how many are accepted.
fn replay(inputs: &[Input], check: impl Fn(&[u8]) -> bool) -> usize {
    let (mut accepted, mut broken) = (0, Vec::new());
    for (name, bytes) in inputs {
        match catch_unwind(AssertUnwindSafe(|| check(bytes))) {
            Ok(opens) => accepted += usize::from(opens),
            Err(_) => broken.push(name.as_str()),
        }
    }
    assert!(broken.is_empty(), "{} of {} inputs: {}", broken.len(), inputs.len(), broken.join(", "));
    accepted
}

/// The inputs in `tests/corpus/TARGET`.
fn corpus(target: &str) -> Vec<Input> {
    let inputs = seeds::files(&apr_tests::root().join("tests/corpus").join(target));
    assert!(!inputs.is_empty(), "tests/corpus/{target} is empty");
    inputs
}

/// The corpus never breaks a rule; every seed is accepted; no seed cut off or with one byte changed breaks a rule.
fn check(target: &str, seeds: &[Input], check: impl Fn(&[u8]) -> bool) {
    replay(&corpus(target), &check);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    for seed in seeds {
        assert_eq!(replay(std::slice::from_ref(seed), &check), 1, "the seed {} is refused", seed.0);
        replay(&damaged(seed), &check);
    }
}

/// Some twenty variants of a seed: cut off, and with a byte changed, at places that are spread over it.
fn damaged((name, bytes): &Input) -> Vec<Input> {
    let places = (0..16).map(|n| bytes.len() * n / 16);
    let cuts = places.clone().map(|at| (format!("{name} cut to {at} bytes"), bytes[..at].to_vec()));
    let flips = places.filter(|&at| at < bytes.len()).map(|at| {
        let mut changed = bytes.clone();
        changed[at] ^= 0x80 >> (at % 8);
        (format!("{name} with byte {at} changed"), changed)
    });
    cuts.chain(flips).collect()
}

fn check_format(subject: &Subject) {
    let id = subject.id();
    check(id, &seeds::models(id), |bytes| check_model(subject, bytes));
}

#[test]
fn any_bytes_as_ggml_legacy_are_a_model_or_a_clear_error() {
    check_format(&Subject::ggml_legacy());
}

#[test]
fn any_bytes_as_gguf_are_a_model_or_a_clear_error() {
    check_format(&Subject::gguf());
}

#[test]
fn any_bytes_as_onnx_are_a_model_or_a_clear_error() {
    check_format(&Subject::onnx());
}

#[test]
fn any_bytes_as_pytorch_are_a_model_or_a_clear_error() {
    check_format(&Subject::pytorch());
}

#[test]
fn any_bytes_as_pytorch_have_reports_or_give_a_clear_error() {
    let subject = Subject::pytorch();
    check("pytorch_reports", &seeds::single_models("pytorch"), |bytes| check_reports(&subject, bytes));
}

#[test]
fn any_bytes_as_safetensors_are_a_model_or_a_clear_error() {
    check_format(&Subject::safetensors());
}

#[test]
fn any_bytes_as_an_array_are_a_model_or_a_clear_error() {
    check_format(&Subject::npy());
}

#[test]
fn any_bytes_as_an_archive_of_arrays_are_a_model_or_a_clear_error() {
    check_format(&Subject::npz());
}

#[test]
fn any_bytes_as_zip_are_an_archive_or_a_clear_error() {
    check("zip", &seeds::archives(), check_archive);
}

#[test]
fn any_bytes_as_an_importance_matrix_are_one_or_a_clear_error() {
    check("importance", &seeds::importance(), check_importance);
}

#[test]
fn any_bytes_as_apr_are_a_model_or_a_clear_error() {
    check_format(&Subject::apr());
}

#[test]
fn any_bytes_as_apr_with_a_64_byte_header_are_a_model_or_a_clear_error() {
    let subject = Subject::apr();
    check("apr_64", &seeds::older_apr("header_64"), |bytes| check_older(&subject, bytes));
}

#[test]
fn any_bytes_as_apr_of_version_1_are_a_model_or_a_clear_error() {
    let subject = Subject::apr();
    check("apr_1", &seeds::older_apr("version_1"), |bytes| check_older(&subject, bytes));
}

#[test]
fn any_bytes_as_a_manifest_are_one_or_a_clear_error() {
    check("manifest", &seeds::manifests(), check_section);
}

#[test]
fn any_bytes_as_a_library_have_a_manifest_or_give_a_clear_error() {
    check("library", &seeds::libraries(), check_library);
}

#[test]
fn any_bytes_as_a_program_run_or_give_a_clear_error() {
    check("program", &seeds::programs(), check_program);
}

#[test]
fn any_bytes_as_a_program_run_by_the_kernels_for_nvidias_devices_or_give_a_clear_error() {
    check("program", &seeds::programs(), check_emulated_program);
}

#[test]
fn any_bytes_as_a_packed_checkpoint_have_values_or_give_a_clear_error() {
    check("packed", &seeds::packed(), check_packed);
}

#[test]
fn the_corpora_stay_small() {
    let folders = std::fs::read_dir(apr_tests::root().join("tests/corpus")).unwrap();
    let all = folders.map(|folder| corpus(folder.unwrap().file_name().to_str().unwrap()));
    let bytes: usize = all.flatten().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes of corpora: minimise them");
}
