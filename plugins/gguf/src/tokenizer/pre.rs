//! Names of pre-tokenizers. The table is `pre.json`: each entry is one splitter, with llama.cpp's names for
//! it (each followed by the architectures for which it is the first choice) and the equivalent definitions,
//! spelled as in `tokenizer.json`; the first of these is returned for a name. `ignore_merges`, `bos` and
//! `normalizer` are further implications of all names, `normalizers` those of single ones.
//!
//! A name is found by comparing definitions, never by tokenizing a sample text.

use apr_sdk::tokenizer::{Kind, Tokenizer, cuts};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;

const TABLE: &str = include_str!("pre.json");

/// A splitter that a name stands for.
pub struct Splitter {
    /// The `pre_tokenizer` of `tokenizer.json`.
    pub pre_tokenizer: Json,
    /// The `normalizer` of `tokenizer.json`, if models with this name have one.
    pub normalizer: Option<Json>,
    /// Whether a word that is itself a token is used without merging.
    pub ignore_merges: bool,
    /// Whether a beginning token is added by default.
    pub bos: bool,
    /// Whether a separator is added by default.
    pub sep: bool,
}

fn table() -> Vec<Json> {
    match serde_json::from_str(TABLE) {
        Ok(Json::Array(entries)) => entries,
        // The table is part of the program, and a test parses it.
        _ => Vec::new(),
    }
}

/// The name for `tokenizer` in a model of architecture `arch`; `asked` is the user's choice.
///
/// # Errors
/// InvalidArgument for a name that llama.cpp does not know; Unsupported for a definition without a name, showing it.
pub fn name(tokenizer: &Tokenizer, arch: &str, asked: Option<&str>) -> Result<String> {
    if let Some(asked) = asked {
        return known(asked).map(str::to_owned);
    }
    match tokenizer.kind {
        Kind::Unigram => return Ok("default".to_owned()),
        // Nothing depends on it; these are the converter's names for the vocabularies of BERT and of Jina's
        // models.
        Kind::WordPiece if arch == "jina-bert-v2" => return Ok("jina-v2-en".to_owned()),
        Kind::WordPiece => return Ok("bert-bge".to_owned()),
        Kind::Bpe if tokenizer.spelling != apr_sdk::tokenizer::Spelling::Bytes => {
            return Ok("default".to_owned());
        }
        Kind::Bpe => {}
    }
    if let Some(name) = &tokenizer.pre {
        return Ok(name.clone());
    }
    let steps = tokenizer.pre_tokenizer.as_ref().map(cuts).unwrap_or_default();
    let normalizer = apr_sdk::tokenizer::steps(tokenizer.normalizer.as_ref());
    let implies = |implied: Option<&Json>| apr_sdk::tokenizer::steps(implied) == normalizer;
    find(&steps, &implies, tokenizer.ignore_merges, arch).ok_or_else(|| unnamed(tokenizer))
}

fn known(asked: &str) -> Result<&str> {
    let names: Vec<String> = table().iter().flat_map(names).map(|(name, _)| name).collect();
    if names.iter().any(|name| name == asked) || ["bert-bge", "jina-v2-en"].contains(&asked) {
        return Ok(asked);
    }
    let asked = escape(asked, 60);
    Err(Error::invalid_argument(format!("unknown pre-tokenizer `{asked}`"))
        .hint(format!("use one that llama.cpp supports: {}", names.join(", "))))
}

fn unnamed(tokenizer: &Tokenizer) -> Error {
    let definition = tokenizer.pre_tokenizer.as_ref().map_or_else(|| "none".to_owned(), Json::to_string);
    let merges = if tokenizer.ignore_merges { " with `ignore_merges`" } else { "" };
    Error::unsupported(format!(
        "llama.cpp has no name for this pre-tokenizer: {}{merges}",
        escape(&definition, 2000)
    ))
    .hint("pass `--pre NAME` to choose one of its pre-tokenizers, which then splits the text")
}

/// The best name: matching `ignore_merges` counts more than the architecture, that more than the normalizer that a
/// name implies (`implies` says whether it is the tokenizer's), and that more than the table's order.
fn find(
    steps: &[String],
    implies: &dyn Fn(Option<&Json>) -> bool,
    ignore_merges: bool,
    arch: &str,
) -> Option<String> {
    let mut best: Option<(u32, String)> = None;
    for entry in table() {
        let means = |definition: &Json| cuts(definition) == steps;
        if !definitions(&entry).any(means) {
            continue;
        }
        let same = u32::from(flag(&entry, "ignore_merges") == ignore_merges);
        for (name, archs) in names(&entry) {
            let own = entry.get("normalizer").or_else(|| own_normalizer(&entry, &name));
            let score = 4 * same + 2 * u32::from(archs.iter().any(|a| a == arch)) + u32::from(implies(own));
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, name));
            }
        }
    }
    best.map(|(_, name)| name)
}

