//! Files generated for a model from another format: the tokenizer's, the folder's own part of `config.json`,
//! `generation_config.json`, and a README with the model card.

use crate::card;
use crate::layout::{CHAT_TEMPLATE, FORMAT, TOKENIZERS};
use crate::tokenizer::stays_text;
use apr_sdk::tokenizer::{Kind, Tokenizer};
use apr_sdk::{
    Bytes, DType, DTypeChoice, DTypeKind, Error, Foreign, ForeignFile, LayoutSink, Model, Result, TensorFacts,
};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// The tokenizer, if it is to be written from what is known of it: no file that the model brings holds it.
///
/// # Errors
/// Malformed for what is no tokenizer; any error from reading it.
pub fn tokenizer(
    model: &Model,
    records: Option<&Foreign>,
    sink: &mut dyn LayoutSink,
) -> Result<Option<Tokenizer>> {
    let holds = |name: &str| TOKENIZERS.contains(&name);
    let records = records.iter().flat_map(|records| &records.files);
    let brought = records.filter(|file| file.verbatim.is_some()).any(|file| holds(&file.name))
        || model.assets.iter().any(|asset| holds(&asset.name));
    if brought {
        return Ok(None);
    }
    held(model.tokenizer.as_ref(), sink)?.map(|json| Tokenizer::from_json(&json)).transpose()
}

/// The chat template, if the model brings its tokenizer's files and they lack it: another format held it apart from them.
///
/// # Errors
/// Malformed for what is no tokenizer; any error from reading it.
pub fn chat_template(
    model: &Model,
    records: Option<&Foreign>,
    sink: &mut dyn LayoutSink,
) -> Result<Option<Vec<u8>>> {
    let says = |file: &ForeignFile| {
        let is_text = file.name == CHAT_TEMPLATE && file.verbatim.is_some();
        is_text
            || file.typed.iter().any(|(key, _)| key == "chat_template" || key.starts_with("chat_template."))
    };
    let is_brought = records.iter().flat_map(|records| &records.files).any(says)
        || model.assets.iter().any(|asset| asset.name == CHAT_TEMPLATE);
    // A folder has it where it has it.
    if is_brought || model.format == FORMAT {
        return Ok(None);
    }
    let json = held(model.tokenizer.as_ref(), sink)?;
    let tokenizer = json.map(|json| Tokenizer::from_json(&json)).transpose()?;
    let templates = tokenizer.as_ref().map(|tokenizer| &tokenizer.chat_templates[..]);
    Ok(match templates {
        Some([(name, template)]) if name == "default" => Some(template.clone().into_bytes()),
        _ => None,
    })
}

/// What the model's makers say of it.
///
/// # Errors
/// Malformed for what is no JSON object; any error from reading it.
pub fn card(model: &Model, sink: &mut dyn LayoutSink) -> Result<Map<String, Json>> {
    let Some(json) = held(model.model_card.as_ref(), sink)? else { return Ok(Map::new()) };
    serde_json::from_slice(&json)
        .map_err(|e| Error::malformed(format!("the model card is not a JSON object: {e}")))
}

fn held(bytes: Option<&Bytes>, sink: &mut dyn LayoutSink) -> Result<Option<Vec<u8>>> {
    let bytes = bytes.map(|bytes| sink.fetch(bytes)).transpose()?;
    Ok(bytes.map(|bytes| bytes.inline().unwrap_or_default().to_vec()))
}

/// Ids that `config.json` and `generation_config.json` state.
const IDS: [(&str, &str); 3] = [("bos", "bos_token_id"), ("eos", "eos_token_id"), ("pad", "pad_token_id")];

