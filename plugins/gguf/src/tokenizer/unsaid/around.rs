//! The tokens around a text: llama.cpp adds at most one on either side, and goes by the kind of tokenizer and the name of the
//! pre-tokenizer where no key says otherwise.

use super::super::{ADD, PRE, SPECIAL, pre};
use super::made;
use apr_sdk::tokenizer::{Around, Kind, Parts, Spelling, Tokenizer, post_processor, steps};
use apr_sdk::{LayoutSink, Value, escape};
use serde_json::{Map, Value as Json, json};

/// The member that is the post-processor, and the flags beside which it holds.
const STEP: &str = "post_processor";
const BESIDE: &str = "post_processor_beside";
/// The member for the end of a text where another token is put behind texts, and that token.
const END: &str = "eos";
const END_BESIDE: &str = "eos_beside";

/// The token that a template puts behind a text, if it is another than the stated end: the format has one key for both.
pub fn other_end(tokenizer: &Tokenizer) -> Option<u32> {
    let stated = tokenizer.special_id("eos")?;
    let last = |step: &&Json| {
        let single = step.get("single")?.as_array().filter(|single| single.len() > 1)?;
        let text = single.last()?.pointer("/SpecialToken/id")?.as_str()?;
        tokenizer.each().find(|(_, token)| *token == text).map(|(id, _)| id)
    };
    let found = steps(tokenizer.post_processor.as_ref()).iter().filter_map(last).next_back();
    found.filter(|last| *last != stated)
}

/// Adds the stated end to `text` where the key has another, with a warning.
fn carry_end(tokenizer: &Tokenizer, text: &mut Map<String, Json>, sink: &mut dyn LayoutSink) {
    let (Some(last), Some(stated)) = (other_end(tokenizer), tokenizer.special_id("eos")) else { return };
    let quoted = |id: u32| escape(tokenizer.token(id).unwrap_or_default(), 40).to_string();
    sink.warn(&format!(
        "llama.cpp treats `{}`, which follows every text, as the end of an answer, and this tokenizer's end \
         token `{}` as the end of a turn: answers may end elsewhere",
        quoted(last),
        quoted(stated),
    ));
    text.insert(END.to_owned(), stated.into());
    text.insert(END_BESIDE.to_owned(), last.into());
}

/// Restores the stated end to `parts`, as long as the key has the token that it had then.
pub fn take_back_end(json: &Json, parts: &mut Parts) {
    let id = |key: &str| json.get(key).and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
    let (Some(stated), Some(beside)) = (id(END).filter(|id| *id < parts.vocab_size), id(END_BESIDE)) else {
        return;
    };
    if parts.special_id("eos") != Some(beside) {
        return;
    }
    let named =
        parts.special.iter().position(|(name, id)| ["eot", "eom"].contains(&&**name) && *id == stated);
    named.into_iter().for_each(|at| drop(parts.special.remove(at)));
    parts.special.iter_mut().filter(|(name, _)| name == "eos").for_each(|(_, id)| *id = stated);
}

/// What llama.cpp adds if no key says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usual {
    pub bos: bool,
    pub eos: bool,
    pub sep: bool,
}

impl Usual {
    /// By the kind, and for bytes by the pre-tokenizer, if it is known.
    pub fn of(kind: Kind, spelling: Spelling, splitter: Option<&pre::Splitter>) -> Usual {
        match (kind, spelling) {
            (_, Spelling::Bytes) => Usual {
                bos: splitter.is_some_and(|splitter| splitter.bos),
                eos: false,
                sep: splitter.is_some_and(|splitter| splitter.sep),
            },
            (Kind::Bpe, _) => Usual { bos: true, ..Usual::default() },
            (Kind::Unigram, _) => Usual { eos: true, ..Usual::default() },
            (Kind::WordPiece, _) => Usual { bos: true, eos: true, sep: true },
        }
    }

    /// The tokens that are added, where `adds` and `id` say what keys state.
    pub fn around(
        self,
        parts: &Parts,
        adds: &dyn Fn(&str) -> Option<bool>,
        id: &dyn Fn(&str) -> Option<u32>,
    ) -> Around {
        // llama.cpp always adds begin and end tokens for BERT, whatever the keys say.
        let flag = |name: &str| adds(name).filter(|_| parts.kind != Kind::WordPiece);
        let id = |name: &str, default: u32| id(name).unwrap_or(default);
        let (first, last, between) = match (parts.kind, parts.spelling) {
            (_, Spelling::Bytes) => (id("bos", 11), id("eos", 11), id("sep", u32::MAX)),
            (Kind::Bpe, _) => (id("bos", 1), id("eos", 2), id("sep", u32::MAX)),
            (Kind::Unigram, _) => (id("bos", u32::MAX), id("eos", 1), id("sep", u32::MAX)),
            (Kind::WordPiece, _) => (id("bos", 101), id("sep", 102), id("sep", 102)),
        };
        Around {
            bos: flag("bos").unwrap_or(self.bos).then_some(first),
            eos: flag("eos").unwrap_or(self.eos).then_some(last),
            sep: adds("sep").unwrap_or(self.sep).then_some(between),
        }
    }
}

