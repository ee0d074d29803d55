//! Classes that are laid out like one of the golden models: the converter's file for that model's folder, with another
//! configuration and other starts of names, compared with ours. `tests/golden/aliases.json` lists them, with what the
//! converter's file then has that differs from the model's own.

use crate::golden::differences;
use crate::models::opened;
use apr_host::convert::{ConvertOptions, convert};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, root};
use serde_json::{Map, Value as Json};
use std::fs;

fn items(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// A golden file's rows with those that differ in their place: by `key`, without those that are gone.
fn patched(golden: &Json, alias: &Json, what: &str, key: &str) -> Json {
    let other = items(&alias[what]);
    let gone = items(&alias[format!("no_{what}")]);
    let is = |row: &Json, name: &Json| row[key] == *name;
    let kept = items(&golden[what]).iter().filter(|row| !gone.iter().any(|name| is(row, name)));
    let kept = kept.map(|row| other.iter().find(|one| is(one, &row[key])).unwrap_or(row));
    let mut rows: Vec<Json> = kept.cloned().collect();
    rows.extend(
        other.iter().filter(|one| !items(&golden[what]).iter().any(|row| is(row, &one[key]))).cloned(),
    );
    Json::Array(rows)
}

/// The golden model with the alias's configuration and names.
fn renamed(alias: &Json) -> Checkpoint {
    let mut model =
        Checkpoint::golden(&root().join("tests/golden").join(alias["of"].as_str().unwrap())).unwrap();
    for (name, bytes) in &mut model.companions {
        if name == "config.json" {
            *bytes = alias["config"].to_string().into_bytes();
        }
    }
    let none = Map::new();
    let starts = alias["start"].as_object().unwrap_or(&none);
    let is_left = |tensor: &SeededTensor| {
        !items(&alias["drop"]).iter().any(|start| tensor.name.starts_with(start.as_str().unwrap()))
    };
    let mut all: Vec<SeededTensor> =
        model.shards.drain(..).flat_map(|(_, tensors)| tensors).filter(is_left).collect();
    for tensor in &mut all {
        let start = starts.iter().find(|(old, _)| tensor.name.starts_with(old.as_str()));
        if let Some((old, new)) = start {
            tensor.name = format!("{}{}", new.as_str().unwrap(), &tensor.name[old.len()..]);
        }
    }
    // The library's order: wide types first, then by name.
    let width = |tensor: &SeededTensor| tensor.dtype.info().map_or(0, |info| info.block_bytes);
    all.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| a.name.cmp(&b.name)));
    model.shards = vec![("model.safetensors".to_owned(), all)];
    model
}

#[test]
fn classes_that_are_laid_out_alike_become_the_file_that_the_converter_writes() {
    let host = host();
    let all: Json =
        serde_json::from_slice(&fs::read(root().join("tests/golden/aliases.json")).unwrap()).unwrap();
    let mut failed = Vec::new();
    for alias in items(&all) {
        let class = alias["class"].as_str().unwrap();
        let path = root().join("tests/golden").join(alias["of"].as_str().unwrap()).join("golden.json");
        let mut golden: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        golden["kvs"] = patched(&golden, alias, "kvs", "key");
        golden["tensors"] = patched(&golden, alias, "tensors", "name");
        let (model, scratch) = (renamed(alias), Scratch::new());
        let (folder, output) = (scratch.at(&model.name), scratch.at("out.gguf"));
        model.write_to(&folder).unwrap();
        let options =
            ConvertOptions { input: folder, output: Some(output.clone()), ..ConvertOptions::default() };
        match convert(&host, &options) {
            Err(error) => failed.push(format!("{class}: {error:#?}")),
            Ok(_) => {
                let lines = differences(&opened(&host, &output), &golden);
                // Where other names change the order of layers is not recorded.
                let lines = lines.iter().filter(|line| !line.ends_with("lacks [], has [], or another order"));
                failed.extend(lines.map(|line| format!("{class}: {line}")));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
