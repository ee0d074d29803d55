//! `--prune-layers`, for every architecture whose golden checkpoint is checked in.

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{Error, ErrorKind};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, must, options, root};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Architectures whose layers are not all alike, and a word of the refusal.
const REFUSED: &[(&str, &str)] = &[
    ("gemma2", "depends on its number"),
    ("gemma3", "depends on its number"),
    ("deepseek2", "depends on its number"),
    ("deepseek2-lite", "depends on its number"),
    ("t5", "more than one stack"),
];

fn goldens() -> Vec<String> {
    let folder = root().join("tests/golden");
    let mut names = apr_tests::names_in(&folder);
    names.retain(|name| folder.join(name).join("tensors.json").exists());
    names.retain(|name| !apr_tests::is_packed(name) && !apr_tests::is_one_way(name));
    names
}

fn checkpoint(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = scratch.at(name);
    Checkpoint::golden(&root().join("tests/golden").join(name)).unwrap().write_to(&folder).unwrap();
    folder
}

fn pruned(layers: &[u64], format: &str, input: &Path, output: &Path) -> ConvertOptions {
    let prune_layers = layers.iter().copied().collect();
    ConvertOptions { prune_layers, to: Some(format.to_owned()), arch: None, ..options(input, output) }
}

fn opened(path: &Path) -> OpenedModel {
    open(&host(), path, &OpenOptions::default()).unwrap()
}

/// Names and digests of a model's tensors.
fn sums(path: &Path) -> BTreeMap<String, String> {
    let options = RowOptions { sha256: true, ..RowOptions::default() };
    let rows = tensor_rows(&host(), &opened(path), options).unwrap();
    rows.into_iter().map(|row| (row.name, row.sha256.unwrap())).collect()
}

/// What a GGUF file says but for the label of its size, which is kept as it was stated.
fn keys(path: &Path) -> BTreeMap<String, String> {
    let model = opened(path).model;
    let typed = model.foreign_of("gguf").unwrap().files.iter().flat_map(|file| &file.typed);
    let typed = typed.filter(|(key, _)| key != "general.size_label");
    typed.map(|(key, value)| (key.clone(), format!("{value:?}"))).collect()
}

/// Fails unless a file has these tensors and keys; names those that differ.
fn assert_is(
    path: &Path,
    (tensors, said): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    what: &str,
) {
    let differ = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| -> Vec<String> {
        a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key)).cloned().collect()
    };
    assert_eq!(differ(&sums(path), tensors), [""; 0], "{what}: tensors");
    assert_eq!(differ(&keys(path), said), [""; 0], "{what}: keys");
}

fn refusal(options: &ConvertOptions) -> Error {
    let error = convert(&host(), options).map(|done| done.notes).unwrap_err();
    assert!(!options.output.as_ref().unwrap().exists(), "{error}");
    error
}

