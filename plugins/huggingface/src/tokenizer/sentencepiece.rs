//! Reads and writes SentencePiece models (`sentencepiece_model.proto`). Field numbers are the proto's.

use super::recipe::Layout;
use super::stated::{DECODER, NAMES, text};
use super::{added, added_token, added_type, fast};
use apr_sdk::tokenizer::{
    AddedToken, Kind, MAX_TOKENS, Parts, Spelling, TokenType, Tokenizer, before_bytes, scores_of_merges,
};
use apr_sdk::{Error, Result};
use prost::Message;
use serde_json::Value as Json;

/// `ModelProto`, without what only training needs.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(message, repeated, tag = "1")]
    pieces: Vec<Piece>,
    #[prost(message, optional, tag = "2")]
    trainer: Option<Trainer>,
    #[prost(message, optional, tag = "3")]
    normalizer: Option<Normalizer>,
}

/// `SentencePiece`.
#[derive(Clone, PartialEq, Message)]
struct Piece {
    #[prost(string, optional, tag = "1")]
    piece: Option<String>,
    #[prost(float, optional, tag = "2")]
    score: Option<f32>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
}

/// `TrainerSpec`.
#[derive(Clone, PartialEq, Message)]
struct Trainer {
    #[prost(int32, optional, tag = "3")]
    model_type: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    vocab_size: Option<i32>,
    #[prost(bool, optional, tag = "24")]
    treat_whitespace_as_suffix: Option<bool>,
    #[prost(bool, optional, tag = "35")]
    byte_fallback: Option<bool>,
    #[prost(int32, optional, tag = "40")]
    unk_id: Option<i32>,
    #[prost(int32, optional, tag = "41")]
    bos_id: Option<i32>,
    #[prost(int32, optional, tag = "42")]
    eos_id: Option<i32>,
    #[prost(int32, optional, tag = "43")]
    pad_id: Option<i32>,
    #[prost(string, optional, tag = "45")]
    unk_piece: Option<String>,
    #[prost(string, optional, tag = "46")]
    bos_piece: Option<String>,
    #[prost(string, optional, tag = "47")]
    eos_piece: Option<String>,
    #[prost(string, optional, tag = "48")]
    pad_piece: Option<String>,
}

/// `NormalizerSpec`.
#[derive(Clone, PartialEq, Message)]
struct Normalizer {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3")]
    add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    escape_whitespaces: Option<bool>,
}

/// How many bytes there are.
const BYTES: usize = 256;

const UNIGRAM: i32 = 1;
const BPE: i32 = 2;

/// The model in `bytes`.
///
/// # Errors
/// Malformed for anything else, and for an empty piece; LimitExceeded above [`MAX_TOKENS`] pieces.
pub fn parse(bytes: &[u8]) -> Result<Model> {
    let model = Model::decode(bytes)
        .map_err(|e| Error::malformed(format!("it is not a SentencePiece model: {e}")))?;
    if model.pieces.is_empty() {
        return Err(Error::malformed("it is not a SentencePiece model: it has no pieces"));
    }
    if model.pieces.len() > MAX_TOKENS {
        let n = model.pieces.len();
        return Err(Error::limit(format!("{n} pieces, more than the limit of {MAX_TOKENS}")));
    }
    let is_empty = |piece: &Piece| piece.piece.as_ref().is_none_or(String::is_empty);
    if let Some(id) = model.pieces.iter().position(is_empty) {
        return Err(Error::malformed(format!(
            "piece {id} of the SentencePiece model is empty, which SentencePiece does not allow"
        ))
        .hint("get the file again: it may be corrupt"));
    }
    Ok(model)
}

impl Model {
    fn kind(&self) -> Result<Kind> {
        match self.trainer.as_ref().and_then(|trainer| trainer.model_type).unwrap_or(UNIGRAM) {
            UNIGRAM => Ok(Kind::Unigram),
            BPE => Ok(Kind::Bpe),
            other => {
                Err(Error::unsupported(format!("a SentencePiece model of the type {other} (word or char)")))
            }
        }
    }

