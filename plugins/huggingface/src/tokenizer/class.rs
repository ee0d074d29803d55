//! What the class that `tokenizer_config.json` names does to a text of its own accord, whatever `tokenizer.json` says: transformers
//! 5 does so for all, version 4 where the step is the only one.

use super::fast;
use apr_sdk::tokenizer::{Kind, Parts, Spelling, steps};
use serde_json::{Value as Json, json};

/// Classes that put a space before bytes by `add_prefix_space` alone.
const OF_BYTES: [&str; 12] = [
    "GPT2Tokenizer",
    "GPTNeoXTokenizer",
    "CodeGenTokenizer",
    "Qwen2Tokenizer",
    "CohereTokenizer",
    "RobertaTokenizer",
    "BartTokenizer",
    "LEDTokenizer",
    "LongformerTokenizer",
    "DebertaTokenizer",
    "MarkupLMTokenizer",
    "WhisperTokenizer",
];
/// Classes that put none before pieces where `add_prefix_space` is false.
const OF_PIECES: [&str; 2] = ["LlamaTokenizer", "CodeLlamaTokenizer"];
/// Classes that normalize words by flags of their own.
const OF_WORDS: [&str; 8] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MobileBertTokenizer",
    "ConvBertTokenizer",
    "FunnelTokenizer",
    "LayoutLMTokenizer",
    "LxmertTokenizer",
];

/// Changes what `tokenizer.json` said to what the class makes of it.
pub fn apply(parts: &mut Parts, said: &Json) {
    let class = said.get("tokenizer_class").and_then(Json::as_str).unwrap_or_default();
    let class = class.trim_end_matches("Fast");
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    let space = flag("add_prefix_space");
    match (parts.kind, parts.spelling) {
        (Kind::Bpe, Spelling::Bytes) => {
            if OF_BYTES.contains(&class) {
                let put = space.unwrap_or(false);
                let is_other = parts.pre_tokenizer.as_ref().is_some_and(|step| puts_space_first(step) != put);
                parts
                    .pre_tokenizer
                    .iter_mut()
                    .filter(|_| is_other)
                    .for_each(|step| put_space_first(step, put));
            }
            parts.add_space_prefix = space;
        }
        (Kind::Bpe, Spelling::SentencePiece) => {
            if OF_PIECES.contains(&class) && space == Some(false) && fast::space_first(parts) {
                put_no_space(parts);
            }
            parts.add_space_prefix = space.map(|_| fast::space_first(parts));
        }
        (Kind::WordPiece, _) if OF_WORDS.contains(&class) => {
            if let Some(step) = parts.normalizer.as_mut().filter(|step| fast::is(step, "BertNormalizer")) {
                step["lowercase"] = flag("do_lower_case").unwrap_or(true).into();
                step["strip_accents"] = flag("strip_accents").map_or(Json::Null, Json::from);
                step["handle_chinese_chars"] = flag("tokenize_chinese_chars").unwrap_or(true).into();
            }
            fast::normalization(parts);
        }
        _ => {}
    }
}

/// The flag of `ByteLevel`, which is true where it is left out.
const PREFIX: &str = "add_prefix_space";

/// Whether a pre-tokenizer over bytes puts a space before a text.
pub fn puts_space_first(step: &Json) -> bool {
    let puts = |step: &&Json| step.get(PREFIX).and_then(Json::as_bool).unwrap_or(true);
    steps(Some(step)).iter().filter(|step| fast::is(step, "ByteLevel")).any(puts)
}

fn put_space_first(step: &mut Json, put: bool) {
    if fast::is(step, "ByteLevel") {
        step[PREFIX] = put.into();
    }
    let inner = step.get_mut("pretokenizers").and_then(Json::as_array_mut);
    inner
        .into_iter()
        .flatten()
        .filter(|step| fast::is(step, "ByteLevel"))
        .for_each(|step| step[PREFIX] = put.into());
}

/// Takes out what puts a space before pieces, and what takes it off again.
fn put_no_space(parts: &mut Parts) {
    let takes_off =
        |step: &Json| fast::is(step, "Strip") && step.get("start").and_then(Json::as_u64) == Some(1);
    parts.normalizer = without(parts.normalizer.take(), "normalizers", &|step| fast::is(step, "Prepend"));
    parts.decoder = without(parts.decoder.take(), "decoders", &takes_off);
    for step in [&mut parts.pre_tokenizer, &mut parts.decoder].into_iter().flatten() {
        let mut all = vec![step];
        while let Some(step) = all.pop() {
            if fast::is(step, "Metaspace") {
                step["prepend_scheme"] = json!("never");
                step.as_object_mut().and_then(|step| step.remove(PREFIX));
            }
            if let Some(key) = ["pretokenizers", "decoders"].into_iter().find(|key| step.get(key).is_some()) {
                all.extend(step[key].as_array_mut().into_iter().flatten());
            }
        }
    }
}

/// A definition without some of its steps.
fn without(definition: Option<Json>, key: &str, leaves: &dyn Fn(&Json) -> bool) -> Option<Json> {
    let mut definition = definition.filter(|step| !leaves(step))?;
    if let Some(inner) = definition.get_mut(key).and_then(Json::as_array_mut) {
        inner.retain(|step| !leaves(step));
    }
    Some(definition)
}
