//! Values of `config.json` on which the logits depend, away from what the library's classes assume: each comes back of the GGUF file
//! made of a folder, and through APR too. `fields.json` lists them by family; `tests/interop` has the library compute with such folders.

use crate::back::{config, config_json, to};
use crate::models::{opened, payload};
use apr_engine::architecture::decoder;
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{DType, Model, Value};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, root};
use serde_json::{Map, Value as Json};
use std::fs;
use std::path::Path;

/// A golden whose folder says something else.
struct Case {
    family: String,
    row: Json,
}

impl Case {
    fn all() -> Vec<Case> {
        let rows: Vec<Json> = serde_json::from_str(include_str!("fields.json")).unwrap();
        rows.into_iter().map(|row| Case { family: row["family"].as_str().unwrap().to_owned(), row }).collect()
    }

    fn list(&self, key: &str) -> Vec<&str> {
        self.row[key].as_array().into_iter().flatten().map(|one| one.as_str().unwrap()).collect()
    }

    fn write_to(&self, folder: &Path) {
        let golden = root().join("tests/golden").join(self.row["golden"].as_str().unwrap());
        let mut model = Checkpoint::golden(&golden).unwrap();
        let (without, files) = (self.list("without"), self.list("files"));
        for (_, tensors) in &mut model.shards {
            tensors.retain(|tensor| !without.contains(&tensor.name.as_str()));
        }
        let first = &mut model.shards[0].1;
        let dtype = first[0].dtype;
        for (name, shape) in self.row["with"].as_object().into_iter().flatten() {
            let shape: Vec<u64> = shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            for layer in 0..self.row["layers"].as_u64().unwrap_or(1) {
                let name = name.replace("{layer}", &layer.to_string());
                first.push(SeededTensor { name, dtype, shape: shape.clone(), center: 0.0 });
            }
        }
        model.companions.retain(|(name, _)| files.is_empty() || files.contains(&name.as_str()));
        model.write_to(folder).unwrap();
        let path = folder.join("config.json");
        let mut json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for (key, value) in self.row["set"].as_object().unwrap() {
            set(json.as_object_mut().unwrap(), key, value);
        }
        for path in self.list("null") {
            *json.pointer_mut(&format!("/{}", path.replace('.', "/"))).unwrap() = Json::Null;
        }
        fs::write(&path, json.to_string()).unwrap();
    }

    /// What the GGUF file says otherwise; null for a key that it has not.
    fn unlike(&self, host: &Host, file: &Path) -> Vec<String> {
        let model = opened(host, file);
        let wanted = self.row["gguf"].as_object().into_iter().flatten();
        let unlike = wanted.filter_map(|(key, value)| {
            let is = model.model.foreign_of("gguf").unwrap().get(key).and_then(number);
            let fits = match (is, value.as_f64()) {
                (Some(is), Some(value)) => (is - value).abs() < 1e-6,
                (is, value) => is.is_none() && value.is_none(),
            };
            (!fits).then(|| format!("{}: {key} is {is:?}, not {value}", self.family))
        });
        unlike.collect()
    }

    /// What the folder that came back says otherwise.
    fn differences(&self, way: &str, back: &Path) -> Vec<String> {
        let (keys, whole) = (config(back), config_json(back));
        let wanted = self.row["back"].as_object().unwrap();
        let differs = wanted.iter().filter_map(|(key, value)| {
            let is = match value {
                Json::Null => whole.get(key).filter(|is| !is.is_null() || whole.get(key).is_none()),
                _ => keys.get(key).filter(|is| !same(is, value)),
            };
            let lacks = !keys.contains_key(key) && (!value.is_null() || whole.get(key).is_none());
            (is.is_some() || lacks).then(|| format!("{}, {way}: {key} is {is:?}, not {value}", self.family))
        });
        let absent = self.list("absent").into_iter().filter_map(|key| Some((key, keys.get(key)?)));
        let stated = absent.map(|(key, is)| format!("{}, {way}: {key} is {is}, not absent", self.family));
        differs.chain(stated).collect()
    }
}

/// Sets the value at a path of an object; null takes it out.
fn set(object: &mut Map<String, Json>, path: &str, value: &Json) {
    match path.split_once('.') {
        Some((first, rest)) => set(object[first].as_object_mut().unwrap(), rest, value),
        None if value.is_null() => drop(object.remove(path)),
        None => drop(object.insert(path.to_owned(), value.clone())),
    }
}

/// The number that a key of a GGUF file states.
fn number(value: &Value) -> Option<f64> {
    let whole = || value.as_unsigned()?.to_string().parse().ok();
    value.as_f32().map(f64::from).or_else(whole)
}

/// Whether two values are the same, as far as an F32 holds them.
#[allow(clippy::cast_possible_truncation, reason = "GGUF's numbers are F32")]
fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a as f32).to_bits() == (b as f32).to_bits(),
        _ => a == b,
    }
}

