//! A folder whose model becomes another of other files: what the old one consisted of goes with it, everything else that looks
//! like weights stays and is named.

use crate::build::{big_of, entry, safetensors};
use crate::command::{Ended, contents, run};
use apr_engine::open::{OpenOptions, open};
use apr_tests::{Scratch, host, names_in};
use std::fs;
use std::os::unix::fs::symlink;

/// A folder `d` with a model of 8 tensors in as many shards, and another of 2 tensors.
fn with_shards(format: &str) -> Scratch {
    let scratch = Scratch::new();
    const LEN: u64 = 512 << 10;
    let entries: Vec<_> =
        (0..8).map(|n| entry(&format!("t{n}"), &format!("[{LEN}]"), n * LEN, (n + 1) * LEN)).collect();
    let header = format!("{{{}}}", entries.join(","));
    let bytes = safetensors(header.as_bytes(), &vec![7; 8 * LEN as usize]);
    fs::write(scratch.at("model.safetensors"), bytes).unwrap();
    big_of(&scratch.at("new.safetensors"), 1, 2);
    let args =
        ["convert", "model.safetensors", "d/", "--arch", "none", "--max-shard-size", "600k", "--to", format];
    runs(&scratch, &args);
    scratch
}

fn runs(scratch: &Scratch, args: &[&str]) -> Ended {
    let ended = run(&scratch.at(""), args);
    assert_eq!(ended.code, 0, "apr {args:?}: {}", ended.stderr);
    ended
}

/// How many tensors open at a path.
fn n_tensors(scratch: &Scratch, path: &str) -> usize {
    open(&host(), &scratch.at(path), &OpenOptions::default()).unwrap().model.tensors.len()
}

#[test]
fn what_the_old_model_consisted_of_goes_with_it_and_nothing_else() {
    for shards in [&[][..], &["--max-shard-size", "600k"]] {
        let scratch = with_shards("huggingface");
        let d = scratch.at("d");
        let own = names_in(&d);
        assert!(own.len() > 8, "{own:?}");
        let mine =
            ["adapter.gguf", "best.safetensors", "model-00001-of-00009.safetensors", "old.bin", "train.py"];
        mine.iter().for_each(|name| fs::write(d.join(name), "mine").unwrap());
        let args = ["convert", "new.safetensors", "d", "--to", "huggingface", "--arch", "none", "--force"];
        let args = [&args[..], shards].concat();
        let before = contents(&d);
        let planned = runs(&scratch, &[&args[..], &["-n"]].concat());
        assert_eq!(contents(&d), before, "a plan changed the folder");
        let done = runs(&scratch, &args);
        let now = names_in(&d);
        let gone: Vec<_> =
            own.iter().filter(|name| !now.contains(name)).map(|name| format!("`{name}`")).collect();
        assert!(gone.len() > 6, "{gone:?} of {own:?}");
        let gone = format!("the folder, together with the model they belong to: {}\n", gone.join(", "));
        let besides = "in the folder, but not part of the new model: `adapter.gguf`, `best.safetensors`, \
                       `model-00001-of-00009.safetensors`, `old.bin`\n";
        for (said, verb) in [(&planned.stdout, "would be removed from"), (&done.stdout, "removed from")] {
            assert!(said.contains(&format!("note: {verb} {gone}")), "{gone} is not in:\n{said}");
            assert!(said.contains(besides), "{said}");
        }
        mine.iter().for_each(|name| assert_eq!(fs::read(d.join(name)).unwrap(), b"mine", "{name}"));
        assert_eq!(
            (n_tensors(&scratch, "d"), now.iter().filter(|name| name.starts_with('.')).count()),
            (2, 0)
        );
    }
}

