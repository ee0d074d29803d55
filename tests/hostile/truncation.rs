//! Every fixture, cut off at every 64th of its length, opened and converted to each format.

use crate::command::fails;
use crate::judge::{FORMATS, converted, judged};
use apr_tests::{Scratch, fixtures, fixtures_with, host, names_in};
use std::fs;
use std::path::{Path, PathBuf};

/// The lengths to cut at: every 64th, and the last byte.
fn cuts(len: usize) -> Vec<usize> {
    let mut cuts: Vec<_> = (0..64).map(|n| len * n / 64).chain([len.saturating_sub(1)]).collect();
    cuts.dedup();
    cuts
}

#[test]
fn every_fixture_cut_at_every_64th_is_an_error_or_whole() {
    let host = host();
    let (mut n_errors, mut n_models) = (0, 0);
    for path in FORMATS.iter().flat_map(|format| fixtures_with(format, format)) {
        let scratch = Scratch::in_memory();
        let bytes = fs::read(&path).unwrap();
        let cut = scratch.at(&path.file_name().unwrap().to_string_lossy());
        for len in cuts(bytes.len()) {
            fs::write(&cut, &bytes[..len]).unwrap();
            match judged(&host, &cut) {
                Err(error) => {
                    n_errors += 1;
                    assert!(error.hint_text().is_some(), "{} cut at {len}: {error}", path.display());
                }
                Ok(opened) => {
                    n_models += 1;
                    converted(&host, &scratch, &cut, &opened);
                }
            }
        }
    }
    // A file that is whole but for bytes that belong to nothing may open, no other.
    assert!(n_errors > 1000 && n_models * 20 < n_errors, "{n_errors} errors, {n_models} models");
}

/// One file of a set cut, the others whole.
#[test]
fn every_file_of_a_set_cut_at_every_64th_is_an_error_or_whole() {
    let host = host();
    for folder in [
        fixtures("gguf").join("split"),
        fixtures("gguf").join("split-first-empty"),
        fixtures("safetensors").join("sharded"),
        fixtures("apr").join("sharded"),
    ] {
        let names: Vec<_> = names_in(&folder).into_iter().filter(|n| !n.contains("golden")).collect();
        for name in &names {
            one_of_a_set(&host, &folder, &names, name);
        }
    }
}

fn one_of_a_set(host: &apr_host::host::Host, folder: &Path, names: &[String], name: &str) {
    let scratch = Scratch::in_memory();
    let set: PathBuf = scratch.at("set");
    fs::create_dir(&set).unwrap();
    for name in names {
        fs::copy(folder.join(name), set.join(name)).unwrap();
    }
    let bytes = fs::read(folder.join(name)).unwrap();
    for len in cuts(bytes.len()) {
        fs::write(set.join(name), &bytes[..len]).unwrap();
        match judged(host, &set) {
            Err(error) => {
                let file = error.file().unwrap_or_default();
                // The culprit, or what noticed that the set is not whole; never a third file's name.
                assert!(file.contains("set"), "{name} cut at {len}: {error}");
            }
            Ok(opened) => converted(host, &scratch, &set, &opened),
        }
    }
}

/// One of each kind through the program, as a user meets it.
#[test]
fn the_program_says_that_a_file_is_cut() {
    let scratch = Scratch::new();
    for (plugin, name) in
        [("gguf", "small.gguf"), ("safetensors", "numpy_dtypes.safetensors"), ("apr", "every_dtype.apr")]
    {
        let bytes = fs::read(fixtures(plugin).join(name)).unwrap();
        for len in [bytes.len() * 7 / 8, bytes.len() / 2, 40, 5] {
            fs::write(scratch.at(name), &bytes[..len]).unwrap();
            let target = if plugin == "apr" { "out.gguf" } else { "out.apr" };
            let place = format!("  at {name}");
            let verbs =
                [&["convert", name, target, "--arch", "none"][..], &["inspect", name], &["validate", name]];
            for args in verbs {
                let ended = fails(&scratch, args, 4, &["error[E00", &place, "\n  help: "]);
                assert!(len < 40 || ended.stderr.contains("offset"), "{len}: {}", ended.stderr);
            }
        }
        fs::remove_file(scratch.at(name)).unwrap();
    }
}
