//! What people take for models: notes, web pages, pointers, empty and zero-filled files, folders without a model or with two.

use crate::command::fails;
use crate::judge::FORMATS;
use apr_tests::{Scratch, fixtures};
use std::fs;

const HTML: &str = "<!DOCTYPE html>\n<html><head><title>404</title></head><body>Not found</body></html>";
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
const NOTES: &str = "These are the notes of Ada.\nThe weights are elsewhere.\n";

#[test]
fn what_is_no_model_is_named_under_every_extension() {
    let scratch = Scratch::new();
    let files: [(&str, &[u8], &str); 6] = [
        ("page", HTML.as_bytes(), "not a model but a web page"),
        ("pointer", POINTER.as_bytes(), "git lfs pull"),
        ("notes", NOTES.as_bytes(), "not a model but plain text"),
        ("empty", b"", "not a model but an empty file"),
        ("zeros", &[0; 100_000], "starts with zeros"),
        ("noise", &[0xa5; 5000], "the contents are not"),
    ];
    for extension in FORMATS {
        for (name, bytes, words) in files {
            let name = format!("{name}.{extension}");
            fs::write(scratch.at(&name), bytes).unwrap();
            let target = if extension == "apr" { "out.gguf" } else { "out.apr" };
            for args in [&["convert", &name, target][..], &["inspect", &name], &["validate", &name]] {
                fails(&scratch, args, 4, &["error[E001]", words, &format!("at {name}"), "  help: "]);
            }
        }
    }
    fs::write(scratch.at("notes.txt"), NOTES).unwrap();
    fails(&scratch, &["convert", "notes.txt", "out.apr"], 4, &["plain text", "at notes.txt"]);
    fails(&scratch, &["convert", "none.gguf", "out.apr"], 3, &["no such file", "at none.gguf"]);
}

/// A format that is forced must refuse what is not its own as clearly.
#[test]
fn a_forced_format_refuses_what_is_no_model() {
    let scratch = Scratch::new();
    for (name, bytes) in [("page.x", HTML), ("pointer.x", POINTER), ("notes.x", NOTES), ("empty.x", "")] {
        fs::write(scratch.at(name), bytes).unwrap();
        for format in FORMATS {
            fails(&scratch, &["inspect", name, "--from", format], 4, &[&format!("at {name}"), "error"]);
        }
    }
}

#[test]
fn folders_without_a_model_or_with_two_are_refused() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("empty")).unwrap();
    fails(&scratch, &["convert", "empty", "out.apr"], 4, &["an empty folder", "at empty"]);
    fs::create_dir(scratch.at("notes")).unwrap();
    fs::write(scratch.at("notes/README.md"), NOTES).unwrap();
    fails(&scratch, &["convert", "notes", "out.apr"], 4, &["folder", "at notes"]);
    for extension in FORMATS {
        let folder = format!("two-{extension}");
        fs::create_dir(scratch.at(&folder)).unwrap();
        for name in ["one", "two"] {
            let fixture = match extension {
                "apr" => fixtures("apr").join("aligned_32.apr"),
                "gguf" => fixtures("gguf").join("small.gguf"),
                _ => fixtures("safetensors").join("metadata_one.safetensors"),
            };
            fs::copy(fixture, scratch.at(&format!("{folder}/{name}.{extension}"))).unwrap();
        }
        let (one, two) = (format!("one.{extension}"), format!("two.{extension}"));
        fails(&scratch, &["convert", &folder, "out.apr"], 2, &[&one, &two, &format!("at {folder}")]);
    }
}

/// Two formats in one folder: neither is guessed.
#[test]
fn a_folder_with_models_of_two_formats_is_refused() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("m")).unwrap();
    fs::copy(fixtures("gguf").join("small.gguf"), scratch.at("m/a.gguf")).unwrap();
    let other = fixtures("safetensors").join("metadata_one.safetensors");
    fs::copy(other, scratch.at("m/a.safetensors")).unwrap();
    fails(&scratch, &["convert", "m", "out.apr"], 4, &["gguf", "safetensors", "--from", "at m"]);
}

#[test]
fn a_fifo_and_a_device_are_refused_at_once() {
    let scratch = Scratch::new();
    let made = std::process::Command::new("mkfifo").arg(scratch.at("pipe.gguf")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let ended = crate::command::run(&scratch.at(""), &["inspect", "pipe.gguf"]);
    crate::command::says(&["inspect", "pipe.gguf"], &ended, 2, &["neither a file nor a folder"]);
    let ended = crate::command::run(&scratch.at(""), &["inspect", "/dev/zero"]);
    crate::command::says(&["inspect", "/dev/zero"], &ended, 2, &["neither a file nor a folder"]);
}
