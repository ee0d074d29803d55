//! Outputs that are folders with something in them: what would be opened with the new files, or instead of them, is named
//! and kept, or goes with `--force`; and what a hostile folder says of a stopped conversion is not believed.

use crate::build::big_of;
use crate::command::{Ended, apr, contents, fails, run, says, wait};
use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_tests::{Scratch, host, names_in};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// The digests of what opens at a path.
fn digests(path: &Path) -> Vec<Option<String>> {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    let rows = tensor_rows(&host, &opened, RowOptions { sha256: true, stats: false }).unwrap();
    rows.into_iter().map(|row| row.sha256).collect()
}

/// Two models that are told apart, and a folder `d` with the old one's weights.
fn with_old() -> Scratch {
    let scratch = Scratch::new();
    big_of(&scratch.at("old.safetensors"), 1, 1);
    big_of(&scratch.at("new.safetensors"), 1, 2);
    fs::create_dir(scratch.at("d")).unwrap();
    fs::copy(scratch.at("old.safetensors"), scratch.at("d/model.safetensors")).unwrap();
    scratch
}

fn converting<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let args = ["convert", "new.safetensors", "d/", "--arch", "none", "--max-shard-size", "600k"];
    [&args[..], more].concat()
}

fn runs(scratch: &Scratch, args: &[&str]) -> Ended {
    let ended = run(&scratch.at(""), args);
    assert_eq!(ended.code, 0, "apr {args:?}: {}", ended.stderr);
    ended
}

#[test]
fn files_that_would_win_are_named_and_go_with_force_alone() {
    for more in [&["--to", "huggingface"][..], &["--to", "huggingface", "--weights", "pytorch"]] {
        let scratch = with_old();
        fs::write(scratch.at("d/chat_template.jinja"), "{{ old }}").unwrap();
        fs::write(scratch.at("d/tokenizer_config.json"), "{}").unwrap();
        fs::write(scratch.at("d/README.md"), "mine").unwrap();
        fs::create_dir(scratch.at("d/sub")).unwrap();
        let works = ["thesis.docx", "train.py", "notes.txt", "sub/data.csv"];
        works.iter().for_each(|work| fs::write(scratch.at("d").join(work), "mine").unwrap());
        let words = [
            "would be opened together with the new ones, or instead",
            "`chat_template.jinja`, `model.safetensors`, `tokenizer_config.json`",
            "at d",
            "--force to remove them",
        ];
        let ended = fails(&scratch, &converting(more), 1, &words);
        assert!(!ended.stderr.contains("README") && !ended.stderr.contains("thesis"), "{}", ended.stderr);
        let forced = runs(&scratch, &converting(&[more, &["--force"]].concat()));
        assert!(forced.stdout.contains("removed from the folder"), "{}", forced.stdout);
        assert!(
            forced.stdout.contains("kept: `README.md`, `notes.txt`, `sub/data.csv`"),
            "{}",
            forced.stdout
        );
        let names = names_in(&scratch.at("d"));
        assert!(!names.iter().any(|name| name.starts_with('.') || name.contains("chat")), "{names:?}");
        assert!(!names.contains(&"model.safetensors".to_owned()), "{names:?}");
        // What merely lies there is nobody's to remove.
        for work in works.iter().chain(&["README.md"]) {
            assert_eq!(fs::read(scratch.at("d").join(work)).unwrap(), b"mine", "{work}");
        }
        let new = digests(&scratch.at("new.safetensors"));
        assert_eq!(digests(&scratch.at("d")), new);
        // By any of its files, too.
        let of_model = |name: &&String| {
            !works.contains(&name.as_str()) && !["README.md", "sub/"].contains(&name.as_str())
        };
        for name in names.iter().filter(of_model).filter(|name| *name != "sub") {
            assert_eq!(digests(&scratch.at("d").join(name)), new, "{name}");
        }
    }
}

#[test]
fn a_file_that_is_replaced_is_open_to_as_many_people_as_before() {
    let scratch = with_old();
    let mode = |name: &str| fs::metadata(scratch.at(name)).unwrap().permissions().mode() & 0o7777;
    let converting =
        |output: &'static str| ["convert", "new.safetensors", output, "--arch", "none", "--force"];
    runs(&scratch, &converting("out.apr"));
    let new = mode("out.apr");
    for kept in [0o600, 0o640, 0o666, 0o440, 0o400] {
        for (output, file) in [("out.apr", "out.apr"), ("d/", "d/model.safetensors")] {
            fs::set_permissions(scratch.at(file), fs::Permissions::from_mode(kept)).unwrap();
            runs(
                &scratch,
                &[&converting(output)[..], &["--to", if output == "d/" { "hf" } else { "apr" }]].concat(),
            );
            assert_eq!(mode(file), kept, "{file}: {:o}", mode(file));
        }
    }
    // Only what is replaced says how open it is.
    runs(&scratch, &converting("other.apr"));
    assert_eq!(mode("other.apr"), new);
}

