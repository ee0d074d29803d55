//! Two models of shards meet: a shard of one among those of the other, or both in one folder. Neither passes for the other, and
//! what was written can be opened.

use crate::build::big_of;
use crate::command::{Ended, contents, fails, run};
use apr_engine::open::{OpenOptions, open};
use apr_tests::{Scratch, host, names_in};
use std::fs;

/// The bytes of an APR2 footer.
const FOOTER: usize = 16;

fn runs(scratch: &Scratch, args: &[&str]) -> Ended {
    let ended = run(&scratch.at(""), args);
    assert_eq!(ended.code, 0, "apr {args:?}: {}", ended.stderr);
    ended
}

/// Two models of the same names and shapes, and other weights.
fn two() -> Scratch {
    let scratch = Scratch::new();
    for (number, folder) in (1..).zip(["one", "two"]) {
        fs::create_dir(scratch.at(folder)).unwrap();
        big_of(&scratch.at(folder).join("m.safetensors"), 1, number);
    }
    scratch
}

fn sharded<'a>(input: &'a str, out: &'a str, to: &'a str) -> [&'a str; 9] {
    ["convert", input, out, "--to", to, "--max-shard-size", "600k", "--arch", "none"]
}

#[test]
fn a_shard_of_another_model_is_refused_wherever_the_manifest_is_read() {
    let scratch = two();
    runs(&scratch, &sharded("one/m.safetensors", "a/", "apr"));
    runs(&scratch, &sharded("two/m.safetensors", "b/", "apr"));
    let names = names_in(&scratch.at("a"));
    assert_eq!(names, ["m-00001-of-00002.apr", "m-00002-of-00002.apr", "m.apr"]);
    let shards = &names[..2];
    for shard in shards {
        let [own, other] = ["a", "b"].map(|folder| fs::read(scratch.at(folder).join(shard)).unwrap());
        assert!(own != other && own.len() == other.len(), "{shard} is the same in both");
        fs::write(scratch.at("a").join(shard), &other).unwrap();
        for args in [
            &["validate", "a", "--checksum"][..],
            &["inspect", "a/m.apr"],
            &["tensors", "a/m-00001-of-00002.apr"],
            &["convert", "a", "mixed.safetensors", "--arch", "none"],
        ] {
            fails(&scratch, args, 4, &["E004", shard, "not the shard listed in the manifest"]);
        }
        assert!(!scratch.at("mixed.safetensors").exists());
        fs::write(scratch.at("a").join(shard), &own).unwrap();
    }
    runs(&scratch, &["validate", "a", "--checksum"]);

    // Earlier versions took the checksum over the footer too: such manifests open, and are no proof.
    let old = shards.iter().fold(fs::read_to_string(scratch.at("a/m.apr")).unwrap(), |text, shard| {
        let bytes = fs::read(scratch.at("a").join(shard)).unwrap();
        let [new, old] =
            [&bytes[..bytes.len() - FOOTER], &bytes].map(|bytes| format!("{:08x}", crc32fast::hash(bytes)));
        assert!(text.contains(&new), "{new} is not in {text}");
        text.replace(&new, &old)
    });
    fs::write(scratch.at("a/m.apr"), old).unwrap();
    let said = runs(&scratch, &["convert", "a", "back.safetensors", "--arch", "none"]);
    let said = said.stdout + &said.stderr;
    assert!(said.contains("cannot identify the shards"), "{said}");
    let [back, one] =
        ["back.safetensors", "one/m.safetensors"].map(|file| fs::read(scratch.at(file)).unwrap());
    assert!(back.ends_with(&one[one.len() - (1 << 20)..]), "other weights came back");
    runs(&scratch, &["validate", "a", "--checksum"]);
    runs(&scratch, &["convert", "a", "renewed/", "--to", "apr", "--arch", "none"]);
    let said = runs(&scratch, &["convert", "renewed", "again.safetensors", "--arch", "none"]);
    assert!(!(said.stdout + &said.stderr).contains("cannot identify"));
}

#[test]
fn a_folder_that_would_open_as_neither_of_two_models_is_refused() {
    for to in ["apr", "gguf", "safetensors", "pytorch"] {
        let scratch = two();
        fs::rename(scratch.at("two/m.safetensors"), scratch.at("two/n.safetensors")).unwrap();
        runs(&scratch, &sharded("one/m.safetensors", "d/", to));
        let before = contents(&scratch.at("d"));
        let args = sharded("two/n.safetensors", "d/", to);
        for force in [&[][..], &["--force"]] {
            let args = [&args[..], force].concat();
            let words =
                ["E007", "the folder contains another model", "`m-00001-of-00002", "specify the file: d/n"];
            fails(&scratch, &args, 1, &words);
            assert_eq!(contents(&scratch.at("d")), before, "{to} {force:?}");
        }
        // Named by its file, it stands beside the other.
        let way_out = run(&scratch.at(""), &args).stderr;
        let file = way_out.split("or specify the file: ").nth(1).unwrap().split(';').next().unwrap();
        let named =
            ["convert", "two/n.safetensors", file, "--to", to, "--max-shard-size", "600k", "--arch", "none"];
        runs(&scratch, &named);
        for file in [file, &file.replace("d/n", "d/m")] {
            let opened = open(&host(), &scratch.at(file), &OpenOptions::default()).unwrap();
            assert_eq!(opened.model.tensors.len(), 2, "{file}");
        }
    }
}

#[test]
fn into_a_folder_of_several_models_one_more_is_a_warning_that_names_its_file() {
    let scratch = two();
    for (name, weights) in [("k", "one"), ("l", "two"), ("n", "two")] {
        fs::copy(scratch.at(weights).join("m.safetensors"), scratch.at(&format!("{name}.safetensors")))
            .unwrap();
    }
    fs::create_dir(scratch.at("d")).unwrap();
    for name in ["k", "l"] {
        runs(
            &scratch,
            &["convert", &format!("{name}.safetensors"), &format!("d/{name}.apr"), "--arch", "none"],
        );
    }
    let said = runs(&scratch, &sharded("n.safetensors", "d/", "apr"));
    assert!(
        said.stderr.contains("does not open as a model because of its other files: open `d/n.apr` instead"),
        "{}",
        said.stderr
    );
    let opened = open(&host(), &scratch.at("d/n.apr"), &OpenOptions::default()).unwrap();
    assert_eq!(opened.model.tensors.len(), 2);
}
