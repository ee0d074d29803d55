//! What the class that `tokenizer_config.json` names does to a text of its own accord, whatever `tokenizer.json` says: transformers
//! 5 does so for all, version 4 where the step is the only one.

use super::{classes, fast};
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
pub fn apply(parts: &mut Parts, said: &Json, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    let space = flag("add_prefix_space");
    match (parts.kind, parts.spelling) {
        (Kind::Bpe, Spelling::Bytes) => {
            let is_own = OF_BYTES.contains(&class);
            let put = space.unwrap_or(false);
            let is_other = parts.pre_tokenizer.as_ref().is_some_and(|step| puts_space_first(step) != put);
            // Version 4 changes a lone step alone, but of every class.
            let is_lone = parts.pre_tokenizer.as_ref().is_some_and(|step| fast::is(step, "ByteLevel"));
            if is_other && is_own != is_lone && (is_own || space.is_some()) {
                let (five, four) = if is_own { ("flag", "step") } else { ("step", "flag") };
                parts.notes.push(format!(
                    "`add_prefix_space` is {put} in tokenizer_config.json, but {} in tokenizer.json: \
                     transformers 5 and this conversion use the {five} of the {}, transformers 4 the {four}",
                    !put,
                    if is_own { "configuration" } else { "tokenizer" },
                ));
            }
            if is_own && is_other {
                parts.pre_tokenizer.iter_mut().for_each(|step| put_space_first(step, put));
            }
            parts.add_space_prefix = space;
            // Some classes do in Python what turns such marks into spaces, whatever decoder there is.
            let own = classes::recipe(class).filter(|_| parts.word_suffix.is_some());
            if let Some(decoder) = own.and_then(|own| own.step("decoder", said, None)) {
                parts.decoder = Some(decoder);
            }
        }
        (Kind::Bpe, Spelling::SentencePiece) => {
            if OF_PIECES.contains(&class) && space == Some(false) && fast::space_first(parts) {
                put_no_space(parts);
            }
            parts.add_space_prefix = space.map(|_| fast::space_first(parts));
        }
        (Kind::WordPiece, _) if OF_WORDS.contains(&class) => {
            words(parts, said, class);
            fast::normalization(parts);
        }
        _ => {}
    }
}

/// Puts in place of what `tokenizer.json` says of words what the class does with them, as transformers 5 does. Version 4 changes
/// the normalizer's flags alone.
fn words(parts: &mut Parts, said: &Json, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    let unknown = token(parts, said, "unk");
    let clean = parts.normalizer.as_ref().filter(|step| fast::is(step, "BertNormalizer"));
    let clean = clean.and_then(|step| step.get("clean_text")).and_then(Json::as_bool).unwrap_or(true);
    let mut others = Vec::new();
    let normalizer = json!({
        "type": "BertNormalizer", "clean_text": true,
        "handle_chinese_chars": flag("tokenize_chinese_chars").unwrap_or(true),
        "strip_accents": flag("strip_accents"), "lowercase": flag("do_lower_case").unwrap_or(true),
    });
    if !clean || parts.normalizer.as_ref().is_none_or(|step| !fast::is(step, "BertNormalizer")) {
        others.push("`normalizer`");
    }
    parts.normalizer = Some(normalizer);
    if parts.pre_tokenizer.as_ref().is_none_or(|step| !fast::is(step, "BertPreTokenizer")) {
        others.push("`pre_tokenizer`");
        parts.pre_tokenizer = Some(json!({"type": "BertPreTokenizer"}));
    }
    if parts.decoder.as_ref().is_none_or(|step| !fast::is(step, "WordPiece")) {
        others.push("`decoder`");
        parts.decoder = Some(json!({"type": "WordPiece", "prefix": "##", "cleanup": true}));
    }
    if parts.max_word_chars.is_some_and(|most| most != LONGEST) {
        others.push("`max_input_chars_per_word`");
        parts.max_word_chars = Some(LONGEST);
    }
    if let Some((id, _)) = unknown.filter(|(id, _)| parts.unk != Some(*id)) {
        others.push("`unk_token`");
        parts.unk = Some(id);
    }
    if let Some(usual) = around_words(parts, said) {
        let same = |key: &str| parts.post_processor.as_ref().and_then(|step| step.get(key)) == usual.get(key);
        if !["single", "pair"].into_iter().all(same) {
            others.push("`post_processor`");
            parts.post_processor = Some(usual);
        }
    }
    if !others.is_empty() {
        let others = others.join(", ");
        parts.notes.push(format!(
            "tokenizer.json differs in {others} from the class `{class}` in tokenizer_config.json: \
             transformers 5 and this conversion use the class, transformers 4 uses tokenizer.json"
        ));
    }
}

/// The longest word, in characters, where nothing says another.
const LONGEST: u64 = 100;

/// The special token that the configuration has for a purpose, if the vocabulary has it.
fn token(parts: &Parts, said: &Json, name: &str) -> Option<(u32, String)> {
    let entry = said.get(format!("{name}_token"))?;
    let text = entry.as_str().or_else(|| entry.get("content")?.as_str())?;
    let id = parts.each().find(|(_, token)| *token == text)?.0;
    Some((id, text.to_owned()))
}

/// The template of BERT and its kin.
pub fn around_words(parts: &Parts, said: &Json) -> Option<Json> {
    let (first, last) = (token(parts, said, "cls")?, token(parts, said, "sep")?);
    let (first, last) = (&first, &last);
    let token = |(_, text): &(u32, String), kind: u32| json!({"SpecialToken": {"id": text, "type_id": kind}});
    let text = |name: &str, kind: u32| json!({"Sequence": {"id": name, "type_id": kind}});
    let tokens: serde_json::Map<_, _> = [first, last]
        .into_iter()
        .map(|(id, text)| (text.clone(), json!({"id": text, "ids": [id], "tokens": [text]})))
        .collect();
    Some(json!({
        "type": "TemplateProcessing",
        "single": [token(first, 0), text("A", 0), token(last, 0)],
        "pair": [token(first, 0), text("A", 0), token(last, 0), text("B", 1), token(last, 1)],
        "special_tokens": tokens,
    }))
}

/// The flag of `ByteLevel`, which is true where it is left out.
const PREFIX: &str = "add_prefix_space";

/// Whether a pre-tokenizer over bytes puts a space before a text.
pub fn puts_space_first(step: &Json) -> bool {
    let puts = |step: &&Json| step.get(PREFIX).and_then(Json::as_bool).unwrap_or(true);
    steps(Some(step)).iter().filter(|step| fast::is(step, "ByteLevel")).any(puts)
}

/// Sets whether a pre-tokenizer over bytes puts a space before a text.
pub fn put_space_first(step: &mut Json, put: bool) {
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
