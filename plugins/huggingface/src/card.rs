//! The model card: what the front matter of README.md, `generation_config.json` and `config.json` say about
//! the model.

use crate::generation::Generation;
use crate::{config_json, front_matter};
use apr_sdk::{Result, Source, Value};
use serde_json::{Map, Number, Value as Json};

/// The file whose front matter is read.
pub const README: &str = "README.md";

/// The most bytes of it that are looked at. 64 KiB: front matter with results of a hundred benchmarks has 30.
const LONGEST: u64 = 64 * 1024;

/// Texts, and the other keys that say them, the first that is set first.
const TEXTS: [(&str, &[&str]); 12] = [
    ("name", &["name", "model_name"]),
    ("author", &["author", "model_author", "model_creator"]),
    ("version", &["version", "model_version"]),
    ("organization", &["organization", "model_organization"]),
    ("finetune", &["finetune", "model_finetune"]),
    ("basename", &["basename", "model_basename", "model_type"]),
    ("description", &["description", "model_description"]),
    ("quantized_by", &["quantized_by", "model_quantized_by"]),
    ("size_label", &["size_label", "model_size_label"]),
    ("license", &["license"]),
    ("license_name", &["license_name"]),
    ("license_link", &["license_link"]),
];

/// Texts that say where the model came from.
const SOURCE: [&str; 4] = ["url", "doi", "uuid", "repo_url"];

/// Lists of models and sets of data.
const ORIGINS: [(&str, &[&str]); 2] = [
    ("base_models", &["base_model", "base_models", "base_model_sources"]),
    ("datasets", &["datasets", "dataset"]),
];

/// Lists of words, each of all these keys.
const WORDS: [(&str, &[&str]); 2] =
    [("tags", &["tags", "pipeline_tag"]), ("languages", &["languages", "language"])];

/// Sampling: the card's name, that of `generation_config.json`.
const SAMPLING: [(&str, &str); 13] = [
    ("sequence", "sequence"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("xtc_probability", "xtc_probability"),
    ("xtc_threshold", "xtc_threshold"),
    ("temp", "temperature"),
    ("penalty_last_n", "penalty_last_n"),
    ("penalty_repeat", "penalty_repeat"),
    ("penalty_repeat", "repetition_penalty"),
    ("mirostat", "mirostat"),
    ("mirostat_tau", "mirostat_tau"),
    ("mirostat_eta", "mirostat_eta"),
];

/// The map of the README's front matter; nothing where there is none. Says whether there is one that is not understood.
///
/// # Errors
/// Any error from reading.
pub fn front(source: &dyn Source, entries: &[String]) -> Result<(Option<Map<String, Json>>, bool)> {
    if !entries.iter().any(|name| name == README) {
        return Ok((None, false));
    }
    // What cannot be opened is left out as a companion too, and said there.
    let Ok(file) = source.sibling(README) else { return Ok((None, false)) };
    let len = source.len(file)?.min(LONGEST);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    source.read_at(file, 0, &mut bytes)?;
    let end = std::str::from_utf8(&bytes).map_or_else(|e| e.valid_up_to(), str::len);
    let text = std::str::from_utf8(bytes.get(..end).unwrap_or_default()).unwrap_or_default();
    let Some(yaml) = front_matter::of(text) else {
        // One that does not end in what is looked at; elsewhere the line is a rule across the page.
        return Ok((None, len == LONGEST && text.starts_with("---")));
    };
    let map = front_matter::parse(yaml);
    let odd = map.is_none() && !yaml.trim().is_empty();
    Ok((map, odd))
}

/// The card as JSON; `None` if nothing is said. `config` and `generation` are typed keys, the latter of a file that need not be
/// there; `embedding` is what it says of vectors of texts; `folder` is the folder's name.
pub fn card(
    front: Option<&Map<String, Json>>,
    config: &[(String, Value)],
    generation: Option<&[(String, Value)]>,
    embedding: Option<Map<String, Json>>,
    folder: &str,
) -> Option<String> {
    let empty = Map::new();
    let front = front.unwrap_or(&empty);
    let mut card = Map::new();
    for (name, keys) in TEXTS {
        if let Some(text) = keys.iter().find_map(|key| front.get(*key)?.as_str()) {
            card.insert(name.to_owned(), Json::from(text));
        }
    }
    let typed = |keys: &[(String, Value)], name: &str| {
        keys.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone())
    };
    let named = typed(config, "_name_or_path");
    // A path of the maker's machine says nothing.
    let named =
        named.as_ref().and_then(Value::as_str).filter(|id| !id.is_empty() && id.matches('/').count() <= 1);
    if let Some(id) = named {
        card.insert("ids".to_owned(), serde_json::json!([id]));
    }
    if !folder.is_empty() && !folder.starts_with('.') && !is_hash(folder) {
        card.insert("folder".to_owned(), Json::from(folder));
    }
    let source = SOURCE.iter().filter_map(|key| Some(((*key).to_owned(), front.get(*key)?.clone())));
    let source: Map<String, Json> = source.filter(|(_, json)| json.is_string()).collect();
    if !source.is_empty() {
        card.insert("source".to_owned(), Json::Object(source));
    }
    for (name, keys) in ORIGINS {
        let ids: Vec<_> = words(front, keys).map(|id| serde_json::json!({ "id": id })).collect();
        if !ids.is_empty() {
            card.insert(name.to_owned(), Json::Array(ids));
        }
    }
    for (name, keys) in WORDS {
        let words: Vec<_> = words(front, keys).map(Json::from).collect();
        if !words.is_empty() {
            card.insert(name.to_owned(), Json::Array(words));
        }
    }
    let settings = Generation::of(generation.map(object).as_ref(), &object(config));
    let mut sampling = Map::new();
    for (name, key) in SAMPLING {
        let stated = generation.and_then(|generation| typed(generation, key));
        if let Some(json) = stated.as_ref().and_then(sampled).filter(|_| !sampling.contains_key(name)) {
            sampling.insert(name.to_owned(), json);
        }
    }
    if generation.is_some() && settings.greedy {
        // The one word for it that other formats have.
        sampling.insert("temp".to_owned(), 0.into());
    }
    let mut carried = settings.carried;
    if generation.is_some() && settings.draws != suggests_drawing(&sampling) {
        carried.insert("do_sample".to_owned(), settings.draws.into());
    }
    if !sampling.is_empty() {
        card.insert("sampling".to_owned(), Json::Object(sampling));
    }
    if !carried.is_empty() {
        card.insert("generation".to_owned(), Json::Object(carried));
    }
    if let Some(embedding) = embedding.filter(|embedding| !embedding.is_empty()) {
        card.insert("embedding".to_owned(), Json::Object(embedding));
    }
    (!card.is_empty()).then(|| Json::Object(card).to_string())
}

