//! ComfyUI's marks and what contradicts them, is missing beside them, or is not known.

use super::words::{changed, says};
use crate::folder::Folder;
use apr_sdk::{DType, ErrorKind, StoredTensor};

const MODULE: &str = "model.diffusion_model.blocks.0.mlp.up";

fn at(folder: &Folder, ending: &str) -> usize {
    folder.model.tensors.iter().position(|tensor| tensor.name == format!("{MODULE}{ending}")).unwrap()
}

fn remove(folder: &mut Folder, ending: &str) {
    let at = at(folder, ending);
    folder.model.tensors.remove(at);
    folder.bytes.remove(at);
}

/// Replaces a mark.
fn mark(folder: &mut Folder, json: &str) {
    let at = at(folder, ".comfy_quant");
    folder.model.tensors[at].shape = vec![json.len() as u64];
    folder.bytes[at] = json.as_bytes().to_vec();
}

fn add(folder: &mut Folder, name: &str, dtype: DType, shape: &[u64], bytes: Vec<u8>) {
    folder.model.tensors.push(StoredTensor { name: name.to_owned(), dtype, shape: shape.to_vec() });
    folder.bytes.push(bytes);
}

#[test]
fn marks_that_are_not_known_or_not_understood_are_refused_by_name() {
    for (fixture, json, kind, words) in [
        ("comfy-nvfp4", r#"{"format":"foo4"}"#, ErrorKind::Unsupported, "format `foo4` is not supported"),
        (
            "comfy-nvfp4",
            r#"{"format":"convrot_w4a4"}"#,
            ErrorKind::Unsupported,
            "`convrot_w4a4` is not supported",
        ),
        ("comfy-int8", r#"{"format":"asym_w4a8_int8"}"#, ErrorKind::Unsupported, "`asym_w4a8_int8`"),
        ("comfy-int8", r#"{"format":"awq_w4a16"}"#, ErrorKind::Unsupported, "`awq_w4a16`"),
        ("comfy-int8", r#"{"format":"int8_blockwise"}"#, ErrorKind::Unsupported, "`int8_blockwise`"),
        ("comfy-int8", r#"{"format":"int8_tensorwise","convrot":true}"#, ErrorKind::Unsupported, "`convrot`"),
        (
            "comfy-int8",
            r#"{"format":"int8_tensorwise","params":{"convrot":true}}"#,
            ErrorKind::Unsupported,
            "`convrot`",
        ),
        ("comfy-nvfp4", r#"{"format":"nvfp4","group_size":32}"#, ErrorKind::Malformed, "`group_size` is 32"),
        ("comfy-nvfp4", r#"{"group_size":16}"#, ErrorKind::Malformed, "states no `format`"),
        ("comfy-nvfp4", r#"{"format":"mxfp8"}"#, ErrorKind::Malformed, "with codes of type F8_E4M3"),
        ("comfy-mxfp8", r#"{"format":"float8_e5m2"}"#, ErrorKind::Malformed, "with codes of type F8_E5M2"),
        ("comfy-mxfp8", r#"{"format":"float8_e4m3fn"}"#, ErrorKind::Malformed, "does not match [128, 256]"),
        ("comfy-nvfp4", "{", ErrorKind::Malformed, "it must contain JSON"),
    ] {
        says(&changed(fixture, |folder| mark(folder, json)), kind, words);
    }
}

#[test]
fn parts_that_are_missing_or_of_another_layout_are_refused() {
    for (fixture, ending, words) in [
        (
            "comfy-nvfp4",
            ".weight",
            "codes are missing: expected `model.diffusion_model.blocks.0.mlp.up.weight`",
        ),
        ("comfy-nvfp4", ".weight_scale", "expected `model.diffusion_model.blocks.0.mlp.up.weight_scale`"),
        ("comfy-nvfp4", ".weight_scale_2", "up.weight_scale_2`"),
        ("comfy-mxfp8", ".weight_scale", "up.weight_scale`"),
        ("comfy-fp8", ".weight_scale", "up.weight_scale`"),
        (
            "comfy-scaled-fp8",
            ".weight",
            "codes are missing: expected `model.diffusion_model.blocks.0.mlp.up.weight`",
        ),
    ] {
        says(&changed(fixture, |folder| remove(folder, ending)), ErrorKind::Malformed, words);
    }
    // Scales in rows, as others store them: 48 rows fill no tile.
    let rows = changed("comfy-nvfp4-metadata", |folder| {
        let at = at(folder, ".weight_scale");
        folder.model.tensors[at].shape = vec![48, 6];
        folder.bytes[at].truncate(48 * 6);
    });
    says(&rows, ErrorKind::Malformed, "it is [48, 6] of F8_E4M3, which does not match [48, 48]");
    let filled = changed("comfy-nvfp4", |folder| {
        let at = at(folder, ".bias");
        folder.model.tensors[at].shape = vec![250];
        folder.bytes[at].truncate(500);
    });
    says(&filled, ErrorKind::Unsupported, "256 rows, padded from the 250 of");
    let scaled = changed("comfy-scaled-fp8", |folder| {
        let at = at(folder, ".norm.scale_weight");
        folder.bytes[at] = 0.5f32.to_le_bytes().to_vec();
    });
    says(&scaled, ErrorKind::Unsupported, "which is of type BF16");
}

#[test]
fn layers_of_which_nothing_is_stated_are_refused_where_others_are_stated() {
    let unstated = changed("comfy-fp8", |folder| remove(folder, ".comfy_quant"));
    says(&unstated, ErrorKind::Unsupported, "whose packing is not described");
    let twice = changed("comfy-nvfp4-metadata", |folder| {
        let json = br#"{"format":"nvfp4","group_size":32}"#.to_vec();
        add(folder, &format!("{MODULE}.comfy_quant"), DType::U8, &[json.len() as u64], json);
    });
    says(&twice, ErrorKind::Malformed, "but `_quantization_metadata` of the file");
    let same = changed("comfy-nvfp4-metadata", |folder| {
        let json = br#"{"group_size":16,"format":"nvfp4"}"#.to_vec();
        add(folder, &format!("{MODULE}.comfy_quant"), DType::U8, &[json.len() as u64], json);
    });
    assert_eq!(same.understood().unwrap().packed.len(), 1);
}
