//! Tokenizers from before `tokenizer.json`: what their class makes of `vocab.json` and `merges.txt`, of `vocab.txt`, or of a model of
//! SentencePiece.

use super::recipe::{Reads, Recipe};
use super::{Files, classes, fast, json, sentencepiece, stated};
use apr_sdk::tokenizer::{Kind, Parts, TokenType};
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;

const TOKENS: &str = "vocab.json";
const MERGES: &str = "merges.txt";
const WORDS: &str = "vocab.txt";

/// The vocabulary of a folder, and what is made of it.
pub enum Vocabulary {
    /// The class makes its own steps of it.
    OfClass(Parts, Recipe),
    /// SentencePiece's model says how texts are read.
    OfModel(Parts),
}

/// The vocabulary that the files and the class of the tokenizer give; `None` without such files. `model` is that of SentencePiece.
///
/// # Errors
/// Malformed, naming the file; Unsupported, naming the class, for one that says more than is known of it.
pub fn read(
    files: &mut dyn Files,
    model: Option<&(&'static str, sentencepiece::Model)>,
    class: &str,
) -> Result<Option<Vocabulary>> {
    let tokens = json(files, TOKENS)?;
    let words = files.fetch(WORDS)?;
    if tokens.is_none() && words.is_none() && model.is_none() {
        return Ok(None);
    }
    let pieces = || match model {
        Some((name, model)) => sentencepiece::parts(model).map_err(|e| e.in_file(*name)),
        None => Err(lacks(class, "a model of SentencePiece")),
    };
    let (recipe, note) = match (classes::recipe(class), &tokens) {
        (Some(recipe), _) => (recipe, None),
        (None, _) if classes::runs_in_python(class) => return Err(runs_in_python(class)),
        (None, _) if model.is_some() => return pieces().map(|parts| Some(Vocabulary::OfModel(parts))),
        (None, tokens) if class.is_empty() => {
            let usual = if tokens.is_some() { "GPT2Tokenizer" } else { "BertTokenizer" };
            let note =
                format!("the class of the tokenizer is not stated: its files are read as those of `{usual}`");
            (classes::recipe(usual).ok_or_else(|| unknown(usual))?, Some(note))
        }
        _ => return Err(unknown(class)),
    };
    let mut parts = match recipe.reads() {
        Reads::Words => match words {
            Some(bytes) => words_of(bytes).map_err(|e| e.in_file(WORDS))?,
            None => return Err(lacks(class, WORDS)),
        },
        Reads::Merges => match tokens {
            Some(tokens) => merged(files, &tokens)?,
            None => return Err(lacks(class, TOKENS)),
        },
        Reads::Pieces => pieces()?,
        Reads::SentencePiece => return pieces().map(|parts| Some(Vocabulary::OfModel(parts))),
        Reads::Others => return Err(unknown(class)),
    };
    parts.notes.extend(note);
    Ok(Some(Vocabulary::OfClass(parts, recipe)))
}

fn shown(class: &str) -> String {
    format!("the tokenizer is of the class `{}`", escape(class, 60))
}

fn unknown(class: &str) -> Error {
    let class = shown(class);
    Error::unsupported(format!("{class}, which is not supported without a tokenizer.json")).hint(stated::SAVE)
}

fn runs_in_python(class: &str) -> Error {
    let class = shown(class);
    Error::unsupported(format!(
        "{class}, which is implemented in Python: no tokenizer.json can represent it, so its ids would differ"
    ))
    .hint("tokenize texts with transformers; `apr convert --arch none` leaves the tokenizer out")
}

fn lacks(class: &str, file: &str) -> Error {
    let class = shown(class);
    Error::unsupported(format!("{class}, which requires {file}, but both it and tokenizer.json are missing"))
        .hint(stated::SAVE)
}

fn merged(files: &mut dyn Files, vocabulary: &Json) -> Result<Parts> {
    let mut parts = Parts { kind: Kind::Bpe, ..Parts::default() };
    put(&mut parts, vocabulary).map_err(|e| e.in_file(TOKENS))?;
    let missing = || Error::malformed("`vocab.json` requires the merges in `merges.txt`, which is missing");
    let bytes = files.fetch(MERGES)?.ok_or_else(missing)?;
    let text =
        String::from_utf8(bytes).map_err(|_| Error::malformed("it is not valid UTF-8").in_file(MERGES))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !is_version(line));
    let pairs = lines.map(|(n, line)| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(a), Some(b), None) => Ok((a, b)),
            _ => Err(Error::malformed(format!("line {} is not a pair", n + 1))),
        }
    });
    parts.merges = fast::ids_of_merges(&parts, pairs).map_err(|e| e.in_file(MERGES))?;
    Ok(parts)
}

/// Whether a line is that of the version.
fn is_version(line: &str) -> bool {
    line.trim_start_matches('\u{feff}').starts_with("#version")
}

fn put(parts: &mut Parts, vocabulary: &Json) -> Result<()> {
    let map = vocabulary.as_object().ok_or_else(|| Error::malformed("it is not a JSON object"))?;
    for (text, id) in map {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
            Error::malformed(format!("the id of token `{}` is not an integer below 2^32", escape(text, 60)))
        })?;
        fast::place(parts, map.len(), id, text)?;
    }
    Ok(())
}

/// The words of a list, a line each. The last of several lines with the same word counts.
fn words_of(bytes: Vec<u8>) -> Result<Parts> {
    let text = String::from_utf8(bytes).map_err(|_| Error::malformed("it is not valid UTF-8"))?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let last: std::collections::HashMap<&str, usize> =
        lines.iter().enumerate().map(|(n, word)| (*word, n)).collect();
    let mut parts = Parts { kind: Kind::WordPiece, ..Parts::default() };
    for (n, word) in lines.iter().enumerate() {
        let counts = last.get(word) == Some(&n);
        parts.tokens.push(counts.then(|| (*word).to_owned()));
        parts.types.push(if counts { TokenType::Normal } else { TokenType::None });
    }
    Ok(parts)
}