#[test]
fn an_input_that_would_win_is_never_removed() {
    let scratch = with_old();
    let args = ["convert", "d/model.safetensors", "d", "--to", "hf", "--arch", "none", "--max-shard-size"];
    for force in [&["600k"][..], &["600k", "--force"]] {
        let words = ["the input would be opened", "d/model.safetensors", "choose another folder"];
        fails(&scratch, &[&args[..], force].concat(), 1, &words);
    }
}

#[test]
fn a_model_of_shards_stands_beside_others_by_its_name_and_does_not_pass_for_a_folder() {
    let scratch = with_old();
    fs::write(scratch.at("d/config.json"), "{\"architectures\": []}").unwrap();
    let before = contents(&scratch.at("d"));
    // As a folder, it would still be the old model.
    let words = [
        "opened together with the new ones, or instead",
        "`config.json`",
        "specify the file: d/new-00001-of-00002.gguf",
    ];
    for force in [&[][..], &["--force"]] {
        fails(&scratch, &converting(&[&["--to", "gguf"][..], force].concat()), 1, &words);
    }
    let named = ["convert", "new.safetensors", "d/new.gguf", "--arch", "none", "--max-shard-size", "600k"];
    runs(&scratch, &named);
    let new = digests(&scratch.at("new.safetensors"));
    assert_eq!(digests(&scratch.at("d/new-00001-of-00002.gguf")), new);
    assert_eq!(digests(&scratch.at("d")), digests(&scratch.at("old.safetensors")));
    // Shards whose folder claims them are not a model of their own there, with another's configuration.
    let claimed =
        ["convert", "new.safetensors", "d/new.safetensors", "--arch", "none", "--max-shard-size", "600k"];
    for force in [&[][..], &["--force"]] {
        fails(&scratch, &[&claimed[..], force].concat(), 1, &["`config.json`", "choose another folder"]);
    }
    let is_old = |(name, _): &(String, Option<u32>)| !name.ends_with(".gguf");
    let after: Vec<_> = contents(&scratch.at("d")).into_iter().filter(is_old).collect();
    assert_eq!(after, before);
}

#[test]
fn what_a_folder_says_of_a_stopped_conversion_moves_nothing_out_of_it() {
    let scratch = with_old();
    let (d, secret) = (scratch.at("d"), scratch.at("secret"));
    fs::write(&secret, "secret").unwrap();
    fs::create_dir(d.join(".d.apr-part")).unwrap();
    symlink(scratch.at(""), d.join("out")).unwrap();
    let meta = fs::metadata(&secret).unwrap();
    let file = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        format!(r#"{{"name":"{name}","inode":{},"bytes":{},"modified":"0"}}"#, meta.ino(), meta.len())
    };
    let record = |stage: &str, leaving: &str, coming: &str| {
        let body = format!(
            "{{\"stage\":\"{stage}\",\"old\":\".d.apr-old\",\"work\":\"\",\"leaving\":[{leaving}],\"coming\":[{coming}]}}\n"
        );
        format!("apr.publish/1 {:08x}\n{body}", crc32fast::hash(body.as_bytes()))
    };
    let hostile = [
        record(".d.apr-part", &file("../secret"), ""),
        record(".d.apr-part", &file(&secret.display().to_string()), ""),
        record(".d.apr-part", &file("out/secret"), ""),
        record(".d.apr-part/../..", "", &file("secret")),
        record(".d.apr-part", "", &file("out/secret")),
        record(".d.apr-part", "", &file("never-staged")),
    ];
    for text in hostile {
        fs::write(d.join(".apr-publish"), &text).unwrap();
        let args = ["convert", "new.safetensors", "d/new.gguf", "--arch", "none"];
        let ended = run(&scratch.at(""), &args);
        assert!(ended.code == 1 || ended.code == 4, "{text}: {}{}", ended.code, ended.stderr);
        assert_eq!(fs::read(&secret).unwrap(), b"secret", "{text}");
        assert_eq!(scratch.names(), ["d", "new.safetensors", "old.safetensors", "secret"], "{text}");
        let inspected = run(&scratch.at(""), &["inspect", "d"]);
        let finished = !d.join(".apr-publish").exists();
        assert!(finished || inspected.code == 1 || inspected.code == 4, "{text}: {}", inspected.stderr);
        fs::create_dir_all(d.join(".d.apr-part")).unwrap();
    }
    // What is no record says nothing.
    for text in ["", "apr.publish/1", "apr.publish/1 00000000\n{}\n", "notes of mine\n"] {
        fs::write(d.join(".apr-publish"), text).unwrap();
        runs(&scratch, &["inspect", "d"]);
    }
}

