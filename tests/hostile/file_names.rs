//! Names that a model gives to files: companions, shards, external data. One that leaves the folder, cannot be a file's, or
//! would be obeyed by a terminal is the model's fault (exit 4), wherever it stands; a companion that cannot be opened is left
//! out, and that is said.

use crate::build::{entry, safetensors};
use crate::command::{fails, run};
use apr_sdk::is_printable;
use apr_tests::Scratch;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A folder with a model of one tensor.
fn folder(at: &Path) {
    fs::create_dir(at).unwrap();
    fs::write(at.join("config.json"), r#"{"model_type":"toy"}"#).unwrap();
    let header = format!("{{{}}}", entry("a", "[4]", 0, 4));
    fs::write(at.join("model.safetensors"), safetensors(header.as_bytes(), b"abcd")).unwrap();
}

/// An APR file with two companions, the second called `name` in its JSON, which has as many bytes as `place`.
fn with_asset(scratch: &Scratch, place: &str, name: &str) {
    assert_eq!(place.len(), name.len());
    folder(&scratch.at("in"));
    let companion = scratch.at("in").join(place);
    fs::create_dir_all(companion.parent().unwrap()).unwrap();
    fs::write(scratch.at("in/about"), "x").unwrap();
    fs::write(companion, "y").unwrap();
    let ended = run(&scratch.at(""), &["convert", "in", "m.apr"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let mut bytes = fs::read(scratch.at("m.apr")).unwrap();
    let at = bytes.windows(place.len()).position(|window| window == place.as_bytes()).unwrap();
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    // The footer's checksum covers the name.
    let end = bytes.len() - 16;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(scratch.at("m.apr"), bytes).unwrap();
    fs::remove_dir_all(scratch.at("in")).unwrap();
}

#[test]
fn names_of_companions_that_are_none_for_files_are_the_models_fault() {
    for (place, name, word) in [
        ("aaaaaaaaaa.txt", r"\u001b[31m.txt", "control characters"),
        ("aaaaaaaaaa.txt", r"\u202emdx.txte", "control characters"),
        ("aaaaaaaaaa.txt", "../../../a.txt", "points outside the model's folder"),
        ("aaaaaaaaaa.txt", "/aaaaaaaaa.txt", "points outside the model's folder"),
        ("aaaaaaaaaa.txt", "about/aaaa.txt", "one is a folder that contains the other"),
        // Names of the folder's own files, and of what staging makes.
        ("aaaaaaaaaaa.json", "config.json/b.md", "both a file and a folder"),
        ("aaaaaaaaaaaaa.txt", "model.safetensors", "two files named"),
        ("aaaaaaaaaaaaa", ".out.apr-part", "reserved for apr"),
    ] {
        let scratch = Scratch::new();
        with_asset(&scratch, place, name);
        let args = ["convert", "m.apr", "out", "--to", "huggingface"];
        fails(&scratch, &args, 4, &[word, "m.apr"]);
    }
}

#[test]
fn a_companion_whose_name_no_file_can_have_is_left_out_aloud() {
    let scratch = Scratch::new();
    let (one, two) = ("a".repeat(200), "b".repeat(200));
    with_asset(&scratch, &format!("{one}/{two}"), &format!("{one}c{two}"));
    let ended = run(&scratch.at(""), &["convert", "m.apr", "out", "--to", "huggingface"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("its name has 401 bytes"), "{}", ended.stdout);
    let mut left = apr_tests::names_in(&scratch.at("out"));
    left.retain(|name| name != "about");
    assert_eq!(left, ["config.json", "model.safetensors"]);
}

#[test]
fn names_in_an_index_that_lead_nowhere_are_the_models_fault() {
    let long = "n".repeat(300);
    for (name, word) in [
        (r"\u001b[31m.safetensors", "control characters"),
        (r"a\u2028b.safetensors", "control characters"),
        ("../in.safetensors", "points outside the model's folder"),
        (long.as_str(), "too long"),
        ("loop.safetensors", "circular link"),
        ("file/x.safetensors", "not a valid file name"),
        ("pipe.safetensors", "neither a file nor a folder"),
    ] {
        for index in ["model.safetensors.index.json", "pytorch_model.bin.index.json"] {
            let scratch = Scratch::new();
            fs::write(scratch.at("file"), "x").unwrap();
            symlink("loop.safetensors", scratch.at("loop.safetensors")).unwrap();
            let pipe = scratch.at("pipe.safetensors");
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, 0o600.into(), 0).unwrap();
            fs::write(scratch.at(index), format!(r#"{{"weight_map":{{"a":"{name}"}}}}"#)).unwrap();
            let ended = run(&scratch.at(""), &["inspect", index]);
            assert_eq!(ended.code, 4, "{index} {name}: {}", ended.stderr);
            assert!(ended.stderr.contains(word), "{index} {name}: {}", ended.stderr);
            assert!(ended.stderr.chars().all(|c| is_printable(c) || c == '\n'), "{:?}", ended.stderr);
        }
    }
}

#[test]
fn a_companion_that_cannot_be_opened_is_left_out_and_the_reason_said() {
    let scratch = Scratch::new();
    let at = scratch.at("in");
    folder(&at);
    symlink("README.md", at.join("README.md")).unwrap();
    symlink("n".repeat(300), at.join("LICENSE")).unwrap();
    fs::write(at.join("gen\u{1b}[31m.txt"), "x").unwrap();
    fs::write(at.join("NOTICE"), "kept").unwrap();
    let ended = run(&scratch.at(""), &["convert", "in", "out", "--to", "huggingface"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for words in [
        "`README.md`: it is a circular link",
        "`LICENSE`: its name, or that of the link's target, is too long",
        "`gen\\u{1b}[31m.txt`: ",
    ] {
        assert!(ended.stdout.contains(words), "`{words}` is not in:\n{}", ended.stdout);
    }
    assert_eq!(apr_tests::names_in(&scratch.at("out")), ["NOTICE", "config.json", "model.safetensors"]);
}