/// The splitter for a name.
///
/// # Errors
/// Unsupported for an unknown name, and for a splitter that `tokenizer.json` cannot express.
pub fn splitter(name: &str) -> Result<Splitter> {
    for entry in table() {
        if names(&entry).all(|(known, _)| known != name) {
            continue;
        }
        let Some(definition) = definitions(&entry).next() else {
            let name = escape(name, 60);
            return Err(Error::unsupported(format!(
                "the pre-tokenizer `{name}` is built into llama.cpp and has no definition"
            )));
        };
        return Ok(Splitter {
            pre_tokenizer: definition.clone(),
            normalizer: entry.get("normalizer").or_else(|| own_normalizer(&entry, name)).cloned(),
            ignore_merges: flag(&entry, "ignore_merges"),
            bos: flag(&entry, "bos"),
            sep: ["jina-v1-en", "jina-v2-code", "roberta-bpe"].contains(&name),
        });
    }
    Err(Error::unsupported(format!("unknown pre-tokenizer `{}`", escape(name, 60)))
        .hint("install a newer apr, or get the file again: it may be corrupt"))
}

/// Returns whether a name stands for a splitter of these steps, or for one that has no definition.
pub fn stands_for(name: &str, steps: &[String]) -> bool {
    table().iter().filter(|entry| names(entry).any(|(known, _)| known == name)).all(|entry| {
        definitions(entry).next().is_none() || definitions(entry).any(|definition| cuts(definition) == steps)
    })
}

fn definitions(entry: &Json) -> impl Iterator<Item = &Json> {
    entry.get("definitions").and_then(Json::as_array).into_iter().flatten()
}

/// The normalizer of models with one specific name.
fn own_normalizer<'j>(entry: &'j Json, name: &str) -> Option<&'j Json> {
    entry.get("normalizers")?.get(name)
}

fn names(entry: &Json) -> impl Iterator<Item = (String, Vec<String>)> {
    let lists = entry.get("names").and_then(Json::as_array).into_iter().flatten();
    lists.filter_map(|list| {
        let mut words = list.as_array()?.iter().filter_map(Json::as_str).map(str::to_owned);
        Some((words.next()?, words.collect()))
    })
}

fn flag(entry: &Json, key: &str) -> bool {
    entry.get(key).and_then(Json::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_has_each_name_once_and_each_definition_finds_its_entry() {
        let mut seen = BTreeSet::new();
        for entry in table() {
            for (name, _) in names(&entry) {
                assert!(seen.insert(name.clone()), "{name} twice");
            }
            let all: Vec<_> = names(&entry).map(|(name, _)| name).collect();
            for definition in definitions(&entry) {
                let found = find(&cuts(definition), &|_| false, flag(&entry, "ignore_merges"), "").unwrap();
                let same = splitter(&found).unwrap();
                assert_eq!(cuts(&same.pre_tokenizer), cuts(definitions(&entry).next().unwrap()), "{all:?}");
            }
        }
        assert!(seen.len() > 90, "{}", seen.len());
    }

    #[test]
    fn the_definition_decides_and_the_architecture_chooses_among_names() {
        let gpt2 = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false});
        let name =
            |definition: &Json, ignore, arch| find(&cuts(definition), &|own| own.is_none(), ignore, arch);
        assert_eq!(name(&gpt2, false, "gpt2").as_deref(), Some("gpt-2"));
        assert_eq!(name(&gpt2, false, "gptneox").as_deref(), Some("mpt"));
        assert_eq!(name(&gpt2, false, "phi2").as_deref(), Some("phi-2"));
        assert_eq!(name(&gpt2, false, "new").as_deref(), Some("gpt-2"));
        let composed = |own: Option<&Json>| own.is_some_and(|own| own["type"] == "NFC");
        assert_eq!(find(&cuts(&gpt2), &composed, false, "mamba").as_deref(), Some("mpt"));
        assert_eq!(find(&cuts(&gpt2), &composed, false, "phi2").as_deref(), Some("phi-2"));
        let llama3 = splitter("llama-bpe").unwrap().pre_tokenizer;
        assert_eq!(name(&llama3, true, "llama").as_deref(), Some("llama-bpe"));
        assert_eq!(name(&llama3, false, "olmo2").as_deref(), Some("dbrx"));
        let nested = json!({"type": "Sequence", "pretokenizers": [llama3]});
        assert_eq!(name(&nested, true, "new").as_deref(), Some("llama-bpe"));
        assert_eq!(name(&json!({"type": "Whitespace"}), false, "llama"), None);
        assert_eq!(name(&json!(null), false, "llama"), None);
    }

    #[test]
    fn a_name_is_for_what_cuts_the_same_in_all_texts() {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true});
        let split = |pattern: &str, behavior: &str, invert: bool| {
            let step = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert});
            let all = json!({"type": "Sequence", "pretokenizers": [step, bytes]});
            find(&cuts(&all), &|own| own.is_none(), false, "llama")
        };
        assert_eq!(split(r"\p{N}", "Isolated", false).as_deref(), Some("smollm"));
        // Other numbers than decimal digits, such as `½`, are none for this one.
        assert_eq!(split(r"\d", "Isolated", false), None);
        assert_eq!(split("[0-9]", "Isolated", false), None);
        // Here everything but numbers is taken out.
        assert_eq!(split(r"\p{N}", "Removed", true), None);
    }

    #[test]
    fn only_known_names_can_be_asked_for() {
        assert_eq!(known("qwen2").unwrap(), "qwen2");
        assert!(known("qwen").unwrap_err().hint_text().unwrap().contains("qwen2"));
        assert!(splitter("nobody").is_err());
        assert!(splitter("kimi-k2").is_err());
    }
}
