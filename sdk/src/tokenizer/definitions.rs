//! The `tokenizer.json` definitions of tokenizers that other formats know only by name.

use super::treatment::{ENDS, RUNS};
use super::{Kind, Parts, SpaceFirst, Spelling, TokenType};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value as Json, json};

/// Fills in the normalizer, pre-tokenizer and decoder that this kind of tokenizer uses; only the decoder for
/// byte-level ones.
pub fn fill_definitions(parts: &mut Parts) {
    fill_definitions_with(parts, SpaceFirst::Always);
}

/// Like [`fill_definitions`], but puts the leading space where `space_first` says, if the tokenizer adds one
/// at all.
pub fn fill_definitions_with(parts: &mut Parts, space_first: SpaceFirst) {
    let space_first = if parts.add_space_prefix == Some(false) { SpaceFirst::Never } else { space_first };
    match (parts.kind, parts.spelling) {
        (Kind::Bpe, Spelling::SentencePiece) => pieces(parts, space_first),
        (Kind::Unigram, _) => unigram(parts, space_first),
        (Kind::WordPiece, _) => word_piece(parts),
        (Kind::Bpe, _) => parts.decoder = Some(bytes()),
    }
}

/// The byte-level step, used as decoder and as post-processor.
fn bytes() -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true})
}

/// SentencePiece's first rules for a text: its character rules, then (if `squeezes`) trimming and collapsing spaces.
fn rules(parts: &Parts, squeezes: bool) -> Vec<Json> {
    let mut rules = Vec::new();
    if let Some(charsmap) = &parts.charsmap {
        let charsmap = BASE64_STANDARD.encode(charsmap);
        rules.push(json!({"type": "Precompiled", "precompiled_charsmap": charsmap}));
    }
    if squeezes {
        // Spaces only: a Strip step would also remove tabs and line ends.
        for (pattern, content) in [(ENDS, ""), (RUNS, " ")] {
            rules.push(json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content}));
        }
    }
    rules
}

fn metaspace(space_first: SpaceFirst, split: bool) -> Json {
    let scheme = match space_first {
        SpaceFirst::Never => "never",
        SpaceFirst::Start => "first",
        SpaceFirst::Always => "always",
    };
    json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split})
}

fn pieces(parts: &mut Parts, space_first: SpaceFirst) {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let back = json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "});
    let mut normalizers = rules(parts, parts.remove_extra_whitespaces == Some(true));
    let mut decoders = vec![back, json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    match space_first {
        SpaceFirst::Never => normalizers.push(replace),
        SpaceFirst::Start => parts.pre_tokenizer = Some(metaspace(space_first, false)),
        SpaceFirst::Always => {
            normalizers.extend([json!({"type": "Prepend", "prepend": "\u{2581}"}), replace]);
        }
    }
    if space_first != SpaceFirst::Never {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    parts.normalizer = match normalizers.is_empty() {
        true => None,
        false => Some(json!({"type": "Sequence", "normalizers": normalizers})),
    };
    parts.decoder = Some(json!({"type": "Sequence", "decoders": decoders}));
    parts.byte_fallback = has_bytes(parts);
    parts.fuse_unk = true;
}

/// Returns whether there are byte tokens to fall back to.
fn has_bytes(parts: &Parts) -> bool {
    parts.types.contains(&TokenType::Byte)
}

fn unigram(parts: &mut Parts, space_first: SpaceFirst) {
    let metaspace = metaspace(space_first, true);
    // Splitting at whitespace already removes the extra spaces.
    parts.normalizer = rules(parts, false).pop().or(parts.normalizer.take());
    parts.byte_fallback = has_bytes(parts);
    parts.decoder = Some(match parts.byte_fallback {
        true => json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]}),
        false => metaspace.clone(),
    });
    parts.pre_tokenizer = Some(if parts.remove_extra_whitespaces.unwrap_or(true) {
        json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]})
    } else {
        metaspace
    });
}

fn word_piece(parts: &mut Parts) {
    parts.continuing_prefix = Some("##".to_owned());
    parts.max_word_chars = Some(100);
    parts.normalizer = Some(json!({
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": parts.strip_accents, "lowercase": parts.lowercase.unwrap_or(true),
    }));
    parts.pre_tokenizer = Some(json!({"type": "BertPreTokenizer"}));
    parts.decoder = Some(json!({"type": "WordPiece", "prefix": "##", "cleanup": true}));
}

/// Ids of the tokens added around a text, and between two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    /// Added before the text.
    pub bos: Option<u32>,
    /// Added after the text.
    pub eos: Option<u32>,
    /// Added between two texts.
    pub sep: Option<u32>,
}

fn special(token: Option<(u32, &str)>, type_id: u32) -> Option<Json> {
    token.map(|(_, text)| json!({"SpecialToken": {"id": text, "type_id": type_id}}))
}

fn sequence(id: &str, type_id: u32) -> Option<Json> {
    Some(json!({"Sequence": {"id": id, "type_id": type_id}}))
}

/// A post-processor that adds these tokens; `None` if there is nothing to add.
pub fn post_processor(parts: &Parts, around: Around) -> Option<Json> {
    let [bos, eos, sep] = [around.bos, around.eos, around.sep]
        .map(|id| id.and_then(|id| parts.token(id).map(|text| (id, text))));
    if bos.is_none() && eos.is_none() && sep.is_none() {
        return (parts.spelling == Spelling::Bytes).then(bytes);
    }
    let single = [special(bos, 0), sequence("A", 0), special(eos, 0)];
    // Only a separator goes between two texts. Tokenizers without segment types start the second text with
    // `bos` again, unless that token doubles as end or separator.
    let mut others = ["eos", "sep"].into_iter().filter_map(|name| parts.special_id(name));
    let anew = bos.filter(|_| eos.is_none() && !others.any(|id| Some(id) == around.bos));
    let second = u32::from(parts.kind == Kind::WordPiece);
    let pair = [
        special(bos, 0),
        sequence("A", 0),
        special(eos, 0),
        special(sep.filter(|_| parts.kind != Kind::WordPiece), 0),
        special(anew, second),
        sequence("B", second),
        special(eos, second),
    ];
    let mut tokens = serde_json::Map::new();
    for (id, text) in [bos, eos, sep].into_iter().flatten() {
        tokens.insert(text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
    }
    let template = json!({
        "type": "TemplateProcessing",
        "single": single.into_iter().flatten().collect::<Vec<_>>(),
        "pair": pair.into_iter().flatten().collect::<Vec<_>>(),
        "special_tokens": tokens,
    });
    if parts.spelling == Spelling::Bytes {
        return Some(json!({"type": "Sequence", "processors": [bytes(), template]}));
    }
    Some(template)
}
