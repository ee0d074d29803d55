//! The library's tokenizer, made from ours. Vocabulary and merges are handed over as they are: as JSON they would be several times as
//! large, and be written and parsed.

use ahash::AHashMap;
use apr_sdk::tokenizer::{
    AddedToken, CONTINUING, Kind, Tokenizer, UNKNOWN_WORD, WORD_CHARS, library_merges, library_scores,
    library_vocabulary,
};
use serde_json::Value as Json;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;

/// A tokenizer of the library: `frame` has everything but the vocabulary ([`apr_sdk::tokenizer::library_frame`]).
///
/// # Errors
/// The library's, for a definition that it does not know.
pub fn load(tokenizer: &Tokenizer, frame: &Json) -> tokenizers::Result<tokenizers::Tokenizer> {
    let mut library = tokenizers::Tokenizer::from_bytes(frame.to_string().as_bytes())?;
    library.with_model(model(tokenizer)?);
    library.add_tokens(tokenizer.added.iter().map(|added| added_token(tokenizer, added)))?;
    Ok(library)
}

fn model(tokenizer: &Tokenizer) -> tokenizers::Result<ModelWrapper> {
    let unk = tokenizer.unk.and_then(|id| tokenizer.token(id));
    let vocabulary = || -> AHashMap<String, u32> {
        library_vocabulary(tokenizer).map(|(id, text)| (text.to_owned(), id)).collect()
    };
    match tokenizer.kind {
        Kind::Bpe => {
            let text = |id: u32| tokenizer.token(id).unwrap_or_default().to_owned();
            let merges = library_merges(tokenizer).iter().map(|(a, b)| (text(*a), text(*b))).collect();
            let mut model = BPE::builder()
                .vocab_and_merges(vocabulary(), merges)
                .fuse_unk(tokenizer.fuse_unk)
                .byte_fallback(tokenizer.byte_fallback)
                .ignore_merges(tokenizer.ignore_merges);
            if let Some(unk) = unk {
                model = model.unk_token(unk.to_owned());
            }
            if let Some(prefix) = &tokenizer.continuing_prefix {
                model = model.continuing_subword_prefix(prefix.clone());
            }
            if let Some(suffix) = &tokenizer.word_suffix {
                model = model.end_of_word_suffix(suffix.clone());
            }
            Ok(model.build()?.into())
        }
        Kind::WordPiece => {
            let most = tokenizer.max_word_chars.unwrap_or(WORD_CHARS);
            let model = WordPiece::builder()
                .vocab(vocabulary())
                .unk_token(unk.unwrap_or(UNKNOWN_WORD).to_owned())
                .continuing_subword_prefix(
                    tokenizer.continuing_prefix.clone().unwrap_or_else(|| CONTINUING.to_owned()),
                )
                .max_input_chars_per_word(usize::try_from(most).unwrap_or(usize::MAX));
            Ok(model.build()?.into())
        }
        Kind::Unigram => {
            let scores = library_scores(tokenizer).map(|(text, score)| (text.into_owned(), score)).collect();
            let unk = tokenizer.unk.and_then(|id| usize::try_from(id).ok());
            Ok(Unigram::from(scores, unk, tokenizer.byte_fallback)?.into())
        }
    }
}

fn added_token(tokenizer: &Tokenizer, added: &AddedToken) -> tokenizers::AddedToken {
    tokenizers::AddedToken {
        content: tokenizer.token(added.id).unwrap_or_default().to_owned(),
        single_word: added.single_word,
        lstrip: added.lstrip,
        rstrip: added.rstrip,
        normalized: added.normalized,
        special: added.special,
    }
}
