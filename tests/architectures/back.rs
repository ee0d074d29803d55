//! Folder to GGUF to folder, and folder to APR to folder: what comes back of tensors and of `config.json`.
//! `back/NAME.json` lists what does not come back of a folder that a GGUF file was made of, what comes back otherwise, and what its
//! `config.json` says more than the folder's did; `BLESS=1` writes it, and the difference is to be read.

use crate::fields::computed_otherwise;
use crate::models::{goldens, name, opened, payload};
use apr_engine::diff::{DiffOptions, FactKind, diff};
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::half::{from_bf16, from_f16};
use apr_sdk::{DType, Tensor};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folders whose GGUF files are computed otherwise: Gemma's activation, which llama.cpp takes to be the approximate one, and InternLM's
/// rotation, which stretches beyond its context.
const COMPUTED_OTHERWISE: [&str; 3] = ["gemma", "internlm2", "internlm3"];

/// Models whose GGUF file holds every norm's weights with 1 added to them.
const NORMS_PLUS_ONE: &[&str] =
    &["gemma", "gemma2", "gemma3", "gemma3-vision", "nemotron", "qwen3-next", "qwen3-5", "qwen3-5-moe"];

/// A tensor of which rows are cut on the way to a GGUF file, and come back as zeros: so many first ones.
const CUT_ROWS: (&str, &str, usize) = ("roberta", "embeddings.position_embeddings.weight", 2);

/// A tensor's type, shape and bytes, by its name.
pub type Tensors = BTreeMap<String, (DType, Vec<u64>, Vec<u8>)>;

pub fn tensors(host: &Host, path: &Path) -> Tensors {
    let model = opened(host, path);
    let one = |t: &Tensor| (t.name.clone(), (t.dtype, t.shape.clone(), payload(&model, t)));
    model.model.tensors.iter().map(one).collect()
}

/// The tensors of a folder, under the names of its architecture's table.
fn own_names(host: &Host, folder: &Path) -> Tensors {
    let model = opened(host, folder).model;
    let stated = |key: &str| model.foreign_of("huggingface")?.get(key).cloned();
    let table = host.tables().detect("hf", &stated).unwrap().unwrap();
    let own = |name: String| table.own_name("hf", &name).unwrap_or(name);
    tensors(host, folder).into_iter().map(|(name, tensor)| (own(name), tensor)).collect()
}

pub fn to(host: &Host, format: &str, input: &Path, output: &Path) -> Converted {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    convert(host, &options).unwrap_or_else(|e| panic!("{} -> {format}: {e:#?}", input.display()))
}

/// The payload's values. Integers are given as they are.
fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let pairs = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match dtype {
        DType::F32 => {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect()
        }
        DType::BF16 => pairs().map(|bits| from_bf16(bits).into()).collect(),
        DType::F16 => pairs().map(|bits| from_f16(bits).into()).collect(),
        _ => bytes.iter().map(|b| f64::from(*b)).collect(),
    }
}

/// Whether the decays that two logarithms stand for are the same: GGUF holds −exp, which several may have.
fn same_decay(old: f64, new: f64) -> bool {
    #[allow(clippy::cast_possible_truncation, reason = "the file's values are F32")]
    let decay = |x: f64| -(x.exp()) as f32;
    decay(old).to_bits() == decay(new).to_bits()
}

