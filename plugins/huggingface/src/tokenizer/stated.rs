//! What a folder states of its special tokens, together with what the class of its tokenizer has where the folder says nothing.
//! classes.json lists these classes: tests/tokenizers/classes.py reads them out of transformers.

use super::{added, class};
use apr_sdk::escape;
use apr_sdk::tokenizer::{Around, Kind, Parts, Spelling, post_processor, steps};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The special tokens of each class, the class of each type of models, and the steps that version 5 of the library makes anew.
struct Classes {
    tokens: HashMap<String, HashMap<String, String>>,
    of_models: HashMap<String, String>,
    steps: HashMap<String, Json>,
}

static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
    let read = |key: &str| {
        let json: Json = serde_json::from_str(include_str!("classes.json")).unwrap_or_default();
        json.get(key).cloned().unwrap_or_default()
    };
    Classes {
        tokens: serde_json::from_value(read("classes")).unwrap_or_default(),
        of_models: serde_json::from_value(read("models")).unwrap_or_default(),
        steps: serde_json::from_value(read("steps")).unwrap_or_default(),
    }
});

/// The key of a configuration's list of added tokens.
pub const DECODER: &str = "added_tokens_decoder";

/// What the purposes of special tokens are called.
pub const NAMES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// The class of a folder's tokenizer, without `Fast`: the one that a file names, or that its type of models has. Empty if neither
/// is known.
pub fn class(said: Option<&Json>, config: Option<&Json>) -> String {
    let text = |json: Option<&Json>, key: &str| json?.get(key)?.as_str().map(str::to_owned);
    let of_model = || CLASSES.of_models.get(&text(config, "model_type")?).cloned();
    let named = text(said, "tokenizer_class").or_else(|| text(config, "tokenizer_class")).or_else(of_model);
    named.map(|class| class.trim_end_matches("Fast").to_owned()).unwrap_or_default()
}

/// The configuration with what else decides on tokens: `special_tokens_map.json` and `added_tokens.json`, which count where the
/// configuration does not list added tokens, and the class, where nothing is said and the vocabulary has the token.
pub fn whole(
    said: Option<&Json>,
    [map, more]: [Option<&Json>; 2],
    class: &str,
    parts: &mut Parts,
) -> Option<Json> {
    let mut whole = said.and_then(Json::as_object).cloned().unwrap_or_default();
    let listed = whole.contains_key(DECODER);
    let mapped = map.and_then(Json::as_object).filter(|_| !listed).into_iter().flatten();
    for (key, value) in mapped.filter(|(key, value)| added::names_tokens(key) && !value.is_null()) {
        let mut value = value.clone();
        if let (Some(Json::Array(known)), Json::Array(new)) = (whole.get(key), &mut value)
            && key == added::EXTRA
        {
            new.retain(|token| !known.contains(token));
            new.splice(0..0, known.iter().cloned());
        }
        whole.insert(key.clone(), value);
    }
    if let Some(more) = more.and_then(Json::as_object).filter(|_| !listed) {
        let listed = added::listed(parts, more, &whole);
        if !listed.is_empty() {
            whole.insert(DECODER.to_owned(), Json::Object(listed));
        }
    }
    let known = CLASSES.tokens.get(class);
    for (name, text) in NAMES.iter().filter_map(|name| Some((name, known?.get(*name)?))) {
        let key = format!("{name}_token");
        if !whole.contains_key(&key) && parts.each().any(|(_, token)| token == text) {
            whole.insert(key, text.as_str().into());
        }
    }
    (said.is_some() || !whole.is_empty()).then_some(Json::Object(whole))
}

/// Classes for which version 4 of the library goes by the flags for the tokens around a text, whatever tokenizer.json says, and
/// what it takes them for where they are not stated.
const BY_FLAGS: [(&str, [bool; 2]); 5] = [
    ("LlamaTokenizer", [true, false]),
    ("CodeLlamaTokenizer", [true, false]),
    ("GemmaTokenizer", [true, false]),
    ("CohereTokenizer", [true, false]),
    ("GPTNeoXTokenizer", [false, false]),
];