#[test]
fn what_apr_finds_under_its_own_names_is_not_followed() {
    let scratch = Scratch::new();
    big_of(&scratch.at("in.safetensors"), 1, 1);
    fs::write(scratch.at("mine"), "mine").unwrap();
    let args = ["convert", "in.safetensors", "out.apr", "--arch", "none", "--resume"];
    // A real stop leaves a journal; then someone puts a link where the staged file was.
    let mut command = apr(&scratch.at(""), &args[..5]);
    command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "1");
    let whole = wait(command.spawn().unwrap(), Instant::now());
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    fs::remove_file(scratch.at("out.apr")).unwrap();
    stopped(&scratch, &args[..5]);
    for staged in [".out.apr.apr-part", ".out.apr.apr-journal", ".out.apr.apr-lock"] {
        let journal = fs::read(scratch.at(".out.apr.apr-journal")).unwrap();
        let part = fs::read(scratch.at(".out.apr.apr-part")).unwrap();
        let _ = fs::remove_file(scratch.at(staged));
        symlink("mine", scratch.at(staged)).unwrap();
        let ended = run(&scratch.at(""), &args);
        assert!(ended.code == 1 || ended.code == 2, "{staged}: {}{}", ended.code, ended.stderr);
        assert_eq!(fs::read(scratch.at("mine")).unwrap(), b"mine", "{staged}: {}", ended.stderr);
        assert!(scratch.at(staged).is_symlink(), "{staged}");
        fs::remove_file(scratch.at(staged)).unwrap();
        fs::write(scratch.at(".out.apr.apr-journal"), journal).unwrap();
        fs::write(scratch.at(".out.apr.apr-part"), part).unwrap();
    }
    // A further name of a file is no better.
    fs::remove_file(scratch.at(".out.apr.apr-part")).unwrap();
    fs::hard_link(scratch.at("mine"), scratch.at(".out.apr.apr-part")).unwrap();
    fails(&scratch, &args, 1, &["was not created by apr", "out.apr"]);
}

#[test]
fn what_is_no_file_and_has_the_locks_name_is_called_so() {
    let scratch = Scratch::new();
    big_of(&scratch.at("in.safetensors"), 1, 1);
    let lock = scratch.at(".out.apr.apr-lock");
    let args = ["convert", "in.safetensors", "out.apr", "--arch", "none", "--force"];
    let words = [
        "the name of apr's lock file is taken by something that is not a regular file",
        ".out.apr.apr-lock",
        "remove it",
    ];
    fs::create_dir(&lock).unwrap();
    fails(&scratch, &args, 1, &words);
    fs::remove_dir(&lock).unwrap();
    for to in ["in.safetensors", "nothing", "/dev/null", "."] {
        symlink(to, &lock).unwrap();
        fails(&scratch, &args, 1, &words);
        fs::remove_file(&lock).unwrap();
    }
}

/// Runs a conversion with a journal until a signal stops it.
fn stopped(scratch: &Scratch, args: &[&str]) {
    for _ in 0..50 {
        let mut command = apr(&scratch.at(""), &[args, &["-j", "1"]].concat());
        command.env("APR_JOURNAL_BYTES", "0").env("APR_JOURNAL_MILLISECONDS", "1");
        let mut child = command.spawn().unwrap();
        let is_begun =
            || fs::read(scratch.at(".out.apr.apr-journal")).is_ok_and(|journal| journal.contains(&b'\n'));
        while !is_begun() && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        // One that was killed after its last rename has nothing staged any more.
        if is_begun() && scratch.at(".out.apr.apr-part").exists() {
            return;
        }
        let _ = fs::remove_file(scratch.at("out.apr"));
    }
    panic!("no kill came while the journal was there");
}

#[test]
fn an_output_whose_report_cannot_be_written_is_said_to_be_there() {
    let scratch = with_old();
    for json in [&[][..], &["--json"]] {
        let args =
            [&["convert", "new.safetensors", "out.apr", "--arch", "none", "--force"][..], json].concat();
        let mut command = apr(&scratch.at(""), &args);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        command.stderr(Stdio::piped());
        let ended = command.spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("stdout") && stderr.contains("the output itself is complete"), "{stderr}");
        assert_eq!(digests(&scratch.at("out.apr")), digests(&scratch.at("new.safetensors")));
    }
    let ended = run(&scratch.at(""), &["inspect", "out.apr"]);
    assert_eq!(ended.code, 0);
    let again = ["convert", "--resume", "d"];
    let ended = run(&scratch.at(""), &again);
    says(&again, &ended, 2, &["nothing to finish in this folder", "at d"]);
}