    /// Fails if a space lies in its pieces as it does in those of no other program.
    fn check_spaces(&self) -> Result<()> {
        let suffix = self.trainer.as_ref().and_then(|trainer| trainer.treat_whitespace_as_suffix);
        let escapes = self.normalizer.as_ref().and_then(|normalizer| normalizer.escape_whitespaces);
        let what = match (suffix, escapes) {
            (Some(true), _) => "with spaces at the ends of words (`treat_whitespace_as_suffix`)",
            (_, Some(false)) => "with unescaped spaces (`escape_whitespaces` is false)",
            _ => return Ok(()),
        };
        Err(Error::unsupported(format!("a SentencePiece model {what}")))
    }

    /// The type of piece `n`.
    fn type_of(&self, n: usize) -> TokenType {
        let number = self.pieces.get(n).and_then(|piece| piece.kind).unwrap_or(1);
        let kind = u64::try_from(number).ok().and_then(TokenType::from_number);
        kind.filter(|kind| *kind != TokenType::None).unwrap_or(TokenType::Normal)
    }
}

/// The model that the parts of a `tokenizer.json` were made of, of which `vocabulary` ids are the model's own: scores from
/// the order of merges, and what SentencePiece has before its bytes is found whole. `None` for another kind of tokenizer.
pub fn of_fast(parts: &Parts, vocabulary: usize) -> Option<Model> {
    if parts.spelling != Spelling::SentencePiece {
        return None;
    }
    let first = parts.add_space_prefix.unwrap_or_else(|| fast::space_first(parts));
    let mut parts = parts.clone();
    if let Some(kind) = parts.unk.and_then(|id| parts.types.get_mut(id as usize)) {
        *kind = TokenType::Unknown;
    }
    if parts.kind == Kind::Bpe {
        before_bytes(&mut parts);
        parts.scores = scores_of_merges(&parts);
    }
    let scores = parts.scores.unwrap_or_default();
    let mut pieces = Vec::with_capacity(vocabulary);
    for ((text, kind), score) in parts.tokens.iter().zip(&parts.types).zip(scores).take(vocabulary) {
        #[allow(clippy::cast_possible_truncation, reason = "the model holds 32 bits")]
        let score = score as f32;
        pieces.push(Piece { piece: text.clone(), score: Some(score), kind: Some(i32::from(kind.number())) });
    }
    let normalizer = Normalizer {
        name: None,
        charsmap: parts.charsmap,
        add_dummy_prefix: Some(first),
        remove_extra_whitespaces: parts.remove_extra_whitespaces,
        escape_whitespaces: Some(true),
    };
    let model_type = Some(if parts.kind == Kind::Bpe { BPE } else { UNIGRAM });
    let trainer = Trainer { model_type, ..Trainer::default() };
    (!pieces.is_empty()).then_some(Model { pieces, trainer: Some(trainer), normalizer: Some(normalizer) })
}

/// The parts that the model alone says.
///
/// # Errors
/// Unsupported for models of words or characters, and for those whose spaces lie otherwise; Malformed.
pub fn parts(model: &Model) -> Result<Parts> {
    model.check_spaces()?;
    let mut parts = Parts { kind: model.kind()?, spelling: Spelling::SentencePiece, ..Parts::default() };
    for (n, piece) in model.pieces.iter().enumerate() {
        let id = u32::try_from(n).unwrap_or(u32::MAX);
        fast::place(&mut parts, model.pieces.len(), id, piece.piece.as_deref().unwrap_or_default())?;
        let kind = model.type_of(n);
        parts.types[n] = kind;
        let special = matches!(kind, TokenType::Control | TokenType::Unknown);
        if special || kind == TokenType::UserDefined {
            parts.added.push(AddedToken { id, special, ..AddedToken::default() });
        }
        if kind == TokenType::Unknown {
            parts.unk = Some(id);
        }
    }
    parts.scores = Some(vec![0.0; model.pieces.len()]);
    parts.byte_fallback = parts.types.contains(&TokenType::Byte);
    parts.fuse_unk = true;
    Ok(parts)
}

