//! Converts between the SDK's tokenizer and the `tokenizer.*` keys, exactly as llama.cpp's converter writes
//! them.

mod pre;
mod quirks;
mod read;
mod scan;
mod unsaid;
mod write;

pub use read::read;
pub use unsaid::beside::carry as carry_keys_beside;
pub use unsaid::carry;
pub use write::keys;

use apr_sdk::tokenizer::{Kind, Spelling, Tokenizer, beyond_scores};
use apr_sdk::{Error, LayoutSink, Result, Value, escape};

/// Notes merges that scores cannot express: for SentencePiece, the format has scores only.
pub fn note_beyond_scores(tokenizer: &Tokenizer, sink: &mut dyn LayoutSink) {
    if let Some(id) = beyond_scores(tokenizer) {
        let text = escape(tokenizer.token(id).unwrap_or_default(), 60);
        sink.note(&format!(
            "the scores give no merge for token {id} `{text}`: llama.cpp may tokenize text \
             that contains it differently"
        ));
    }
}

/// Refuses ids that the architecture's configuration states otherwise than the tokenizer: a file has one key for both.
///
/// # Errors
/// Unsupported, naming the key and both ids.
pub fn refuse_other_ids(tokenizer: &Tokenizer, given: &[(String, Value)]) -> Result<()> {
    for (name, key) in SPECIAL {
        let Some((_, stated)) = given.iter().find(|(other, _)| other == key) else { continue };
        let own = tokenizer.special_id(name).filter(|own| stated.as_unsigned() != Some(u64::from(*own)));
        if let (Some(own), Some(stated)) = (own, stated.as_unsigned()) {
            let message = format!(
                "token `{name}` is {own} in the tokenizer's files but {stated} in the model's configuration \
                 or architecture, and GGUF has only one key for both, `{key}`"
            );
            let hint =
                format!("make them agree: edit `{name}_token_id` in config.json, or the tokenizer's files");
            return Err(Error::unsupported(message).hint(hint));
        }
    }
    Ok(())
}

/// The tokens that end an answer, as the tokenizer comes back from the keys that were made of it.
pub fn ends(tokenizer: &Tokenizer, made: &[(String, Value)]) -> Vec<u32> {
    let key = SPECIAL.iter().find(|(name, _)| *name == "eos").map(|(_, key)| *key);
    let written = made.iter().find(|(name, _)| Some(name.as_str()) == key);
    let written = written.and_then(|(_, value)| value.as_u32());
    let restored = unsaid::around::other_end(tokenizer).and_then(|_| tokenizer.special_id("eos"));
    restored.or(written).into_iter().chain(tokenizer.ends.iter().copied()).collect()
}

/// Merges generated keys with those from the host, which replace generated ones in their place.
pub fn merge(mut made: Vec<(String, Value)>, given: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let bert = made.iter().any(|(key, value)| key == MODEL && value.as_str() == Some("bert"));
    let after_space = made.iter().position(|(key, _)| key == REMOVE_EXTRA_WHITESPACES);
    for (key, value) in given {
        match made.iter().position(|(name, _)| *name == key) {
            Some(at) => made[at].1 = value,
            None if key == TOKEN_TYPE_COUNT && bert => made.insert(0, (key, value)),
            None if key == TOKEN_TYPE_COUNT => made.insert(after_space.unwrap_or(made.len()), (key, value)),
            None => made.push((key, value)),
        }
    }
    made
}

/// The position of the key that says whether a beginning token is added.
pub fn begins(keys: &[(String, Value)]) -> Option<usize> {
    keys.iter().position(|(key, _)| *key == ADD[0].1)
}

/// The prefix of the tokenizer's keys.
pub const PREFIX: &str = "tokenizer.";

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
const TOKEN_TYPE_COUNT: &str = "tokenizer.ggml.token_type_count";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
const CHAT_TEMPLATES: &str = "tokenizer.chat_templates";

/// The model of SentencePiece's pieces that are merged in the order of a list instead of by scores.
const MERGED_PIECES: &str = "gemma4";

/// The key for further ids that end a text: the format has one, and llama.cpp goes by the tokens' names.
const ENDS: &str = "tokenizer.apr.ends";

const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

/// The unknown token's id where no key says it.
fn usual_unknown(kind: Kind, spelling: Spelling) -> Option<u32> {
    match (kind, spelling) {
        (Kind::Bpe, Spelling::Bytes) => None,
        (Kind::Bpe, _) => Some(0),
        (Kind::Unigram, _) => Some(2),
        (Kind::WordPiece, _) => Some(100),
    }
}

/// Keys of special ids: (the SDK's name, the format's); `seperator` is indeed spelled that way.
const SPECIAL: [(&str, &str); 14] = [
    ("bos", "tokenizer.ggml.bos_token_id"),
    ("eos", "tokenizer.ggml.eos_token_id"),
    ("unk", UNKNOWN),
    ("sep", "tokenizer.ggml.seperator_token_id"),
    ("pad", "tokenizer.ggml.padding_token_id"),
    ("mask", "tokenizer.ggml.mask_token_id"),
    ("eot", "tokenizer.ggml.eot_token_id"),
    ("eom", "tokenizer.ggml.eom_token_id"),
    ("fim_pre", "tokenizer.ggml.fim_pre_token_id"),
    ("fim_suf", "tokenizer.ggml.fim_suf_token_id"),
    ("fim_mid", "tokenizer.ggml.fim_mid_token_id"),
    ("fim_pad", "tokenizer.ggml.fim_pad_token_id"),
    ("fim_rep", "tokenizer.ggml.fim_rep_token_id"),
    ("fim_sep", "tokenizer.ggml.fim_sep_token_id"),
];

/// Keys that say what is added to every text.
const ADD: [(&str, &str); 3] = [
    ("bos", "tokenizer.ggml.add_bos_token"),
    ("eos", "tokenizer.ggml.add_eos_token"),
    ("sep", "tokenizer.ggml.add_sep_token"),
];
