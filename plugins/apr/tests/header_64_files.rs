//! Files with a 64-byte header are read as the crate that writes them reads them: `tests/interop/apr_format` wrote the files
//! in `header_64/` and the golden manifests beside them.

use crate::setup::{check_keys, golden, of_tests, read, sha256};
use apr_sdk::{Bytes, DType, Model, half::from_f16};
use serde_json::Value as Json;

/// The values of Q4_0 in F32, by ggml's definition.
fn q4_0(blocks: &[u8]) -> Vec<u8> {
    let values = blocks.chunks_exact(18).flat_map(|block| {
        let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
        let low = block[2..].iter().map(|byte| byte & 15);
        let high = block[2..].iter().map(|byte| byte >> 4);
        low.chain(high).map(move |code| (f32::from(code) - 8.0) * scale)
    });
    values.flat_map(f32::to_le_bytes).collect()
}

/// Compares a file with its golden manifest.
fn check(name: &str) -> Model {
    let (model, payloads) = read(of_tests(&format!("header_64/{name}.apr")));
    let golden = golden(&format!("header_64/{name}.golden.json"));
    let tensors = golden["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), model.tensors.len(), "{name}");
    for wanted in tensors {
        let at = model.tensors.iter().position(|tensor| wanted["name"] == tensor.name.as_str()).unwrap();
        let (tensor, payload) = (&model.tensors[at], &payloads[at]);
        let shape: Vec<u64> = serde_json::from_value(wanted["shape"].clone()).unwrap();
        assert_eq!(tensor.shape, shape, "{name}: {}", tensor.name);
        let of_blocks = shape.last().is_some_and(|row| row % 32 == 0);
        let (dtype, values) = match wanted["dtype"].as_str().unwrap() {
            "APR_Q4" if of_blocks => (DType::Q4_0, q4_0(payload)),
            "APR_Q4" | "APR_Q8" => (DType::F32, payload.clone()),
            other => (DType::from_name(other).unwrap(), payload.clone()),
        };
        assert_eq!(tensor.dtype, dtype, "{name}: {}", tensor.name);
        assert_eq!(sha256(&values), wanted["sha256"], "{name}: {}", tensor.name);
    }
    check_keys(name, &model, "apr_64", &golden["metadata"]);
    model
}

#[test]
fn goldens_of_every_dtype_with_and_without_a_footer() {
    let whole = check("every_dtype");
    let bare = check("no_footer");
    assert_eq!((whole.checksums.len(), bare.checksums.len()), (1, 0));
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    assert!(bare.notes[0].contains("has no footer"), "{:?}", bare.notes);
    assert!(whole.older.is_some() && bare.older.is_some());
}

#[test]
fn goldens_of_old_numbers_and_of_a_streaming_writer() {
    check("old_numbers");
    let model = check("streamed");
    let names: Vec<_> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "m"], "tensors are in the order of their offsets");
    let card = model.model_card.as_ref().and_then(Bytes::inline).unwrap();
    let card: Json = serde_json::from_slice(card).unwrap();
    assert_eq!((&card["name"], &card["license"]), (&Json::from("golden"), &Json::from("MIT")));
}

#[test]
fn goldens_of_other_flags() {
    assert!(check("no_flags").notes.is_empty());
    let notes = check("many_flags").notes.join("; ");
    for words in ["signed", "one of several shards", "undefined flags 0x1000"] {
        assert!(notes.contains(words), "{notes}");
    }
    let notes = check("says_lz4").notes.join("; ");
    assert!(notes.contains("announces LZ4, but every tensor has the size of uncompressed data"), "{notes}");
}

#[test]
fn the_crates_own_golden_file_is_read() {
    // Written before nulls were left out of metadata.
    let (model, payloads) = read(of_tests("header_64/golden_v2.apr"));
    let names: Vec<_> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["bias", "weights"]);
    assert_eq!(payloads[0], 0.125f32.to_le_bytes());
    let weights = [1.0f32, 2.0, 0.5, -0.5, 4.0, -2.0, 0.25, 8.0];
    assert_eq!(payloads[1], weights.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    let author = model.foreign_of("apr_64").unwrap().get("author").unwrap();
    assert_eq!(author.items()[0].as_str(), Some("null"));
}

#[test]
fn names_that_were_cut_are_read_and_noted() {
    let model = check("long_names");
    assert!(model.notes.join("; ").contains("2 may have been"), "{:?}", model.notes);
    assert!(model.tensors[1].name.ends_with('\u{fffd}'));
}