/// Puts what a class has around the model's pieces into `parts`, which have the pieces alone, and takes the model's scores and rules.
/// `adds` if what the model controls or a user defined in it is found in texts first; what `said` has a purpose for is special there.
///
/// # Errors
/// Unsupported for a model whose pieces are merged; Malformed if a text is there twice.
pub fn lay_out(parts: &mut Parts, model: &Model, layout: &Layout, said: &Json, adds: bool) -> Result<()> {
    if parts.kind != Kind::Unigram {
        return Err(Error::unsupported(
            "a SentencePiece model whose pieces are merged, of a class that chooses them by their scores",
        )
        .hint("load the tokenizer with transformers and save it, which writes tokenizer.json"));
    }
    let pieces = model.pieces.iter().enumerate().skip(layout.from);
    let mut tokens: Vec<(&str, f64, TokenType)> =
        layout.first.iter().map(|text| (text.as_str(), 0.0, TokenType::Control)).collect();
    let own = tokens.len()..tokens.len() + pieces.len();
    tokens.extend(pieces.map(|(n, piece)| {
        let kind = match model.type_of(n) {
            // The library falls back to no bytes here.
            TokenType::Byte => TokenType::Normal,
            kind => kind,
        };
        let text = piece.piece.as_deref().unwrap_or_default();
        let is_word = kind == TokenType::UserDefined && adds && has_purpose(said, text);
        let kind = if is_word { TokenType::Control } else { kind };
        (text, f64::from(piece.score.unwrap_or(0.0)), kind)
    }));
    tokens.extend(layout.last.iter().map(|text| (text.as_str(), 0.0, TokenType::Control)));
    let mut made = Parts { kind: Kind::Unigram, spelling: Spelling::SentencePiece, ..Parts::default() };
    for (id, (text, _, kind)) in (0u32..).zip(&tokens) {
        fast::place(&mut made, tokens.len(), id, text)?;
        made.types[id as usize] = *kind;
        // What the class has around them is said by its name.
        let special = *kind == TokenType::Control;
        if adds && own.contains(&(id as usize)) && (special || *kind == TokenType::UserDefined) {
            made.added.push(AddedToken { id, special, ..AddedToken::default() });
        }
    }
    made.scores = Some(tokens.iter().map(|(_, score, _)| *score).collect());
    made.charsmap =
        model.normalizer.clone().and_then(|normalizer| normalizer.charsmap).filter(|map| !map.is_empty());
    if layout.first.is_empty() && layout.from == 0 && !layout.last.is_empty() {
        made.n_pieces = u32::try_from(model.pieces.len()).ok();
    }
    made.notes = std::mem::take(&mut parts.notes);
    made.chat_variables = parts.chat_variables.take();
    *parts = made;
    Ok(())
}

/// Whether a configuration states a purpose of a token.
fn has_purpose(said: &Json, token: &str) -> bool {
    let stated = NAMES.iter().filter_map(|name| said.get(format!("{name}_token")));
    stated.filter_map(text).any(|text| text == token)
}

/// Whether the tokens of these parts have the numbers of the model's pieces: most of its ordinary pieces do.
pub fn has_ids_of(model: &Model, parts: &Parts) -> bool {
    let ids = |at: usize| u32::try_from(at).ok().and_then(|id| parts.token(id));
    let ordinary = model.pieces.iter().enumerate().filter(|(at, _)| model.type_of(*at) == TokenType::Normal);
    let (same, all) = ordinary.fold((0usize, 0usize), |(same, all), (at, piece)| {
        (same + usize::from(ids(at) == piece.piece.as_deref()), all + 1)
    });
    2 * same >= all
}

/// What else says how a model of SentencePiece reads texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A `tokenizer.json`, of which the parts are.
    Fast,
    /// A class, as Llama's, that reads such models as they are.
    Class,
    /// Nothing.
    Nothing,
}

