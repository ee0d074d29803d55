//! The begin, end and separator ids, and whether they are added: `SpecialVocab` of gguf-py, including its
//! order.

use apr_sdk::tokenizer::{Kind, Parts, Spelling, steps};
use serde_json::{Map, Value as Json, json};

const NAMES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// Fills in `special` and `add` of `parts`. `is_framed` if the class puts tokens around a text, whatever is stated.
pub fn read(parts: &mut Parts, is_fast: bool, is_framed: bool, said: Option<&Json>, config: Option<&Json>) {
    let mut finder = Finder {
        config: said.and_then(|said| said.as_object().cloned()).unwrap_or_default(),
        names: NAMES.iter().map(|name| (*name).to_owned()).collect(),
        add: Vec::new(),
    };
    let stated = !finder.config.is_empty();
    if is_fast || is_framed {
        let step = parts.post_processor.clone().unwrap_or_default();
        finder.post_processor(&step);
        finder.bare(&step, parts);
    }
    let added: Vec<(String, u32)> = match is_fast {
        true => parts.added.iter().filter_map(|a| Some((parts.token(a.id)?.to_owned(), a.id))).collect(),
        // Without `tokenizer.json`, any token may be meant.
        false => parts.each().map(|(id, text)| (text.to_owned(), id)).collect(),
    };
    for name in finder.names.clone().iter().filter(|_| stated) {
        if let Some(yes) = finder.config.get(&format!("add_{name}_token")).and_then(Json::as_bool)
            && finder.add.iter().all(|(n, _)| n != name)
        {
            finder.add.push((name.clone(), yes));
        }
        let text = finder.token(name);
        let id = text.and_then(|text| added.iter().find(|(t, _)| *t == text)).map(|(_, id)| *id);
        set(parts, name, id);
    }
    let number = |config: &Json, name: &str| config.get(format!("{name}_token_id")).and_then(Json::as_u64);
    for name in &finder.names {
        let inner = || super::INSIDE.iter().find_map(|path| number(config?.pointer(path)?, name));
        let id = config.and_then(|config| number(config, name)).or_else(inner);
        if let Some(id) = id.filter(|id| *id >= u64::from(parts.vocab_size)) {
            note_beyond(parts, &format!("`{name}_token_id` in config.json"), id);
        }
        set(parts, name, id.and_then(|id| u32::try_from(id).ok()));
    }
    // The library finds any token by its text, llama.cpp's converter only added ones: they come first.
    for name in finder.names.clone().iter().filter(|_| stated) {
        let text = finder.token(name);
        let id = text.and_then(|text| parts.each().find(|(_, t)| *t == text)).map(|(id, _)| id);
        set(parts, name, id);
    }
    parts.add = finder.add;
}

/// Notes an id that no token has.
fn note_beyond(parts: &mut Parts, what: &str, id: u64) {
    let size = parts.vocab_size;
    parts.notes.push(format!("{what} is {id}, but the vocabulary has only {size} ids"));
}

/// Fills in `ends` of `parts`: what the files list as the end, or state beside the tokenizer's.
pub fn ends(parts: &mut Parts, files: [Option<&Json>; 2]) {
    for file in files.into_iter().flatten() {
        let said = |file: &Json| file.get("eos_token_id").filter(|said| !said.is_null()).cloned();
        let listed =
            match said(file).or_else(|| super::INSIDE.iter().find_map(|path| said(file.pointer(path)?))) {
                Some(Json::Array(ids)) => ids,
                one => one.into_iter().collect(),
            };
        for id in listed.iter().filter_map(Json::as_u64).filter_map(|id| u32::try_from(id).ok()) {
            let new = parts.special_id("eos") != Some(id) && !parts.ends.contains(&id);
            if id >= parts.vocab_size && listed.len() > 1 {
                note_beyond(parts, "an end token in `eos_token_id`", u64::from(id));
            }
            if new && id < parts.vocab_size {
                parts.ends.push(id);
            }
        }
    }
}

/// Sets an id that is not set and is one of the vocabulary's.
fn set(parts: &mut Parts, name: &str, id: Option<u32>) {
    let fits = id.filter(|id| *id < parts.vocab_size);
    if let (Some(id), None) = (fits, parts.special_id(name)) {
        parts.special.push((name.to_owned(), id));
    }
}

struct Finder {
    config: Map<String, Json>,
    names: Vec<String>,
    add: Vec<(String, bool)>,
}

impl Finder {
    /// The text of the token that the configuration has for `name`; it may stand in an object.
    fn token(&self, name: &str) -> Option<String> {
        let entry = self.config.get(&format!("{name}_token"))?;
        entry.as_str().or_else(|| entry.get("content")?.as_str()).map(str::to_owned)
    }

    fn put(&mut self, name: &str, yes: bool) {
        match self.add.iter_mut().find(|(n, _)| n == name) {
            Some(slot) => slot.1 = yes,
            None => self.add.push((name.to_owned(), yes)),
        }
    }

    /// Changes what the configuration says, if there is one.
    fn say(&mut self, name: &str, text: &str) {
        if !self.config.is_empty() {
            self.config.insert(format!("{name}_token"), json!(text));
        }
    }