#[test]
fn an_index_that_is_replaced_takes_its_shards_along() {
    let scratch = with_shards("safetensors");
    let d = scratch.at("d");
    let own = names_in(&d);
    fs::write(d.join("model-00001-of-00009.safetensors"), "mine").unwrap();
    fs::copy(scratch.at("new.safetensors"), scratch.at("model.safetensors")).unwrap();
    let args = [
        "convert",
        "model.safetensors",
        "d",
        "--to",
        "safetensors",
        "--arch",
        "none",
        "--max-shard-size",
        "600k",
    ];
    let done = runs(&scratch, &[&args[..], &["--force"]].concat());
    assert!(
        done.stdout.contains("removed from the folder, together with the model they belong to"),
        "{}",
        done.stdout
    );
    let now = names_in(&d);
    let new = [
        "model-00001-of-00002.safetensors",
        "model-00001-of-00009.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    assert_eq!(now, [&new[..], &["model.safetensors.index.json"]].concat());
    assert_eq!(own.len(), 9, "{own:?}");
    assert_eq!(n_tensors(&scratch, "d/model.safetensors.index.json"), 2);
}

#[test]
fn neither_inputs_nor_what_a_link_leads_to_nor_what_does_not_open_is_removed() {
    let scratch = with_shards("huggingface");
    let d = scratch.at("d");
    let shard = names_in(&d).into_iter().find(|name| name.contains("-00001-of-")).unwrap();
    fs::copy(d.join(&shard), scratch.at("elsewhere")).unwrap();
    let other = names_in(&d).into_iter().find(|name| name.contains("-00002-of-")).unwrap();
    fs::copy(d.join(&other), scratch.at("target")).unwrap();
    fs::remove_file(d.join(&other)).unwrap();
    symlink("../target", d.join(&other)).unwrap();
    let input = format!("d/{shard}");
    let args = ["convert", &input, "d", "--to", "huggingface", "--arch", "none", "--force", "--bare"];
    // A link that leaves the folder keeps the old model from being opened: nothing is known of it then.
    let done = runs(&scratch, &args);
    assert!(!done.stdout.contains("removed"), "{}", done.stdout);
    assert!(
        done.stdout.contains(&format!("not part of the new model: `{shard}`, `{other}`")),
        "{}",
        done.stdout
    );
    assert_eq!(fs::read(d.join(&shard)).unwrap(), fs::read(scratch.at("elsewhere")).unwrap());
    assert!(fs::read_link(d.join(&other)).is_ok() && scratch.at("target").exists());

    let scratch = with_shards("huggingface");
    fs::copy(scratch.at("d").join(&shard), scratch.at("elsewhere")).unwrap();
    let done = runs(&scratch, &args);
    assert!(
        done.stdout.contains("removed from the folder, together with the model they belong to"),
        "{}",
        done.stdout
    );
    assert!(scratch.at("d").join(&shard).exists(), "the input is gone: {}", done.stdout);
    assert!(!scratch.at("d").join(&other).exists());
}

#[test]
fn one_file_that_makes_a_folder_another_model_is_a_warning() {
    let scratch = with_shards("huggingface");
    let before = n_tensors(&scratch, "d");
    let args = ["convert", "new.safetensors", "d/model.safetensors", "--arch", "none"];
    for plan in [&["-n"][..], &[]] {
        let done = runs(&scratch, &[&args[..], plan].concat());
        let words = "warning: with this file, the folder `d` opens as a different model: 2 tensors, 8 before";
        assert!(done.stderr.contains(words), "{}{}", done.stderr, done.stdout);
    }
    assert_eq!((before, n_tensors(&scratch, "d")), (8, 2));
    // One that the folder's model takes no notice of is none.
    let done = runs(&scratch, &["convert", "new.safetensors", "d/other.gguf", "--arch", "none"]);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    fs::remove_dir_all(scratch.at("d")).unwrap();
    fs::create_dir(scratch.at("d")).unwrap();
    let done = runs(&scratch, &args);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
}

#[test]
fn a_folder_that_stays_the_old_model_is_a_warning_for_who_named_it() {
    let scratch = with_shards("safetensors");
    let args = ["convert", "new.safetensors", "d", "--to", "safetensors", "--arch", "none"];
    for plan in [&["-n"][..], &[]] {
        let done = runs(&scratch, &[&args[..], plan].concat());
        let words = "warning: the folder `d` still opens as its previous model: open the new one as \
                     `d/new.safetensors`";
        assert!(done.stderr.contains(words), "{}{}", done.stderr, done.stdout);
    }
    assert_eq!((n_tensors(&scratch, "d"), n_tensors(&scratch, "d/new.safetensors")), (8, 2));
}