/// What is wrong with a tensor that came back.
pub fn difference(
    name: &str,
    plus_one: bool,
    before: &(DType, Vec<u64>, Vec<u8>),
    back: &(DType, Vec<u64>, Vec<u8>),
) -> Option<String> {
    if before.1 != back.1 {
        return Some(format!("shape {:?}, not {:?}", back.1, before.1));
    }
    if before.0 == back.0 && before.2 == back.2 {
        return None;
    }
    let (old, new) = (values(before.0, &before.2), values(back.0, &back.2));
    let right = |(old, new): (&f64, &f64)| {
        #[allow(clippy::cast_possible_truncation, reason = "both are sums of F32 numbers in F32")]
        let through_one = || f64::from((*old as f32 + 1.0) - 1.0);
        // An F32 file becomes one of F16: to nearest.
        let rounded = before.0 == DType::F32 && back.0 == DType::F16;
        let nearest = || (old - new).abs() <= (old.abs() / 2048.0).max(2f64.powi(-25));
        let decay = || name.ends_with(".A_log") && same_decay(*old, *new);
        old.total_cmp(new).is_eq()
            || decay()
            || plus_one && through_one().total_cmp(new).is_eq()
            || rounded && nearest()
    };
    let wrong = old.iter().zip(&new).filter(|pair| !right(*pair)).count();
    (wrong > 0 || old.len() != new.len()).then(|| format!("{wrong} of {} values", old.len()))
}

/// Every value of a JSON object under its path.
fn flat(prefix: &str, object: &Map<String, Json>, into: &mut BTreeMap<String, Json>) {
    for (key, value) in object {
        match value {
            Json::Object(inside) => flat(&format!("{prefix}{key}."), inside, into),
            Json::Null => {}
            other => {
                into.insert(format!("{prefix}{key}"), other.clone());
            }
        }
    }
}

/// `config.json`, in which Python's floats that JSON has not are texts.
pub fn config_json(folder: &Path) -> Json {
    let text = fs::read_to_string(folder.join("config.json")).unwrap();
    let bare = |text: &str| text.replace(" Infinity", " \"Infinity\"");
    serde_json::from_str(&text).or_else(|_| serde_json::from_str(&bare(&text))).unwrap()
}

pub fn config(folder: &Path) -> BTreeMap<String, Json> {
    let json = config_json(folder);
    let mut keys = BTreeMap::new();
    flat("", json.as_object().unwrap(), &mut keys);
    keys
}

/// Whether two values are the same, as far as an F32 holds them.
#[allow(clippy::cast_possible_truncation, reason = "GGUF's numbers are F32")]
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Number(a), Json::Number(b)) => {
            let float = |n: &serde_json::Number| n.as_f64().unwrap() as f32;
            float(a).total_cmp(&float(b)).is_eq()
        }
        _ => a == b,
    }
}