    /// A side of a text on which nothing puts a token says that none is added, whatever a flag says: transformers 5 goes by the
    /// post-processor alone. llama.cpp's converter leaves that unsaid, and its reader then adds what SentencePiece's tokenizers
    /// usually have.
    fn bare(&mut self, step: &Json, parts: &Parts) {
        let usual = match (parts.kind, parts.spelling) {
            (Kind::Bpe, Spelling::SentencePiece) => "bos",
            (Kind::Unigram, _) => "eos",
            _ => "",
        };
        let around = steps(Some(step)).into_iter().find_map(|step| {
            let single = step.get("single").and_then(Json::as_array).map(Vec::as_slice);
            let both = step.get("cls").is_some().then_some([true, true]);
            let put = |entry: Option<&Json>| entry.is_some_and(|entry| entry.get("SpecialToken").is_some());
            single.map(|single| [put(single.first()), put(single.last())]).or(both)
        });
        for (name, puts) in ["bos", "eos"].into_iter().zip(around.unwrap_or_default()) {
            let stated = self.config.get(&format!("add_{name}_token")).and_then(Json::as_bool);
            let unsaid = stated == Some(true) || stated.is_none() && name == usual;
            if !puts && unsaid && self.add.iter().all(|(known, _)| known != name) {
                self.put(name, false);
            }
        }
    }

    fn post_processor(&mut self, step: &Json) {
        let mut special = Special {
            bos: self.token("bos"),
            cls: self.token("cls"),
            eos: self.token("eos"),
            sep: self.token("sep"),
        };
        if let (None, Some(cls)) = (&special.bos, special.cls.clone()) {
            self.say("bos", &cls);
            special.bos = Some(cls);
        }
        if let (None, Some(sep)) = (&special.eos, special.sep.clone()) {
            self.say("eos", &sep);
            special.eos = Some(sep);
        }
        let inner = step.get("processors").and_then(Json::as_array);
        for step in inner.map(Vec::as_slice).unwrap_or(std::slice::from_ref(step)) {
            match step.get("type").and_then(Json::as_str) {
                Some("ByteLevel") => {
                    for name in ["bos", "eos"] {
                        if self.add.iter().all(|(n, _)| n != name) {
                            self.put(name, false);
                        }
                    }
                }
                Some("RobertaProcessing") => self.roberta(step, &mut special),
                Some("TemplateProcessing") => self.template(step, &mut special),
                _ => {}
            }
        }
    }

    fn roberta(&mut self, step: &Json, special: &mut Special) {
        ["bos", "eos", "sep"].iter().for_each(|name| self.put(name, true));
        let text = |key: &str| step.get(key).and_then(|pair| pair.get(0)).and_then(Json::as_str);
        if special.cls.is_none() {
            special.cls = text("cls").map(str::to_owned).or_else(|| special.bos.clone());
            special.cls.clone().iter().for_each(|cls| self.say("cls", cls));
        }
        if special.sep.is_none() {
            special.sep = text("sep").map(str::to_owned).or_else(|| special.eos.clone());
            special.sep.clone().iter().for_each(|sep| self.say("sep", sep));
        }
    }

    fn template(&mut self, step: &Json, special: &mut Special) {
        let list = |key: &str| step.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
        let (single, pair) = (list("single"), list("pair"));
        let (mut first, mut last) = (None, None);
        if single.len() > 1 {
            first = token_of(single.first());
            last = token_of(single.last());
        }
        if let Some(text) = &first {
            if self.config.is_empty() {
                special.bos = Some(text.clone());
            } else if special.bos.as_ref() != Some(text) && special.cls.as_ref() != Some(text) {
                if special.bos.is_none() {
                    self.say("bos", text);
                    special.bos = Some(text.clone());
                }
                if special.cls.is_none() {
                    self.say("cls", text);
                    special.cls = Some(text.clone());
                }
            }
            self.put("bos", special.bos.as_ref() == Some(text) || special.cls.as_ref() == Some(text));
        }
        if let Some(text) = &last {
            if self.config.is_empty() {
                special.eos = Some(text.clone());
            } else if special.eos.as_ref() != Some(text) {
                // For llama.cpp's converter this is the end from here on. What is stated stays: answers end there.
                if special.eos.is_none() {
                    self.say("eos", text);
                }
                special.eos = Some(text.clone());
            }
            self.put("eos", special.eos.as_ref() == Some(text));
        }
        self.pair(&pair, first.as_ref(), last.as_ref(), special);
    }

    fn pair(&mut self, pair: &[Json], first: Option<&String>, last: Option<&String>, special: &Special) {
        let mut middle = pair;
        if first.is_some() && token_of(middle.first()).as_ref() == first {
            middle = &middle[1..];
        }
        if last.is_some() && token_of(middle.last()).as_ref() == last {
            middle = &middle[..middle.len() - 1];
        }
        let is = |step: Option<&Json>, id: &str| {
            step.and_then(|s| s.pointer("/Sequence/id")).and_then(Json::as_str) == Some(id)
        };
        if middle.len() < 3 || !is(middle.first(), "A") || !is(middle.last(), "B") {
            return;
        }
        let between = &middle[1..middle.len() - 1];
        let ends = |text: &String| special.sep.as_ref() == Some(text) || special.eos.as_ref() == Some(text);
        let mut sep = token_of(between.first()).is_some_and(|text| ends(&text)) && last.is_none();
        if between.len() == 2 {
            sep |= token_of(between.last()).is_some_and(|text| ends(&text));
        }
        self.put("sep", sep);
        if let (true, None, Some(eos)) = (sep, &special.sep, special.eos.clone()) {
            self.say("sep", &eos);
        }
    }
}

struct Special {
    bos: Option<String>,
    cls: Option<String>,
    eos: Option<String>,
    sep: Option<String>,
}

/// The text of a template's special token.
fn token_of(step: Option<&Json>) -> Option<String> {
    step?.pointer("/SpecialToken/id")?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