/// How the GGUF file of a folder is computed otherwise than the folder itself; nothing if either is not run.
pub fn computed_otherwise(host: &Host, family: &str, folder: &Path, file: &Path) -> Option<String> {
    let (folder, file) = (opened(host, folder), opened(host, file));
    let tensors = file.model.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone()));
    let tensors: Vec<_> = tensors.collect();
    let computed = |model: &Model| {
        let mut decoder = decoder(host, model, None, &tensors).ok()?;
        // A length of texts in training, and a table's name, change nothing by themselves.
        decoder.context = None;
        decoder.architecture.clear();
        Some(format!("{decoder:#?}"))
    };
    let (own, other) = (computed(&folder.model)?, computed(&file.model)?);
    let number = |line: &str| line.trim().trim_end_matches(',').rsplit(' ').next()?.parse::<f64>().ok();
    let near = |a: &str, b: &str| match (number(a), number(b)) {
        // Files hold F32.
        (Some(a), Some(b)) => (a - b).abs() <= 1e-5 * a.abs(),
        _ => a == b,
    };
    let differs = own.lines().zip(other.lines()).find(|(own, other)| !near(own, other));
    differs.map(|(own, other)| format!("{family}: computes {}, its GGUF file {}", own.trim(), other.trim()))
}

#[test]
fn what_logits_depend_on_comes_back_of_a_gguf_file() {
    let host = host();
    let mut failed = Vec::new();
    for case in Case::all() {
        let scratch = Scratch::new();
        let (folder, file, back) = (scratch.at("folder"), scratch.at("m.gguf"), scratch.at("back"));
        case.write_to(&folder);
        let done = to(&host, "gguf", &folder, &file);
        if let Some(warned) = case.row["warns"].as_str()
            && !done.warnings.iter().any(|warning| warning.contains(warned))
        {
            failed.push(format!("{}: no warning that {warned}: {:?}", case.family, done.warnings));
        }
        if case.row["warns"].is_null()
            && let Some(other) = done.warnings.iter().find(|warning| warning.starts_with("llama.cpp "))
        {
            failed.push(format!("{}: warns: {other}", case.family));
        }
        failed.extend(case.unlike(&host, &file));
        failed.extend(computed_otherwise(&host, &case.family, &folder, &file));
        to(&host, "huggingface", &file, &back);
        failed.extend(case.differences("through GGUF", &back));
        let (apr, again) = (scratch.at("m.apr"), scratch.at("again"));
        to(&host, "apr", &file, &apr);
        to(&host, "huggingface", &apr, &again);
        failed.extend(case.differences("through GGUF and APR", &again));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A factor: its key in `config.json`, and its place in a list of them; without a key, 1.
type Factor = (&'static str, Option<usize>);

/// Tensors that are multiplied by two factors: their names in the folder and in GGUF.
const PRODUCTS: [(&str, &str, [Factor; 2]); 4] = [
    ("self_attn.k_proj", "attn_k", [("key_multiplier", None), ("attention_in_multiplier", None)]),
    ("feed_forward.gate_proj", "ffn_gate", [("mlp_multipliers", Some(0)), ("", None)]),
    ("mamba.out_proj", "ssm_out", [("ssm_out_multiplier", None), ("", None)]),
    // Its first rows, which are the gate's.
    ("mamba.in_proj", "ssm_in", [("ssm_in_multiplier", None), ("ssm_multipliers", Some(0))]),
];

#[test]
#[allow(clippy::cast_possible_truncation, reason = "converters multiply by the factor as an F32")]
fn products_are_those_of_the_converter_in_f32() {
    let (host, scratch) = (host(), Scratch::new());
    let model = Checkpoint::golden(&root().join("tests/golden/falcon-h1")).unwrap();
    let (folder, file) = (scratch.at("folder"), scratch.at("m.gguf"));
    model.write_to(&folder).unwrap();
    let options = ConvertOptions {
        input: folder.clone(),
        output: Some(file.clone()),
        quantization: Quantization { precision: Some(DType::F32), ..Quantization::default() },
        ..ConvertOptions::default()
    };
    convert(&host, &options).unwrap();
    let (before, after) = (opened(&host, &folder), opened(&host, &file));
    let said: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    let floats = |model: &apr_engine::open::OpenedModel, name: &str| -> Vec<f32> {
        let tensor = model.model.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        let bytes = payload(model, tensor);
        match tensor.dtype {
            DType::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
            _ => bytes
                .chunks_exact(2)
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
                .collect(),
        }
    };
    for (own, theirs, factors) in PRODUCTS {
        let factor = |(key, at): Factor| match at {
            _ if key.is_empty() => 1.0,
            Some(at) => said[key][at].as_f64().unwrap() as f32,
            None => said[key].as_f64().unwrap() as f32,
        };
        let [one, other] = factors.map(factor);
        let was = floats(&before, &format!("model.layers.0.{own}.weight"));
        let is = floats(&after, &format!("blk.0.{theirs}.weight"));
        let first = if own == "mamba.in_proj" { 96 * 64 } else { was.len() };
        for (was, is) in was.iter().zip(&is).take(first) {
            assert_eq!((was * one * other).to_bits(), is.to_bits(), "{own}: {was}");
        }
    }
}
