//! `apr split`, `apr join` and `apr hash`: a model's files change, the model does not.

use crate::quantize::write;
use apr_engine::open::{OpenOptions, open};
use apr_sdk::Payload;
use apr_tests::{Scratch, assert_same_file, fixtures, host, must, options, program, root};
use std::path::{Path, PathBuf};
use std::process::Command;

fn apr(args: &[&str]) -> String {
    let output = Command::new(program()).args(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A model in one file of each format that has shards.
fn whole(scratch: &Scratch) -> Vec<PathBuf> {
    let model = root().join("tests/model/weights");
    ["m.gguf", "m.safetensors", "m.apr", "m.pt"]
        .iter()
        .map(|name| {
            let path = scratch.at(name);
            apr(&["convert", text(&model), text(&path), "--force"]);
            path
        })
        .collect()
}

#[test]
fn split_and_join_give_the_file_back() {
    let scratch = Scratch::new();
    for file in whole(&scratch) {
        let extension = file.extension().unwrap().to_str().unwrap();
        let parts = scratch.at(&format!("parts-{extension}"));
        apr(&["split", text(&file), &format!("{}/", text(&parts)), "--max-shard-size", "2M"]);
        assert!(std::fs::read_dir(&parts).unwrap().count() > 2, "{extension}");
        let joined = scratch.at(&format!("joined.{extension}"));
        apr(&["join", text(&parts), text(&joined)]);
        let digest = |path: &Path| apr(&["hash", "-q", text(path)]);
        assert_eq!(digest(&parts), digest(&file), "{extension}");
        assert_same_file(&joined, &file);
    }
}

#[test]
fn a_folder_is_joined_in_a_folder() {
    let scratch = Scratch::new();
    let model = root().join("tests/model/weights");
    let (parts, joined) = (scratch.at("parts/"), scratch.at("joined/"));
    apr(&["split", text(&model), text(&parts), "--split-max-size", "2M"]);
    assert!(parts.join("model.safetensors.index.json").exists());
    apr(&["join", text(&parts), text(&joined)]);
    assert_same_file(&joined.join("model.safetensors"), &model.join("model.safetensors"));
}

#[test]
fn digests_are_those_of_the_model_not_of_the_file() {
    let scratch = Scratch::new();
    let model = root().join("tests/model/weights");
    let digests = |path: &Path| -> serde_json::Value {
        serde_json::from_str(&apr(&["hash", "--json", text(path)])).unwrap()
    };
    let mut seen = vec![digests(&model)];
    for (name, method) in [("plain.apr", "none"), ("lz4.apr", "lz4"), ("zstd.apr", "zstd")] {
        let path = scratch.at(name);
        apr(&["convert", text(&model), text(&path), "--compress", method]);
        seen.push(digests(&path));
    }
    for other in &seen[1..] {
        assert_eq!(other["tensors"], seen[0]["tensors"]);
        assert_eq!(other["content"], seen[1]["content"]);
    }
    let renamed = scratch.at("renamed.apr");
    apr(&["edit", text(&scratch.at("plain.apr")), "--set", "safetensors.note:str=x", "-o", text(&renamed)]);
    let renamed = digests(&renamed);
    assert_eq!(renamed["tensors"], seen[1]["tensors"]);
    assert_ne!(renamed["content"], seen[1]["content"]);
    // The layout is documented: this is how another program computes the digest of tensors.
    use sha2::{Digest, Sha256};
    let small = fixtures("safetensors").join("handmade_indented.safetensors");
    let bytes = std::fs::read(&small).unwrap();
    let len = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let mut tensors: Vec<_> =
        header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__").collect();
    tensors.sort_by_key(|(name, _)| name.as_bytes().to_vec());
    let mut all = Sha256::new();
    for (name, tensor) in tensors {
        for text in [name.as_str(), tensor["dtype"].as_str().unwrap()] {
            all.update((text.len() as u64).to_le_bytes());
            all.update(text);
        }
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let shape = tensor["shape"].as_array().unwrap();
        all.update((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|size| all.update(number(size).to_le_bytes()));
        let [from, to] = [0, 1].map(|n| usize::try_from(number(&tensor["data_offsets"][n])).unwrap());
        for piece in bytes[8 + len + from..8 + len + to].chunks(1 << 20) {
            all.update(Sha256::digest(piece));
        }
    }
    let want: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digests(&small)["tensors"], serde_json::Value::from(want));
}

/// What `--max-shard-tensors` promises, for every format with shards: no file has more tensors, and together they are the model.
#[test]
fn no_shard_has_more_tensors_than_it_may() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("in.safetensors");
    let tensors = ["a", "b", "c", "d", "e"].map(|name| (name, &[2][..], &[1.0, 2.0][..]));
    write(&source, &tensors);
    for to in ["gguf", "safetensors", "apr", "pytorch"] {
        for most in [1, 2, 100] {
            let folder = scratch.at(&format!("{to}-{most}"));
            std::fs::create_dir(&folder).unwrap();
            let mut wanted = options(&source, &folder);
            wanted.to = Some(to.to_owned());
            wanted.max_shard_tensors = Some(most);
            must(&host, &wanted);
            let opened = open(&host, &folder, &OpenOptions::default()).unwrap();
            let mut counts = std::collections::BTreeMap::new();
            for tensor in &opened.model.tensors {
                let Payload::Extent { extent, .. } = &tensor.payload else { panic!("{to}: {tensor:?}") };
                *counts.entry(extent.file).or_insert(0u64) += 1;
            }
            let n_tensors = opened.model.tensors.len() as u64;
            assert_eq!(counts.len() as u64, n_tensors.div_ceil(most), "{to}: {counts:?}");
            assert!(counts.values().all(|count| *count <= most), "{to}: {counts:?}");
        }
    }
}
