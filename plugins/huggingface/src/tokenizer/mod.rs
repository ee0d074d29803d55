//! Converts between the folder's tokenizer files and the SDK's form. If both `tokenizer.json` and a
//! SentencePiece model are present, the former tells what is done to a text, the latter gives scores and
//! types, as in llama.cpp's converter.

mod added;
mod class;
mod classes;
mod fast;
mod frame;
mod recipe;
mod sentencepiece;
mod slow;
mod special;
mod stated;
mod write;

pub use write::{files, stays_text};

use crate::layout::GENERATION;
use apr_sdk::tokenizer::{
    AddedToken, Kind, Parts, SpaceFirst, Spelling, TokenType, Tokenizer, fill_definitions_with,
};
use apr_sdk::{Error, Result, strict_json};
use sentencepiece::Beside;
use serde_json::Value as Json;

/// Names of SentencePiece's model, the first that is there counts.
const MODELS: [&str; 4] = ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"];

/// The files of a folder.
pub trait Files {
    /// The bytes of a file, or `None` if it is not there.
    ///
    /// # Errors
    /// Any error from reading it.
    fn fetch(&mut self, name: &str) -> Result<Option<Vec<u8>>>;

    /// The names in a folder of it; none if it is not there.
    ///
    /// # Errors
    /// Any error from listing it.
    fn names(&mut self, folder: &str) -> Result<Vec<String>>;
}

impl<F: FnMut(&str) -> Result<Option<Vec<u8>>>> Files for F {
    fn fetch(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        self(name)
    }

