//! No argument that writes may write over what is read: every command of `paths.toml`, with each file that it reads as its
//! output, as itself and through links. That the list is complete is for the parser's own test.

use crate::command::{contents, run};
use apr_tests::{Scratch, fixtures};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A case of `paths.toml`.
struct Case {
    command: String,
    /// The name that the command gives its output, where it is not told one.
    name: Option<String>,
    reads: Vec<String>,
}

fn cases(kind: &str) -> Vec<Case> {
    let all: toml::Table = include_str!("paths.toml").parse().unwrap();
    let case = |case: &toml::Value| Case {
        command: format!("{} --config config.toml --plugin table.toml", case["command"].as_str().unwrap()),
        name: case.get("name").map(|name| name.as_str().unwrap().to_owned()),
        reads: case.get("reads").into_iter().flat_map(|reads| reads.as_array().unwrap()).map(text).collect(),
    };
    all[kind].as_array().unwrap().iter().map(case).collect()
}

fn text(value: &toml::Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Everything that the commands read.
fn with_inputs() -> Scratch {
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let weights = root.join("model/weights");
    fs::create_dir(scratch.at("model")).unwrap();
    for entry in fs::read_dir(&weights).unwrap().flatten() {
        fs::copy(entry.path(), scratch.at("model").join(entry.file_name())).unwrap();
    }
    let made = run(&scratch.at(""), &["convert", "model", "model.gguf"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    fs::copy(scratch.at("model.gguf"), scratch.at("like.gguf")).unwrap();
    fs::copy(fixtures("gguf").join("version-2.gguf"), scratch.at("old.gguf")).unwrap();
    let table = fs::read_to_string(root.join("../plugins/architectures/tables/llama.toml")).unwrap();
    fs::write(scratch.at("table.toml"), table.replace("\"llama\"", "\"ours\"").replace("Llama", "Ours"))
        .unwrap();
    fs::write(scratch.at("config.toml"), "").unwrap();
    fs::write(scratch.at("recipe.toml"), "base = \"Q8_0\"\n").unwrap();
    fs::write(scratch.at("names.toml"), "").unwrap();
    fs::write(scratch.at("headers"), "x-key: value\n").unwrap();
    fs::write(scratch.at("text"), "Woe unto the children").unwrap();
    let one = 1_i32.to_le_bytes();
    fs::write(scratch.at("imatrix.dat"), [&one[..], &one, b"x", &one, &one, &1f32.to_le_bytes()].concat())
        .unwrap();
    scratch
}

/// Runs a command that must refuse to write to `out`, since it reads the file there.
fn refuses(scratch: &Scratch, case: &Case, out: &str) {
    let before = contents(&scratch.at(""));
    let command = case.command.replace("{out}", out);
    let args: Vec<&str> = command.split(' ').collect();
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 2, "apr {command}: {}", ended.stderr);
    assert!(ended.stderr.contains("is one of the inputs"), "apr {command}: {}", ended.stderr);
    assert!(ended.stderr.contains(out), "apr {command}: {}", ended.stderr);
    assert!(contents(&scratch.at("")) == before, "apr {command} changed the folder");
}

#[test]
fn no_argument_writes_over_what_is_read() {
    let scratch = with_inputs();
    for case in cases("writes") {
        let reads = case.reads.iter().map(String::as_str).chain(["config.toml", "table.toml"]);
        for (number, read) in reads.enumerate() {
            if case.name.is_none() {
                refuses(&scratch, &case, read);
            }
            let link = case.name.as_deref().unwrap_or("link");
            match number % 2 {
                0 => symlink(read, scratch.at(link)).unwrap(),
                _ => fs::hard_link(scratch.at(read), scratch.at(link)).unwrap(),
            }
            refuses(&scratch, &case, link);
            fs::remove_file(scratch.at(link)).unwrap();
        }
    }
}

#[test]
fn no_argument_replaces_a_file_unless_forced_or_a_folder_ever() {
    let scratch = with_inputs();
    fs::write(scratch.at("mine"), "mine").unwrap();
    fs::create_dir(scratch.at("folder")).unwrap();
    fs::write(scratch.at("folder/mine"), "mine").unwrap();
    for case in cases("writes").iter().filter(|case| case.name.is_none()) {
        for (out, force, code) in [("mine", "", 1), ("folder", " --force", 2)] {
            // Into a folder models are put under names of their own.
            let takes_folders = ["edit", "upgrade", "join"].iter().any(|verb| case.command.starts_with(verb));
            if code == 2 && (case.command.contains("--to gguf") || takes_folders) {
                continue;
            }
            let before = contents(&scratch.at(""));
            let command = case.command.replace("{out}", out).replace(" --force", force);
            let ended = run(&scratch.at(""), &command.split(' ').collect::<Vec<_>>());
            assert_eq!(ended.code, code, "apr {command}: {}", ended.stderr);
            assert!(ended.stderr.contains("nothing was written"), "apr {command}: {}", ended.stderr);
            assert!(contents(&scratch.at("")) == before, "apr {command} changed the folder");
        }
    }
}

#[test]
fn a_model_is_not_split_into_the_place_of_a_file() {
    let scratch = with_inputs();
    let before = contents(&scratch.at(""));
    for out in ["model.gguf", "text"] {
        let ended = run(&scratch.at(""), &["split", "model.gguf", out, "--max-shard-size", "1M", "--force"]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(contents(&scratch.at("")) == before, "{out}");
    }
}

#[test]
fn what_is_made_in_a_folder_needs_one_that_is_new_or_empty() {
    let scratch = with_inputs();
    for case in cases("makes") {
        let before = contents(&scratch.at(""));
        for out in ["model", "model.gguf", "config.toml"] {
            let command = case.command.replace("{out}", out);
            let ended = run(&scratch.at(""), &command.split(' ').collect::<Vec<_>>());
            assert!([1, 2].contains(&ended.code), "apr {command}: {} {}", ended.code, ended.stderr);
            assert!(contents(&scratch.at("")) == before, "apr {command} changed the folder");
        }
    }
}

#[test]
fn an_input_with_a_name_of_aprs_own_stays() {
    let scratch = Scratch::new();
    fs::copy(fixtures("gguf").join("small.gguf"), scratch.at(".out.gguf.apr-part")).unwrap();
    let before = contents(&scratch.at(""));
    let args = ["convert", ".out.gguf.apr-part", "out.gguf", "--from", "gguf", "--arch", "none"];
    let ended = run(&scratch.at(""), &args);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("an input has a name that apr needs"), "{}", ended.stderr);
    assert!(contents(&scratch.at("")) == before);
}

#[test]
fn an_installed_plugin_is_not_installed_over_itself() {
    let scratch = with_inputs();
    let command = |file: &str| {
        let args = ["plugins", "install", file, "--force"];
        let mut command = crate::command::apr(&scratch.at(""), &args);
        command.env("XDG_DATA_HOME", scratch.at("data"));
        crate::command::wait(command.spawn().unwrap(), std::time::Instant::now())
    };
    let first = command("table.toml");
    assert_eq!(first.code, 0, "{}", first.stderr);
    let before = contents(&scratch.at(""));
    let plugins = "data/apr/plugins";
    let [installed] = &apr_tests::names_in(&scratch.at(plugins))[..] else { panic!("{}", first.stdout) };
    let again = command(&format!("{plugins}/{installed}"));
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(contents(&scratch.at("")) == before);
}

#[test]
fn one_input_is_not_written_over_by_the_output_of_another() {
    let scratch = Scratch::new();
    fs::copy(fixtures("gguf").join("small.gguf"), scratch.at("a.gguf")).unwrap();
    fs::copy(fixtures("gguf").join("types.gguf"), scratch.at("b.gguf")).unwrap();
    fs::create_dir(scratch.at("out")).unwrap();
    fs::hard_link(scratch.at("b.gguf"), scratch.at("out/a.gguf")).unwrap();
    let b = fs::read(scratch.at("b.gguf")).unwrap();
    let args = ["convert", "a.gguf", "b.gguf", "out/", "--to", "gguf", "--arch", "none", "--force"];
    let ended = run(&scratch.at(""), &args);
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("the output is one of the inputs"), "{}", ended.stderr);
    assert_eq!(fs::read(scratch.at("out/a.gguf")).unwrap(), b);
}