/// Adds the keys that keep llama.cpp from adding what this tokenizer does not, and the post-processor to `text` where keys say
/// another, with a warning if llama.cpp adds other tokens.
pub fn carry(
    tokenizer: &Tokenizer,
    keys: &mut Vec<(String, Value)>,
    text: &mut Map<String, Json>,
    sink: &mut dyn LayoutSink,
) {
    let [single, pair] = templates(tokenizer, tokenizer.post_processor.as_ref());
    warn_of_more(&single, sink);
    carry_end(tokenizer, text, sink);
    let splitter = made(keys, PRE).and_then(Value::as_str).and_then(|name| pre::splitter(name).ok());
    let usual = Usual::of(tokenizer.kind, tokenizer.spelling, splitter.as_ref());
    if tokenizer.spelling == Spelling::Bytes {
        for ((_, key), forbid) in [
            (ADD[0], usual.bos && single.first().is_some_and(Option::is_none)),
            (ADD[2], usual.sep && !has_between(&pair)),
        ] {
            if forbid && made(keys, key).is_none() {
                keys.push((key.to_owned(), Value::from_bool(false)));
            }
        }
    }
    let stated = |names: &[(&str, &'static str)], name: &str| {
        made(keys, names.iter().find(|(known, _)| *known == name)?.1).cloned()
    };
    let adds = |name: &str| stated(&ADD, name).as_ref().and_then(Value::as_bool);
    let id = |name: &str| {
        let id = stated(&SPECIAL, name)?.as_unsigned().and_then(|id| u32::try_from(id).ok())?;
        (id < tokenizer.vocab_size).then_some(id)
    };
    let other = post_processor(tokenizer, usual.around(tokenizer, &adds, &id));
    let other = templates(tokenizer, other.as_ref());
    if other == [single.clone(), pair] {
        return;
    }
    if other[0] != single && !has_more(&single) {
        let (own, other) = (shown(&single), shown(&other[0]));
        sink.warn(&format!("llama.cpp adds {other} around a text, but this tokenizer {own}"));
    }
    text.insert(STEP.to_owned(), tokenizer.post_processor.clone().unwrap_or_default());
    text.insert(BESIDE.to_owned(), json!(ADD.map(|(name, _)| adds(name))));
}

/// Whether a tokenizer puts a token before a text, behind it, and between two, in the order of the keys that say it.
pub fn puts(tokenizer: &Tokenizer) -> [bool; 3] {
    let [single, pair] = templates(tokenizer, tokenizer.post_processor.as_ref());
    let [first, last] = [single.first(), single.last()].map(|token| token.is_some_and(Option::is_some));
    [first, last, has_between(&pair)]
}

fn has_between(pair: &Template) -> bool {
    pair.windows(2).any(|two| two[0].is_none() && two[1].is_some())
}

/// The post-processor that [`carry`] wrote, which may be none, as long as keys say of what is added what they said then.
pub fn take_back(json: &Json, parts: &Parts) -> Option<Option<Json>> {
    let beside = json!(ADD.map(|(name, _)| parts.adds(name)));
    let step = json.get(STEP).filter(|_| json.get(BESIDE) == Some(&beside))?;
    Some(Some(step.clone()).filter(|step| !step.is_null()))
}

/// The tokens around one text and around two; `None` stands for a text.
type Template = Vec<Option<String>>;

/// What a post-processor puts around one text, and around two.
fn templates(parts: &Parts, step: Option<&Json>) -> [Template; 2] {
    let inner = step.and_then(|step| step.get("processors")).and_then(Json::as_array);
    let steps = inner.map(Vec::as_slice).or(step.map(std::slice::from_ref)).unwrap_or_default();
    for step in steps {
        let list = |key: &str| -> Template {
            let entries = step.get(key).and_then(Json::as_array).into_iter().flatten();
            entries.map(|entry| Some(entry.pointer("/SpecialToken/id")?.as_str()?.to_owned())).collect()
        };
        let token = |key: &str| {
            let id = step.get(key)?.get(1)?.as_u64().and_then(|id| u32::try_from(id).ok())?;
            parts.token(id).map(str::to_owned)
        };
        let (cls, sep) = (token("cls"), token("sep"));
        match super::kind(step) {
            "TemplateProcessing" => return [list("single"), list("pair")],
            "BertProcessing" => {
                return [vec![cls.clone(), None, sep.clone()], vec![cls, None, sep.clone(), None, sep]];
            }
            "RobertaProcessing" => {
                let single = vec![cls.clone(), None, sep.clone()];
                return [single, vec![cls, None, sep.clone(), sep.clone(), None, sep]];
            }
            _ => {}
        }
    }
    [vec![None], vec![None, None]]
}

/// The tokens on either side of the text.
fn sides(single: &Template) -> [(Vec<&str>, &'static str); 2] {
    let text = single.iter().position(Option::is_none).unwrap_or(single.len());
    let behind = single.get(text + 1..).unwrap_or_default();
    [
        (single[..text].iter().flatten().map(String::as_str).collect(), "before"),
        (behind.iter().flatten().map(String::as_str).collect(), "after"),
    ]
}

fn has_more(single: &Template) -> bool {
    sides(single).iter().any(|(tokens, _)| tokens.len() > 1)
}

/// Warns of tokens beyond one on a side.
fn warn_of_more(single: &Template, sink: &mut dyn LayoutSink) {
    for (tokens, side) in sides(single) {
        if tokens.len() > 1 {
            let all = quoted(&tokens);
            sink.warn(&format!(
                "llama.cpp adds at most one token {side} a text, but this tokenizer {all}: \
                 the others are missing"
            ));
        }
    }
}

fn quoted(tokens: &[&str]) -> String {
    let all: Vec<String> = tokens.iter().map(|text| format!("`{}`", escape(text, 40))).collect();
    all.join(", ")
}

fn shown(single: &Template) -> String {
    let tokens: Vec<&str> = single.iter().flatten().map(String::as_str).collect();
    if tokens.is_empty() { "nothing".to_owned() } else { quoted(&tokens) }
}
