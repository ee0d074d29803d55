//! The seeded weights and the folders made of them: what Python gives is what Rust gives.

use apr_sdk::DType;
use apr_testkit::{Checkpoint, ModelFixture, weight_bytes};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn weights_are_the_ones_that_python_makes() {
    let cases = json(&goldens().join("weights.json"));
    let cases = cases.as_array().unwrap();
    for case in cases {
        let shape: Vec<u64> = case["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).collect();
        let dtype = DType::from_name(case["dtype"].as_str().unwrap()).unwrap();
        let center = if case["center"] == 1 { 1.0 } else { 0.0 };
        let (seed, name) = (case["seed"].as_u64().unwrap(), case["name"].as_str().unwrap());
        let bytes = weight_bytes(seed, name, dtype, &shape, center).unwrap();
        assert_eq!(sha256(&bytes), case["sha256"].as_str().unwrap(), "{case}");
    }
    let dtypes: HashSet<_> = cases.iter().map(|case| case["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, HashSet::from(["F32", "F16", "BF16", "I32", "I64", "U8", "F8_E4M3"]));
    assert!(weight_bytes(0, "t", DType::F64, &[1], 0.0).is_err());
}

#[test]
fn presets_have_the_heads_that_their_names_promise() {
    for (model, heads, kv_heads, bias) in [
        (Checkpoint::tiny(), 4, 4, false),
        (Checkpoint::small(), 8, 8, false),
        (Checkpoint::gqa(), 8, 2, false),
        (Checkpoint::qwen(), 8, 4, true),
        (Checkpoint::tinyllama(), 32, 4, false),
    ] {
        let files = model.files().unwrap();
        let config: Value = serde_json::from_slice(&files[0].1).unwrap();
        assert_eq!(files[0].0, "config.json");
        assert_eq!(config["num_attention_heads"], heads, "{}", model.name);
        assert_eq!(config["num_key_value_heads"], kv_heads, "{}", model.name);
        let hidden = config["hidden_size"].as_u64().unwrap();
        let find =
            |name: &str| model.tensors().find(|t| t.name == format!("model.layers.1.self_attn.{name}"));
        assert_eq!(find("q_proj.weight").unwrap().shape, [hidden, hidden], "{}", model.name);
        assert_eq!(
            find("k_proj.weight").unwrap().shape,
            [hidden / heads * kv_heads, hidden],
            "{}",
            model.name
        );
        assert_eq!(find("k_proj.bias").is_some(), bias, "{}", model.name);
        assert_eq!(model.tensors().any(|t| t.name == "lm_head.weight"), !bias, "{}", model.name);
        let (index, _) = model.fixture().unwrap().build().unwrap();
        assert_eq!(index.tensors.len(), model.tensors().count(), "{}", model.name);
    }
    assert_eq!(
        ModelFixture::gqa().unwrap().build().unwrap().0.tensors.len(),
        Checkpoint::gqa().tensors().count()
    );
}
