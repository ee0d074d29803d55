//! What llama.cpp's converter writes besides the tokenizer itself for some architectures, and where.

use super::write::Keys;
use super::{ADD_SPACE_PREFIX, SPECIAL};
use apr_sdk::Value;
use apr_sdk::tokenizer::{Kind, Parts, Spelling, TokenType, Tokenizer};

/// Architectures that `LlamaModel` converts: their first key says whether there is a leading space.
const LLAMA: [&str; 11] = [
    "llama",
    "granite",
    "granitemoe",
    "smollm3",
    "arcee",
    "apertus",
    "mistral3",
    "llama-embed",
    "nanbeige",
    "afmoe",
    "granite_swa",
];
/// Architectures that never add a leading space, and say so last.
const NO_SPACE_FIRST: [&str; 4] = ["gemma", "gemma2", "gemma3", "gemma3n"];

/// Architectures, and the texts of their tokens that end a turn, whether added or not: Gemma's, and CodeLlama's. The converter writes
/// the numbers that they have in released models, whatever the vocabulary says.
const TURN_ENDS: [(&str, &str); 2] = [("gemma", "<end_of_turn>"), ("llama", "\u{2581}<EOT>")];

/// Roles of tokens, and the texts that have them.
type Roles = &'static [(&'static str, &'static str)];