/// Notes where versions of the library go by the class of a tokenizer rather than by its tokenizer.json, and the two differ. This
/// plugin goes by tokenizer.json.
pub fn note(parts: &mut Parts, said: &Json, config: Option<&Json>, class: &str) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    if let Some((_, usual)) = BY_FLAGS.iter().find(|(name, _)| *name == class) {
        let text = |name: &str| {
            let entry = said.get(format!("{name}_token"))?;
            entry.as_str().or_else(|| entry.get("content")?.as_str())
        };
        let by_flags = [("bos", usual[0]), ("eos", usual[1])].map(|(name, usual)| {
            let is_added = flag(&format!("add_{name}_token")).unwrap_or(usual);
            is_added.then(|| text(name).unwrap_or("a token that is not in the vocabulary"))
        });
        let puts = puts(parts.post_processor.as_ref());
        if puts.each_ref().map(Option::as_deref) != by_flags {
            let shown = |sides: [Option<&str>; 2]| match sides {
                [None, None] => "nothing".to_owned(),
                [Some(first), Some(last)] => format!("`{}` and `{}`", escape(first, 40), escape(last, 40)),
                [Some(first), None] => format!("`{}` before", escape(first, 40)),
                [None, Some(last)] => format!("`{}` after", escape(last, 40)),
            };
            let (own, other) = (shown(puts.each_ref().map(Option::as_deref)), shown(by_flags));
            parts.notes.push(format!(
                "around a text, tokenizer.json adds {own}, but the class `{class}` with the flags of \
                 tokenizer_config.json adds {other}: transformers 4 uses the flags, transformers 5 and this \
                 conversion use tokenizer.json"
            ));
        }
    }
    let Some(own) =
        CLASSES.steps.get(class).filter(|_| parts.kind == Kind::Bpe && !is_passed_over(config, class))
    else {
        return;
    };
    // Such a file under this name is read as it is.
    if parts.spelling == Spelling::Bytes && class == "LlamaTokenizer" {
        return;
    }
    let mut own = own.clone();
    let scheme = match (flag("add_prefix_space"), flag("legacy")) {
        (Some(false), _) => "never",
        (_, Some(true)) if class == "LlamaTokenizer" => "always",
        _ => "first",
    };
    if own.pointer("/pre_tokenizer/type").and_then(Json::as_str) == Some("Metaspace") {
        own["pre_tokenizer"]["prepend_scheme"] = scheme.into();
    }
    let pairs = [("normalizer", &parts.normalizer), ("pre_tokenizer", &parts.pre_tokenizer)];
    let others = pairs.into_iter().filter(|(key, step)| plain(step.as_ref()) != plain(own.get(*key)));
    let others: Vec<String> = others.map(|(key, _)| format!("`{key}`")).collect();
    if !others.is_empty() {
        let others = others.join(" and ");
        parts.notes.push(format!(
            "tokenizer.json differs in {others} from the class `{class}`: transformers 5 uses the class, \
             transformers 4 and this conversion use tokenizer.json"
        ));
    }
}

/// Whether version 5 of the library does not ask the class that a file names: the type of models has none, or another.
fn is_passed_over(config: Option<&Json>, class: &str) -> bool {
    let of_model = config.and_then(|config| CLASSES.of_models.get(config.get("model_type")?.as_str()?));
    of_model.is_some_and(|of_model| of_model != class && !CLASSES.tokens.contains_key(of_model))
}

/// The steps without what has no effect on which tokens there are, or is set by a flag.
fn plain(step: Option<&Json>) -> Vec<Json> {
    let mut all: Vec<Json> = steps(step).into_iter().cloned().collect();
    for step in all.iter_mut().filter_map(Json::as_object_mut) {
        ["add_prefix_space", "trim_offsets"].iter().for_each(|key| drop(step.remove(*key)));
    }
    all
}

/// The token that a post-processor puts before one text, and the one behind it.
pub fn puts(step: Option<&Json>) -> [Option<String>; 2] {
    let around = steps(step).into_iter().find_map(|step| {
        let text = |key: &str| Some(step.get(key)?.get(0)?.as_str()?.to_owned());
        if let (Some(first), Some(last)) = (text("cls"), text("sep")) {
            return Some([Some(first), Some(last)]);
        }
        let single = step.get("single").and_then(Json::as_array)?;
        let text = |entry: Option<&Json>| entry?.pointer("/SpecialToken/id")?.as_str().map(str::to_owned);
        Some([single.first(), single.last()].map(text))
    });
    around.unwrap_or_default()
}

/// Classes of bytes that put a token before each text and one behind it.
const AROUND: [&str; 7] = [
    "RobertaTokenizer",
    "BartTokenizer",
    "LEDTokenizer",
    "LongformerTokenizer",
    "LayoutLMv3Tokenizer",
    "MvpTokenizer",
    "MarkupLMTokenizer",
];

/// What is put around a text, where no tokenizer.json says it: what flags state, and what the class does without them.
pub fn around(parts: &mut Parts, class: &str) {
    if parts.kind == Kind::WordPiece {
        return;
    }
    let id = |name: &str, other: &str| parts.special_id(name).or_else(|| parts.special_id(other));
    let both = AROUND.contains(&class);
    let usual = match (parts.kind, parts.spelling) {
        (Kind::Unigram, _) => [false, true],
        (Kind::Bpe, Spelling::SentencePiece) => [true, false],
        _ => [both, both],
    };
    let adds = |name: &str, usual: bool| parts.adds(name).unwrap_or(usual);
    let (first, last) = (id("bos", "cls"), id("eos", "sep"));
    let around = Around {
        bos: first.filter(|_| adds("bos", usual[0])),
        eos: last.filter(|_| adds("eos", usual[1])),
        sep: last.filter(|_| both),
    };
    if parts.adds("bos").is_none()
        && usual == [true, false]
        && BY_FLAGS.iter().any(|(name, _)| *name == class)
    {
        parts.notes.push(format!(
            "the files do not state whether a token is added before a text: transformers 4, llama.cpp and \
             this conversion add one for the class `{class}`, transformers 5 adds none without a \
             tokenizer.json"
        ));
    }
    parts.post_processor = post_processor(parts, around);
}

/// The steps before bytes are merged, where no tokenizer.json says them: those of the class.
pub fn bytes(parts: &mut Parts, class: &str, space: Option<bool>) {
    if let Some(own) = CLASSES.steps.get(class).filter(|own| own.to_string().contains("\"ByteLevel\"")) {
        let step = |key: &str| own.get(key).filter(|step| !step.is_null()).cloned();
        (parts.normalizer, parts.pre_tokenizer) = (step("normalizer"), step("pre_tokenizer"));
    }
    if let (Some(step), Some(put)) = (&mut parts.pre_tokenizer, space) {
        class::put_space_first(step, put);
    }
}