/// Scores, types and flags of the model, over the parts of what is `beside` it.
///
/// # Errors
/// Malformed for a list of added tokens that is none; LimitExceeded for ids out of proportion.
pub fn overlay(
    parts: &mut Parts,
    model: &Model,
    added: Option<&Json>,
    said: Option<&Json>,
    beside: Beside,
) -> Result<()> {
    let alone = beside != Beside::Fast;
    let n = model.pieces.len();
    if parts.tokens.len() < n {
        return Err(Error::malformed(format!(
            "the SentencePiece model has {n} pieces, but `tokenizer.json` has {} tokens",
            parts.tokens.len()
        )));
    }
    let by_merges = parts.kind == Kind::Bpe;
    // What the model does not have is what was added, and has the score that llama.cpp gives that.
    let mut scores = vec![if by_merges { ADDED } else { 0.0 }; parts.tokens.len()];
    for (at, piece) in model.pieces.iter().enumerate() {
        scores[at] = score(parts, at, piece.score.unwrap_or(0.0));
        // An id without a token is a piece that is not used.
        if parts.tokens[at].is_none() {
            continue;
        }
        let kind = model.type_of(at);
        // Without falling back to them, what is called a byte is a text like others.
        if kind == TokenType::Byte && !parts.byte_fallback {
            continue;
        }
        // A piece that `tokenizer.json` cuts out first is no ordinary one.
        if kind != TokenType::Normal || parts.types[at] == TokenType::Normal {
            parts.types[at] = kind;
        }
    }
    let decoder = said.and_then(|said| said.get("added_tokens_decoder")).and_then(Json::as_object);
    if decoder.is_none() && by_merges && !alone {
        // transformers 5 leaves the decoder out: the same flags are in `tokenizer.json`, where they count as they do there, so
        // that a tokenizer is the same whichever version saved it.
        for at in 0..parts.added.len() {
            let AddedToken { id, special, .. } = parts.added[at];
            let kind = added_type(special, parts.token(id).unwrap_or_default());
            (parts.types[id as usize], scores[id as usize]) = (kind, ADDED);
        }
    }
    // Beside a `tokenizer.json`, the library has decided on what is new.
    let is_left_out =
        |parts: &Parts, id: u32| !alone && usize::try_from(id).is_ok_and(|id| id >= parts.tokens.len());
    for (text, id) in added.and_then(Json::as_object).into_iter().flatten() {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let id =
            id.ok_or_else(|| Error::malformed("an id is not an integer").in_file("added_tokens.json"))?;
        if is_left_out(parts, id) {
            continue;
        }
        put(parts, &mut scores, id, text, TokenType::UserDefined, by_merges)?;
    }
    let lists = by_merges || beside == Beside::Class;
    for (id, token) in decoder.into_iter().flatten().filter(|_| lists) {
        let (Ok(id), Some(text)) = (id.parse(), token.get("content").and_then(Json::as_str)) else {
            continue;
        };
        if is_left_out(parts, id) {
            continue;
        }
        let special = token.get("special").and_then(Json::as_bool).unwrap_or(false);
        let is_new = id as usize >= parts.tokens.len();
        put(parts, &mut scores, id, text, added_type(special, text), by_merges)?;
        if alone {
            state_flags(parts, id, token, is_new);
        }
    }
    parts.scores = Some(scores);
    let normalizer = model.normalizer.clone().unwrap_or_default();
    // A `tokenizer.json` that puts a space before a text does so, whatever the model says.
    let first =
        normalizer.add_dummy_prefix.unwrap_or(true) || by_merges && !alone && fast::space_first(parts);
    if !by_merges || !first {
        parts.add_space_prefix = Some(first);
    }
    if by_merges && alone {
        parts.remove_extra_whitespaces = normalizer.remove_extra_whitespaces.unwrap_or(true).then_some(true);
        parts.charsmap = normalizer.charsmap.filter(|bytes| !bytes.is_empty());
    } else if !by_merges {
        parts.remove_extra_whitespaces = Some(normalizer.remove_extra_whitespaces.unwrap_or(true));
        parts.charsmap = normalizer.charsmap.filter(|bytes| !bytes.is_empty());
        // Only where later tokens have no place in a file of their own, and are those of a class: what a user added is kept.
        parts.n_pieces = u32::try_from(n).ok();
        if alone || parts.tokens.len() <= n || added.is_some() || has_later(parts) {
            parts.n_pieces = None;
        }
    }
    if alone && said.is_none() {
        trained_ids(parts, model);
    }
    Ok(())
}