/// Adds to a configuration what it lacks and belongs to the folder: the type of the weights, the tokenizer's size and ids.
/// `said` is the model's card.
pub fn complete(
    config: &mut Map<String, Json>,
    model: &Model,
    tokenizer: Option<&Tokenizer>,
    said: &Map<String, Json>,
) {
    if let Some(tokenizer) = tokenizer {
        config.entry("vocab_size").or_insert_with(|| tokenizer.vocab_size.into());
        ids(config, tokenizer, ends(said));
    }
    let of_class =
        PADS.iter().find(|(kind, _)| config.get("model_type").and_then(Json::as_str) == Some(kind));
    if let (Some((_, pad)), Some(rows)) = (of_class, config.get("vocab_size").and_then(Json::as_u64))
        && rows <= *pad
    {
        config.entry("pad_token_id").or_insert(Json::Null);
    }
    if !config.contains_key("dtype")
        && let Some(name) = usual(model.tensors.iter().map(|t| (t.dtype, &t.shape[..]))).and_then(name)
    {
        // The key that all versions of transformers understand.
        config.entry("torch_dtype").or_insert_with(|| name.into());
    }
}

/// The id that the library's class of a model pads with where none is stated. An embedding that has no such row does not load.
const PADS: [(&str, u64); 12] = [
    ("dots3_note", 151_659),
    ("dots3_note_text", 151_659),
    ("eurobert", 128_001),
    ("glm", 151_329),
    ("glm4", 151_329),
    ("glm5_next", 154_820),
    ("hy_v4", 120_002),
    ("ministral3", 11),
    ("modernbert", 50_283),
    ("phi3", 32_000),
    ("smollm3", 128_004),
    ("whisper", 50_256),
];

/// Ids that are not stated; `ends` are those that end an answer, if they are not the tokenizer's. The words of WordPiece have no begin
/// and end that a model would go on from.
fn ids(object: &mut Map<String, Json>, tokenizer: &Tokenizer, ends: Option<&Json>) {
    for (name, key) in IDS {
        let generates = tokenizer.kind != Kind::WordPiece || name == "pad";
        let Some(id) = tokenizer.special_id(name).filter(|_| generates) else { continue };
        let stated = ends.filter(|_| name == "eos").map(|ends| match ends.as_array().map(Vec::as_slice) {
            Some([only]) => only.clone(),
            _ => ends.clone(),
        });
        let all = || std::iter::once(id).chain(tokenizer.ends.iter().copied()).map(Json::from);
        let own = || match name == "eos" && !tokenizer.ends.is_empty() {
            true => all().collect(),
            false => id.into(),
        };
        object.entry(key).or_insert_with(|| stated.unwrap_or_else(own));
    }
    // What `tokenizer_config.json` cannot name without making it a special token.
    for (name, id) in tokenizer.special.iter().filter(|(_, id)| stays_text(tokenizer, *id)) {
        object.entry(format!("{name}_token_id")).or_insert_with(|| (*id).into());
    }
}

/// A setting of generation that a card has.
fn setting<'c>(said: &'c Map<String, Json>, name: &str) -> Option<&'c Json> {
    said.get("generation")?.get(name)
}

/// The tokens that end an answer, if a card names them: those of `generation_config.json`, which decides, or else of `config.json`.
fn ends(said: &Map<String, Json>) -> Option<&Json> {
    setting(said, "eos_token_id").filter(|ids| ids.as_array().is_some_and(|ids| !ids.is_empty()))
}

/// `generation_config.json`, for a card that says how to sample.
pub fn generation(said: &Map<String, Json>, tokenizer: Option<&Tokenizer>) -> Option<Map<String, Json>> {
    let mut generation = card::sampling(said);
    let stated = setting(said, "do_sample").and_then(Json::as_bool);
    if generation.is_empty() && stated.is_none() {
        return None;
    }
    // Unless told to draw, the library takes the most probable token and warns of the rest; it refuses a temperature of 0.
    let greedy = generation.get("temperature").and_then(Json::as_f64) == Some(0.0);
    if greedy {
        generation.shift_remove("temperature");
    }
    let suggested = said.get("sampling").and_then(Json::as_object).is_some_and(card::suggests_drawing);
    if greedy || stated.unwrap_or(suggested) {
        generation.insert("do_sample".to_owned(), (!greedy).into());
    }
    if let Some(tokenizer) = tokenizer {
        ids(&mut generation, tokenizer, ends(said));
    }
    Some(generation)
}

