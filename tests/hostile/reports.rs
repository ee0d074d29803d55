//! A report is an output too: it takes the place of no model, of nothing that is read, and is there whole or not at all.

use crate::build::{entry, safetensors};
use crate::command::{run, says};
use apr_tests::Scratch;
use std::fs;
use std::os::unix::fs::symlink;

const QUANTIZE: [&str; 7] = ["convert", "in.safetensors", "out.gguf", "--arch", "none", "--quantize", "Q8_0"];

fn model(scratch: &Scratch) -> Vec<u8> {
    let values: Vec<u8> = (0..64_u16).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    let header = format!("{{{}}}", entry("t.weight", "[2,32]", 0, 256).replace("I8", "F32"));
    let file = safetensors(header.as_bytes(), &values);
    fs::write(scratch.at("in.safetensors"), &file).unwrap();
    file
}

#[test]
fn a_report_replaces_no_file_of_the_conversion() {
    let scratch = Scratch::new();
    let file = model(&scratch);
    fs::hard_link(scratch.at("in.safetensors"), scratch.at("again")).unwrap();
    symlink("in.safetensors", scratch.at("link")).unwrap();
    fs::write(scratch.at("recipe.toml"), "base = \"Q8_0\"\n").unwrap();
    fs::write(scratch.at("names.toml"), "").unwrap();
    fs::write(scratch.at("template"), "{{ x }}").unwrap();
    let before = scratch.names();
    let more = ["--recipe", "recipe.toml", "--tensor-mapping", "names.toml", "--set", "a.b:str=@template"];
    for (report, words) in [
        ("in.safetensors", "the report is one of the inputs"),
        ("again", "the report is one of the inputs"),
        ("link", "the report is one of the inputs"),
        ("recipe.toml", "the report is one of the inputs"),
        ("names.toml", "the report is one of the inputs"),
        ("template", "the report is one of the inputs"),
        ("out.gguf", "the report and the output are the same file"),
        ("./out.gguf", "the report and the output are the same file"),
        (".", "a folder with this name already exists"),
    ] {
        let args = [&QUANTIZE[..5], &more, &["--force", "--report", report]].concat();
        says(&args, &run(&scratch.at(""), &args), 2, &[words, report]);
    }
    let args = [&QUANTIZE[..], &["--report", "missing/report.json"]].concat();
    says(&args, &run(&scratch.at(""), &args), 3, &["the folder of the report does not exist", "missing"]);
    for output in ["recipe.toml", "names.toml", "template"] {
        let args = [
            &["convert", "in.safetensors", output, "--to", "gguf", "--arch", "none"],
            &more[..],
            &["--force"],
        ]
        .concat();
        says(&args, &run(&scratch.at(""), &args), 2, &["the output is one of the inputs", output]);
    }
    assert_eq!(scratch.names(), before);
    assert_eq!(fs::read(scratch.at("in.safetensors")).unwrap(), file);
}

#[test]
fn a_report_goes_into_the_outputs_folder_and_over_none_of_its_files() {
    let scratch = Scratch::new();
    model(&scratch);
    let parts = ["convert", "in.safetensors", "parts/", "--to", "gguf", "--quantize", "Q8_0"];
    let parts = [&parts[..], &["--arch", "none", "--max-shard-size", "64", "--report"]].concat();
    let args = [&parts[..], &["parts/in.gguf"]].concat();
    says(&args, &run(&scratch.at(""), &args), 2, &["the report and the output are the same file"]);
    let args = [&parts[..], &["parts/report.json"]].concat();
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(fs::read_to_string(scratch.at("parts/report.json")).unwrap().contains("apr.quantization/1"));
}

#[test]
fn a_report_is_whole_or_as_it_was() {
    let scratch = Scratch::new();
    model(&scratch);
    fs::write(scratch.at("old.json"), "old").unwrap();
    fs::hard_link(scratch.at("old.json"), scratch.at("kept.json")).unwrap();
    symlink("old.json", scratch.at("link.json")).unwrap();
    let args = [&QUANTIZE[..], &["--report", "link.json"]].concat();
    says(&args, &run(&scratch.at(""), &args), 1, &["already exists", "nothing was written", "link.json"]);
    let args = [&args[..], &["--force"]].concat();
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(fs::read_to_string(scratch.at("old.json")).unwrap().contains("Q8_0"));
    assert!(scratch.at("link.json").symlink_metadata().unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(scratch.at("kept.json")).unwrap(),
        "old",
        "it was replaced, not written over"
    );
    let args = [&QUANTIZE[..], &["--force", "--report", "/dev/full"]].concat();
    says(&args, &run(&scratch.at(""), &args), 1, &["/dev/full", "the output is complete"]);
}
