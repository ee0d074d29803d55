//! A text's way to its vector in a folder of sentence-transformers: what its version 6.2 puts before the text, how it is
//! spelled, how much of it is read, and how much of the vector counts.

use crate::layout::MODULES;
use crate::pooling::{INCLUDE_PROMPT, path_of, pooling_config, short};
use apr_sdk::{Result, Source};
use serde_json::{Map, Value as Json, json};

/// Names of the first module's configuration; the first that is there counts.
const MODULE_CONFIGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// The configuration of the whole.
const WHOLE_CONFIG: &str = "config_sentence_transformers.json";

/// Keys of the first module's configuration that change its vectors and are not followed.
const OTHERS: [&str; 3] = ["processing_kwargs", "query_expansion", "module_output_name"];

/// Keys of the model and of the tokenizer that bound the tokens of a text.
const LENGTHS: [&str; 2] = ["max_position_embeddings", "model_max_length"];

/// The output that the next module takes, whoever says so.
const OUTPUT: &str = "token_embeddings";

/// What the card says under `embedding`; `None` for a folder that lists no modules. `config` and `tokenizer` are the objects of
/// `config.json` and `tokenizer_config.json`.
///
/// # Errors
/// As [`short`].
pub fn embedding(
    source: &dyn Source,
    config: &Map<String, Json>,
    tokenizer: &Map<String, Json>,
) -> Result<Option<Map<String, Json>>> {
    let modules = short(source, MODULES)?.unwrap_or_default();
    let Some(folder) = path_of(&modules, "Transformer") else { return Ok(None) };
    let mut module = Json::Null;
    for name in MODULE_CONFIGS {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if let Some(found) = short(source, &path)? {
            module = found;
            break;
        }
    }
    let whole = short(source, WHOLE_CONFIG)?.unwrap_or_default();
    let pooling = pooling_config(source, &modules)?.unwrap_or_default();
    Ok(Some(stated(&module, &whole, &pooling, &[config, tokenizer])))
}

fn stated(module: &Json, whole: &Json, pooling: &Json, bounds: &[&Map<String, Json>]) -> Map<String, Json> {
    let mut embedding = Map::new();
    let lengths =
        bounds.iter().flat_map(|object| LENGTHS.iter().filter_map(|key| object.get(*key)?.as_u64()));
    let usual = lengths.min();
    let most = module.get("max_seq_length").and_then(Json::as_u64).or(usual);
    if let Some(most) = most.filter(|most| *most > 0) {
        embedding.insert("max_length".to_owned(), most.into());
    }
    if module.get("do_lower_case").and_then(Json::as_bool) == Some(true) {
        embedding.insert("lower_case".to_owned(), true.into());
    }
    let mut others: Vec<Json> = Vec::new();
    let name = whole.get("default_prompt_name").and_then(Json::as_str);
    let prompt = name.and_then(|name| whole.get("prompts")?.get(name)?.as_str());
    match (name, prompt) {
        // The library knows these two, both empty, also where the file does not.
        (Some(name), None) if !["query", "document"].contains(&name) => {
            others.push(format!("default_prompt_name = {}", Json::from(name)).into());
        }
        (_, Some(prompt)) if !prompt.is_empty() => {
            embedding.insert("prompt".to_owned(), prompt.into());
            if pooling.get(INCLUDE_PROMPT).and_then(Json::as_bool) == Some(false) {
                others.push(json!(format!("{INCLUDE_PROMPT} = false")));
            }
        }
        _ => {}
    }
    if let Some(width) = whole.get("truncate_dim").and_then(Json::as_u64).filter(|width| *width > 0) {
        embedding.insert("dimensions".to_owned(), width.into());
    }
    for key in OTHERS {
        let changes = match module.get(key) {
            None | Some(Json::Null) => false,
            Some(Json::Object(members)) => !members.is_empty(),
            Some(Json::String(text)) => text != OUTPUT,
            Some(_) => true,
        };
        if changes {
            others.push(format!("{key} = {}", module.get(key).unwrap_or(&Json::Null)).into());
        }
    }
    if !others.is_empty() {
        embedding.insert("not_followed".to_owned(), others.into());
    }
    embedding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(module: Json, whole: Json, pooling: Json) -> Json {
        let config = json!({"max_position_embeddings": 512});
        let tokenizer = json!({"model_max_length": 1e30});
        let bounds = [config.as_object().unwrap(), tokenizer.as_object().unwrap()];
        Json::Object(stated(&module, &whole, &pooling, &bounds))
    }

    #[test]
    fn what_the_modules_say_is_said_in_one_form() {
        let module =
            json!({"max_seq_length": 256, "do_lower_case": true, "module_output_name": "token_embeddings"});
        let whole = json!({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query", "truncate_dim": 64});
        let want = json!({"max_length": 256, "lower_case": true, "prompt": "query: ", "dimensions": 64});
        assert_eq!(of(module.clone(), whole.clone(), json!({"include_prompt": true})), want);
        let other = of(module, whole, json!({"include_prompt": false}));
        assert_eq!(other["not_followed"], json!(["include_prompt = false"]));
    }

    #[test]
    fn what_is_not_said_is_the_models() {
        let said = of(
            json!({"max_seq_length": null}),
            json!({"default_prompt_name": null, "prompts": {}}),
            Json::Null,
        );
        assert_eq!(said, json!({"max_length": 512}));
        let odd = of(
            json!({"processing_kwargs": {"text": {"padding": true}}}),
            json!({"default_prompt_name": "x"}),
            Json::Null,
        );
        let named =
            json!(["default_prompt_name = \"x\"", "processing_kwargs = {\"text\":{\"padding\":true}}"]);
        assert_eq!(odd["not_followed"], named);
    }
}
