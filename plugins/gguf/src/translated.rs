//! Completes the keys of a model that was translated from another format: the host provides
//! `general.architecture` and the architecture's own keys; the rest is generated here, in llama.cpp's order.

use crate::layout::{ARCHITECTURE_KEY, QUANTIZATION_VERSION, QUANTIZATION_VERSION_KEY};
use crate::{card, tokenizer, types};
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{DType, Error, LayoutRequest, LayoutSink, Model, Result, Tensor, Value};
use std::collections::BTreeMap;

const TYPE_KEY: &str = "general.type";
const NAME_KEY: &str = "general.name";
const FILE_TYPE_KEY: &str = "general.file_type";

/// What keys begin with that speak of tensors by their names; they come after the version.
const OF_TENSORS: &str = "general.tensor_extra.";
/// Keys that every file of llama.cpp's converter has, and that the host does not provide.
const MADE_HERE: [&str; 2] = [TYPE_KEY, NAME_KEY];

/// Architectures for which the converter omits the file type.
const NO_FILE_TYPE: [&str; 2] = ["gptneox", "mpt"];

/// The architecture whose converter states first of all whether a beginning token is added.
const BEGINS_EARLY: &str = "phi2";

/// The key that is written along with a tensor, and so before all others.
const EARLY: &str = "phi3.rope.scaling.attn_factor";

type Keys = Vec<(String, Value)>;

/// The keys for `model`, if `given` are those of a translated model; otherwise `given` unchanged.
///
/// # Errors
/// Unsupported for a tokenizer that the format cannot hold; InvalidArgument for an unknown `--pre`; any error
/// from reading the tokenizer.
pub fn complete(
    given: Keys,
    model: &Model,
    request: &LayoutRequest,
    sink: &mut dyn LayoutSink,
) -> Result<Keys> {
    let has = |name: &str| given.iter().any(|(key, _)| key == name);
    let arch = given.iter().find(|(key, _)| key == ARCHITECTURE_KEY).and_then(|(_, value)| value.as_str());
    let Some(arch) = arch.map(str::to_owned) else { return Ok(given) };
    if model.architecture.is_none() || MADE_HERE.iter().any(|key| has(key)) {
        return Ok(given);
    }
    let (mut own, mut general, mut tokens) = (Keys::new(), Keys::new(), Keys::new());
    let mut of_tensors = Keys::new();
    for (key, value) in given {
        match key.as_str() {
            ARCHITECTURE_KEY | QUANTIZATION_VERSION_KEY => {}
            // The host chooses its place among the architecture's keys.
            FILE_TYPE_KEY => own.push((key, value)),
            name if name.starts_with(OF_TENSORS) => of_tensors.push((key, value)),
            name if name.starts_with("general.") => general.push((key, value)),
            name if name.starts_with(tokenizer::PREFIX) => tokens.push((key, value)),
            _ => own.push((key, value)),
        }
    }
    let mut keys = vec![(ARCHITECTURE_KEY.to_owned(), Value::from_string(&arch))];
    if let Some(at) = own.iter().position(|(key, _)| key == EARLY) {
        keys.push(own.remove(at));
    }
    keys.push((TYPE_KEY.to_owned(), Value::from_string("model")));
    let said = held(model.model_card.as_ref(), sink)?;
    let said = said.map(|text| serde_json::from_slice(&text)).transpose();
    let said = said.map_err(|e| Error::malformed(format!("the model card is not valid JSON: {e}")))?;
    keys.extend(card::keys(said.as_ref(), &card::Parameters::count(&model.tensors), &request.stem));
    general.into_iter().for_each(|(key, value)| set(&mut keys, key, value));
    keys.extend(own);
    let known = keys.iter().any(|(key, _)| key == FILE_TYPE_KEY);
    if !known && !NO_FILE_TYPE.contains(&arch.as_str()) {
        keys.push((FILE_TYPE_KEY.to_owned(), Value::from_u32(file_type(&model.tensors))));
    }
    let mut ends = Vec::new();
    let made = match held(model.tokenizer.as_ref(), sink)? {
        Some(text) => {
            let tokenizer = Tokenizer::from_json(&text)?;
            tokenizer::refuse_other_ids(&tokenizer, &tokens)?;
            tokenizer::note_beyond_scores(&tokenizer, sink);
            let name = keys.iter().find(|(key, _)| key == NAME_KEY).and_then(|(_, value)| value.as_str());
            let mut made = tokenizer::keys(&tokenizer, &arch, request.options.get("pre"))?;
            ends = tokenizer::ends(&tokenizer, &made);
            tokenizer::carry(&tokenizer, name.unwrap_or_default(), &mut made, sink);
            made
        }
        None => Keys::new(),
    };
    let mut made = tokenizer::merge(made, tokens);
    keys.extend(card::generation(said.as_ref(), &ends));
    tokenizer::carry_keys_beside(&mut made);
    let begins = tokenizer::begins(&made);
    if let Some(at) = begins.filter(|_| arch == BEGINS_EARLY) {
        keys.push(made.remove(at));
    }
    keys.push((QUANTIZATION_VERSION_KEY.to_owned(), Value::from_u32(QUANTIZATION_VERSION)));
    keys.extend(of_tensors);
    keys.extend(made);
    Ok(keys)
}

