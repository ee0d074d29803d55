//! Files of version 1 are read as the crate that writes them reads them: `tests/interop/apr_format` wrote the files in
//! `version_1/` and the golden manifests beside them.

use crate::setup::{check_keys, golden, of_tests, read, sha256};
use apr_sdk::{DType, Model, Value};
use serde_json::json;

/// A file's model and payloads; its keys are compared with the golden manifest, but for those of this plugin.
fn check(name: &str) -> (Model, Vec<Vec<u8>>) {
    let (mut model, payloads) = read(of_tests(&format!("version_1/{name}.apr")));
    let golden = golden(&format!("version_1/{name}.golden.json"));
    let kind = key(&model, "header.model_type").unwrap().as_str().unwrap().to_owned();
    assert_eq!(golden["model_type"], kind.as_str(), "{name}");
    assert_eq!(key(&model, "header.quality_score").unwrap().as_u8(), Some(85));
    assert_eq!(model.older.as_deref(), Some("APR version 1"));
    assert_eq!(model.checksums.len(), 1);
    let all = model.foreign_mut("apr_1").files[0].typed.clone();
    model.foreign_mut("apr_1").files[0]
        .typed
        .retain(|(key, _)| !key.starts_with("header.") && !key.starts_with("model."));
    check_keys(name, &model, "apr_1", &golden["metadata"]);
    model.foreign_mut("apr_1").files[0].typed = all;
    if model.tensors.iter().any(|tensor| tensor.name == "payload") {
        let found = json!({"bytes": payloads[0].len(), "sha256": sha256(&payloads[0])});
        assert_eq!(golden["payload"], found, "{name}");
        assert!(model.notes[0].contains("of a type that the file does not describe"), "{:?}", model.notes);
    }
    (model, payloads)
}

fn key<'a>(model: &'a Model, name: &str) -> Option<&'a Value> {
    model.foreign_of("apr_1").unwrap().get(name)
}

/// What `generate.rs` puts into vectors.
fn values(count: usize) -> Vec<u8> {
    let value = |n: usize| (n * 37 % 101) as f32 / 32.0 - 1.5;
    (0..count).flat_map(|n| value(n).to_le_bytes()).collect()
}

#[test]
fn goldens_of_a_known_type_with_every_compression() {
    for name in ["plain", "zstd_3", "zstd_19", "lz4"] {
        let (model, payloads) = check(name);
        let shapes: Vec<_> =
            model.tensors.iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice())).collect();
        let expected = [("coefficients", DType::F32, &[1000][..]), ("intercept", DType::F32, &[])];
        assert_eq!(shapes, expected, "{name}");
        assert_eq!(payloads, [values(1000), 0.125f32.to_le_bytes().to_vec()], "{name}");
        assert_eq!(key(&model, "model.fit_intercept").unwrap().as_bool(), Some(true));
        assert!(model.notes.is_empty(), "{:?}", model.notes);
    }
    let (model, _) = check("untrained");
    assert_eq!(model.tensors.len(), 1);
}

#[test]
fn golden_of_clusters() {
    let (model, payloads) = check("clusters");
    let shapes: Vec<_> =
        model.tensors.iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice())).collect();
    assert_eq!(shapes, [("centroids", DType::F32, &[3, 4][..]), ("labels", DType::U64, &[5])]);
    let labels: Vec<u8> = [0u64, 2, 1, 1, 0].iter().flat_map(|label| label.to_le_bytes()).collect();
    assert_eq!(payloads, [values(12), labels]);
    assert_eq!(key(&model, "model.random_state").unwrap().as_u64(), Some(42));
    assert_eq!(key(&model, "model.inertia").unwrap().as_f32(), Some(7.5));
}

#[test]
fn goldens_of_values_that_the_file_does_not_describe() {
    for name in ["bare_vector", "custom_zstd", "custom_lz4"] {
        let (model, _) = check(name);
        assert_eq!((model.tensors.len(), model.tensors[0].dtype), (1, DType::U8), "{name}");
    }
}

#[test]
fn the_crates_own_golden_file_is_of_another_type_than_it_says() {
    // Its value is a name, a vector and a number, saved as LinearRegression.
    let (model, payloads) = read(of_tests("version_1/golden_v1.apr"));
    assert_eq!((model.tensors[0].name.as_str(), payloads[0].len()), ("payload", 61));
    assert_eq!(key(&model, "model_name").unwrap().as_str(), Some("golden-v1"));
}
