//! The seeded models of `tests/golden` with what transformers computes of them (`logits.json`).

use apr_sdk::{DType, half};
use apr_testkit::Checkpoint;
use base64::Engine as _;
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};

/// One computation that transformers has made.
pub struct Case {
    /// The model's name, as its folder's.
    pub model: String,
    /// The case's name.
    pub name: String,
    /// The tokens.
    pub ids: Vec<u32>,
    /// The positions that are judged.
    pub positions: Vec<usize>,
    /// Elements of an output.
    pub width: usize,
    /// Whether the outputs are hidden states instead of logits.
    pub hidden: bool,
    /// The outputs of these positions, one after the other.
    pub want: Vec<f32>,
    /// Twice the distance of transformers' outputs in F32 from those in F64, in units of their root mean square.
    pub noise: f64,
    /// How the stored tensors are scaled first.
    scaled: Vec<Json>,
}

/// The folder of a golden model.
pub fn folder(model: &str) -> PathBuf {
    apr_tests::root().join("tests/golden").join(model)
}

/// Every model with logits, sorted.
pub fn models() -> Vec<String> {
    let all = apr_tests::names_in(&apr_tests::root().join("tests/golden"));
    let mut models: Vec<String> =
        all.into_iter().filter(|name| folder(name).join("logits.json").is_file()).collect();
    models.sort();
    assert!(models.len() >= 20, "{models:?}");
    models
}

/// The cases of a model.
pub fn cases(model: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(folder(model).join("logits.json")).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    let ids: Vec<u32> =
        json["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let case = |case: &Json| {
        let hidden = case["kind"] == "hidden";
        let (data, width) = if hidden { ("hidden", "width") } else { ("logits", "vocabulary") };
        let bytes = base64::engine::general_purpose::STANDARD.decode(case[data].as_str().unwrap()).unwrap();
        let length = case["length"].as_u64().unwrap() as usize;
        let want: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let rms = (want.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / want.len() as f64).sqrt();
        Case {
            model: model.to_owned(),
            name: case["name"].as_str().unwrap().to_owned(),
            ids: ids[..length].to_vec(),
            positions: case["positions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| p.as_u64().unwrap() as usize)
                .collect(),
            width: case[width].as_u64().unwrap() as usize,
            hidden,
            want,
            noise: 2.0 * case["f64_difference"].as_f64().unwrap() / rms,
            scaled: case["scaled"].as_array().unwrap().clone(),
        }
    };
    json["cases"].as_array().unwrap().iter().map(case).collect()
}

impl Case {
    /// Writes the model's folder with all floats in F32, scaled as the case says.
    pub fn write_to(&self, to: &Path) {
        let checkpoint = Checkpoint::golden(&folder(&self.model)).unwrap();
        std::fs::create_dir_all(to).unwrap();
        for (name, bytes) in &checkpoint.companions {
            let path = to.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let (mut header, mut data) = (Map::new(), Vec::new());
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        for tensor in checkpoint.tensors() {
            let payload = checkpoint.payload(tensor).unwrap();
            let begin = data.len();
            let dtype = match floats(tensor.dtype, &payload) {
                Some(mut values) => {
                    self.scaled.iter().filter(|s| s["tensor"] == tensor.name.as_str()).for_each(|scaled| {
                        scale(&mut values, &tensor.shape, scaled);
                    });
                    data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                    "F32"
                }
                None => {
                    data.extend_from_slice(&payload);
                    tensor.dtype.name()
                }
            };
            let described =
                json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, data.len()]});
            assert!(header.insert(tensor.name.clone(), described).is_none());
        }
        for scaled in &self.scaled {
            assert!(header.contains_key(scaled["tensor"].as_str().unwrap()), "{scaled}");
        }
        let header = Json::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&data);
        std::fs::write(to.join("model.safetensors"), file).unwrap();
    }
}

/// The elements of a float tensor; `None` for others.
pub fn floats(dtype: DType, payload: &[u8]) -> Option<Vec<f32>> {
    let pairs = || payload.chunks_exact(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()));
    match dtype {
        DType::F32 => {
            Some(payload.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
        }
        DType::F16 => Some(pairs().map(half::from_f16).collect()),
        DType::BF16 => Some(pairs().map(half::from_bf16).collect()),
        _ => None,
    }
}

/// Scales all of a tensor, or some rows or columns: x · multiply + add, in F32.
fn scale(values: &mut [f32], shape: &[u64], scaled: &Json) {
    let columns = *shape.last().unwrap() as usize;
    let pair = |name: &str| {
        let pair = scaled.get(name)?.as_array()?;
        Some(
            pair[0].as_u64().unwrap() as usize
                ..(pair[0].as_u64().unwrap() + pair[1].as_u64().unwrap()) as usize,
        )
    };
    let multiply = scaled["multiply"].as_f64().unwrap() as f32;
    let add = scaled.get("add").and_then(Json::as_f64).unwrap_or(0.0) as f32;
    let is_vector = shape.len() == 1;
    for (at, value) in values.iter_mut().enumerate() {
        let (row, column) = if is_vector { (at, at) } else { (at / columns, at % columns) };
        let inside = pair("rows").is_none_or(|rows| rows.contains(&row))
            && pair("columns").is_none_or(|columns| columns.contains(&column));
        if inside {
            *value = *value * multiply + add;
        }
    }
}