/// The score of a piece by the model, which has 32 bits for it: where `tokenizer.json` has the same number with more, all of those, which
/// decide between segmentations that are about as probable.
fn score(parts: &Parts, at: usize, own: f32) -> f64 {
    let stated = parts.scores.as_ref().and_then(|scores| scores.get(at)).copied();
    #[allow(clippy::cast_possible_truncation, reason = "the model holds 32 bits")]
    let finer = stated.filter(|stated| parts.kind == Kind::Unigram && *stated as f32 == own);
    finer.unwrap_or(f64::from(own))
}

/// Adds the special tokens that a configuration names and the model's pieces lack, behind those that it lists with an id.
///
/// # Errors
/// As [`added::add`].
pub fn add_special(parts: &mut Parts, said: &Json, rows: u32) -> Result<()> {
    let mut said = said.clone();
    if let Some(said) = said.as_object_mut() {
        said.remove(DECODER);
    }
    let n = parts.tokens.len();
    added::add(parts, &said, rows)?;
    let is_merged = parts.kind == Kind::Bpe;
    let new = parts.scores.as_mut().and_then(|scores| scores.get_mut(n..)).filter(|_| is_merged);
    new.into_iter().for_each(|new| new.fill(ADDED));
    if !is_merged && parts.tokens.len() > n {
        // Formats that hold the model alone have no place for later tokens: what a user added is kept.
        parts.n_pieces = u32::try_from(n).ok();
        parts.n_pieces = parts.n_pieces.filter(|_| !has_later(parts));
    }
    Ok(())
}

/// Returns whether there are tokens behind the model's pieces that no class adds of its own.
pub fn has_later(parts: &Parts) -> bool {
    let n = parts.n_pieces.unwrap_or(u32::MAX);
    parts.added.iter().any(|added| {
        let text = parts.token(added.id).unwrap_or_default();
        added.outside_model && added.id >= n && !fast::is_sentinel(text)
    })
}

/// Gives an added token the flags that `token` states of the text beside it; a new one is no piece. Nothing is normalized before it is
/// found, as in SentencePiece.
fn state_flags(parts: &mut Parts, id: u32, token: &Json, is_new: bool) {
    let AddedToken { lstrip, rstrip, single_word, .. } = added_token(id, token);
    if let Some(added) = parts.added.iter_mut().find(|added| added.id == id) {
        let outside_model = added.outside_model || is_new;
        *added = AddedToken { lstrip, rstrip, single_word, outside_model, ..*added };
    }
}

/// The score of added tokens.
const ADDED: f64 = -1000.0;

fn put(
    parts: &mut Parts,
    scores: &mut Vec<f64>,
    id: u32,
    text: &str,
    kind: TokenType,
    by_merges: bool,
) -> Result<()> {
    let at = id as usize;
    let is_new = at >= parts.tokens.len();
    // Another text at the id of a piece is an unused piece that got a use.
    if let Some(slot) = parts.tokens.get_mut(at) {
        *slot = Some(text.to_owned());
    } else {
        fast::place(parts, parts.tokens.len(), id, text)?;
        scores.resize(parts.tokens.len(), 0.0);
    }
    parts.types[at] = kind;
    scores[at] = if by_merges { ADDED } else { scores[at] };
    if parts.added.iter().all(|added| added.id != id) {
        let special = kind == TokenType::Control;
        // Of pieces that are chosen by their cost, the library makes a list that has the added ones as well.
        let outside_model = is_new && by_merges;
        parts.added.push(AddedToken { id, special, outside_model, ..AddedToken::default() });
    }
    Ok(())
}