/// The object that typed keys were.
pub fn object(typed: &[(String, Value)]) -> Map<String, Json> {
    config_json::unflatten(typed.iter().map(|(key, value)| (key.as_str(), value))).unwrap_or_default()
}

/// How to sample, as `generation_config.json` says it.
pub fn sampling(card: &Map<String, Json>) -> Map<String, Json> {
    let said = card.get("sampling").and_then(Json::as_object);
    // The library's own name is the last of those that are read.
    let key =
        |name: &str| SAMPLING.iter().rfind(|(known, _)| *known == name).map(|(_, key)| (*key).to_owned());
    let pairs = said.into_iter().flatten().filter_map(|(name, value)| Some((key(name)?, value.clone())));
    pairs.collect()
}

/// Returns whether settings of a card are of tokens that are drawn. A penalty is followed either way.
pub fn suggests_drawing(sampling: &Map<String, Json>) -> bool {
    let greedy = sampling.get("temp").and_then(Json::as_f64) == Some(0.0);
    !greedy
        && sampling.keys().any(|name| !["sequence", "penalty_last_n", "penalty_repeat"].contains(&&**name))
}

/// A README whose front matter says what the card says, and below what was done, a sentence; `None` if the card says nothing.
pub fn readme(card: &Map<String, Json>, done: &str) -> Option<String> {
    let mut lines = String::new();
    // JSON's texts are YAML's too.
    let mut line = |key: &str, value: &str| lines.push_str(&format!("{key}: {}\n", Json::from(value)));
    for (name, keys) in TEXTS {
        let key = keys.iter().find(|key| key.starts_with("model_") && **key != "model_type").unwrap_or(&name);
        if let Some(text) = card.get(name).and_then(Json::as_str) {
            line(key, text);
        }
    }
    let source = card.get("source").and_then(Json::as_object);
    for (key, text) in source.into_iter().flatten() {
        if let Some(text) = text.as_str() {
            line(key, text);
        }
    }
    let mut list = |key: &str, items: Vec<String>| {
        if !items.is_empty() {
            lines.push_str(&format!("{key}:\n"));
            items.iter().for_each(|item| lines.push_str(&format!("- {}\n", Json::from(item.as_str()))));
        }
    };
    let array = |name: &str| card.get(name).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    for (key, name) in [("language", "languages"), ("tags", "tags")] {
        list(key, array(name).iter().filter_map(Json::as_str).map(str::to_owned).collect());
    }
    for (key, name) in [("base_model", "base_models"), ("datasets", "datasets")] {
        list(key, array(name).iter().filter_map(origin).collect());
    }
    let title = card.get("name").and_then(Json::as_str).unwrap_or("Model").replace(['\n', '\r'], " ");
    (!lines.is_empty()).then(|| format!("---\n{lines}---\n\n# {title}\n\n{done}\n"))
}

