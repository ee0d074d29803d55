//! Limits of the shell: a small stack, a size that no file may exceed, few files at once.

use crate::build::{big, entry, safetensors};
use crate::command::{Ended, contents, run, says, wait};
use apr_tests::{Scratch, assert_same_file, program};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs `apr` after `ulimit`.
fn under(scratch: &Scratch, limit: &str, args: &[&str]) -> Ended {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).arg(program()).args(args);
    shell.current_dir(scratch.at("")).env_clear().env("HOME", scratch.at("no-home"));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait(shell.spawn().unwrap(), Instant::now())
}

#[test]
fn a_small_stack_changes_nothing() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 3);
    run(&scratch.at(""), &["convert", "in.safetensors", "whole.apr", "--arch", "none"]);
    let work: [&[&str]; 7] = [
        &["--help"],
        &["inspect", "in.safetensors"],
        &["tensors", "in.safetensors", "--stats", "--json"],
        &["inspect", "missing.safetensors"],
        &["convert", "in.safetensors", "whole.apr", "--arch", "none"],
        &["frobnicate"],
        &["plugins", "list"],
    ];
    for args in work {
        let want = run(&scratch.at(""), args);
        for stack in [64, 128, 256] {
            let ended = under(&scratch, &format!("-s {stack}"), args);
            let (ended, want) =
                ((ended.code, ended.stdout, ended.stderr), (want.code, &want.stdout, &want.stderr));
            assert_eq!((ended.0, &ended.1, &ended.2), want, "{args:?} with a stack of {stack} KiB");
        }
    }
    let args = ["convert", "in.safetensors", "out.apr", "--arch", "none"];
    let ended = under(&scratch, "-s 64", &args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_same_file(&scratch.at("whole.apr"), &scratch.at("out.apr"));
}

#[test]
fn a_file_that_may_not_become_so_large_is_an_error_and_nothing_is_left() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 3);
    fs::write(scratch.at("old.apr"), "old").unwrap();
    fs::create_dir(scratch.at("folder")).unwrap();
    let before = contents(&scratch.at(""));
    for (output, more) in
        [("out.apr", "-q"), ("old.apr", "--force"), ("folder", "--to=safetensors"), ("new.npz", "-q")]
    {
        let args = ["convert", "in.safetensors", output, "--arch", "none", more];
        let ended = under(&scratch, "-f 100", &args);
        says(&args, &ended, 1, &["the file would exceed the size limit", "at ", output, "ulimit -f"]);
        assert_eq!(contents(&scratch.at("")), before, "{output}");
    }
    // What an answer is written to may be such a file too.
    let script = "ulimit -f 1 && exec \"$0\" --help > answer";
    let shell =
        Command::new("/bin/sh").args(["-c", script]).arg(program()).current_dir(scratch.at("")).output();
    let shell = shell.unwrap();
    assert_eq!(shell.status.code(), Some(1), "{shell:?}");
    assert!(
        String::from_utf8_lossy(&shell.stderr).contains("cannot write the result to stdout"),
        "{shell:?}"
    );
}

#[test]
fn a_model_of_more_files_than_may_be_open_says_so() {
    let scratch = Scratch::new();
    let folder = scratch.at("parts");
    fs::create_dir(&folder).unwrap();
    let mut index = Vec::new();
    for n in 1..=40u8 {
        let (tensor, shard) = (format!("t{n}"), format!("model-{n:05}-of-00040.safetensors"));
        let header = format!("{{{}}}", entry(&tensor, "[2]", 0, 2));
        fs::write(folder.join(&shard), safetensors(header.as_bytes(), &[n; 2])).unwrap();
        index.push(format!("\"{tensor}\":\"{shard}\""));
    }
    let index = format!("{{\"metadata\":{{\"total_size\":80}},\"weight_map\":{{{}}}}}", index.join(","));
    fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    let args = ["inspect", "parts/model.safetensors.index.json"];
    assert_eq!(run(&scratch.at(""), &args).code, 0);
    let ended = under(&scratch, "-n 24", &args);
    says(&args, &ended, 1, &["more than 24 files at once", "at parts/model-000", "help: ", "ulimit -Hn"]);
}
