//! What a machine, or its owner, may do that models do not: too little address space, files of other users, tables that
//! fit equally well or are endless, data that is the model itself.

use crate::command::{fails, run};
use apr_tests::{Scratch, fixtures};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// A copy of a model that runs.
fn model(scratch: &Scratch) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/weights");
    fs::create_dir(scratch.at("model")).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), scratch.at("model").join(entry.file_name())).unwrap();
    }
}

#[test]
fn too_little_address_space_is_an_error_and_enough_is_enough() {
    let scratch = Scratch::new();
    model(&scratch);
    for (kib, code) in [(60_000, 1), (100_000, 1), (190_000, 1), (196_608, 0)] {
        for verb in ["inspect model", "validate model", "plugins list", "convert model model.gguf --force"] {
            let mut command = Command::new("/bin/sh");
            let script = format!("ulimit -v {kib}; exec \"$0\" {verb}");
            command.arg("-c").arg(script).arg(apr_tests::program()).current_dir(scratch.at(""));
            let ended = command.output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(code), "{kib} {verb}: {said}");
            assert_eq!(said.contains("the limit on address space"), code == 1, "{said}");
        }
    }
}

#[test]
fn two_tables_that_fit_are_both_named_by_every_verb_that_runs_a_model() {
    let scratch = Scratch::new();
    model(&scratch);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = fs::read_to_string(root.join("plugins/architectures/tables/llama.toml")).unwrap();
    fs::write(scratch.at("ours.toml"), table.replace("id = \"llama\"", "id = \"ours\"")).unwrap();
    let words = ["the model matches both architecture", "`ours`", "`llama`", "--arch ID"];
    for verb in [
        &["run", "model", "Woe", "--max-tokens", "1"][..],
        &["bench", "model", "-p", "1", "--gen", "0"],
        &["chat", "model"],
        &["check", "model"],
        &["perplexity", "model", "model/config.json"],
        &["imatrix", "model", "model/config.json", "-o", "imatrix"],
        &["convert", "model", "model.gguf"],
        &["convert", "model", "pruned", "--to", "huggingface", "--prune-layers", "1"],
    ] {
        fails(&scratch, &[&["--plugin", "ours.toml"], verb].concat(), 2, &words);
    }
    let args = ["--plugin", "ours.toml", "run", "model", "Woe", "--max-tokens", "1", "--arch", "ours"];
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn a_table_has_one_greatest_size_wherever_it_is_read() {
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = fs::read_to_string(root.join("plugins/architectures/tables/llama.toml")).unwrap();
    let table = table.replace("\"llama\"", "\"ours\"").replace("LlamaFor", "OursFor");
    let long = format!("{table}{}", "# long\n".repeat(1 << 18));
    fs::write(scratch.at("long.toml"), &long[..(1 << 19) + 1]).unwrap();
    fs::write(scratch.at("longest.toml"), &long[..1 << 19]).unwrap();
    let words = ["the architecture table has 524289 bytes, more than the limit of 524288"];
    fails(&scratch, &["arch", "check", "long.toml"], 4, &words);
    fails(&scratch, &["--plugin", "long.toml", "arch", "list"], 1, &words);
    for args in [&["arch", "check", "longest.toml"][..], &["--plugin", "longest.toml", "arch", "list"]] {
        let ended = run(&scratch.at(""), args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

#[test]
fn external_data_is_never_the_model_itself() {
    let scratch = Scratch::new();
    model(&scratch);
    fs::rename(scratch.at("model/model.safetensors"), scratch.at("in.safetensors")).unwrap();
    fs::remove_dir_all(scratch.at("model")).unwrap();
    let args = ["convert", "in.safetensors", "m.onnx", "--arch", "none", "--external-data"];
    let made = run(&scratch.at(""), &args);
    assert_eq!(made.code, 0, "{}", made.stderr);
    // Its data is where the model is now.
    let data = scratch.names().into_iter().find(|name| name != "m.onnx" && name != "in.safetensors").unwrap();
    fs::rename(scratch.at("m.onnx"), scratch.at(&data)).unwrap();
    fails(&scratch, &["tensors", &data, "--from", "onnx"], 4, &["which is the model itself", &data]);
}

#[test]
fn a_file_that_root_replaces_keeps_its_owner() {
    if !rustix::process::geteuid().is_root() {
        apr_tests::skipped("only root can give files away");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.at("model.gguf");
    fs::copy(fixtures("gguf").join("small.gguf"), &file).unwrap();
    fs::write(scratch.at("page.html"), "old").unwrap();
    for path in [&file, &scratch.at("page.html")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        chown(path, Some(1234), Some(2345)).unwrap();
    }
    for args in [
        &["edit", "model.gguf", "--set", "general.name=Mine"][..],
        &["report", "model.gguf", "-o", "page.html", "--force"],
    ] {
        let ended = run(&scratch.at(""), args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    for path in [file, scratch.at("page.html")] {
        let meta = path.metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (1234, 2345, 0o640), "{}", path.display());
    }
}
