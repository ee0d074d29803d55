//! Tokenizers from before `tokenizer.json`: GPT-2's `vocab.json` and `merges.txt`, BERT's `vocab.txt`.

use super::{Files, fast, json};
use apr_sdk::tokenizer::{AddedToken, Kind, Parts, Spelling, TokenType};
use apr_sdk::{Error, Result, escape};
use serde_json::{Value as Json, json};

/// The parts, or `None` without such files.
///
/// # Errors
/// Malformed, naming the file.
pub fn read(files: &mut dyn Files) -> Result<Option<Parts>> {
    if let Some(vocabulary) = json(files, "vocab.json")? {
        return merged(files, &vocabulary).map(Some);
    }
    match files.fetch("vocab.txt")? {
        Some(bytes) => words(bytes).map(Some).map_err(|e| e.in_file("vocab.txt")),
        None => Ok(None),
    }
}

fn merged(files: &mut dyn Files, vocabulary: &Json) -> Result<Parts> {
    let mut parts = Parts { kind: Kind::Bpe, spelling: Spelling::Bytes, ..Parts::default() };
    put(&mut parts, vocabulary).map_err(|e| e.in_file("vocab.json"))?;
    if let Some(added) = json(files, "added_tokens.json")? {
        let n_known = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        put(&mut parts, &added).map_err(|e| e.in_file("added_tokens.json"))?;
        for id in added.as_object().into_iter().flat_map(|map| map.values()) {
            add(&mut parts, id.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX));
        }
        parts.added.iter_mut().for_each(|added| added.outside_model = added.id >= n_known);
    }
    let name = "merges.txt";
    let missing = || Error::malformed("`vocab.json` requires the merges in `merges.txt`, which is missing");
    let bytes = files.fetch(name)?.ok_or_else(missing)?;
    let text =
        String::from_utf8(bytes).map_err(|_| Error::malformed("it is not valid UTF-8").in_file(name))?;
    let lines =
        text.lines().enumerate().filter(|(n, line)| !(line.trim().is_empty() || *n == 0 && is_version(line)));
    let pairs = lines.map(|(n, line)| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(a), Some(b), None) => Ok((a, b)),
            _ => Err(Error::malformed(format!("line {} is not a pair", n + 1))),
        }
    });
    parts.merges = fast::ids_of_merges(&parts, pairs).map_err(|e| e.in_file(name))?;
    parts.pre_tokenizer = Some(
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}),
    );
    // GPT-2's end of text is in its vocabulary, and no merge gives it.
    let end = parts.each().find(|(_, text)| *text == "<|endoftext|>").map(|(id, _)| id);
    end.into_iter().for_each(|id| add(&mut parts, id));
    Ok(parts)
}

/// Whether the first line is that of the version, which the library passes over whatever is in it.
fn is_version(line: &str) -> bool {
    line.trim_start_matches('\u{feff}').starts_with('#')
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

fn add(parts: &mut Parts, id: u32) {
    let at = id as usize;
    if parts.token(id).is_some() && parts.added.iter().all(|added| added.id != id) {
        parts.types[at] = TokenType::Control;
        parts.added.push(AddedToken { id, special: true, ..AddedToken::default() });
    }
}

/// What `tokenizer_config.json` says of how BERT's words are found.
pub fn configure(parts: &mut Parts, said: &Json) {
    let flag = |key: &str| said.get(key).and_then(Json::as_bool);
    parts.lowercase = flag("do_lower_case").or(parts.lowercase);
    parts.strip_accents = flag("strip_accents").or(parts.strip_accents);
}

/// As [`configure`], of what the definitions alone say.
pub fn redefine(parts: &mut Parts, said: &Json) {
    if said.get("tokenize_chinese_chars").and_then(Json::as_bool) == Some(false)
        && let Some(normalizer) = &mut parts.normalizer
    {
        normalizer["handle_chinese_chars"] = false.into();
    }
}

fn words(bytes: Vec<u8>) -> Result<Parts> {
    let text = String::from_utf8(bytes).map_err(|_| Error::malformed("it is not valid UTF-8"))?;
    let mut parts = Parts { kind: Kind::WordPiece, ..Parts::default() };
    for line in text.lines() {
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].contains(&line);
        let id = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
        if special {
            parts.added.push(AddedToken { id, special, ..AddedToken::default() });
        }
        if line == "[UNK]" {
            parts.unk = Some(id);
        }
        parts.tokens.push(Some(line.to_owned()));
        parts.types.push(if special { TokenType::Control } else { TokenType::Normal });
    }
    parts.lowercase = Some(true);
    Ok(parts)
}