/// The ids that training gave, where nothing else says any.
fn trained_ids(parts: &mut Parts, model: &Model) {
    let trainer = model.trainer.clone().unwrap_or_default();
    let ids = [
        ("bos", trainer.bos_id.unwrap_or(1)),
        ("eos", trainer.eos_id.unwrap_or(2)),
        ("unk", trainer.unk_id.unwrap_or(0)),
        ("pad", trainer.pad_id.unwrap_or(-1)),
    ];
    for (name, id) in ids {
        if let Some(id) = u32::try_from(id).ok().filter(|id| parts.token(*id).is_some()) {
            parts.special.push((name.to_owned(), id));
        }
    }
}

/// The model of a tokenizer that SentencePiece can be; `None` for any other.
pub fn write(tokenizer: &Tokenizer) -> Option<Vec<u8>> {
    let scores = tokenizer.scores.as_ref().filter(|_| tokenizer.spelling == Spelling::SentencePiece)?;
    let model_type = if tokenizer.kind == Kind::Bpe { BPE } else { UNIGRAM };
    let unk = tokenizer.unk?;
    let all_bytes = tokenizer.types.iter().filter(|kind| **kind == TokenType::Byte).count() == BYTES;
    let mut pieces = Vec::with_capacity(scores.len());
    for ((id, text), score) in (0u32..).zip(&tokenizer.tokens).zip(scores) {
        if !tokenizer.written(id) {
            break;
        }
        let kind = match tokenizer.type_of(id) {
            _ if id == unk => TokenType::Unknown,
            TokenType::None => TokenType::Unused,
            TokenType::Unknown => TokenType::Normal,
            // SentencePiece loads all bytes or none.
            TokenType::Byte if !all_bytes => TokenType::Normal,
            // Of merged pieces, only what begins, ends and pads is never found in a text; other special tokens are, as those that end a
            // turn, and `tokenizer_config.json` says that they are special.
            TokenType::Control
                if tokenizer.kind == Kind::Bpe
                    && !tokenizer.special.iter().any(|(name, special)| {
                        *special == id && !["eot", "eom"].contains(&name.as_str())
                    }) =>
            {
                TokenType::UserDefined
            }
            kind => kind,
        };
        // The library has 0 where a score says nothing.
        let counts = matches!(kind, TokenType::Normal | TokenType::Byte | TokenType::Unused);
        #[allow(clippy::cast_possible_truncation, reason = "the model holds 32 bits")]
        let score = if counts { *score as f32 } else { 0.0 };
        let text = text.clone().unwrap_or_else(|| format!("[PAD{id}]"));
        pieces.push(Piece { piece: Some(text), score: Some(score), kind: Some(i32::from(kind.number())) });
    }
    let id = |name: &str| {
        tokenizer
            .special_id(name)
            .and_then(|id| i32::try_from(id).ok())
            .filter(|id| *id < 1 << 24)
            .unwrap_or(-1)
    };
    let text = |name: &str| tokenizer.special_id(name).and_then(|id| tokenizer.token(id)).map(str::to_owned);
    let trainer = Trainer {
        model_type: Some(model_type),
        vocab_size: i32::try_from(pieces.len()).ok(),
        treat_whitespace_as_suffix: None,
        byte_fallback: Some(all_bytes),
        unk_id: i32::try_from(unk).ok(),
        bos_id: Some(id("bos")),
        eos_id: Some(id("eos")),
        pad_id: Some(id("pad")),
        unk_piece: tokenizer.token(unk).map(str::to_owned),
        bos_piece: text("bos"),
        eos_piece: text("eos"),
        pad_piece: text("pad"),
    };
    let unigram = tokenizer.kind == Kind::Unigram;
    let normalizer = Normalizer {
        name: Some(if tokenizer.charsmap.is_some() { "user_defined" } else { "identity" }.to_owned()),
        charsmap: tokenizer.charsmap.clone(),
        add_dummy_prefix: Some(tokenizer.add_space_prefix.unwrap_or(true)),
        remove_extra_whitespaces: Some(tokenizer.remove_extra_whitespaces.unwrap_or(unigram)),
        escape_whitespaces: Some(true),
    };
    let model = Model { pieces, trainer: Some(trainer), normalizer: Some(normalizer) };
    Some(model.encode_to_vec())
}
