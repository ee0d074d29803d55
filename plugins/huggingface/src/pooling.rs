//! How sentence-transformers pools a text's vectors into one: stated by a module of its own, beside
//! `config.json`.

use crate::layout::MODULES;
use crate::{json, text};
use apr_sdk::{Bytes, Result, Source, Value, strict_json};
use serde_json::{Map, Value as Json, json};

/// The key under which the way is stated, with the words of sentence-transformers: `mean`, `cls`, `lasttoken`, ...
pub const KEY: &str = "pooling_mode";

/// The key under which the kinds of modules are stated, in order: `Transformer`, `Pooling`, `Dense`, ...
pub const KINDS: &str = "modules";

/// Where the module lies in folders that are made here.
const MODULE: &str = "1_Pooling";
const MODULE_CONFIG: &str = "1_Pooling/config.json";

/// Switches of the module's older form, and the words that say the same, in the order in which their vectors are
/// joined.
const SWITCHES: [(&str, &str); 6] = [
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
];

/// How a module pools whose configuration does not say.
const USUAL: &str = "mean";

/// A short JSON file of the folder; `None` for one that is not there, or is long.
///
/// # Errors
/// Malformed for a file that is no JSON, naming it.
pub fn short(source: &dyn Source, name: &str) -> Result<Option<Json>> {
    let Ok(file) = source.sibling(name) else { return Ok(None) };
    let len = source.len(file)?;
    if len > Bytes::INLINE_LIMIT {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    source.read_at(file, 0, &mut bytes)?;
    let parsed = strict_json::text(&bytes).and_then(json::parse);
    parsed.map(Some).map_err(|error| error.in_file(name))
}

/// What the list of modules says, if it is one: which kinds there are, and how the one that pools does it.
///
/// # Errors
/// As [`short`].
pub fn stated(source: &dyn Source) -> Result<Vec<(String, Value)>> {
    let modules = short(source, MODULES)?.unwrap_or_default();
    let kind = |module: &Json| module.get("type")?.as_str()?.rsplit('.').next().map(str::to_owned);
    let kinds: Vec<String> = modules.as_array().into_iter().flatten().filter_map(kind).collect();
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let mut typed = vec![(KINDS.to_owned(), Value::from_strings(&kinds))];
    if let Some(path) = path_of(&modules, "Pooling") {
        let config = pooling_config(source, &modules)?.filter(Json::is_object);
        // Which way it is nobody knows then: whoever pools refuses it in these words.
        let mode =
            config.map_or_else(|| format!("{path}/config.json does not say it"), |config| mode(&config));
        typed.push((KEY.to_owned(), Value::from_string(&mode)));
    }
    Ok(typed)
}

/// The key under which the module that pools says if it takes the vectors of a prompt, too.
pub const INCLUDE_PROMPT: &str = "include_prompt";

/// The configuration of the module that pools, if there is one.
///
/// # Errors
/// As [`short`].
pub fn pooling_config(source: &dyn Source, modules: &Json) -> Result<Option<Json>> {
    let path = path_of(modules, "Pooling");
    Ok(path.map(|path| short(source, &format!("{path}/config.json"))).transpose()?.flatten())
}

/// Where the first module of a kind lies, if there is one.
pub fn path_of<'m>(modules: &'m Json, kind: &str) -> Option<&'m str> {
    let is_it = |module: &&Json| {
        module.get("type").and_then(Json::as_str).is_some_and(|name| name.rsplit('.').next() == Some(kind))
    };
    modules.as_array()?.iter().find(is_it)?.get("path")?.as_str()
}

/// How the module with this configuration pools: `cls+mean` if it joins the vectors of several ways. What the library would not load
/// is none of its words.
fn mode(config: &Json) -> String {
    match config.get(KEY).filter(|stated| !stated.is_null()) {
        Some(Json::String(way)) => way.clone(),
        Some(Json::Array(ways)) if !ways.is_empty() && ways.iter().all(Json::is_string) => {
            ways.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("+")
        }
        Some(other) => other.to_string(),
        None => {
            let is_on = |key: &str| config.get(key).is_some_and(is_true);
            let ways = SWITCHES.iter().filter(|(key, _)| is_on(key)).map(|(_, way)| *way);
            let ways = ways.collect::<Vec<_>>().join("+");
            if ways.is_empty() { USUAL.to_owned() } else { ways }
        }
    }
}

/// Returns whether Python takes a value for true, as the library does.
fn is_true(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(is_on) => *is_on,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
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
