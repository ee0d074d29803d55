//! WordPiece tokenizers: llama.cpp does what BERT's normalizer does, and keys tell it whether to lower-case
//! and strip accents.

use super::super::{LOWERCASE, STRIP_ACCENTS};
use super::{kind, made, without};
use apr_sdk::tokenizer::{Parts, Tokenizer, steps};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::{Map, Value as Json};

/// The member for the longest word, in characters, and how long it is where none says.
const MOST: &str = "max_word_chars";
const LONGEST: u64 = 100;

/// Restores the longest word to `parts`.
pub fn take_back(json: &Json, parts: &mut Parts) {
    if let Some(most) = json.get(MOST).and_then(Json::as_u64) {
        parts.max_word_chars = Some(most);
    }
}

/// What is done to a text before it is split into words.
struct Normalization {
    cleans: bool,
    parts_chinese: bool,
    lowers: bool,
    strips: bool,
}

impl Normalization {
    /// What a tokenizer does, and any steps beyond that.
    fn of(tokenizer: &Tokenizer) -> (Normalization, Vec<&Json>) {
        let mut own = Normalization { cleans: false, parts_chinese: false, lowers: false, strips: false };
        let mut others = Vec::new();
        for step in steps(tokenizer.normalizer.as_ref()) {
            let flag = |key: &str| step.get(key).and_then(Json::as_bool);
            match kind(step) {
                "BertNormalizer" => {
                    own.cleans = flag("clean_text").unwrap_or(true);
                    own.parts_chinese = flag("handle_chinese_chars").unwrap_or(true);
                    own.lowers |= flag("lowercase").unwrap_or(true);
                    own.strips |= flag("strip_accents").unwrap_or(own.lowers);
                }
                "Lowercase" => own.lowers = true,
                "StripAccents" => own.strips = true,
                _ => others.push(step),
            }
        }
        // Stripping accents requires decomposition first.
        others.retain(|step| !(own.strips && kind(step) == "NFD"));
        (own, others)
    }

    /// What llama.cpp does for these keys.
    fn of_llama_cpp(keys: &[(String, Value)]) -> Normalization {
        let flag = |key: &str| made(keys, key).and_then(Value::as_bool);
        let lowers = flag(LOWERCASE).unwrap_or(true);
        let strips = flag(STRIP_ACCENTS).unwrap_or(lowers);
        Normalization { cleans: true, parts_chinese: true, lowers, strips }
    }
}

/// Adds to `text` what llama.cpp would not do, with warnings.
pub fn carry(
    tokenizer: &Tokenizer,
    keys: &[(String, Value)],
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let ((own, others), other) = (Normalization::of(tokenizer), Normalization::of_llama_cpp(keys));
    let mut differ = false;
    for (one, two, what, becomes) in [
        (own.parts_chinese, other.parts_chinese, "splits Chinese characters", "Chinese words are"),
        (own.cleans, other.cleans, "removes control characters", "text with such characters is"),
        (own.lowers, other.lowers, "lowercases text", "capital letters are"),
        (own.strips, other.strips, "strips accents", "accented letters are"),
    ] {
        if one != two {
            differ = true;
            sink.warn(&match two {
                true => {
                    format!("llama.cpp {what}, but this tokenizer does not: {becomes} tokenized differently")
                }
                false => {
                    format!("this tokenizer {what}, but llama.cpp does not: {becomes} tokenized differently")
                }
            });
        }
    }
    others.iter().for_each(|step| sink.warn(&without(step)));
    // Two steps may do what one does but for a few characters.
    let one = steps(tokenizer.normalizer.as_ref());
    if differ || !others.is_empty() || one.iter().map(|step| kind(step)).ne(["BertNormalizer"]) {
        text.insert("normalizer".to_owned(), tokenizer.normalizer.clone().unwrap_or_default());
    }
    if let Some(most) = tokenizer.max_word_chars.filter(|most| *most != LONGEST) {
        sink.warn(&format!(
            "llama.cpp ignores that words of more than {most} characters are unknown to this \
             tokenizer (`max_input_chars_per_word`): they are tokenized differently"
        ));
        text.insert(MOST.to_owned(), most.into());
    }
    let cuts = steps(tokenizer.pre_tokenizer.as_ref());
    if cuts.iter().map(|step| kind(step)).ne(["BertPreTokenizer"]) {
        let names: Vec<String> = cuts.iter().map(|step| format!("`{}`", escape(kind(step), 40))).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        sink.warn(&format!(
            "llama.cpp splits text at spaces and punctuation, but this tokenizer with \
             {names}: text that they split elsewhere is tokenized differently"
        ));
        text.insert("pre_tokenizer".to_owned(), tokenizer.pre_tokenizer.clone().unwrap_or_default());
    }
}
