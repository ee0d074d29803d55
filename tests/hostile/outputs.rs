//! Outputs that cannot or must not be: an input by any name, what exists, a folder that is not there, one that is closed, a
//! second writer.

use crate::build::big;
use crate::command::{apr, contents, fails, run, says, send, wait};
use apr_tests::{Scratch, assert_same_file, fixtures, names_in};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn with_input() -> Scratch {
    let scratch = Scratch::new();
    fs::copy(fixtures("gguf").join("small.gguf"), scratch.at("in.gguf")).unwrap();
    scratch
}

#[test]
fn an_input_is_never_the_output_by_any_name() {
    let scratch = with_input();
    symlink("in.gguf", scratch.at("link.gguf")).unwrap();
    symlink("link.gguf", scratch.at("far.gguf")).unwrap();
    fs::hard_link(scratch.at("in.gguf"), scratch.at("hard.gguf")).unwrap();
    fs::create_dir(scratch.at("d")).unwrap();
    for force in [&[][..], &["--force"]] {
        for output in ["in.gguf", "./in.gguf", "d/../in.gguf", "link.gguf", "far.gguf", "hard.gguf"] {
            let args = [&["convert", "in.gguf", output, "--arch", "none"][..], force].concat();
            fails(
                &scratch,
                &args,
                2,
                &["the output is one of the inputs", &format!("at {output}"), "not changed"],
            );
        }
        let args = [&["convert", "link.gguf", "in.gguf", "--arch", "none"][..], force].concat();
        fails(&scratch, &args, 2, &["the output is one of the inputs"]);
    }
}

#[test]
fn any_part_of_a_set_is_an_input() {
    let scratch = Scratch::new();
    for name in names_in(&fixtures("gguf").join("split")) {
        fs::copy(fixtures("gguf").join("split").join(&name), scratch.at(&name)).unwrap();
    }
    let (first, last) = ("split-00001-of-00003.gguf", "split-00003-of-00003.gguf");
    fails(&scratch, &["convert", first, last, "--force", "--arch", "none"], 2, &["one of the inputs", last]);
}

#[test]
fn what_exists_is_kept() {
    let scratch = with_input();
    fs::write(scratch.at("out.apr"), "mine").unwrap();
    fs::create_dir(scratch.at("folder.apr")).unwrap();
    fs::write(scratch.at("folder.apr/mine"), "mine").unwrap();
    symlink("nowhere/at/all", scratch.at("dangling.apr")).unwrap();
    let words = ["exists", "nothing was written", "--force"];
    fails(&scratch, &["convert", "in.gguf", "out.apr", "--arch", "none"], 1, &words);
    // A link that points to nothing means a file where it points; its folder is not made.
    let words = ["the output's folder does not exist", "at nowhere/at"];
    fails(&scratch, &["convert", "in.gguf", "dangling.apr", "--arch", "none"], 3, &words);
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let scratch = with_input();
    let words = ["the output's folder does not exist", "at no/such", "mkdir -p"];
    fails(&scratch, &["convert", "in.gguf", "no/such/out.apr", "--arch", "none"], 3, &words);
    fails(&scratch, &["convert", "in.gguf", "in.gguf/out.apr", "--arch", "none"], 1, &["at in.gguf"]);
}

/// A user who is not root, where there is one to become.
const NOBODY: u32 = 65534;

#[test]
fn a_closed_folder_is_refused_before_work() {
    let scratch = with_input();
    let closed = scratch.at("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = fs::write(closed.join("probe"), "").is_ok();
    let _ = fs::remove_file(closed.join("probe"));
    let args = ["convert", "in.gguf", "closed/out.apr", "--arch", "none"];
    let mut command = apr(&scratch.at(""), &args);
    if is_root {
        // The folders above must be open to the other user, and so must the program and its plugins.
        if !open_to_all(&apr_tests::program()) || !open_to_all(&scratch.at("in.gguf")) {
            apr_tests::skipped(
                "tests/hostile: another user cannot reach the program, and root may write anywhere",
            );
            return;
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let before = contents(&scratch.at(""));
    let ended = wait(command.spawn().unwrap(), Instant::now());
    says(
        &args,
        &ended,
        1,
        &["cannot write in this folder", "ermission denied", "at ", "closed", "nothing was written"],
    );
    assert_eq!(contents(&scratch.at("")), before);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

fn open_to_all(path: &Path) -> bool {
    let reads = |p: &Path, bits: u32| fs::metadata(p).is_ok_and(|m| m.permissions().mode() & bits == bits);
    reads(path, 0o4) && path.ancestors().skip(1).all(|folder| reads(folder, 0o1))
}

#[test]
fn two_writers_of_one_output_are_told_apart_at_once() {
    let scratch = Scratch::new();
    big(&scratch.at("in.safetensors"), 96);
    let args = ["convert", "in.safetensors", "out.apr", "--arch", "none", "-j", "1"];
    let first = apr(&scratch.at(""), &args).spawn().unwrap();
    let began = Instant::now();
    while !scratch.at(".out.apr.apr-part").exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the first never began");
        std::thread::sleep(Duration::from_micros(200));
    }
    // It waits for the second, however long that takes to start.
    send(&first, Signal::STOP);
    let second = run(&scratch.at(""), &args);
    says(&args, &second, 1, &["another apr process is writing this output", "out.apr", "wait for it"]);
    send(&first, Signal::CONT);
    let first = wait(first, began);
    assert_eq!(first.code, 0, "{}", first.stderr);
    // The same conversion alone, to compare with.
    assert_eq!(run(&scratch.at(""), &["convert", "in.safetensors", "alone.apr", "--arch", "none"]).code, 0);
    assert_same_file(&scratch.at("alone.apr"), &scratch.at("out.apr"));
    assert_eq!(scratch.names(), ["alone.apr", "in.safetensors", "out.apr"]);
}
