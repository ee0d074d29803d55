//! How sentence-transformers pools a text's vectors into one: stated by a module of its own, beside
//! `config.json`.

use crate::layout::MODULES;
use crate::{json, text};
use apr_sdk::{Bytes, Source, Value};
use serde_json::{Map, Value as Json, json};

/// The key under which the way is stated, with the words of sentence-transformers: `mean`, `cls`, `lasttoken`, ...
pub const KEY: &str = "pooling_mode";

/// The key under which the kinds of modules are stated, in order: `Transformer`, `Pooling`, `Dense`, ...
pub const KINDS: &str = "modules";

/// Where the module lies in folders that are made here.
const MODULE: &str = "1_Pooling";
const MODULE_CONFIG: &str = "1_Pooling/config.json";

/// Switches of the module's older form, and the words that say the same.
const SWITCHES: [(&str, &str); 6] = [
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_lasttoken", "lasttoken"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
];

/// A short JSON file of the folder; `None` for one that is not there, or is none.
pub fn short(source: &dyn Source, name: &str) -> Option<Json> {
    let file = source.sibling(name).ok()?;
    let len = source.len(file).ok().filter(|len| *len <= Bytes::INLINE_LIMIT)?;
    let mut text = vec![0; usize::try_from(len).ok()?];
    source.read_at(file, 0, &mut text).ok()?;
    json::parse(std::str::from_utf8(&text).ok()?).ok()
}

/// What the list of modules says, if it is one: which kinds there are, and how the one that pools does it.
pub fn stated(source: &dyn Source) -> Vec<(String, Value)> {
    let modules = short(source, MODULES).unwrap_or_default();
    let kind = |module: &Json| module.get("type")?.as_str()?.rsplit('.').next().map(str::to_owned);
    let kinds: Vec<String> = modules.as_array().into_iter().flatten().filter_map(kind).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let mut typed = vec![(KINDS.to_owned(), Value::from_strings(&kinds))];
    typed.extend(mode(source, &modules).map(|mode| (KEY.to_owned(), Value::from_string(&mode))));
    typed
}

/// How the module that pools does it, if there is one.
fn mode(source: &dyn Source, modules: &Json) -> Option<String> {
    let is_pooling = |module: &&Json| {
        module.get("type").and_then(Json::as_str).is_some_and(|kind| kind.ends_with("Pooling"))
    };
    let path = modules.as_array()?.iter().find(is_pooling)?.get("path")?.as_str()?;
    let config = short(source, &format!("{path}/config.json"))?;
    let on = |(key, _): &&(&str, &str)| config.get(key).and_then(Json::as_bool) == Some(true);
    Some(match SWITCHES.iter().find(on) {
        Some((_, mode)) => (*mode).to_owned(),
        None => config.get(KEY)?.as_str()?.to_owned(),
    })
}

/// The files that say so, for a model of this configuration: of the modules, and of the one that pools.
pub fn files(mode: &str, config: &Map<String, Json>) -> Vec<(&'static str, Vec<u8>)> {
    let width = ["hidden_size", "n_embd", "d_model", "dim"].iter().find_map(|key| config.get(*key));
    let Some(width) = width else { return Vec::new() };
    let module = |n: u32, path: &str, kind: &str| {
        json!({
            "idx": n, "name": n.to_string(), "path": path,
            "type": format!("sentence_transformers.models.{kind}"),
        })
    };
    let modules = Json::Array(vec![module(0, "", "Transformer"), module(1, MODULE, "Pooling")]);
    let mut pooling = Map::from_iter([("word_embedding_dimension".to_owned(), width.clone())]);
    for (switch, name) in SWITCHES {
        pooling.insert(switch.to_owned(), (name == mode).into());
    }
    vec![(MODULES, text::any(&modules).into_bytes()), (MODULE_CONFIG, text::file(&pooling).into_bytes())]
}