    fn names(&mut self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The tokenizer of a folder; `None` if it has none.
///
/// # Errors
/// Malformed or Unsupported, naming the file.
pub fn read(files: &mut dyn Files) -> Result<Option<Tokenizer>> {
    let fast = json(files, "tokenizer.json")?;
    let config = json(files, "config.json")?;
    let own = json(files, "tokenizer_config.json")?;
    // The library would not load the tokenizer without understanding it.
    let map = json(files, "special_tokens_map.json")?;
    let mut model = model(files, fast.is_some())?;
    let class = match fast {
        Some(_) => stated::class(own.as_ref(), config.as_ref()),
        None => stated::class_of_files(own.as_ref(), config.as_ref()),
    };
    let (mut parts, recipe) = match &fast {
        Some(json) => (fast::read(json).map_err(|e| e.in_file("tokenizer.json"))?, None),
        None => match slow::read(files, model.as_ref(), &class)? {
            Some(slow::Vocabulary::OfClass(parts, recipe)) => (parts, Some(recipe)),
            Some(slow::Vocabulary::OfModel(parts)) => (parts, None),
            None => return Ok(None),
        },
    };
    let is_of_model = fast.is_none() && recipe.is_none();
    let more = json(files, "added_tokens.json")?.filter(|_| !is_of_model);
    let said = stated::whole(
        own.as_ref(),
        [map.as_ref(), more.as_ref(), config.as_ref()],
        &class,
        recipe,
        &mut parts,
    );
    let size = size(config.as_ref())?;
    if let (Some(recipe), Some(said)) = (recipe, &said) {
        if let Some((name, model)) = model.take() {
            let others = own.as_ref().and_then(Json::as_object).is_some_and(stated::lists_tokens);
            let layout = recipe.layout(said)?;
            sentencepiece::lay_out(&mut parts, &model, &layout, said, !others)
                .map_err(|e| e.in_file(name))?;
        }
        recipe.prepare(&mut parts, said)?;
        parts.notes.extend(recipe.disputed());
    }
    let n = u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX);
    // A class adds its tokens whether there are rows for them or not, which nothing says here.
    let rows = if fast.is_none() && size == 0 { u32::MAX } else { size.max(n) };
    if let Some(fast) = &fast {
        // XLM-RoBERTa and its kin count the model's pieces from another number: `tokenizer.json` alone knows the ids.
        model = model.filter(|(_, model)| sentencepiece::has_ids_of(model, &parts));
        unknown(&mut parts, said.as_ref());
        if let Some(said) = &said {
            frame::fill_in(&mut parts, said, config.as_ref(), &class);
            stated::note(&mut parts, said, config.as_ref(), &class);
            class::apply(&mut parts, said, &class);
        }
        // As transformers 5 saves a folder: without the model, whose scores are those of the merges.
        let made = || sentencepiece::of_fast(&parts, fast::own_tokens(fast, &parts));
        model = model.or_else(|| Some(("tokenizer.json", made()?)));
    }
    if let Some(said) = said.as_ref().filter(|_| !is_of_model) {
        added::add(&mut parts, said, rows)?;
    }
    // Formats that hold SentencePiece's model alone have no place for later tokens: what a user added is kept.
    if recipe.is_some() && sentencepiece::has_later(&parts) {
        parts.n_pieces = None;
    }
    if let Some((_, model)) = &model
        && parts.spelling == Spelling::SentencePiece
    {
        let added = json(files, "added_tokens.json")?;
        let beside = match fast {
            Some(_) => Beside::Fast,
            None if stated::reads_pieces(&class) => Beside::Class,
            None => Beside::Nothing,
        };
        sentencepiece::overlay(&mut parts, model, added.as_ref(), own.as_ref(), beside)?;
    }
    if let Some(said) = said.as_ref().filter(|_| is_of_model) {
        sentencepiece::add_special(&mut parts, said, rows)?;
    }
    let flag = |key: &str| said.as_ref().and_then(|said| said.get(key)).and_then(Json::as_bool);
    if let Some(space) = flag("add_prefix_space")
        && parts.kind == Kind::Bpe
        && fast.is_none()
    {
        parts.add_space_prefix = Some(space);
    }
    if is_of_model {
        // Later versions of transformers no longer put a space behind special tokens, and say so.
        let anew = flag("legacy") == Some(false);
        fill_definitions_with(&mut parts, if anew { SpaceFirst::Start } else { SpaceFirst::Always });
    }
    if let (Some(recipe), Some(said)) = (recipe, &said) {
        parts.post_processor = recipe.around(&parts, said)?;
    }
    parts.split_special_tokens = flag("split_special_tokens").unwrap_or(false);
    parts.clean_up_spaces = flag("clean_up_tokenization_spaces");
    parts.vocab_size = size.max(u32::try_from(parts.tokens.len()).unwrap_or(u32::MAX));
    note_rows(&mut parts, config.as_ref());
    let is_framed = recipe.zip(said.as_ref()).is_some_and(|(recipe, said)| recipe.is_framed(said));
    special::read(&mut parts, fast.is_some(), is_framed, said.as_ref(), config.as_ref());
    if is_of_model {
        stated::around(&mut parts, &class, flag("legacy") == Some(false));
    }
    // Mostly these are the tokens with a purpose, which say it already.
    let stated = parts.chat_variables.take().unwrap_or_default();
    let usual = parts.variables();
    if stated.len() != usual.len() || stated.iter().any(|variable| !usual.contains(variable)) {
        parts.chat_variables = Some(stated);
    }
    // It may list more ends than the others do: without it, texts would run on.
    let generation = json(files, GENERATION)?;
    special::ends(&mut parts, [config.as_ref(), generation.as_ref()]);
    parts.chat_templates = templates(files, own.as_ref())?;
    Tokenizer::new(parts).map(Some)
}

/// Takes the unknown token of pieces from the configuration, where `tokenizer.json` does not say it.
fn unknown(parts: &mut Parts, said: Option<&Json>) {
    if parts.spelling != Spelling::SentencePiece || parts.unk.is_some() {
        return;
    }
    let entry = said.and_then(|said| said.get("unk_token"));
    let text = entry.and_then(|entry| entry.as_str().or_else(|| entry.get("content")?.as_str()));
    parts.unk = text.and_then(|text| parts.each().find(|(_, t)| *t == text)).map(|(id, _)| id);
}

/// A JSON file, if it is there.
fn json(files: &mut dyn Files, name: &str) -> Result<Option<Json>> {
    let Some(bytes) = files.fetch(name)? else { return Ok(None) };
    let parsed = strict_json::text(&bytes).and_then(crate::json::parse);
    parsed.map(Some).map_err(|error| error.in_file(name))
}

/// SentencePiece's model. Other programs name files so too: one that is not is passed over if there is a `tokenizer.json`.
fn model(files: &mut dyn Files, optional: bool) -> Result<Option<(&'static str, sentencepiece::Model)>> {
    for name in MODELS {
        let Some(bytes) = files.fetch(name)? else { continue };
        return match sentencepiece::parse(&bytes) {
            Ok(model) => Ok(Some((name, model))),
            Err(_) if optional => Ok(None),
            Err(error) => Err(error.in_file(name)),
        };
    }
    Ok(None)
}

/// Where the configuration of a model of several sides holds that of its text.
pub(super) const INSIDE: [&str; 4] =
    ["/text_config", "/llm_config", "/language_config", "/thinker_config/text_config"];

/// Notes tokens for which the model has no rows, by what its configuration states.
fn note_rows(parts: &mut Parts, config: Option<&Json>) {
    let stated = |config: &Json| config.get("vocab_size").and_then(Json::as_u64);
    let inside = |config: &Json| INSIDE.iter().find_map(|path| stated(config.pointer(path)?));
    let size = config.and_then(|config| stated(config).or_else(|| inside(config)));
    let n = u64::try_from(parts.tokens.len()).unwrap_or(u64::MAX);
    if let Some(size) = size.filter(|size| *size < n) {
        parts.notes.push(format!(
            "the tokenizer has {n} tokens, but `vocab_size` in config.json is {size}: the model may have no \
             rows for the last ones"
        ));
    }
}

/// How many ids the configuration states that the model has; 0 if it states none.
fn size(config: Option<&Json>) -> Result<u32> {
    let stated = |config: &Json| config.get("vocab_size").and_then(Json::as_u64);
    let inside = |config: &Json| INSIDE.iter().find_map(|path| stated(config.pointer(path)?));
    let size = config.and_then(|config| stated(config).or_else(|| inside(config))).unwrap_or(0);
    u32::try_from(size).map_err(|_| {
        Error::limit(format!("a vocabulary of {size} ids, more than the limit of 2^24"))
            .in_file("config.json")
    })
}

/// The folder of templates beside the main one.
const TEMPLATES: &str = "additional_chat_templates";

/// The chat templates, by name. The files come before the configuration, whichever of them are there.
fn templates(files: &mut dyn Files, said: Option<&Json>) -> Result<Vec<(String, String)>> {
    let one = |text: &str| vec![("default".to_owned(), text.to_owned())];
    let mut found = Vec::new();
    if let Some(text) = template(files, "chat_template.jinja")? {
        found.extend(one(&text));
    }
    let mut names = files.names(TEMPLATES)?;
    names.sort();
    for (file, name) in names.iter().filter_map(|file| Some((file, file.strip_suffix(".jinja")?))) {
        if let Some(text) = template(files, &format!("{TEMPLATES}/{file}"))?
            && found.iter().all(|(known, _)| known != name)
        {
            found.push((name.to_owned(), text));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    match said.and_then(|said| said.get("chat_template")) {
        Some(Json::String(text)) => return Ok(one(text)),
        Some(Json::Array(list)) => {
            let text = |entry: &Json, key: &str| entry.get(key).and_then(Json::as_str).map(str::to_owned);
            let named = |entry| Some((text(entry, "name")?, text(entry, "template")?));
            return Ok(list.iter().filter_map(named).collect());
        }
        Some(Json::Object(map)) => {
            return Ok(map
                .iter()
                .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
                .collect());
        }
        _ => {}
    }
    let json = json(files, "chat_template.json")?;
    match json.as_ref().and_then(|json| json.get("chat_template")) {
        Some(Json::String(text)) => Ok(one(text)),
        Some(Json::Object(map)) => Ok(map
            .iter()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// A template of a file of its own. Python reads its lines as ended by a line feed alone.
fn template(files: &mut dyn Files, name: &str) -> Result<Option<String>> {
    let Some(bytes) = files.fetch(name)? else { return Ok(None) };
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Error::malformed("it is not valid UTF-8").in_file(name))?;
    Ok(Some(text.replace("\r\n", "\n").replace('\r', "\n")))
}

/// Whether an added token that is not called special looks so (`does_token_look_special` of llama.cpp's converter).
fn looks_special(text: &str) -> bool {
    let between = |head: &str, tail: &str| text.starts_with(head) && text.ends_with(tail);
    ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].contains(&text)
        || between("<|", "|>")
        || between("<｜", "｜>")
        || between("<unused", ">")
}

/// An added token with the flags that an entry of either file states; what it does not state is false.
fn added_token(id: u32, entry: &Json) -> AddedToken {
    let flag = |key: &str| entry.get(key).and_then(Json::as_bool).unwrap_or(false);
    AddedToken {
        id,
        special: flag("special"),
        lstrip: flag("lstrip"),
        rstrip: flag("rstrip"),
        normalized: flag("normalized"),
        single_word: flag("single_word"),
        ..AddedToken::default()
    }
}

/// The token type for an added token.
fn added_type(special: bool, text: &str) -> TokenType {
    if special || looks_special(text) { TokenType::Control } else { TokenType::UserDefined }
}
