//! A model that another program writes over while it is read is an error, not an answer about half of either.

use apr_engine::diff::{DiffOptions, diff};
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::rosetta::compare::compare;
use apr_engine::survey::survey;
use apr_engine::verify::file_digests::file_digests;
use apr_engine::verify::histogram::histogram;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_engine::verify::tensor_values::values;
use apr_engine::verify::validate::{ValidateOptions, validate};
use apr_host::host::Host;
use apr_host::running::{LoadOptions, load};
use apr_sdk::{Error, Result};
use apr_tests::{Scratch, host};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A copy of a model that runs.
fn model(scratch: &Scratch) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/weights");
    fs::create_dir(scratch.at("model")).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), scratch.at("model").join(entry.file_name())).unwrap();
    }
    // A file system's clock ticks every few milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(30));
}

/// What is done with an opened model.
type Work = fn(&Host, &OpenedModel) -> Result<()>;

const WORKS: [(&str, Work); 9] = [
    ("load", |host, opened| load(host, opened, &LoadOptions::default()).map(drop)),
    ("stats", |host, opened| tensor_rows(host, opened, RowOptions { sha256: false, stats: true }).map(drop)),
    ("histogram", |host, opened| histogram(host, opened, 0).map(drop)),
    ("values", |host, opened| {
        let axis = || std::iter::once(0..2).collect::<Vec<_>>();
        values(host, opened, 0, &[axis(), axis()]).map(drop)
    }),
    ("digests", |host, opened| file_digests(host, opened).map(drop)),
    ("validate", |host, opened| {
        validate(host, opened, ValidateOptions { values: true, ..ValidateOptions::default() }).map(drop)
    }),
    ("diff", |host, opened| {
        let options = DiffOptions::default();
        diff(host, opened, opened, &options).map(drop)
    }),
    ("survey", |host, opened| survey(host, opened, None, 10).map(drop)),
    ("compare", |host, opened| compare(host, opened, opened, None).map(drop)),
];

#[test]
fn what_was_read_of_a_model_that_was_written_over_is_not_used() {
    for (name, work) in WORKS {
        let (host, scratch) = (host(), Scratch::new());
        model(&scratch);
        let path = scratch.at("model");
        let opened = open(&host, &path, &OpenOptions::default()).unwrap();
        work(&host, &opened).unwrap_or_else(|error| panic!("{name}: {error}"));
        let weights = File::options().read(true).write(true).open(path.join("model.safetensors")).unwrap();
        let end = weights.metadata().unwrap().len();
        weights.write_all_at(&[7; 4096], end - 4096).unwrap();
        let error: Error = work(&host, &opened).expect_err(name);
        assert!(error.message().contains("changed while it was being read"), "{name}: {error}");
        assert!(error.file().is_some_and(|file| file.ends_with("model.safetensors")), "{name}: {error}");
    }
}

#[test]
fn images_of_a_model_that_was_written_over_are_not_kept() {
    let (host, scratch) = (host(), Scratch::new());
    model(&scratch);
    let path = scratch.at("model");
    let opened = open(&host, &path, &OpenOptions::default()).unwrap();
    let weights = File::options().write(true).open(path.join("model.safetensors")).unwrap();
    weights.write_all_at(&[7; 64], weights.metadata().unwrap().len() - 64).unwrap();
    let options = LoadOptions { keep_images: Some(scratch.at("images")), ..LoadOptions::default() };
    load(&host, &opened, &options).map(drop).unwrap_err();
    assert_eq!(fs::read_dir(scratch.at("images")).unwrap().count(), 0);
}
