//! A -> B -> A: the same bytes where that is promised, the same payload everywhere else.

use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, TensorRow, tensor_rows};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::ForeignPolicy;
use apr_tests::{Scratch, assert_same_file, fixtures, fixtures_with, host, must, names_in, options};
use std::path::Path;

fn rows(path: &Path) -> Vec<TensorRow> {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    let mut rows = tensor_rows(&host, &opened, RowOptions { sha256: true, stats: false }).unwrap();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn assert_same_tensors(a: &Path, b: &Path) {
    let (one, two) = (rows(a), rows(b));
    assert_eq!(one.len(), two.len(), "{} and {}", a.display(), b.display());
    for (x, y) in one.iter().zip(&two) {
        assert_eq!((&x.name, &x.dtype, &x.shape, &x.sha256), (&y.name, &y.dtype, &y.shape, &y.sha256));
    }
}

/// A -> APR -> A through files of extension `extension`, with a policy.
fn through_apr(path: &Path, extension: &str, policy: ForeignPolicy) -> (Scratch, std::path::PathBuf) {
    let (host, scratch) = (host(), Scratch::new());
    let (middle, back) = (scratch.at("m.apr"), scratch.at(&format!("back.{extension}")));
    let mut there = options(path, &middle);
    there.foreign = policy;
    must(&host, &there);
    assert_same_tensors(path, &middle);
    must(&host, &options(&middle, &back));
    assert_eq!(scratch.names(), [format!("back.{extension}"), "m.apr".to_owned()]);
    (scratch, back)
}

/// Little-endian version 3 files of one part: those that the writer could have laid out itself.
fn plain_gguf() -> Vec<std::path::PathBuf> {
    let mut files = fixtures_with("gguf", "gguf");
    files.retain(|p| {
        let bytes = std::fs::read(p).unwrap();
        let name = p.file_name().unwrap().to_string_lossy();
        // Offsets that are not the padded running sum are not ours to write.
        bytes[4..8] == [3, 0, 0, 0] && name != "unsorted.gguf"
    });
    assert!(files.len() > 5);
    files
}

#[test]
fn gguf_through_apr_is_byte_identical() {
    for path in plain_gguf() {
        let (_scratch, back) = through_apr(&path, "gguf", ForeignPolicy::Default);
        assert_same_file(&path, &back);
        let (_scratch, back) = through_apr(&path, "gguf", ForeignPolicy::Typed);
        assert_same_metadata(&path, &back);
        if GGUF_PACKAGE.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            assert_same_file(&path, &back);
        }
    }
}

/// The fixtures that the Python package `gguf` wrote (`generate.py`); the others were laid out by hand (`build.py`).
const GGUF_PACKAGE: [&str; 8] =
    ["align-4096", "align-64", "align-8", "long-values", "nested", "no-tensors", "small", "types"];