#[test]
fn layers_are_left_out_of_every_dialect_alike() {
    let host = host();
    let mut tried = 0;
    for name in goldens() {
        let scratch = Scratch::in_memory();
        let folder = checkpoint(&scratch, &name);
        let at = |name: &str| scratch.at(name);
        if let Some((_, word)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            let error = refusal(&pruned(&[0], "gguf", &folder, &at("refused.gguf")));
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
            assert!(error.message().contains(word), "{name}: {error}");
            continue;
        }
        let (whole, one) = (at("whole.gguf"), at("one.gguf"));
        must(&host, &ConvertOptions { arch: None, ..options(&folder, &whole) });
        match apr_host::convert::convert(&host, &pruned(&[0], "gguf", &folder, &one)) {
            Ok(_) => {}
            // Many of the further families have layers of several kinds, or keys made of their number.
            Err(error) if apr_tests::is_of_families(&name) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
                assert!(error.message().contains("cannot be pruned"), "{name}: {error}");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        }
        // Each tensor of a layer is that of the layer behind it, and the last layer is gone.
        let (before, after) = (sums(&whole), sums(&one));
        let layer_of = |name: &str| -> Option<(u64, String)> {
            let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
            Some((layer.parse().ok()?, rest.to_owned()))
        };
        let layers =
            1 + before.keys().filter_map(|name| layer_of(name)).map(|(layer, _)| layer).max().unwrap();
        for (tensor, sum) in &after {
            let former = layer_of(tensor).map_or(tensor.clone(), |(layer, rest)| {
                assert!(layer + 1 < layers, "{name}: {tensor}");
                format!("blk.{}.{rest}", layer + 1)
            });
            assert_eq!(Some(sum), before.get(&former), "{name}: {tensor}");
        }
        let of_first = before.keys().filter(|tensor| tensor.starts_with("blk.0.")).count();
        assert_eq!(after.len(), before.len() - of_first, "{name}");
        // The number of layers follows, and so do lists with an entry for each.
        let (old, new) = (keys(&whole), keys(&one));
        let changed: Vec<&String> = old.keys().filter(|key| old.get(*key) != new.get(*key)).collect();
        assert!(changed.iter().any(|key| key.ends_with(".block_count")), "{name}: {changed:?}");
        // Whatever the model is read from, and whatever is made of it first, the result is the same.
        let (again, apr) = (at("again.gguf"), at("whole.apr"));
        // The folder's name is the model's.
        let hf = at("pruned").join(&name);
        std::fs::create_dir(at("pruned")).unwrap();
        must(&host, &pruned(&[0], "gguf", &whole, &again));
        assert_is(&again, (&after, &new), &format!("{name}: gguf"));
        must(&host, &ConvertOptions { arch: None, ..options(&folder, &apr) });
        let from_apr = at("from-apr.gguf");
        must(&host, &pruned(&[0], "gguf", &apr, &from_apr));
        assert_is(&from_apr, (&after, &new), &format!("{name}: apr"));
        let pruned_apr = at("pruned.apr");
        must(&host, &pruned(&[0], "apr", &folder, &pruned_apr));
        let from_pruned = at("from-pruned.gguf");
        must(&host, &ConvertOptions { arch: None, ..options(&pruned_apr, &from_pruned) });
        assert_is(&from_pruned, (&after, &new), &format!("{name}: to apr"));
        must(&host, &pruned(&[0], "huggingface", &folder, &hf));
        let from_hf = at("from-hf.gguf");
        must(&host, &ConvertOptions { arch: None, ..options(&hf, &from_hf) });
        assert_is(&from_hf, (&after, &new), &format!("{name}: huggingface"));
        tried += 1;
    }
    assert!(tried >= 20, "{tried}");
}

#[test]
fn what_cannot_be_left_out_is_refused() {
    let scratch = Scratch::in_memory();
    let folder = checkpoint(&scratch, "llama3");
    let output = scratch.at("out.gguf");
    for (layers, message) in [
        (&[3][..], "--prune-layers: layer 3 does not exist"),
        (&[0, 1, 2], "--prune-layers: no layers would be left: the model has only 3 layers"),
    ] {
        let error = refusal(&pruned(layers, "gguf", &folder, &output));
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, message));
    }
    let set = vec![("num_hidden_layers".to_owned(), "2".to_owned())];
    let error = refusal(&ConvertOptions { set, ..pruned(&[0], "gguf", &folder, &output) });
    assert_eq!(error.message(), "--prune-layers sets `num_hidden_layers` itself");
    let none = Some("none".to_owned());
    let error = refusal(&ConvertOptions { arch: none, ..pruned(&[0], "gguf", &folder, &output) });
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("no architecture table covers"), "{error}");
}

#[test]
fn a_model_whose_layers_differ_by_what_its_table_does_not_cover_is_refused() {
    let scratch = Scratch::in_memory();
    for (golden, stated) in [
        ("qwen2", json!({ "use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1 })),
        ("gpt2", json!({ "scale_attn_by_inverse_layer_idx": true })),
    ] {
        let folder = checkpoint(&scratch, golden);
        let path = folder.join("config.json");
        let mut config: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        config.as_object_mut().unwrap().extend(stated.as_object().unwrap().clone());
        std::fs::write(&path, config.to_string()).unwrap();
        let error = refusal(&pruned(&[0], "huggingface", &folder, &scratch.at("out")));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{golden}: {error}");
        assert!(error.message().contains("does not cover"), "{golden}: {error}");
    }
}

#[test]
fn layers_behind_those_that_go_move_down_by_as_many() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = checkpoint(&scratch, "mistral");
    let (whole, some) = (scratch.at("whole.gguf"), scratch.at("some.gguf"));
    must(&host, &ConvertOptions { arch: None, ..options(&folder, &whole) });
    let done = must(&host, &pruned(&[1, 9, 10, 2], "gguf", &folder, &some));
    assert!(done.notes.iter().any(|note| note.contains("11 layers become 7")), "{:?}", done.notes);
    let (before, after) = (sums(&whole), sums(&some));
    let left = [0, 3, 4, 5, 6, 7, 8];
    for (now, former) in left.into_iter().enumerate() {
        let [now, former] = [now as u64, former].map(|layer| format!("blk.{layer}.attn_q.weight"));
        assert_eq!(after.get(&now), before.get(&former), "{now}");
    }
    assert_eq!(after.keys().filter(|name| name.ends_with("attn_q.weight")).count(), left.len());
}
