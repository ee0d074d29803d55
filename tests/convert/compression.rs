//! Compressed APR files: every method keeps every byte, whatever the model, the number of threads and the interruption.

use crate::resume::stopping;
use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::content_digests::{ContentDigests, content_digests};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, assert_same_file, fixtures, host, must, options, root};
use std::path::{Path, PathBuf};

const METHODS: [&str; 4] = ["lz4", "zstd", "zstd:9", "auto"];

fn compressing(input: &Path, output: &Path, method: &str) -> ConvertOptions {
    let mut options = options(input, output);
    options.options.push((None, "compress".to_owned(), method.to_owned()));
    options
}

fn digests(host: &Host, path: &Path) -> ContentDigests {
    let opened = open(host, path, &OpenOptions::default()).unwrap();
    content_digests(host, &opened).unwrap()
}

/// Models of every format, and one that was trained.
fn models() -> Vec<PathBuf> {
    let mut models = vec![root().join("tests/model/weights")];
    for (plugin, name) in
        [("gguf", "small.gguf"), ("apr", "every_dtype.apr"), ("apr", "carried.apr"), ("apr", "sharded/m.apr")]
    {
        models.push(fixtures(plugin).join(name));
    }
    models
}

#[test]
fn every_model_keeps_every_byte_compressed() {
    let host = host();
    let scratch = Scratch::new();
    for model in models() {
        let plain = scratch.at("plain.apr");
        must(&host, &ConvertOptions { force: true, ..options(&model, &plain) });
        let want = digests(&host, &plain);
        for method in METHODS {
            let packed = scratch.at("packed.apr");
            let done = must(&host, &ConvertOptions { force: true, ..compressing(&model, &packed, method) });
            assert_eq!(digests(&host, &packed), want, "{} {method}", model.display());
            if let Some(compressed) = done.compressed {
                assert!(compressed.bytes <= compressed.raw_bytes + compressed.raw_bytes / 64 + 1024);
            }
            // The record of the first conversion is kept, so that only compression differs.
            must(&host, &ConvertOptions { force: true, ..compressing(&plain, &packed, method) });
            let back = scratch.at("back.apr");
            must(&host, &ConvertOptions { force: true, ..compressing(&packed, &back, "none") });
            assert_same_file(&back, &plain);
            // Without a word a compressed file stays one.
            if method != "zstd:9" {
                must(&host, &ConvertOptions { force: true, ..options(&packed, &back) });
                assert_same_file(&back, &packed);
            }
        }
    }
}

#[test]
fn a_trained_model_takes_two_thirds() {
    let host = host();
    let scratch = Scratch::new();
    let model = root().join("tests/model/weights");
    let done = must(&host, &compressing(&model, &scratch.at("m.apr"), "zstd"));
    let compressed = done.compressed.unwrap();
    assert!(compressed.bytes * 100 < compressed.raw_bytes * 68, "{compressed:?}");
    // On the way to another format, rows change places: the same bytes as from what is not compressed.
    for (input, name) in [(scratch.at("m.apr"), "a.gguf"), (model, "b.gguf")] {
        must(&host, &options(&input, &scratch.at(name)));
    }
    let [a, b] = ["a.gguf", "b.gguf"].map(|name| digests(&host, &scratch.at(name)).tensors);
    assert_eq!(a, b);
}

#[test]
fn threads_make_no_difference() {
    let scratch = Scratch::new();
    let model = root().join("tests/model/weights");
    for method in METHODS {
        for threads in [1, 7] {
            let mut host = host();
            host.set_threads(threads);
            must(&host, &compressing(&model, &scratch.at(&format!("{threads}.apr")), method));
        }
        assert_same_file(&scratch.at("1.apr"), &scratch.at("7.apr"));
        for threads in [1, 7] {
            std::fs::remove_file(scratch.at(&format!("{threads}.apr"))).unwrap();
        }
    }
}

#[test]
fn what_was_interrupted_is_resumed_to_the_same_bytes() {
    let scratch = Scratch::new();
    let model = root().join("tests/model/weights");
    let whole = scratch.at("whole.apr");
    must(&host(), &compressing(&model, &whole, "zstd"));
    let cut = scratch.at("cut.apr");
    let (stopping, _) = stopping(2_000_000);
    let error = convert(&stopping, &compressing(&model, &cut, "zstd")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!cut.exists());
    must(&host(), &ConvertOptions { resume: true, ..compressing(&model, &cut, "zstd") });
    assert_same_file(&cut, &whole);
}

#[test]
fn other_formats_are_not_compressed() {
    let host = host();
    let scratch = Scratch::new();
    let input = fixtures("apr").join("every_dtype.apr");
    let error = convert(&host, &compressing(&input, &scratch.at("m.npz"), "lz4")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("`compress` is an option for writing APR"), "{error}");
}
