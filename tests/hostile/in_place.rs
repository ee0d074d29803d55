//! A model is edited in its place, and the system refuses each single step, or that and all that follow: the model is the old
//! one or the new one, whole, or an error with the command that finishes it.

use apr_host::convert::{ConvertOptions, convert};
use apr_host::destination::in_place::{Own, own};
use apr_host::host::Host;
use apr_host::storage::publish::finish;
use apr_host::storage::publish::steps::{Step, Steps};
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, fixtures, host};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Refuses the steps from `from` on, as many as `count`.
struct Refuses {
    from: usize,
    count: usize,
    seen: AtomicUsize,
}

impl Steps for Refuses {
    fn before(&self, _: Step, _: &Path) -> io::Result<()> {
        let number = self.seen.fetch_add(1, Ordering::SeqCst);
        let refused = number.checked_sub(self.from).is_some_and(|past| past < self.count);
        if refused { Err(rustix::io::Errno::IO.into()) } else { Ok(()) }
    }
}

fn job(host: &Host, path: &Path, key: (&str, &str)) -> ConvertOptions {
    let Own { format, input, output, .. } = own(host, path, &Default::default(), true).unwrap();
    ConvertOptions {
        input,
        output: Some(output),
        to: Some(format),
        arch: Some("none".to_owned()),
        set: vec![(key.0.to_owned(), key.1.to_owned())],
        force: true,
        in_place: true,
        ..ConvertOptions::default()
    }
}

/// Names and bytes of the files in a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = apr_tests::names_in(folder).into_iter();
    names.map(|name| (name.clone(), fs::read(folder.join(&name)).unwrap_or_default())).collect()
}

fn fill(folder: &Path, files: &[PathBuf]) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).unwrap();
    for file in files {
        fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn refused_at_any_step_the_model_is_the_old_one_or_the_new_one() {
    let split = fixtures("gguf").join("split");
    let several = apr_tests::names_in(&split).iter().map(|name| split.join(name)).collect();
    for (files, key) in [
        (vec![fixtures("gguf").join("small.gguf")], ("general.name", "Ada")),
        (several, ("general.architecture", "qwen2")),
    ] {
        let (scratch, plain) = (Scratch::in_memory(), host());
        let folder = scratch.at("d");
        fill(&folder, &files);
        let (old, options) = (contents(&folder), job(&plain, &folder, key));
        convert(&plain, &options).unwrap();
        let new = contents(&folder);
        assert!(old != new && old.len() == new.len());
        let (mut n_old, mut n_new, mut n_unfinished) = (0, 0, 0);
        for (from, count) in (0..).flat_map(|from| [(from, 1), (from, usize::MAX)]) {
            fill(&folder, &files);
            let steps = Arc::new(Refuses { from, count, seen: AtomicUsize::new(0) });
            let mut host = host();
            host.steps = Arc::<Refuses>::clone(&steps);
            let outcome = convert(&host, &options);
            if steps.seen.load(Ordering::SeqCst) <= from {
                outcome.unwrap();
                break;
            }
            if folder.join(".apr-publish").exists() {
                n_unfinished += 1;
                let _ = finish(&folder, "d", &plain.steps).unwrap();
            }
            let visible = |all: Vec<(String, Vec<u8>)>| -> Vec<_> {
                all.into_iter().filter(|(name, _)| !name.starts_with('.')).collect()
            };
            let found = visible(contents(&folder));
            n_old += usize::from(found == old);
            n_new += usize::from(found == new);
            assert!(found == old || found == new, "step {from}: {outcome:?}");
            assert!(found == new || outcome.is_err(), "step {from}");
        }
        assert!(
            n_old > 0 && n_new > 0 && (n_unfinished > 0 || files.len() == 1),
            "{n_old} {n_new} {n_unfinished}"
        );
    }
}

#[test]
fn a_file_that_a_value_is_read_from_is_not_replaced() {
    let (scratch, host) = (Scratch::in_memory(), host());
    let (file, values) = (scratch.at("m.gguf"), scratch.at("values"));
    fs::copy(fixtures("gguf").join("small.gguf"), &file).unwrap();
    fs::write(&values, "x").unwrap();
    let options = job(&host, &file, ("general.name", &format!("@{}", values.display())));
    // The value's file may not be what is written over, whatever its name.
    fs::remove_file(&values).unwrap();
    fs::hard_link(&file, &values).unwrap();
    let before = fs::read(&file).unwrap();
    let error = convert(&host, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(apr_tests::names_in(&scratch.at("")), ["m.gguf", "values"]);
}