/// Tokens with a role that the converter takes by their text: in models of these architectures that have all of them.
const BY_TEXT: &[(&[&str], Roles)] = &[
    (&["chatglm", "glm4"], &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")]),
    (&["dots3note"], &[("eot", "<|endofassistant|>")]),
    (&["muse-glimmer"], &[("eot", "<|eot|>")]),
    // Solar Open has GLM-4.5's architecture.
    (
        &["glm4moe"],
        &[("eos", "<|endoftext|>"), ("eot", "<|endoftext|>"), ("unk", "<unk>"), ("bos", "<|startoftext|>")],
    ),
    (
        // GLM-4.7 Flash has DeepSeek's architecture, whose own tokenizers have none of these.
        &["glm4moe", "glm-dsa", "glm5-next", "deepseek2"],
        &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")],
    ),
];

/// Sets which added tokens absorb spaces: no key says so, llama.cpp goes by names.
pub fn strips(parts: &mut Parts, name: &str, pre: &str) {
    for n in 0..parts.added.len() {
        let text = parts.token(parts.added[n].id).unwrap_or_default();
        let (left, right) = strip(text, name, pre);
        (parts.added[n].lstrip, parts.added[n].rstrip) = (left, right);
    }
}

/// Whether an added token absorbs the spaces before and after it, in a model with this name. RoBERTa's is not
/// llama.cpp's rule, but true of every such model.
pub fn strip(text: &str, name: &str, pre: &str) -> (bool, bool) {
    let name = name.to_lowercase();
    if ["jina-v2-de", "jina-v2-es", "jina-v2-code", "roberta-bpe"].iter().any(|known| pre.contains(known)) {
        return (text == "<mask>", false);
    }
    let phi = ["phi-3", "phi3"].iter().any(|known| name.contains(known));
    if !phi && name.contains("modern-bert") {
        return (text == "[MASK]", false);
    }
    (false, phi && !["<unk>", "<s>", "<|endoftext|>"].contains(&text))
}

/// Architectures whose pieces are merged by a list.
const MERGED: [&str; 2] = ["gemma4", "gemma4-assistant"];
/// Their special tokens that are shown all the same, for those who parse what a model answers.
const SHOWN: [&str; 7] = [
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
];

/// Whether SentencePiece's pieces are written with their merges instead of scores.
pub fn merges_pieces(tokenizer: &Tokenizer, arch: &str) -> bool {
    let pieces = tokenizer.kind == Kind::Bpe && tokenizer.spelling == Spelling::SentencePiece;
    pieces && MERGED.contains(&arch)
}

/// The type of a token that is written with merges: only special tokens and bytes have one of their own.
pub fn type_of_merged(kind: TokenType, text: &str) -> TokenType {
    match kind {
        TokenType::Control | TokenType::Unknown if SHOWN.contains(&text) => TokenType::UserDefined,
        TokenType::Unknown => TokenType::Control,
        TokenType::UserDefined => TokenType::Normal,
        kind => kind,
    }
}

/// Keys before the tokenizer's own.
pub fn before(keys: &mut Keys, tokenizer: &Tokenizer, arch: &str) {
    match (tokenizer.kind, tokenizer.add_space_prefix) {
        (Kind::Bpe, Some(yes)) if LLAMA.contains(&arch) => {
            keys.set(ADD_SPACE_PREFIX, Value::from_bool(yes));
        }
        _ => {}
    }
    if arch == "modern-bert" {
        // The converter takes all three for granted, as the class's own tokenizer has them.
        for ((_, key), yes) in super::ADD.into_iter().zip(super::unsaid::around::puts(tokenizer)) {
            keys.set(key, Value::from_bool(yes));
        }
    }
}

/// Keys after the tokenizer's own.
pub fn after(keys: &mut Keys, tokenizer: &Tokenizer, arch: &str) {
    let sentence_piece = tokenizer.spelling == Spelling::SentencePiece;
    let end_of_turn = TURN_ENDS.iter().find(|(known, _)| *known == arch).and_then(|(_, text)| {
        let mut tokens = tokenizer.each();
        tokens.find(|(_, token)| token == text).map(|(id, _)| id)
    });
    if let (Some(id), Some((_, key))) = (end_of_turn, SPECIAL.iter().find(|(name, _)| *name == "eot")) {
        keys.set(key, Value::from_u32(id));
    }
    if NO_SPACE_FIRST.contains(&arch) && sentence_piece {
        keys.set(ADD_SPACE_PREFIX, Value::from_bool(false));
    } else if sentence_piece && tokenizer.kind == Kind::Bpe && tokenizer.add_space_prefix == Some(false) {
        // The converter does not write it here, but then llama.cpp would add a leading space.
        keys.set(ADD_SPACE_PREFIX, Value::from_bool(false));
    }
    if merges_pieces(tokenizer, arch) {
        keys.set(ADD_SPACE_PREFIX, Value::from_bool(false));
        // llama.cpp adds it whatever the key says.
        keys.set(super::ADD[0].1, Value::from_bool(tokenizer.adds("bos").unwrap_or(true)));
    }
    if arch == "internlm2" && sentence_piece {
        keys.set(ADD_SPACE_PREFIX, Value::from_bool(tokenizer.add_space_prefix.unwrap_or(true)));
    }
    for (_, roles) in BY_TEXT.iter().filter(|(archs, _)| archs.contains(&arch)) {
        let id = |text: &str| {
            tokenizer.added.iter().map(|added| added.id).find(|id| tokenizer.token(*id) == Some(text))
        };
        let found: Option<Vec<(&str, u32)>> =
            roles.iter().map(|(role, text)| Some((*role, id(text)?))).collect();
        for (role, id) in found.into_iter().flatten() {
            if let Some((_, key)) = SPECIAL.iter().find(|(name, _)| *name == role) {
                keys.set(key, Value::from_u32(id));
            }
        }
    }
    // Its loader wants none, and llama.cpp's converter never looks whether the tokenizer adds one; where it does, it counts.
    if arch == "phi2" && tokenizer.adds("bos") != Some(true) {
        keys.set(super::ADD[0].1, Value::from_bool(false));
    }
    if arch == "llada" && tokenizer.adds("bos") != Some(false) {
        keys.set(super::ADD[0].1, Value::from_bool(true));
    }
    // Granite's small models.
    if arch == "llama" && tokenizer.vocab_size == 49152 && tokenizer.adds("bos") != Some(true) {
        keys.set(super::ADD[0].1, Value::from_bool(false));
    }
}
