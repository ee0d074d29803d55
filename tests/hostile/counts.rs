//! What small words can ask for: counts of layers and experts, rows of nothing, expressions without end, files that are
//! devices or pipes. The answer is an error that names them, in no time and no memory.

use crate::build::{entry, safetensors};
use crate::command::{Ended, apr, fails, run, says, wait};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, root};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than an error takes on a busy machine, shorter than counting to 10^8 takes.
const SOON: Duration = Duration::from_secs(20);

/// `apr` that may use so much address space, in KiB.
fn within(folder: &Path, kib: u64, args: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("ulimit -v {kib}; exec \"$0\" \"$@\""));
    let plain = apr(folder, args);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(folder).env_clear();
    command.env("HOME", folder.join("no-home"));
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

/// Runs it to its end in 1 GiB of address space.
fn limited(folder: &Path, args: &[&str]) -> Ended {
    // The program may have to be built first.
    let mut command = within(folder, 1 << 20, args);
    let began = Instant::now();
    wait(command.spawn().unwrap(), began)
}

/// A conversion that must fail soon in 1 GiB of address space, saying all of `words`.
fn refused(folder: &Path, args: &[&str], code: i32, words: &[&str]) {
    let ended = limited(folder, args);
    says(args, &ended, code, words);
    assert!(ended.took < SOON, "apr {args:?} took {:?}", ended.took);
}

