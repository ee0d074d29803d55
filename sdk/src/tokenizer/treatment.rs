//! The treatment that a SentencePiece-style tokenizer gives a text before tokenization. Its definitions are interpreted
//! step by step, so that their effect can be compared with another format's flags.

use super::{Kind, Parts, Spelling, TokenType};
use crate::escape;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value as Json;

/// The places where a text gets a leading space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SpaceFirst {
    /// Nowhere.
    #[default]
    Never,
    /// At its start, but not after a token that was matched in it.
    Start,
    /// At its start, and after every token that was matched in it.
    Always,
}

/// The treatment of a text, as far as formats can express it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Treatment {
    /// The places where a leading space is added.
    pub space_first: SpaceFirst,
    /// True if that space is omitted if there is one already.
    pub space_once: bool,
    /// True if spaces are trimmed and runs of them collapsed.
    pub squeezes: bool,
    /// True if spaces become U+2581.
    pub marks_spaces: bool,
    /// SentencePiece's compiled normalization rules.
    pub charsmap: Option<Vec<u8>>,
    /// Any other steps, as in `tokenizer.json`.
    pub others: Vec<Json>,
}

impl Treatment {
    /// The treatment that a SentencePiece-style tokenizer gives a text; `None` for any other kind.
    pub fn of(parts: &Parts) -> Option<Treatment> {
        if parts.spelling != Spelling::SentencePiece {
            return None;
        }
        let mut treatment = Treatment::default();
        let mut steps = steps(parts.normalizer.as_ref());
        steps.extend(self::steps(parts.pre_tokenizer.as_ref()));
        steps.iter().for_each(|step| treatment.take(step, parts));
        if !treatment.squeezes {
            treatment.others.extend(steps.into_iter().filter(|step| is_strip(step)).cloned());
        }
        // The transformers library has a flag of its own, which takes precedence.
        if parts.kind == Kind::Bpe && parts.add_space_prefix == Some(false) {
            (treatment.space_first, treatment.space_once) = (SpaceFirst::Never, false);
        }
        Some(treatment)
    }

    /// Adds the effect of one step.
    fn take(&mut self, step: &Json, parts: &Parts) {
        let kind = text(step, "/type").unwrap_or_default();
        match (kind, text(step, "/content"), text(step, "/pattern/String")) {
            // Two steps put two spaces.
            ("Prepend" | "Metaspace", ..)
                if self.space_first != SpaceFirst::Never && scheme(step) != SpaceFirst::Never =>
            {
                self.others.push(step.clone());
            }
            ("Prepend", ..) if text(step, "/prepend").is_some_and(is_space) => {
                self.space_first = SpaceFirst::Always
            }
            ("Replace", Some(MARK), Some(" ")) => self.marks_spaces = true,
            ("Replace", Some(space), _) if text(step, "/pattern/Regex") == Some(RUNS) && is_space(space) => {
                self.squeezes = true;
                self.marks_spaces |= space == MARK;
            }
            ("Precompiled", ..) => {
                let map =
                    text(step, "/precompiled_charsmap").and_then(|map| BASE64_STANDARD.decode(map).ok());
                self.charsmap = map.filter(|map| !map.is_empty());
            }
            ("WhitespaceSplit", ..) => self.squeezes = true,
            // Part of squeezing if another step does the rest.
            ("Strip", ..) => {}
            ("Replace", Some(""), _) if text(step, "/pattern/Regex") == Some(ENDS) => {}
            // Once every space is replaced, this splits nothing.
            ("Split", _, Some(" ")) if self.marks_spaces => {}
            // Another mark than SentencePiece's.
            ("Metaspace", ..) if text(step, "/replacement").is_some_and(|mark| mark != MARK) => {
                self.space_first = scheme(step);
                self.others.push(step.clone());
            }
            ("Metaspace", ..) => {
                self.marks_spaces = true;
                self.space_first = scheme(step);
                // For BPE. In unigram definitions, Metaspace is the only way to add a space, so it says
                // nothing about this flag.
                self.space_once = parts.kind == Kind::Bpe && self.space_first != SpaceFirst::Never;
                if step.get("split").and_then(Json::as_bool) != Some(false) && spans_words(parts) {
                    self.others.push(step.clone());
                }
            }
            _ => self.others.push(step.clone()),
        }
    }

    /// The other steps' types, for a message.
    pub fn names_of_others(&self) -> String {
        let names = self.others.iter().map(|step| step.get("type").and_then(Json::as_str).unwrap_or("?"));
        names.map(|name| format!("`{}`", escape(name, 40))).collect::<Vec<_>>().join(", ")
    }
}

/// SentencePiece's stand-in for a space, U+2581.
const MARK: &str = "\u{2581}";

/// Matches the spaces that SentencePiece trims from both ends of a text.
pub const ENDS: &str = "\\A +|[ \u{2581}]+\\z";

/// Matches the runs of spaces that SentencePiece collapses into one.
pub const RUNS: &str = " {2,}";

fn is_strip(step: &Json) -> bool {
    step.get("type").is_some_and(|kind| kind == "Strip")
        || step.pointer("/pattern/Regex").is_some_and(|pattern| pattern == ENDS)
}

fn text<'a>(step: &'a Json, pointer: &str) -> Option<&'a str> {
    step.pointer(pointer).and_then(Json::as_str)
}