/// Every key with its type, value and place in the order.
fn assert_same_metadata(a: &Path, b: &Path) {
    let host = host();
    let typed = |path: &Path| {
        let opened = open(&host, path, &OpenOptions::default()).unwrap();
        let files = opened.model.foreign[0].files.iter();
        let values = files.flat_map(|f| f.typed.clone());
        values.map(|(key, value)| (key, value.kind, opened.fetch(&value.bytes).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(typed(a), typed(b), "{}", a.display());
}

#[test]
fn every_gguf_keeps_its_payload_through_apr() {
    for path in fixtures_with("gguf", "gguf") {
        let (_scratch, back) = through_apr(&path, "gguf", ForeignPolicy::Default);
        assert_same_tensors(&path, &back);
    }
}

#[test]
fn safetensors_through_apr_is_byte_identical() {
    for path in fixtures_with("safetensors", "safetensors") {
        let (_scratch, back) = through_apr(&path, "safetensors", ForeignPolicy::Default);
        assert_same_file(&path, &back);
        let (_scratch, back) = through_apr(&path, "safetensors", ForeignPolicy::Typed);
        assert_same_tensors(&path, &back);
        let of_the_package = !path.file_name().unwrap().to_string_lossy().starts_with("handmade");
        if of_the_package {
            assert_same_file(&path, &back);
        }
    }
}

/// A folder, or any of its parts -> APR -> a folder: every file again.
fn folder_through_apr(input: &Path, folder: &Path, to: &str) {
    for policy in [ForeignPolicy::Default, ForeignPolicy::Typed] {
        let (host, scratch) = (host(), Scratch::new());
        let (middle, back) = (scratch.at("m.apr"), scratch.at("back"));
        let mut there = options(input, &middle);
        there.foreign = policy;
        must(&host, &there);
        let mut again = options(&middle, &back);
        again.to = Some(to.to_owned());
        must(&host, &again);
        let names: Vec<_> = names_in(folder).into_iter().filter(|n| !n.contains("golden")).collect();
        assert!(names.len() > 2, "{names:?}");
        assert_eq!(names_in(&back), names);
        for name in names {
            assert_same_file(&folder.join(&name), &back.join(&name));
        }
    }
}

#[test]
fn split_gguf_through_apr_is_byte_identical_from_any_part() {
    for name in ["split", "split-first-empty"] {
        let folder = fixtures("gguf").join(name);
        folder_through_apr(&folder, &folder, "gguf");
        for part in names_in(&folder) {
            folder_through_apr(&folder.join(part), &folder, "gguf");
        }
    }
}

#[test]
fn sharded_safetensors_through_apr_is_byte_identical() {
    let folder = fixtures("safetensors").join("sharded");
    folder_through_apr(&folder, &folder, "safetensors");
    folder_through_apr(&folder.join("model.safetensors.index.json"), &folder, "safetensors");
}

#[test]
fn gguf_through_safetensors_keeps_payload_and_metadata() {
    for name in ["small.gguf", "align-64.gguf", "nested.gguf", "long-values.gguf"] {
        let path = fixtures("gguf").join(name);
        let (host, scratch) = (host(), Scratch::new());
        let (middle, back) = (scratch.at("m.safetensors"), scratch.at("back.gguf"));
        must(&host, &options(&path, &middle));
        assert_same_tensors(&path, &middle);
        must(&host, &options(&middle, &back));
        assert_same_file(&path, &back);
    }
}

#[test]
fn apr_to_apr_is_byte_identical() {
    let (host, scratch) = (host(), Scratch::new());
    let (one, two) = (scratch.at("1.apr"), scratch.at("2.apr"));
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &one));
    must(&host, &options(&one, &two));
    assert_same_file(&one, &two);
}

#[test]
fn any_thread_count_gives_the_same_bytes() {
    let scratch = Scratch::new();
    for name in ["types.gguf", "big-endian.gguf"] {
        let mut outputs = Vec::new();
        for threads in [1, 2, 7] {
            let mut host = host();
            host.set_threads(threads);
            let output = scratch.at(&format!("{name}-{threads}.apr"));
            must(&host, &options(&fixtures("gguf").join(name), &output));
            outputs.push(output);
        }
        assert_same_file(&outputs[0], &outputs[1]);
        assert_same_file(&outputs[0], &outputs[2]);
    }
}

/// Formats with a writer, and what their files end in.
const WRITTEN: [(&str, &str); 8] = [
    ("gguf", "gguf"),
    ("numpy", "npy"),
    ("numpy", "npz"),
    ("onnx", "onnx"),
    ("pytorch", "ckpt"),
    ("pytorch", "pt"),
    ("pytorch", "pth"),
    ("safetensors", "safetensors"),
];

/// Words of the notes on what makes a file another one when it is written again.
const SAID: [&str; 8] = [
    "rewriting the",
    "when rewritten",
    "stored separately",
    "not carried over",
    "in a separate file",
    "read as plain values",
    "left out, because",
    "not part of the model",
];

#[test]
fn every_fixture_of_every_format_comes_back_to_the_byte_or_a_note_says_why_not() {
    let (host, mut same, mut told, mut silent) = (host(), 0, 0, Vec::new());
    for path in WRITTEN.into_iter().flat_map(|(plugin, extension)| fixtures_with(plugin, extension)) {
        let scratch = Scratch::new();
        // Under its own name, which is a tensor's in some formats.
        std::fs::create_dir(scratch.at("back")).unwrap();
        let middle = scratch.at("m.apr");
        let back = scratch.at("back").join(path.file_name().unwrap());
        // What is refused is said as well.
        let Ok(there) = convert(&host, &options(&path, &middle)) else { continue };
        let to = Some(there.from.clone());
        let Ok(again) = convert(&host, &ConvertOptions { to, ..options(&middle, &back) }) else { continue };
        let notes: Vec<String> = there.notes.into_iter().chain(again.notes).collect();
        if std::fs::read(&path).unwrap() == std::fs::read(&back).unwrap() {
            same += 1;
        } else if notes.iter().any(|note| SAID.iter().any(|words| note.contains(words))) {
            told += 1;
        } else {
            silent.push(format!("{}: {notes:?}", path.display()));
        }
    }
    assert!(
        silent.is_empty(),
        "{} came back as other files in silence:\n{}",
        silent.len(),
        silent.join("\n")
    );
    assert!(same > 60 && told > 15, "{same} came back, of {told} a note says why they do not");
}
