//! What the class that `tokenizer_config.json` names does to a text of its own accord, whatever `tokenizer.json` says: transformers
//! 5 does so for all, version 4 where the step is the only one.

use super::recipe::{Reads, Recipe};
use super::{classes, fast, stated};
use apr_sdk::tokenizer::{Kind, Parts, Spelling, steps};
use serde_json::{Value as Json, json};

/// Classes that put none before pieces where `add_prefix_space` is false.
const OF_PIECES: [&str; 2] = ["LlamaTokenizer", "CodeLlamaTokenizer"];
/// Classes of words for which version 4 sets the normalizer by the same flags.
const BY_FLAGS: [&str; 10] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MobileBertTokenizer",
    "ConvBertTokenizer",
    "FunnelTokenizer",
    "LayoutLMTokenizer",
    "LxmertTokenizer",
    "MPNetTokenizer",
    "SqueezeBertTokenizer",
];

/// Changes what `tokenizer.json` said to what the class makes of it.
pub fn apply(parts: &mut Parts, said: &Json, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    let space = flag("add_prefix_space");
    match (parts.kind, parts.spelling) {
        (Kind::Bpe, Spelling::Bytes) => {
            let step = parts.pre_tokenizer.as_ref();
            let (was, is_lone) =
                (step.map(puts_space_first), step.is_some_and(|step| fast::is(step, "ByteLevel")));
            let own = classes::recipe(class);
            let by_class = own.and_then(|own| own.step("pre_tokenizer", said, None));
            let by_class =
                by_class.filter(has_bytes).map(|step| puts_space_first(&step)).filter(|_| was.is_some());
            let five = by_class.or(was);
            // Version 4 changes a lone step alone, but of every class, some of which have another default there.
            let usual = by_class
                .filter(|_| space.is_none() && !own.is_some_and(|own| own.differs_in("`pre_tokenizer`")));
            let four = match (is_lone, space.or(usual), by_class) {
                (true, Some(put), _) => Some(put),
                (true, None, Some(_)) => Some(false),
                _ => was,
            };
            if let (Some(five), true) = (five, five != four) {
                let (goes_by, other) = if by_class.is_some() { ("flag", "step") } else { ("step", "flag") };
                let not = if five { "a space" } else { "no space" };
                parts.notes.push(format!(
                    "tokenizer.json and the class `{class}` with its configuration disagree about `add_prefix_space`: \
                     transformers 5 and apr use the {goes_by} and put {not} before a text, transformers 4 uses the {other}",
                ));
            }
            if let (Some(put), Some(step)) = (by_class, &mut parts.pre_tokenizer) {
                put_space_first(step, put);
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
        (Kind::WordPiece, _) => {
            let own = classes::recipe(class).filter(|own| own.reads() == Reads::Words);
            own.into_iter().for_each(|own| words(parts, said, class, own));
        }
        _ => {}
    }
}

/// Puts in place of what `tokenizer.json` says of words what the class does with them, as transformers 5 does. Version 4 changes
/// the normalizer's flags alone.
fn words(parts: &mut Parts, said: &Json, class: &str, own: Recipe) {
    let mut others = Vec::new();
    let normalizer = own.step("normalizer", said, None);
    let is_other = match BY_FLAGS.contains(&class) {
        true => cleans(parts.normalizer.as_ref()) != cleans(normalizer.as_ref()),
        false => parts.normalizer != normalizer,
    };
    // What a class passes over, version 4 may follow.
    let is_passed_over = |flag: &&str| said.get(*flag).is_some_and(Json::is_boolean) && !own.is_flag(flag);
    if is_other || ["do_lower_case", "strip_accents", "tokenize_chinese_chars"].iter().any(is_passed_over) {
        others.push("`normalizer`");
    }
    parts.normalizer = normalizer;
    for (key, shown, step) in [
        ("pre_tokenizer", "`pre_tokenizer`", &mut parts.pre_tokenizer),
        ("decoder", "`decoder`", &mut parts.decoder),
    ] {
        let usual = own.step(key, said, None);
        if kind(step.as_ref()) != kind(usual.as_ref()) {
            others.push(shown);
            *step = usual;
        }
    }
    if parts.max_word_chars.is_some_and(|most| most != LONGEST) {
        others.push("`max_input_chars_per_word`");
        parts.max_word_chars = Some(LONGEST);
    }
    if let Some(id) = unknown(parts, said).filter(|id| parts.unk != Some(*id)) {
        others.push("`unk_token`");
        parts.unk = Some(id);
    }
    // A folder without the tokens that the class puts there is left as it is.
    if let Ok(Some(usual)) = own.around(parts, said) {
        let step = parts.post_processor.as_ref();
        let part = |step: Option<&Json>, key: &str| step.and_then(|step| step.get(key)).cloned();
        let is_same = match part(step, "single") {
            Some(_) => ["single", "pair"].into_iter().all(|key| part(step, key) == part(Some(&usual), key)),
            None => stated::puts(step) == stated::puts(Some(&usual)),
        };
        if !is_same {
            others.push("`post_processor`");
            parts.post_processor = Some(usual);
        }
    }
    if !others.is_empty() {
        let others = others.join(", ");
        parts.notes.push(format!(
            "tokenizer.json differs in {others} from the class `{class}` in tokenizer_config.json: \
             transformers 5 and apr use the class, transformers 4 uses tokenizer.json"
        ));
    }
    fast::normalization(parts);
}

/// Whether a normalizer of words takes control characters out; `None` for any other.
fn cleans(step: Option<&Json>) -> Option<bool> {
    let step = step.filter(|step| fast::is(step, "BertNormalizer"))?;
    Some(step.get("clean_text").and_then(Json::as_bool).unwrap_or(true))
}

fn kind(step: Option<&Json>) -> Option<&Json> {
    step?.get("type")
}

/// The longest word, in characters, where nothing says another.
const LONGEST: u64 = 100;

/// The unknown token that the configuration states, if the vocabulary has it.
fn unknown(parts: &Parts, said: &Json) -> Option<u32> {
    let text = stated::text(said.get("unk_token")?)?;
    parts.each().find(|(_, token)| *token == text).map(|(id, _)| id)
}

/// Whether bytes are spelled in a pre-tokenizer.
fn has_bytes(step: &Json) -> bool {
    steps(Some(step)).iter().any(|step| fast::is(step, "ByteLevel"))
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