/// The id of a model or a set of data, or else its address or name.
fn origin(origin: &Json) -> Option<String> {
    let text = |key: &str| origin.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let on_hub =
        |address: &str| address.strip_prefix(HUB).map(|id| id.trim_start_matches("datasets/").to_owned());
    let own = || text("repo_url").map(|address| on_hub(address).unwrap_or_else(|| address.to_owned()));
    text("id").map(str::to_owned).or_else(own).or_else(|| text("name").map(str::to_owned))
}

/// Where ids lead.
const HUB: &str = "https://huggingface.co/";

/// The texts of several keys, each a text or a list of some.
fn words<'f>(front: &'f Map<String, Json>, keys: &'f [&str]) -> impl Iterator<Item = &'f str> {
    keys.iter().filter_map(|key| front.get(*key)).flat_map(|json| match json {
        Json::Array(items) => items.iter().filter_map(Json::as_str).collect::<Vec<_>>(),
        other => other.as_str().into_iter().collect(),
    })
}

fn sampled(value: &Value) -> Option<Json> {
    let float = value.as_f64().and_then(Number::from_f64).map(Json::Number);
    value.as_i64().map(Json::from).or(float).or_else(|| value.as_str().map(Json::from))
}

/// Whether a name is a revision of a download cache.
fn is_hash(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_the_files_say() {
        let front = "license: apache-2.0\nmodel_name: Tiny\nmodel_creator: me\nlanguage:\n- en\n- no\ntags: [x]\n\
                     pipeline_tag: text-generation\nbase_model: org/base\ndatasets: [a/b]\nrepo_url: https://x\n";
        let front = front_matter::parse(front).unwrap();
        let config = [("_name_or_path".to_owned(), Value::from_string("org/tiny"))];
        let generation = [
            ("top_k".to_owned(), Value::from_i64(40)),
            ("temperature".to_owned(), Value::from_f64(0.6)),
            ("repetition_penalty".to_owned(), Value::from_f64(1.1)),
        ];
        let said = card(Some(&front), &config, Some(&generation), None, "folder").unwrap();
        let expected = r#"{"name":"Tiny","author":"me","license":"apache-2.0","ids":["org/tiny"],"folder":"folder","source":{"repo_url":"https://x"},"base_models":[{"id":"org/base"}],"datasets":[{"id":"a/b"}],"tags":["x","text-generation"],"languages":["en","no"],"sampling":{"top_k":40,"temp":0.6,"penalty_repeat":1.1},"generation":{"repetition_penalty":1.1,"do_sample":false}}"#;
        assert_eq!(said, expected);
        assert_eq!(card(None, &[], None, None, &"a1".repeat(20)), None);
        let path = [("_name_or_path".to_owned(), Value::from_string("/home/me/tiny"))];
        assert_eq!(card(None, &path, None, None, ""), None);
    }

    #[test]
    fn a_readme_says_the_card_again() {
        let said = serde_json::json!({"name": "Tiny: \"1\"", "author": "me", "version": "v1", "license": "mit",
            "source": {"url": "https://x"}, "base_models": [{"id": "org/base"}], "datasets": [{"id": "a/b"}],
            "tags": ["x"], "languages": ["en", "no"], "sampling": {"top_k": 40, "penalty_repeat": 1.1}, "generation": {"repetition_penalty": 1.1, "do_sample": false}});
        let said = said.as_object().unwrap();
        let readme = readme(said, "Made here.").unwrap();
        assert!(readme.ends_with("\n# Tiny: \"1\"\n\nMade here.\n"), "{readme}");
        let front = front_matter::parse(front_matter::of(&readme).unwrap()).unwrap();
        let generation: Vec<_> = crate::config_json::flatten(&sampling(said));
        let again = card(Some(&front), &[], Some(&generation), None, "").unwrap();
        assert_eq!(serde_json::from_str::<Json>(&again).unwrap(), Json::Object(said.clone()), "{readme}");
        assert_eq!(super::readme(&Map::new(), "Made here."), None);
        let url = serde_json::json!({"repo_url": "https://huggingface.co/datasets/a/b", "name": "B"});
        assert_eq!(origin(&url).as_deref(), Some("a/b"));
    }
}
