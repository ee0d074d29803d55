//! `--prefix` and `--tensor-mapping`: other names for the source's tensors, whatever kind of payload they have.

use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::selection::Renaming;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{Error, ErrorKind};
use apr_tests::{Scratch, host, must, options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn named(prefix: Option<&str>, mapping: &[(&str, &str)]) -> Renaming {
    let mapping = mapping.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Renaming { prefix: prefix.map(str::to_owned), mapping }
}

fn names(path: &Path) -> Vec<String> {
    let model = open(&host(), path, &OpenOptions::default()).unwrap();
    let mut names: Vec<String> = model.model.tensors.iter().map(|t| t.name.clone()).collect();
    names.sort();
    names
}

/// The model that is renamed, `a.0.w`, `a.1.w` and `b.w`, in a format.
fn source(scratch: &Scratch, extension: &str) -> PathBuf {
    let plain = scratch.at("source.safetensors");
    let entry = |at: u32| format!("{{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[{at},{}]}}", at + 8);
    let header = format!("{{\"a.0.w\":{},\"a.1.w\":{},\"b.w\":{}}}", entry(0), entry(8), entry(16));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((1..=24).collect::<Vec<u8>>());
    std::fs::write(&plain, bytes).unwrap();
    let path = scratch.at(&format!("source.{extension}"));
    if path != plain {
        must(&host(), &options(&plain, &path));
    }
    path
}

fn renamed(input: &Path, output: &Path, renaming: Renaming) -> Result<Vec<String>, Error> {
    convert(&host(), &ConvertOptions { renaming, ..options(input, output) })?;
    Ok(names(output))
}

#[test]
fn tensors_get_the_names_that_the_user_gives() {
    let scratch = Scratch::new();
    for extension in ["safetensors", "npz", "pt", "apr"] {
        let input = source(&scratch, extension);
        let before = names(&input);
        assert!(before.contains(&"a.0.w".to_owned()) && before.contains(&"b.w".to_owned()), "{before:?}");
        let output = scratch.at(&format!("mapped.{extension}"));
        let mapping = named(None, &[("a.{layer}.w", "layers.{layer}.weight"), ("b.w", "out")]);
        let after = renamed(&input, &output, mapping).unwrap();
        assert!(
            after.contains(&"layers.1.weight".to_owned()) && after.contains(&"out".to_owned()),
            "{after:?}"
        );
        assert_eq!(after.len(), before.len(), "{extension}");

        let output = scratch.at(&format!("below.{extension}"));
        let after = renamed(&input, &output, named(Some("a."), &[("0.w", "first")])).unwrap();
        assert_eq!(after, ["1.w", "first"], "{extension}");
        let (one, other) = (names_and_sums(&input), names_and_sums(&output));
        assert_eq!(one["a.0.w"], other["first"], "{extension}");
        assert_eq!(one["a.1.w"], other["1.w"], "{extension}");
    }
}

fn names_and_sums(path: &Path) -> BTreeMap<String, Option<String>> {
    let host = host();
    let model = open(&host, path, &OpenOptions::default()).unwrap();
    let rows = tensor_rows(&host, &model, RowOptions { sha256: true, ..RowOptions::default() }).unwrap();
    rows.into_iter().map(|row| (row.name, row.sha256)).collect()
}

#[test]
fn names_that_do_not_fit_are_refused_and_nothing_is_written() {
    let scratch = Scratch::new();
    let input = source(&scratch, "safetensors");
    for (renaming, wanted) in [
        (named(Some("nothing"), &[]), "no tensors below `nothing`"),
        (named(None, &[("c", "d")]), "refers to a tensor that is not in the model"),
        (named(None, &[("a.{layer}.w", "same")]), "two tensors would have this name"),
        (named(None, &[("b.w", "a.0.w")]), "two tensors would have this name"),
    ] {
        let error = renamed(&input, &scratch.at("out.safetensors"), renaming).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(wanted), "{wanted}: {error}");
        assert_eq!(scratch.names(), ["source.safetensors"]);
    }
}