fn is_space(text: &str) -> bool {
    text == MARK || text == " "
}

/// The places where a Metaspace step puts a space.
pub(super) fn scheme(step: &Json) -> SpaceFirst {
    let puts = step.get("add_prefix_space").and_then(Json::as_bool) != Some(false);
    match step.get("prepend_scheme").and_then(Json::as_str) {
        Some("never") => SpaceFirst::Never,
        _ if !puts => SpaceFirst::Never,
        Some("first") => SpaceFirst::Start,
        _ => SpaceFirst::Always,
    }
}

/// Returns whether a merged piece contains a space, so that splitting the text at spaces would change the result. Only
/// for BPE: for unigram, the most probable segmentation of a text is that of its words.
fn spans_words(parts: &Parts) -> bool {
    let mut merged = parts.each().filter(|(id, _)| parts.type_of(*id) == TokenType::Normal);
    parts.kind == Kind::Bpe && merged.any(|(_, text)| text.chars().skip(1).any(|c| MARK.starts_with(c)))
}

/// Nesting of sequences. 8: files have 1.
const MAX_DEPTH: u32 = 8;

/// The keys under which sequences list their steps, by kind of definition.
const SEQUENCES: [&str; 4] = ["normalizers", "pretokenizers", "decoders", "processors"];

/// The steps of a definition in `tokenizer.json` (a normalizer, pre-tokenizer, decoder or post-processor),
/// with sequences flattened. Empty for no definition, and for `null`.
pub fn steps(definition: Option<&Json>) -> Vec<&Json> {
    let mut steps = Vec::new();
    collect(definition, 0, &mut steps);
    steps
}

fn collect<'j>(definition: Option<&'j Json>, depth: u32, steps: &mut Vec<&'j Json>) {
    let Some(step) = definition.filter(|step| !step.is_null()) else { return };
    let inner = SEQUENCES.into_iter().find_map(|key| step.get(key)?.as_array());
    match inner.filter(|_| depth < MAX_DEPTH) {
        Some(inner) => inner.iter().for_each(|step| collect(Some(step), depth + 1, steps)),
        None => steps.push(step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metaspace(scheme: &str, split: bool) -> Json {
        json!({"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split})
    }

    fn of(normalizer: Json, pre_tokenizer: Json) -> Treatment {
        let parts = Parts {
            spelling: Spelling::SentencePiece,
            tokens: vec![Some("a\u{2581}b".to_owned())],
            types: vec![TokenType::Normal],
            normalizer: Some(normalizer),
            pre_tokenizer: Some(pre_tokenizer),
            ..Parts::default()
        };
        Treatment::of(&parts).unwrap()
    }

    #[test]
    fn two_ways_to_say_it_are_one() {
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": MARK});
        let prepend = json!({"type": "Prepend", "prepend": MARK});
        let plain = of(json!({"type": "Sequence", "normalizers": [prepend, replace]}), Json::Null);
        assert_eq!(
            (plain.space_first, plain.marks_spaces, plain.squeezes),
            (SpaceFirst::Always, true, false)
        );
        assert_eq!(of(Json::Null, metaspace("always", false)), Treatment { space_once: true, ..plain });
        assert_eq!(of(Json::Null, metaspace("first", false)).space_first, SpaceFirst::Start);
        let gemma = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"});
        let never = of(Json::Null, metaspace("never", false));
        assert_eq!(of(replace, gemma), never);
        assert_eq!(of(Json::Null, metaspace("never", true)).names_of_others(), "`Metaspace`");
    }

    #[test]
    fn members_of_sequences_are_steps_and_sequences_are_none() {
        let [a, b, c] = ["NFC", "Fuse", "Strip"].map(|kind| json!({"type": kind}));
        let inner = json!({"type": "Sequence", "decoders": [b, Json::Null]});
        for key in SEQUENCES {
            let all = json!({"type": "Sequence", key: [a, inner, c]});
            assert_eq!(steps(Some(&all)), [&a, &b, &c], "{key}");
        }
        assert_eq!(steps(Some(&a)), [&a]);
        assert!(steps(Some(&Json::Null)).is_empty() && steps(None).is_empty());
        // Nesting deeper than any real file is left unexpanded.
        let deep = (0..20).fold(a.clone(), |inner, _| json!({"type": "Sequence", "normalizers": [inner]}));
        assert!(steps(Some(&deep))[0].get("normalizers").is_some());
    }

    #[test]
    fn what_no_flag_says_is_named() {
        let runs = json!({"type": "Replace", "pattern": {"Regex": RUNS}, "content": " "});
        let squeezed = of(
            json!({"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": "AQI="}, {"type": "Strip"}, runs]}),
            json!({"type": "Digits"}),
        );
        assert!(squeezed.squeezes && !squeezed.marks_spaces);
        assert_eq!(squeezed.charsmap, Some(vec![1, 2]));
        assert_eq!(squeezed.names_of_others(), "`Digits`");
        assert_eq!(
            of(json!({"type": "Strip"}), json!({"type": "Digits"})).names_of_others(),
            "`Digits`, `Strip`"
        );
        let bytes = Parts { spelling: Spelling::Bytes, ..Parts::default() };
        assert_eq!(Treatment::of(&bytes), None);
    }
}
