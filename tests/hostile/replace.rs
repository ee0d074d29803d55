//! A model of several files is replaced by another, and killed in between: whoever opens the folder sees the old one, the new
//! one or an error, never some files of each.

use crate::build::big_of;
use crate::command::{apr, run};
use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_tests::{Scratch, host, names_in};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// For each format.
const N_KILLS: u64 = 20;

/// The digests of a folder's model, if it opens.
fn digests(folder: &Path) -> Option<Vec<Option<String>>> {
    let host = host();
    let opened = open(&host, folder, &OpenOptions::default()).ok()?;
    let rows = tensor_rows(&host, &opened, RowOptions { sha256: true, stats: false }).unwrap();
    assert_eq!(rows.len(), 2);
    Some(rows.into_iter().map(|row| row.sha256).collect())
}

fn convert<'a>(input: &'a str, format: &'a str) -> [&'a str; 9] {
    ["convert", input, "out/", "--to", format, "--max-shard-size", "600k", "--arch", "none"]
}

#[test]
fn a_set_that_is_replaced_is_never_mixed_slow() {
    for format in ["gguf", "safetensors", "apr"] {
        let (n_old, n_none, n_new) = replaced(format);
        eprintln!("{format}: {n_old} old, {n_none} none, {n_new} new");
        // Else no kill came while the files were exchanged, and the test says nothing.
        assert!(n_none > 0, "{format}: {n_old} old, {n_new} new");
    }
}

fn replaced(format: &str) -> (u64, u64, u64) {
    let scratch = Scratch::new();
    let (folder, out) = (scratch.at(""), scratch.at("out"));
    big_of(&scratch.at("old.safetensors"), 1, 1);
    big_of(&scratch.at("new.safetensors"), 1, 2);
    // Both are called the same, so that their files are too.
    let mut known = Vec::new();
    for which in ["new", "old"] {
        fs::copy(scratch.at(&format!("{which}.safetensors")), scratch.at("m.safetensors")).unwrap();
        let ended = run(&folder, &[&convert("m.safetensors", format)[..], &["--force"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        known.push(digests(&out).unwrap());
    }
    assert_ne!(known[0], known[1]);
    fs::copy(scratch.at("new.safetensors"), scratch.at("m.safetensors")).unwrap();
    let (mut n_old, mut n_none, mut n_new) = (0, 0, 0);
    for round in 0..N_KILLS {
        restore(&scratch, format);
        let before = files(&out);
        let began = Instant::now();
        let mut child =
            apr(&folder, &[&convert("m.safetensors", format)[..], &["--force"]].concat()).spawn().unwrap();
        // Until the first of the old files is gone: then it is published, file by file.
        while files(&out) == before && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(30));
        }
        std::thread::sleep(Duration::from_micros(round * 100));
        let _ = child.kill();
        child.wait().unwrap();
        match digests(&out) {
            None => n_none += 1,
            Some(found) if found == known[0] => n_new += 1,
            Some(found) => {
                assert_eq!(found, known[1], "{format}, round {round}: {:?}", names_in(&out));
                n_old += 1;
            }
        }
        fs::copy(scratch.at("new.safetensors"), scratch.at("m.safetensors")).unwrap();
        let ended = run(&folder, &[&convert("m.safetensors", format)[..], &["--force"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(digests(&out).as_ref(), Some(&known[0]));
        let hidden = |names: Vec<String>| names.into_iter().filter(|n| n.starts_with('.')).count();
        assert_eq!(hidden(scratch.names()) + hidden(names_in(&out)), 0, "{format}, round {round}");
    }
    (n_old, n_none, n_new)
}

/// Puts the old model into the folder.
fn restore(scratch: &Scratch, format: &str) {
    fs::copy(scratch.at("old.safetensors"), scratch.at("m.safetensors")).unwrap();
    let ended = run(&scratch.at(""), &[&convert("m.safetensors", format)[..], &["--force"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    fs::copy(scratch.at("new.safetensors"), scratch.at("m.safetensors")).unwrap();
}

/// Which files stand under the model's names, by inode.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.ino())).collect();
    files.retain(|(name, _)| !name.starts_with('.'));
    files.sort();
    files
}
