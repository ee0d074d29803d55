//! What a class of transformers makes of its vocabulary: steps as in `tokenizer.json` that depend on what a folder states.
//! tests/tokenizers/recipes.py says how they are written.

use super::{fast, stated};
use apr_sdk::tokenizer::{Kind, MAX_TOKENS, Parts, Spelling};
use apr_sdk::{Error, Result, escape};
use serde_json::{Map, Value as Json, json};

/// The recipe of a class.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    class: &'static str,
    made: &'static Json,
}

/// The files from which a vocabulary is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A list of words.
    Words,
    /// Tokens and merges.
    Merges,
    /// A model of SentencePiece, for the class's own steps.
    Pieces,
    /// A model of SentencePiece, whose own steps are followed.
    SentencePiece,
    /// Files of which too little is known.
    Others,
}

/// What stands before and behind the pieces of a model.
pub struct Layout {
    /// Texts before them.
    pub first: Vec<String>,
    /// Number of pieces that are left out.
    pub from: usize,
    /// Texts behind them.
    pub last: Vec<String>,
}

impl Recipe {
    pub fn new(class: &'static str, made: &'static Json) -> Recipe {
        Recipe { class, made }
    }

    /// The class's name.
    pub fn class(&self) -> &'static str {
        self.class
    }

    /// The files that the class reads.
    pub fn reads(&self) -> Reads {
        match self.made.get("reads").and_then(Json::as_str) {
            Some("words") => Reads::Words,
            Some("merges") => Reads::Merges,
            Some("pieces") => Reads::Pieces,
            Some("sentencepiece") => Reads::SentencePiece,
            _ => Reads::Others,
        }
    }

    /// Returns whether the class goes by a flag of this name.
    pub fn is_flag(&self, name: &str) -> bool {
        self.made.pointer("/flags").is_some_and(|flags| flags.get(name).is_some())
    }

    /// The flags of a special token that is stated as a text alone.
    pub fn flags(&self, name: &str) -> Option<&'static Map<String, Json>> {
        self.made.pointer("/tokens")?.get(name)?.as_object()
    }

    /// Returns whether special tokens lose the flags that a folder gives them.
    pub fn is_plain(&self) -> bool {
        self.made.get("plain").and_then(Json::as_bool) == Some(true)
    }

    /// Returns whether version 4 of the library has another such part, and gives other ids.
    pub fn differs_in(&self, part: &str) -> bool {
        let parts = self.made.get("unlike_4").and_then(Json::as_array);
        parts.is_some_and(|parts| parts.iter().any(|other| other == part))
    }

    /// A note of what version 4 of the library does otherwise, if it gives other ids.
    pub fn disputed(&self) -> Option<String> {
        let parts = self.made.get("unlike_4")?.as_array()?.iter().filter_map(Json::as_str);
        let parts = parts.collect::<Vec<_>>().join(", ");
        let parts = if parts.is_empty() { "steps".to_owned() } else { parts };
        Some(format!(
            "there is no tokenizer.json, and version 4 of transformers has other {parts} for the class `{}` than version 5, by which this \
             conversion goes: some texts have other ids",
            self.class
        ))
    }

    /// The special tokens that the class adds of its own and has a name for.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let named = self.made.pointer("/further/named").and_then(Json::as_object);
        named.into_iter().flatten().filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
    }

    /// The special tokens that the class lists of its own. A number of them that [`Recipe::layout`] refuses is passed over.
    pub fn further(&self, said: &Json) -> Vec<String> {
        if let Ok(Some(counted)) = self.counted(said) {
            return counted;
        }
        let listed = self.made.pointer("/further/listed").and_then(Json::as_array);
        listed.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    }

    /// The class's own tokens with a number each, if the folder states how many there are.
    fn counted(&self, said: &Json) -> Result<Option<Vec<String>>> {
        let counted = self.made.get("counted").and_then(Json::as_object);
        let Some((key, form)) = counted.and_then(|counted| counted.iter().next()) else { return Ok(None) };
        let Some(stated) = said.get(key) else { return Ok(None) };
        // The library has none for a number below zero.
        let n = stated.as_i64().map(|n| usize::try_from(n).unwrap_or(0)).filter(|n| *n <= MAX_TOKENS);
        let n = n.ok_or_else(|| {
            let (class, stated) = (self.class, escape(&stated.to_string(), 60));
            Error::unsupported(format!(
                "`{key}` is `{stated}` in tokenizer_config.json, which the class `{class}` does not support"
            ))
            .hint(format!("correct `{key}`"))
        })?;
        let form = form.as_str().unwrap_or_default();
        Ok(Some((0..n).map(|n| form.replace("{}", &n.to_string())).collect()))
    }

    /// One of the steps before or behind the model, with what `said` states; `charsmap` are SentencePiece's rules in base64.
    pub fn step(&self, key: &str, said: &Json, charsmap: Option<&str>) -> Option<Json> {
        let stated = Stated { recipe: *self, said, charsmap };
        self.made.get(key).map(|step| stated.applied(step)).filter(|step| !step.is_null())
    }

    /// What stands around the pieces of a model.
    ///
    /// # Errors
    /// Unsupported where a token is not stated that stands there, or a number of tokens is none.
    pub fn layout(&self, said: &Json) -> Result<Layout> {
        let stated = Stated { recipe: *self, said, charsmap: None };
        let pieces = self.made.get("pieces");
        let texts = |key: &str| -> Result<Vec<String>> {
            let texts = pieces.and_then(|pieces| pieces.get(key)).and_then(Json::as_array);
            texts.into_iter().flatten().filter_map(Json::as_str).map(|text| stated.token(text)).collect()
        };
        let from = pieces.and_then(|pieces| pieces.get("from")).and_then(Json::as_u64).unwrap_or(0);
        // The last one comes first.
        let counted = self.counted(said)?.map(|counted| counted.into_iter().rev().collect());
        let last = counted.map_or_else(|| texts("last"), Ok)?;
        Ok(Layout { first: texts("first")?, from: usize::try_from(from).unwrap_or(0), last })
    }

    /// Gives `parts`, which have a vocabulary, the steps of the class and its model's flags. Rules of SentencePiece in `parts` are
    /// among the steps afterwards.
    ///
    /// # Errors
    /// Unsupported where the class needs a token that the folder does not state.
    pub fn prepare(&self, parts: &mut Parts, said: &Json) -> Result<()> {
        let charsmap = parts.charsmap.as_ref().map(|bytes| fast::base64(bytes));
        let step = |key: &str| self.step(key, said, charsmap.as_deref());
        parts.normalizer = step("normalizer");
        parts.pre_tokenizer = step("pre_tokenizer");
        parts.decoder = step("decoder");
        parts.spelling = fast::spelling(parts);
        let mut model = self.made.get("model").and_then(Json::as_object).cloned().unwrap_or_default();
        let stated = Stated { recipe: *self, said, charsmap: None };
        for key in ["unk_token", "unk_id"] {
            if let Some(Json::String(text)) = model.get(key) {
                let text = stated.token(text)?;
                model.remove(key);
                // A number stands for one that is no piece.
                let other = model.get("unk_else").and_then(Json::as_u64);
                match other.filter(|_| parts.each().all(|(_, known)| known != text)) {
                    Some(id) => model.insert("unk_id".to_owned(), id.into()),
                    None => model.insert("unk_token".to_owned(), text.into()),
                };
            }
        }
        fast::flags(parts, &model);
        fast::normalization(parts);
        Ok(())
    }

    /// Returns whether the class makes tokenizers of this kind, as far as is known.
    pub fn is_of(&self, kind: Kind) -> bool {
        let named = self.made.get("kind").and_then(Json::as_str);
        named.is_none_or(|named| named == kind_name(kind))
    }

    /// Returns whether flags decide on what is put around a text, where there is no tokenizer.json.
    pub fn has_flags(&self) -> bool {
        self.made.get("adds").is_some()
    }

    /// Returns whether the class puts tokens around a text whatever tokenizer.json says: one without flags for that, or with one that
    /// is usually set.
    pub fn frames_always(&self) -> bool {
        let usual = self.made.get("adds").and_then(Json::as_object);
        let is_set = usual.is_none_or(|usual| usual.values().any(|set| set.as_bool() == Some(true)));
        self.made.get("post_processor").is_some() && is_set
    }

    /// True if the class itself says what is put around a text, whatever flags are stated.
    pub fn is_framed(&self, said: &Json) -> bool {
        let is_stated = |name: &str| said.get(format!("add_{name}_token")).is_some_and(Json::is_boolean);
        let by_flags = self.made.get("adds").is_some() && ["bos", "eos"].into_iter().any(is_stated);
        !by_flags && self.made.get("post_processor").is_some()
    }

    /// The post-processor that puts tokens around a text.
    ///
    /// # Errors
    /// Unsupported where the class puts a token there that the vocabulary does not have.
    pub fn around(&self, parts: &Parts, said: &Json) -> Result<Option<Json>> {
        let stated = Stated { recipe: *self, said, charsmap: None };
        let frames = match self.is_framed(said) {
            true => self.step("post_processor", said, None).unwrap_or_default(),
            false => stated.by_flags(),
        };
        let mut tokens = Map::new();
        let mut side = |key: &str| -> Result<Vec<Json>> {
            let items = frames.get(key).and_then(Json::as_array);
            let mut all = Vec::new();
            for item in items.into_iter().flatten() {
                let kind = item.get(1).cloned().unwrap_or_default();
                let text = item.get(0).and_then(Json::as_str);
                if let Some(id) = text.and_then(|text| text.strip_prefix('$')) {
                    all.push(json!({"Sequence": {"id": id, "type_id": kind}}));
                    continue;
                }
                let id = stated.id(parts, item.get(0).unwrap_or(&Json::Null))?;
                let text = parts.token(id).unwrap_or_default();
                tokens.insert(text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
                all.push(json!({"SpecialToken": {"id": text, "type_id": kind}}));
            }
            Ok(all)
        };
        let (single, pair) = (side("single")?, side("pair")?);
        let is_of_bytes = parts.kind == Kind::Bpe && parts.spelling == Spelling::Bytes;
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
        if tokens.is_empty() {
            return Ok(is_of_bytes.then_some(bytes));
        }
        let template =
            json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens});
        Ok(Some(match is_of_bytes {
            true => json!({"type": "Sequence", "processors": [bytes, template]}),
            false => template,
        }))
    }
}