/// A model's folder with other numbers in its configuration.
fn folder(scratch: &Scratch, golden: &str, key: &str, value: &str) -> String {
    let name = format!("{golden}-{key}-{value}");
    let path = scratch.at(&name);
    Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap().write_to(&path).unwrap();
    let config = fs::read_to_string(path.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert!(config[key].is_u64(), "{golden} has no `{key}`");
    config[key] = serde_json::from_str(value).unwrap();
    fs::write(path.join("config.json"), config.to_string()).unwrap();
    name
}

#[test]
fn counts_of_a_folder_are_bounded_by_its_tensors() {
    let scratch = Scratch::new();
    let (million, huge) = ("100000000", "4611686018427387904");
    for (golden, key) in [
        ("llama", "num_hidden_layers"),
        ("mixtral", "num_hidden_layers"),
        ("mixtral", "num_local_experts"),
        ("qwen2-moe", "num_experts"),
        ("deepseek2", "n_routed_experts"),
        ("gpt2", "n_layer"),
    ] {
        for value in [million, huge, "1000000"] {
            let from = folder(&scratch, golden, key, value);
            let words = [format!("`{key}` is {value}"), "tensors".to_owned()];
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            refused(&scratch.at(""), &["convert", &from, "out.gguf"], 4, &words);
        }
    }
}

#[test]
fn layers_and_experts_beyond_their_count_are_refused() {
    let scratch = Scratch::new();
    let (layer, expert) = ("model.layers.", ".block_sparse_moe.experts.");
    for (golden, key, values, tensor) in [
        ("llama", "num_hidden_layers", &["1", "0"][..], layer),
        ("mixtral", "num_hidden_layers", &["1", "0"], layer),
        ("mixtral", "num_local_experts", &["1"], expert),
        ("gpt2", "n_layer", &["1", "0"], "h."),
        ("bert", "num_hidden_layers", &["1", "0"], "encoder.layer."),
    ] {
        for value in values {
            let from = folder(&scratch, golden, key, value);
            let said = format!("`{key}` is {value}");
            refused(&scratch.at(""), &["convert", &from, "out.gguf"], 4, &[&said, tensor, "counted from 0"]);
            assert!(!scratch.at("out.gguf").exists(), "{golden}: {key} = {value}");
        }
    }
}

#[test]
fn silent_files_have_the_layers_that_the_librarys_class_says_or_are_refused() {
    let scratch = Scratch::new();
    for (golden, words) in [
        ("llama", &["`num_hidden_layers` is 32", "the model has only"][..]),
        ("mixtral", &["this tensor is missing", "model.layers."]),
        ("bert", &["this tensor is missing", "encoder.layer."]),
    ] {
        let from = folder(&scratch, golden, "num_hidden_layers", "null");
        refused(&scratch.at(""), &["convert", &from, "out.gguf"], 4, words);
        assert!(!scratch.at("out.gguf").exists(), "{golden}");
    }
}

#[test]
fn counts_of_keys_are_bounded_by_the_tensors() {
    let scratch = Scratch::new();
    for (golden, key) in [("llama", "llama.block_count"), ("mixtral", "llama.expert_count")] {
        let from = scratch.at(golden);
        Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap().write_to(&from).unwrap();
        let good = format!("{golden}.gguf");
        let made = run(&scratch.at(""), &["convert", golden, &good]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let bytes = fs::read(scratch.at(&good)).unwrap();
        let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap() + key.len();
        for value in [100_000_000u32, u32::MAX] {
            let mut bad = bytes.clone();
            bad[at + 4..at + 8].copy_from_slice(&value.to_le_bytes());
            fs::write(scratch.at("bad.gguf"), bad).unwrap();
            let said = format!("`{key}` is {value}");
            let args = ["convert", "bad.gguf", "out/", "--to", "huggingface"];
            refused(&scratch.at(""), &args, 4, &[&said, "tensors"]);
            // What counts nothing works on.
            let inspected = limited(&scratch.at(""), &["inspect", "bad.gguf"]);
            assert_eq!(inspected.code, 0, "{}", inspected.stderr);
        }
    }
}

#[test]
fn rows_of_nothing_are_quantized_to_nothing() {
    let scratch = Scratch::new();
    let f32 = |name: &str, shape: &str, begin, end| entry(name, shape, begin, end).replace("I8", "F32");
    let rows = [
        f32("blk.0.ffn_down.weight", "[4,256]", 0, 4096),
        f32("blk.0.ffn_up.weight", "[4,0]", 4096, 4096),
        f32("blk.0.ffn_gate.weight", "[0,256]", 4096, 4096),
        f32("blk.0.ffn_gate_exps.weight", "[2,3,0]", 4096, 4096),
        f32("token_embd.weight", "[0,0]", 4096, 4096),
    ];
    let data: Vec<u8> = (0..1024u16).flat_map(|n| (f32::from(n) / 512.0 - 1.0).to_le_bytes()).collect();
    let header = format!("{{{}}}", rows.join(","));
    fs::write(scratch.at("in.safetensors"), safetensors(header.as_bytes(), &data)).unwrap();
    for to in ["out.gguf", "out.apr"] {
        for wish in [
            &["--quantize", "q8_0"][..],
            &["--quantize", "q4_k_m"],
            &["--quantize", "q4_0", "--pure"],
            &["--target-size", "1M"],
            &["--target-size", "4600"],
            &["--target-bpw", "5"],
            &["--precision", "f16"],
        ] {
            let args = [&["convert", "in.safetensors", to, "--arch", "none", "--force"], wish].concat();
            let ended = run(&scratch.at(""), &args);
            assert_eq!(ended.code, 0, "apr {args:?}: {}", ended.stderr);
            let ended =
                run(&scratch.at(""), &["convert", to, "back.safetensors", "--dequantize", "f32", "--force"]);
            assert_eq!(ended.code, 0, "apr {args:?}, back: {}", ended.stderr);
        }
    }
    fs::remove_file(scratch.at("out.apr")).unwrap();
    let args = ["convert", "in.safetensors", "out.apr", "--arch", "none", "--quantize", "int8"];
    fails(&scratch, &args, 4, &["blk.0.ffn_up.weight", "empty"]);
}

#[test]
fn an_expression_without_end_is_an_error() {
    let scratch = Scratch::new();
    let sum = ["1"; 100_000].join(" + ");
    let deep = format!("{}1{}", "min(1, ".repeat(50_000), ")".repeat(50_000));
    for (name, expression) in [("sum", sum), ("deep", deep)] {
        let table = format!("id = \"t\"\n[config]\nlayers = \"int\"\n[places]\nlayer = \"{expression}\"\n");
        fs::write(scratch.at(&format!("{name}.toml")), table).unwrap();
        refused(&scratch.at(""), &["arch", "check", &format!("{name}.toml")], 2, &["expression"]);
    }
}

#[test]
fn a_table_is_drafted_for_no_more_kinds_of_names_than_it_can_list() {
    let scratch = Scratch::new();
    let entries: Vec<_> = (0..200_000).map(|n| entry(&format!("t{n}x"), "[0]", 0, 0)).collect();
    let header = format!("{{{}}}", entries.join(","));
    fs::write(scratch.at("many.safetensors"), safetensors(header.as_bytes(), &[])).unwrap();
    refused(&scratch.at(""), &["arch", "draft", "many.safetensors"], 4, &["200000 kinds"]);
}

#[test]
fn small_files_are_no_devices_and_no_pipes() {
    let scratch = Scratch::new();
    let header = format!("{{{}}}", entry("t", "[8]", 0, 8));
    fs::write(scratch.at("in.safetensors"), safetensors(header.as_bytes(), &[1; 8])).unwrap();
    let made = Command::new("mkfifo").arg(scratch.at("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    for (file, words) in [
        ("/dev/zero", "exceeds the limit of 67108864 bytes"),
        ("pipe", "not a regular file"),
        (".", "folder"),
    ] {
        let convert = ["convert", "in.safetensors", "out.gguf", "--arch", "none"];
        let at_file = format!("general.name=@{file}");
        for args in [
            &[&convert[..], &["--recipe", file]].concat()[..],
            &[&convert[..], &["--tensor-mapping", file]].concat(),
            &[&convert[..], &["--config", file]].concat(),
            &[&convert[..], &["--set", &at_file]].concat(),
            &["diff", "in.safetensors", "in.safetensors", "--tensor-mapping", file],
        ] {
            let ended = limited(&scratch.at(""), args);
            assert!([2, 4].contains(&ended.code), "apr {args:?}: {} {}", ended.code, ended.stderr);
            says(args, &ended, ended.code, &[words, file]);
            assert!(ended.took < SOON, "apr {args:?} took {:?}", ended.took);
        }
    }
    for library in ["pipe", "/dev/zero"] {
        let ended = run(&scratch.at(""), &["plugins", "check", library]);
        assert_ne!(ended.code, 0);
        assert!(ended.took < SOON, "{}", ended.stderr);
    }
    // Neither a report nor a lock waits for a pipe's reader.
    let quantize =
        ["convert", "in.safetensors", "out.gguf", "--arch", "none", "--quantize", "Q8_0", "--force"];
    let ended = limited(&scratch.at(""), &[&quantize[..], &["--report", "pipe"]].concat());
    says(&quantize, &ended, 2, &["this is a device or a pipe, not a file", "pipe"]);
    fs::rename(scratch.at("pipe"), scratch.at(".out.gguf.apr-lock")).unwrap();
    let ended = limited(&scratch.at(""), &quantize);
    says(&quantize, &ended, 1, &["not a regular file", ".out.gguf.apr-lock"]);
    fs::remove_file(scratch.at(".out.gguf.apr-lock")).unwrap();
    assert!(!scratch.at("out.gguf").exists());
    // The usual way to say "none".
    let ended = run(
        &scratch.at(""),
        &["convert", "in.safetensors", "out.gguf", "--arch", "none", "--config", "/dev/null"],
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}
