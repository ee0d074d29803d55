//! Files of version 1: what a Rust program serialized with `bincode`, behind metadata in MessagePack.

use crate::{sha256, write_json};
use apr_format::{Compression, Metadata, ModelType, SaveOptions, inspect_bytes, load_from_bytes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::path::Path;

/// `aprender::linear_model::LinearRegression` of aprender-core 0.72.3; its vector is serialized as what is in it.
#[derive(Serialize, Deserialize)]
struct LinearRegression {
    coefficients: Option<Vec<f32>>,
    intercept: f32,
    fit_intercept: bool,
}

/// `aprender::primitives::Matrix<f32>`.
#[derive(Serialize, Deserialize)]
struct Matrix {
    data: Vec<f32>,
    rows: usize,
    cols: usize,
}

/// `aprender::cluster::KMeans`.
#[derive(Serialize, Deserialize)]
struct KMeans {
    n_clusters: usize,
    max_iter: usize,
    tol: f32,
    random_state: Option<u64>,
    centroids: Option<Matrix>,
    labels: Option<Vec<usize>>,
    inertia: f32,
    n_iter: usize,
}

fn metadata() -> Metadata {
    let mut metadata = Metadata {
        created_at: "1700000000".to_owned(),
        aprender_version: "0.72.3".to_owned(),
        model_name: Some("golden".to_owned()),
        description: Some("ein Modell für Prüfungen".to_owned()),
        ..Metadata::default()
    };
    metadata.hyperparameters.insert("alpha".to_owned(), json!({"deep": [1, -2.5, null, true, "ü"]}));
    metadata.metrics.insert("r2".to_owned(), json!(0.99));
    metadata
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|n| (n * 37 % 101) as f32 / 32.0 - 1.5).collect()
}

/// Writes every file.
pub fn write(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let regression = |count: Option<usize>| LinearRegression {
        coefficients: count.map(values),
        intercept: 0.125,
        fit_intercept: true,
    };
    let long = regression(Some(1000));
    for (name, compression) in [
        ("plain", Compression::None),
        ("zstd_3", Compression::ZstdDefault),
        ("zstd_19", Compression::ZstdMax),
        ("lz4", Compression::Lz4),
    ] {
        save::<LinearRegression>(folder, name, &long, ModelType::LinearRegression, compression);
    }
    save::<LinearRegression>(
        folder,
        "untrained",
        &regression(None),
        ModelType::LinearRegression,
        Compression::None,
    );
    let clusters = KMeans {
        n_clusters: 3,
        max_iter: 300,
        tol: 1e-4,
        random_state: Some(42),
        centroids: Some(Matrix { data: values(12), rows: 3, cols: 4 }),
        labels: Some(vec![0, 2, 1, 1, 0]),
        inertia: 7.5,
        n_iter: 11,
    };
    save::<KMeans>(folder, "clusters", &clusters, ModelType::KMeans, Compression::ZstdDefault);
    // Any type may be saved as any model.
    save::<Vec<f32>>(folder, "bare_vector", &values(5), ModelType::LinearRegression, Compression::None);
    save::<Vec<f32>>(folder, "custom_zstd", &values(500), ModelType::Custom, Compression::ZstdDefault);
    save::<Vec<f32>>(folder, "custom_lz4", &values(500), ModelType::NeuralCustom, Compression::Lz4);
}

fn save<M: Serialize + serde::de::DeserializeOwned>(
    folder: &Path,
    name: &str,
    model: &M,
    kind: ModelType,
    compression: Compression,
) {
    let path = folder.join(format!("{name}.apr"));
    let mut options = SaveOptions::new().with_compression(compression).with_quality_score(85);
    options.metadata = metadata();
    apr_format::save(model, kind, &path, options).unwrap();
    let file = fs::read(&path).unwrap();
    let info = inspect_bytes(&file).unwrap();
    // What the crate reads in it, serialized again, is the payload before compression.
    let read: M = load_from_bytes(&file, kind).unwrap();
    let payload = bincode::serialize(&read).unwrap();
    assert_eq!(payload.len(), info.uncompressed_size);
    let golden = json!({
        "model_type": format!("{:?}", info.model_type),
        "metadata": info.metadata,
        "payload": {"bytes": payload.len(), "sha256": sha256(&payload)},
    });
    write_json(&folder.join(format!("{name}.golden.json")), &golden);
}