#[test]
fn a_gguf_file_gives_the_folder_back_that_it_was_made_of() {
    let host = host();
    let bless = std::env::var_os("BLESS").is_some();
    let mut failed = Vec::new();
    for path in &goldens() {
        let (model, scratch) = (Checkpoint::golden(path).unwrap(), Scratch::new());
        let (folder, file, back) = (scratch.at(&model.name), scratch.at("m.gguf"), scratch.at("back"));
        model.write_to(&folder).unwrap();
        let done = to(&host, "gguf", &folder, &file);
        let unknown = |note: &&String| note.contains("unknown to the table") || note.contains("zeros");
        let noted: Vec<&String> = done.notes.iter().filter(unknown).collect();
        if !COMPUTED_OTHERWISE.contains(&name(path)) {
            failed.extend(computed_otherwise(&host, name(path), &folder, &file));
        }
        let both =
            diff(&host, &opened(&host, &folder), &opened(&host, &file), &DiffOptions::default()).unwrap();
        let otherwise = both.facts.iter().filter(|fact| fact.kind == FactKind::Config && fact.matters);
        failed.extend(otherwise.map(|fact| format!("{}: {fact:?}", name(path))));
        to(&host, "huggingface", &file, &back);
        let (mut before, after) = (own_names(&host, &folder), own_names(&host, &back));
        if let Some((_, shape, bytes)) = before.get_mut(CUT_ROWS.1).filter(|_| name(path) == CUT_ROWS.0) {
            let row = bytes.len() / usize::try_from(shape[0]).unwrap();
            bytes[..CUT_ROWS.2 * row].fill(0);
        }
        let (mut changed, mut made) = (BTreeMap::new(), Vec::new());
        for (tensor, told) in &after {
            let plus_one = NORMS_PLUS_ONE.contains(&name(path)) && tensor.ends_with("norm.weight");
            match before.get(tensor).map(|old| difference(tensor, plus_one, old, told)) {
                Some(None) => {}
                Some(Some(what)) => drop(changed.insert(tensor.clone(), what)),
                None => made.push(tensor.clone()),
            }
        }
        let pooling = |folder: &Path| fs::read(folder.join("1_Pooling/config.json")).ok();
        let pooling =
            |folder: &Path| pooling(folder).map(|text| serde_json::from_slice::<Json>(&text).unwrap());
        for (key, value) in pooling(&folder).iter().flat_map(|pooling| pooling.as_object().unwrap()) {
            if pooling(&back).is_none_or(|back| back[key] != *value) {
                failed.push(format!("{}: the pooling module's {key} is not {value}", name(path)));
            }
        }
        let (was, is) = (config(&folder), config(&back));
        let otherwise = |(key, value): (&String, &Json)| {
            let old = was.get(key).filter(|old| !same(old, value))?;
            Some((key.clone(), json!({"was": old, "is": value})))
        };
        let otherwise: BTreeMap<_, _> = is.iter().filter_map(otherwise).collect();
        let more: BTreeMap<_, _> = is.iter().filter(|(key, _)| !was.contains_key(*key)).collect();
        let lost: Vec<_> = before.keys().filter(|tensor| !after.contains_key(*tensor)).collect();
        let less: Vec<_> = was.keys().filter(|key| !is.contains_key(*key)).collect();
        let other = |(tensor, told): (&String, &(DType, Vec<u64>, Vec<u8>))| {
            let old = before.get(tensor)?.0;
            (old != told.0).then(|| (tensor.clone(), format!("{old}, now {}", told.0)))
        };
        let retyped: BTreeMap<_, _> = after.iter().filter_map(other).collect();
        if !back.join("tokenizer.json").is_file() {
            failed.push(format!("{}: no tokenizer.json came back", name(path)));
        }
        let mut listed = json!({
            "tensors of another type": retyped,
            "tensors that are left out": lost,
            "keys that are left out": less,
            "keys that are made": more,
        });
        // What most have none of.
        for (what, list) in [
            ("tensors of other values", json!(changed)),
            ("tensors under names of another class", json!(made)),
            ("keys of other values", json!(otherwise)),
            ("notes on the way to GGUF", json!(noted)),
        ] {
            if list.as_object().is_some_and(|list| !list.is_empty())
                || list.as_array().is_some_and(|list| !list.is_empty())
            {
                listed[what] = list;
            }
        }
        let listed = serde_json::to_string_pretty(&listed).unwrap() + "\n";
        let at = root().join("tests/architectures/back").join(format!("{}.json", name(path)));
        if bless {
            fs::write(at, listed).unwrap();
        } else if fs::read_to_string(&at).unwrap_or_default() != listed {
            failed.push(format!("{}: not what {} says: {listed}", name(path), at.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_folder_comes_back_through_apr_to_the_bit() {
    let host = host();
    for path in &goldens() {
        let (model, scratch) = (Checkpoint::golden(path).unwrap(), Scratch::new());
        let (folder, file, back) = (scratch.at(&model.name), scratch.at("m.apr"), scratch.at("back"));
        model.write_to(&folder).unwrap();
        to(&host, "apr", &folder, &file);
        let held = opened(&host, &file).model;
        assert_eq!(held.dialect, "canonical", "{}", name(path));
        assert!(held.architecture.is_some(), "{}", name(path));
        to(&host, "huggingface", &file, &back);
        assert!(tensors(&host, &folder) == tensors(&host, &back), "{}", name(path));
        for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
            let (before, after) = (fs::read(folder.join(file)).ok(), fs::read(back.join(file)).ok());
            assert!(before == after, "{}: {file}", name(path));
        }
    }
}