/// The name of a kind of models in tokenizer.json.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bpe => "BPE",
        Kind::Unigram => "Unigram",
        Kind::WordPiece => "WordPiece",
    }
}

/// A recipe with what a folder states.
struct Stated<'s> {
    recipe: Recipe,
    said: &'s Json,
    charsmap: Option<&'s str>,
}

impl Stated<'_> {
    /// The value of a flag: what is stated, or what the class has otherwise.
    fn flag(&self, name: &str) -> Json {
        if name == "charsmap" {
            return self.charsmap.map(Json::from).unwrap_or_default();
        }
        let usual = || self.recipe.made.pointer("/flags").and_then(|flags| flags.get(name)).cloned();
        let stated = self.said.get(name).filter(|stated| stated.is_boolean() || stated.is_string());
        stated.cloned().or_else(usual).unwrap_or_default()
    }

    /// The side of a step that a flag decides on.
    fn side<'j>(&self, step: &'j Json) -> Option<&'j Json> {
        let is_set = match self.flag(step.get("$if")?.as_str()?) {
            Json::Bool(set) => set,
            other => !other.is_null(),
        };
        step.get(if is_set { "then" } else { "else" })
    }

    /// A step without what depends on flags.
    fn applied(&self, step: &Json) -> Json {
        match step {
            Json::String(text) if text == "{charsmap}" => self.flag("charsmap"),
            Json::Array(items) => items.iter().filter_map(|item| self.item(item)).collect(),
            Json::Object(map) => match map.get("$flag").and_then(Json::as_str) {
                Some(name) => self.flag(name),
                None if map.contains_key("$if") => self.item(step).unwrap_or_default(),
                None => map.iter().map(|(key, value)| (key.clone(), self.applied(value))).collect(),
            },
            other => other.clone(),
        }
    }

    /// A step, or none on a side that a flag leaves out.
    fn item(&self, step: &Json) -> Option<Json> {
        let step = if step.get("$if").is_some() { self.side(step)? } else { step };
        Some(self.applied(step))
    }

    /// The text of a token: one with a purpose, one that a stated word means, or the text itself.
    fn token(&self, text: &str) -> Result<String> {
        let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
            return Ok(text.to_owned());
        };
        let class = self.recipe.class;
        if let Some(words) = self.recipe.made.pointer("/words").and_then(|words| words.get(name)) {
            let stated = self.flag(name);
            let word = stated.as_str().unwrap_or_default();
            let known = words.get(word).or_else(|| words.get(word.to_lowercase())).and_then(Json::as_str);
            return known.map(str::to_owned).ok_or_else(|| {
                let word = escape(word, 60);
                Error::unsupported(format!(
                    "`{name}` is `{word}` in tokenizer_config.json, which the class `{class}` does not support"
                ))
                .hint(format!("correct `{name}`"))
            });
        }
        let entry = self.said.get(format!("{name}_token"));
        entry.and_then(stated::text).map(str::to_owned).ok_or_else(|| {
            Error::unsupported(format!(
                "the tokenizer class `{class}` requires a `{name}_token`, but the folder states none"
            ))
            .hint(stated::SAVE)
        })
    }

    /// The id of a token of a frame: a text that the vocabulary lacks is the unknown token there.
    fn id(&self, parts: &Parts, token: &Json) -> Result<u32> {
        let number = token.as_u64().and_then(|id| u32::try_from(id).ok());
        if let Some(id) = number.filter(|id| parts.token(*id).is_some()) {
            return Ok(id);
        }
        let text = self.token(token.as_str().unwrap_or_default())?;
        let find = |text: &str| parts.each().find(|(_, known)| *known == text).map(|(id, _)| id);
        find(&text).ok_or_else(|| {
            let (class, text) = (self.recipe.class, escape(&text, 60));
            Error::unsupported(format!(
                "the tokenizer class `{class}` adds `{text}` to a text, but that token is not in the vocabulary"
            ))
            .hint(stated::SAVE)
        })
    }

    /// What flags alone put around a text.
    fn by_flags(&self) -> Json {
        let adds = |name: &str| {
            let usual = self.recipe.made.pointer("/adds").and_then(|adds| adds.get(name));
            let stated = self.said.get(format!("add_{name}_token")).filter(|stated| stated.is_boolean());
            let is_there = self.said.get(format!("{name}_token")).and_then(stated::text).is_some();
            self.recipe.made.get("adds").is_some() && is_there && stated.or(usual) == Some(&Json::Bool(true))
        };
        let (first, last) = (adds("bos"), adds("eos"));
        let one = |text: &str, kind: u32| {
            let mut all = vec![json!([text, kind])];
            if first {
                all.insert(0, json!(["{bos}", kind]));
            }
            if last {
                all.push(json!(["{eos}", kind]));
            }
            all
        };
        let pair = [one("$A", 0), one("$B", 1)].concat();
        json!({"single": one("$A", 0), "pair": pair})
    }
}
