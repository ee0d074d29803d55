//! Folders that hold the experts of a layer in one tensor, as the library's classes and mlx-lm have them: the same GGUF file
//! as with one tensor for each.

use crate::back::{Tensors, tensors, to};
use apr_sdk::DType;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Map, json};
use std::fs;
use std::path::Path;

/// Each kind of matrix that an expert has, and what the layouts below call it.
const MATRICES: [(&str, &str); 6] = [
    ("gate_proj", "gate_proj"),
    ("up_proj", "up_proj"),
    ("down_proj", "down_proj"),
    ("w1", "gate_proj"),
    ("w3", "up_proj"),
    ("w2", "down_proj"),
];

/// The experts of one matrix of a layer, one behind the other.
fn stack(found: &Tensors, at: &str, matrix: &str) -> Option<(DType, Vec<u64>, Vec<u8>)> {
    let first = found.get(&format!("{at}.experts.0.{matrix}.weight"))?;
    let mut bytes = Vec::new();
    let mut count = 0;
    while let Some(expert) = found.get(&format!("{at}.experts.{count}.{matrix}.weight")) {
        bytes.extend_from_slice(&expert.2);
        count += 1;
    }
    Some((first.0, [&[count], &first.1[..]].concat(), bytes))
}

/// Joins the rows of two stacks, expert by expert.
fn joined(
    one: &(DType, Vec<u64>, Vec<u8>),
    other: &(DType, Vec<u64>, Vec<u8>),
) -> (DType, Vec<u64>, Vec<u8>) {
    let experts = usize::try_from(one.1[0]).unwrap();
    let mut bytes = Vec::new();
    for (a, b) in one.2.chunks(one.2.len() / experts).zip(other.2.chunks(other.2.len() / experts)) {
        bytes.extend_from_slice(a);
        bytes.extend_from_slice(b);
    }
    (one.0, vec![one.1[0], one.1[1] + other.1[1], one.1[2]], bytes)
}

/// The tensors with the experts of each layer in one, as a layout has them.
fn stacked(found: &Tensors, is_joined: bool) -> Tensors {
    let mut all = Tensors::new();
    for (name, tensor) in found {
        let Some((at, _)) = name.split_once(".experts.0.") else {
            if !name.contains(".experts.") {
                all.insert(name.clone(), tensor.clone());
            }
            continue;
        };
        let mut matrices = Map::new();
        for (matrix, called) in MATRICES {
            let Some(stack) = stack(found, at, matrix) else { continue };
            matrices.insert(called.to_owned(), json!(null));
            if !is_joined {
                all.insert(format!("{at}.switch_mlp.{called}.weight"), stack);
            } else if called == "down_proj" {
                all.insert(format!("{at}.experts.down_proj"), stack);
            } else if called == "gate_proj" {
                let up = self::stack(found, at, if matrix == "w1" { "w3" } else { "up_proj" }).unwrap();
                all.insert(format!("{at}.experts.gate_up_proj"), joined(&stack, &up));
            }
        }
        assert_eq!(matrices.len(), 3, "{name}");
    }
    all
}

/// Writes a folder's weights anew.
fn write(folder: &Path, tensors: &Tensors) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".safetensors") {
            fs::remove_file(path).unwrap();
        }
    }
    let mut header = Map::new();
    let mut payload = Vec::new();
    for (name, (dtype, shape, bytes)) in tensors {
        let begin = payload.len();
        payload.extend_from_slice(bytes);
        let offsets = [begin, payload.len()];
        header.insert(name.clone(), json!({"dtype": dtype.name(), "shape": shape, "data_offsets": offsets}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(payload);
    fs::write(folder.join("model.safetensors"), file).unwrap();
}

#[test]
fn experts_in_one_tensor_become_the_same_gguf_file() {
    let host = host();
    for (golden, layouts) in [
        ("qwen3-moe", &[true, false][..]),
        ("qwen2-moe", &[true, false]),
        ("deepseek2", &[true, false]),
        ("glm4-moe", &[true, false]),
        ("glm4-moe-lite", &[true, false]),
        ("ernie4_5-moe", &[true, false]),
        ("hunyuan-moe", &[true, false]),
        ("mixtral", &[false]),
        ("minimax-m2", &[false]),
    ] {
        let scratch = Scratch::in_memory();
        let folder = scratch.at("folder");
        Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap().write_to(&folder).unwrap();
        to(&host, "gguf", &folder, &scratch.at("each.gguf"));
        let each = tensors(&host, &folder);
        for &is_joined in layouts {
            write(&folder, &stacked(&each, is_joined));
            let file = scratch.at(if is_joined { "joined.gguf" } else { "switch.gguf" });
            to(&host, "gguf", &folder, &file);
            assert!(
                fs::read(&file).unwrap() == fs::read(scratch.at("each.gguf")).unwrap(),
                "{golden}, {is_joined}"
            );
            fs::remove_file(&file).unwrap();
        }
    }
}