/// The bytes, in memory or read.
fn held(bytes: Option<&apr_sdk::Bytes>, sink: &mut dyn LayoutSink) -> Result<Option<Vec<u8>>> {
    let held = bytes.map(|bytes| sink.fetch(bytes)).transpose()?;
    Ok(held.map(|held| held.inline().unwrap_or_default().to_vec()))
}

fn set(keys: &mut Keys, key: String, value: Value) {
    match keys.iter_mut().find(|(name, _)| *name == key) {
        Some(slot) => slot.1 = value,
        None => keys.push((key, value)),
    }
}

/// The number for a file whose matrices have one type (`llama_ftype`); recipes for mixed files record their
/// own.
const FILE_TYPES: [(DType, u32); 27] = [
    (DType::F32, 0),
    (DType::F16, 1),
    (DType::Q4_0, 2),
    (DType::Q4_1, 3),
    (DType::Q8_0, 7),
    (DType::Q5_0, 8),
    (DType::Q5_1, 9),
    (DType::Q2_K, 10),
    (DType::Q3_K, 12),
    (DType::Q4_K, 15),
    (DType::Q5_K, 17),
    (DType::Q6_K, 18),
    (DType::IQ2_XXS, 19),
    (DType::IQ2_XS, 20),
    (DType::IQ3_XXS, 23),
    (DType::IQ1_S, 24),
    (DType::IQ4_NL, 25),
    (DType::IQ3_S, 26),
    (DType::IQ2_S, 28),
    (DType::IQ4_XS, 30),
    (DType::IQ1_M, 31),
    (DType::BF16, 32),
    (DType::TQ1_0, 36),
    (DType::TQ2_0, 37),
    (DType::MXFP4, 38),
    (DType::NVFP4, 39),
    (DType::Q1_0, 40),
];

/// What llama.cpp's converter names a file after whose other matrices are floats, even if those are more.
const AMONG_FLOATS: [DType; 2] = [DType::NVFP4, DType::MXFP4];

/// The type of most matrix weights, as a number for `general.file_type`.
fn file_type(tensors: &[Tensor]) -> u32 {
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for tensor in tensors.iter().filter(|tensor| tensor.shape.len() > 1) {
        if let Some(id) = types::id_of(tensor.dtype) {
            let size = tensor.shape.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
            let sum = weights.entry(id).or_default();
            *sum = sum.saturating_add(size);
        }
    }
    let is_there = |id: &Option<u32>| id.is_some_and(|id| weights.contains_key(&id));
    let packed = AMONG_FLOATS.into_iter().map(types::id_of).find(is_there).flatten();
    let most = weights.iter().max_by_key(|(_, n)| **n).map(|(id, _)| *id);
    let is_float = [DType::F32, DType::F16, DType::BF16].map(types::id_of).contains(&most);
    let most = packed.filter(|_| is_float).or(most);
    let number = FILE_TYPES.iter().find(|(dtype, _)| types::id_of(*dtype) == most && most.is_some());
    // Without matrices, the value of llama.cpp's converter if it cannot tell.
    number.map_or(1, |(_, number)| *number)
}
