//! The library's tokenizer, made from ours. Merges are made with our own tables; the library's other models get the vocabulary as it is:
//! as JSON it would be several times as large, and be written and parsed.

use super::merging::Merging;
use ahash::AHashMap;
use apr_sdk::tokenizer::{
    AddedToken, CONTINUING, Kind, Tokenizer, UNKNOWN_WORD, WORD_CHARS, library_merges, library_scores,
    library_vocabulary,
};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::{
    DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Token, TokenizerImpl,
};

/// The library's tokenizer with one of our models.
pub type Library =
    TokenizerImpl<Model, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// What finds tokens in a word.
pub enum Model {
    /// Our own, for merges.
    Merging(Merging),
    /// One of the library's.
    Library(ModelWrapper),
}

impl tokenizers::Model for Model {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> tokenizers::Result<Vec<Token>> {
        match self {
            Model::Merging(model) => Ok(model.tokenize(sequence)),
            Model::Library(model) => model.tokenize(sequence),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Model::Merging(model) => model.id_of(token),
            Model::Library(model) => model.token_to_id(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match self {
            Model::Merging(model) => model.token(id).map(str::to_owned),
            Model::Library(model) => model.id_to_token(id),
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        match self {
            Model::Merging(model) => model.tokens().map(|(id, text)| (text.to_owned(), id)).collect(),
            Model::Library(model) => model.get_vocab(),
        }
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            Model::Merging(model) => model.n_tokens(),
            Model::Library(model) => model.get_vocab_size(),
        }
    }

    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Err("models are not saved here".into())
    }

    fn get_trainer(&self) -> TrainerWrapper {
        TrainerWrapper::BpeTrainer(BpeTrainer::default())
    }
}

/// A tokenizer of the library: `frame` has everything but the vocabulary ([`apr_sdk::tokenizer::library_frame`]).
///
/// # Errors
/// The library's, for a definition that it does not know.
pub fn load(tokenizer: &Arc<Tokenizer>, frame: &Json) -> tokenizers::Result<Library> {
    let frame = tokenizers::Tokenizer::from_bytes(frame.to_string().as_bytes())?;
    let mut library = Library::new(match Merging::new(tokenizer) {
        Some(merging) => Model::Merging(merging),
        None => Model::Library(model(tokenizer)?),
    });
    library.with_normalizer(frame.get_normalizer().cloned())?;
    library.with_pre_tokenizer(frame.get_pre_tokenizer().cloned());
    library.with_post_processor(frame.get_post_processor().cloned());
    library.with_decoder(frame.get_decoder().cloned());
    library.add_tokens(tokenizer.added.iter().map(|added| added_token(tokenizer, added)))?;
    Ok(library)
}

/// The library's own model of a tokenizer.
///
/// # Errors
/// The library's.
pub fn model(tokenizer: &Tokenizer) -> tokenizers::Result<ModelWrapper> {
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