/// Whether the model comes from such a folder, whose own files say what is to be said.
pub fn is_own(model: &Model) -> bool {
    model.foreign_of(FORMAT).is_some_and(|records| records.files.iter().any(|file| !file.name.is_empty()))
}

/// Which of a record's files are not written, for the tokenizer's made files say it.
pub fn replaces(name: &str, tokenizer: Option<&Tokenizer>) -> bool {
    tokenizer.is_some() && (TOKENIZERS.contains(&name) || name == "added_tokens.json")
}

/// The type that most elements of matrices have, among the floats that the library has names for.
fn usual<'t>(tensors: impl Iterator<Item = (DType, &'t [u64])>) -> Option<DType> {
    let mut sizes: BTreeMap<&str, (u64, DType)> = BTreeMap::new();
    for (dtype, shape) in tensors.filter(|(_, shape)| shape.len() > 1) {
        if let Some(name) = name(dtype) {
            let size = shape.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
            let sum = sizes.entry(name).or_insert((0, dtype));
            sum.0 = sum.0.saturating_add(size);
        }
    }
    sizes.into_values().max_by_key(|(size, _)| *size).map(|(_, dtype)| dtype)
}

fn name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("float32"),
        DType::F16 => Some("float16"),
        DType::BF16 => Some("bfloat16"),
        DType::F64 => Some("float64"),
        _ => None,
    }
}

/// The types of a model from another dialect: what is F32 beside matrices of half the width goes back to their type, if
/// that loses nothing. Formats that keep norms and biases in F32 made them of that type.
pub fn dtypes(tensors: &[TensorFacts], wanted: Option<DType>) -> Vec<DTypeChoice> {
    let matrices = tensors.iter().filter_map(|facts| Some((facts.dtype?, &facts.shape[..])));
    let usual = usual(matrices);
    let choose = |facts: &TensorFacts| {
        let float = facts.dtype.filter(|dtype| name(*dtype).is_some());
        let narrow = || facts.dtype.and_then(DType::info).is_some_and(|info| info.kind == DTypeKind::Float);
        match (float, wanted, usual) {
            // Floats of 8 bits may be codes: they are cast only where the user says so.
            (None, Some(wanted), _) if narrow() => DTypeChoice::Cast(wanted),
            (Some(_), Some(wanted), _) => DTypeChoice::Cast(wanted),
            (Some(DType::F32), None, Some(half @ (DType::BF16 | DType::F16))) => {
                DTypeChoice::NarrowIfExact(half)
            }
            _ => DTypeChoice::Keep,
        }
    };
    tensors.iter().map(choose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_f32_goes_back_to_the_type_of_the_matrices() {
        let facts = |dtype: DType, shape: &[u64]| {
            let mut facts = TensorFacts::default();
            (facts.dtype, facts.shape) = (Some(dtype), shape.to_vec());
            facts
        };
        let model = [
            facts(DType::BF16, &[8, 8]),
            facts(DType::F32, &[8]),
            facts(DType::F32, &[2, 2]),
            facts(DType::I64, &[8]),
            facts(DType::Q8_0, &[8, 32]),
        ];
        let (keep, narrow) = (DTypeChoice::Keep, DTypeChoice::NarrowIfExact(DType::BF16));
        assert_eq!(dtypes(&model, None), [keep, narrow, narrow, keep, keep]);
        let cast = DTypeChoice::Cast(DType::F16);
        assert_eq!(dtypes(&model, Some(DType::F16)), [cast, cast, cast, keep, keep]);
        assert_eq!(dtypes(&model[1..], None), [keep; 4]);
    }
}
