//! Writes the SDK's form as the files that the `tokenizers` library, transformers and SentencePiece read.

use super::{added, class, sentencepiece, stated};
use apr_sdk::tokenizer::{Kind, Spelling, TokenType, Tokenizer, added_token, library_form};
use serde_json::{Map, Value as Json, json};

/// The files of `tokenizer`: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and, for SentencePiece,
/// `tokenizer.model`.
pub fn files(tokenizer: &Tokenizer) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![
        ("tokenizer.json", lines(&library_form(tokenizer))),
        ("tokenizer_config.json", lines(&config(tokenizer))),
        ("special_tokens_map.json", lines(&Json::Object(special(tokenizer)))),
    ];
    files.extend(sentencepiece::write(tokenizer).map(|bytes| ("tokenizer.model", bytes)));
    files
}

fn lines(json: &Json) -> Vec<u8> {
    let mut text = format!("{json:#}").into_bytes();
    text.push(b'\n');
    text
}

/// The tokens with a purpose, by the names that the library has for them.
fn special(tokenizer: &Tokenizer) -> Map<String, Json> {
    let mut map = Map::new();
    let around = stated::puts(tokenizer.post_processor.as_ref());
    for (name, id) in &tokenizer.special {
        let Some(text) = tokenizer.token(*id) else { continue };
        // The library makes a special token of whatever is named here. A token of text that also pads or masks, say, stays in
        // texts; its id stands in `config.json`.
        if stays_text(tokenizer, *id) {
            continue;
        }
        // As are those that chat templates do not have.
        let is_unnamed = tokenizer.chat_variables.as_ref().is_some_and(|variables| {
            variables.iter().all(|(variable, _)| variable.strip_suffix("_token") != Some(name))
        });
        if is_unnamed && ["bos", "eos", "pad"].contains(&&**name) {
            continue;
        }
        map.insert(format!("{name}_token"), text.into());
        // WordPiece begins and ends texts with the tokens that classify and separate; other formats have one name for both.
        let (other, put) = match &**name {
            "bos" => ("cls", &around[0]),
            "eos" => ("sep", &around[1]),
            _ => continue,
        };
        let is_put = put.as_deref() == Some(text);
        if tokenizer.kind == Kind::WordPiece && is_put && tokenizer.special_id(other).is_none() {
            map.insert(format!("{other}_token"), text.into());
        }
        // Without a token that classifies, what is put first would be read as the one, and so as what begins a text.
        let is_other = put.is_some() && tokenizer.adds("bos") == Some(false);
        if *name == "bos" && is_other && tokenizer.special_id(other).is_none() {
            map.insert(format!("{other}_token"), text.into());
        }
    }
    map
}

/// Returns whether a token with a purpose is found in texts as others are, or stands for a byte.
pub fn stays_text(tokenizer: &Tokenizer, id: u32) -> bool {
    tokenizer.is_text(id) || tokenizer.type_of(id) == TokenType::Byte
}

fn config(tokenizer: &Tokenizer) -> Json {
    let mut map = Map::new();
    for (name, yes) in &tokenizer.add {
        map.insert(format!("add_{name}_token"), (*yes).into());
    }
    // Of bytes, what the step does: version 4 of the library sets the step by this flag.
    let step = tokenizer.pre_tokenizer.as_ref().filter(|_| tokenizer.spelling == Spelling::Bytes);
    let puts = step.map(class::puts_space_first);
    let space = tokenizer.add_space_prefix.or(puts.filter(|puts| *puts)).map(|stated| puts.unwrap_or(stated));
    if let (Kind::Bpe, Some(yes)) = (tokenizer.kind, space) {
        map.insert("add_prefix_space".to_owned(), yes.into());
    }
    let decoder: Map<String, Json> = tokenizer
        .added
        .iter()
        .map(|added| (added.id.to_string(), added_token(tokenizer, added, false)))
        .collect();
    map.insert("added_tokens_decoder".to_owned(), Json::Object(decoder));
    map.extend(special(tokenizer));
    let named =
        tokenizer.chat_variables.iter().flatten().filter(|(name, _)| {
            !name.strip_suffix("_token").is_some_and(|name| stated::NAMES.contains(&name))
        });
    let named: Map<String, Json> = named.map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    if !named.is_empty() {
        map.insert(added::EXTRA.to_owned(), Json::Object(named));
    }
    match &tokenizer.chat_templates[..] {
        [] => {}
        [(name, template)] if name == "default" => {
            map.insert("chat_template".to_owned(), template.as_str().into());
        }
        all => {
            let all = all.iter().map(|(name, template)| json!({"name": name, "template": template}));
            map.insert("chat_template".to_owned(), all.collect());
        }
    }
    let cleans = tokenizer.clean_up_spaces.unwrap_or(false);
    map.insert("clean_up_tokenization_spaces".to_owned(), cleans.into());
    if tokenizer.split_special_tokens {
        map.insert("split_special_tokens".to_owned(), true.into());
    }
    if tokenizer.kind != Kind::WordPiece {
        // Else the library gives models a third list, which only BERT's relatives take.
        map.insert("model_input_names".to_owned(), json!(["input_ids", "attention_mask"]));
    }
    map.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    Json::Object(map)
}
