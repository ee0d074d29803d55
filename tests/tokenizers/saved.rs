//! Tokenizers as transformers 5 saves them: `tokenizer.json` and no SentencePiece model. README.md says what is in saved/.

use crate::{Files, OF_RELEASED, gguf, of_folder, parse, read_gguf, same};
use apr_engine::open::{OpenOptions, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::Value;
use apr_sdk::tokenizer::Tokenizer;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A family's files as transformers saved them, and what llama.cpp's converter made of them.
struct Saved {
    name: String,
    golden: Json,
    files: Files,
    /// SentencePiece's file, which transformers 5 leaves out.
    model: Option<(String, Vec<u8>)>,
}

fn saved() -> Vec<Saved> {
    let folders = fs::read_dir(root().join("tests/tokenizers/saved")).unwrap();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() > 20);
    let one = |folder: &PathBuf| {
        let golden = parse(&folder.join("golden.json"));
        let kind = root().join("tests/golden/tokenizers").join(golden["tokenizer"].as_str().unwrap());
        let mut files = Files::new();
        for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
            // A `tokenizer.json` that is not there was saved as it was.
            let was = (name == "tokenizer.json").then(|| fs::read(kind.join(name)).unwrap());
            let bytes = fs::read(folder.join(name)).ok().or(was);
            files.extend(bytes.map(|bytes| (name.to_owned(), bytes)));
        }
        let model = ["tokenizer.model", "spiece.model"].into_iter();
        let model = model.filter_map(|name| Some((name.to_owned(), fs::read(kind.join(name)).ok()?))).next();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        Saved { name, golden, files, model }
    };
    folders.iter().map(one).collect()
}

/// The golden model that the tokenizer belongs to.
fn golden_of(saved: &Saved) -> PathBuf {
    root().join("tests/golden").join(saved.golden["model"].as_str().unwrap())
}

/// The files with a change to `tokenizer_config.json`.
fn configured(files: &Files, change: impl Fn(&mut serde_json::Map<String, Json>)) -> Files {
    let mut files = files.clone();
    let config = files.iter_mut().find(|(name, _)| name == "tokenizer_config.json").unwrap();
    let mut json: Json = serde_json::from_slice(&config.1).unwrap();
    change(json.as_object_mut().unwrap());
    config.1 = json.to_string().into_bytes();
    files
}

/// The forms in which one folder comes: what is the same tokenizer in each.
fn forms(saved: &Saved) -> Vec<(String, Files)> {
    let mut forms = vec![("as saved".to_owned(), saved.files.clone())];
    if let Some((name, model)) = &saved.model {
        let with = |bytes: &[u8]| [saved.files.clone(), vec![(name.clone(), bytes.to_vec())]].concat();
        forms.push((format!("with {name}"), with(model)));
        forms.push((format!("with an empty {name}"), with(b"")));
    }
    for class in ["PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer"] {
        let named = |config: &mut serde_json::Map<String, Json>| {
            config.insert("tokenizer_class".to_owned(), class.into());
        };
        forms.push((format!("class {class}"), configured(&saved.files, named)));
    }
    if let Some((_, template)) = saved.files.iter().find(|(name, _)| name == "chat_template.jinja") {
        let text = String::from_utf8(template.clone()).unwrap();
        let mut inside = configured(&saved.files, |config| {
            config.insert("chat_template".to_owned(), json!(text));
        });
        inside.retain(|(name, _)| name != "chat_template.jinja");
        forms.push(("template inside".to_owned(), inside));
    }
    forms
}

/// The keys of the tokenizer in a GGUF file of the family's model.
fn keys(saved: &Saved, files: &Files) -> Vec<(String, Value)> {
    let golden = golden_of(saved);
    let config = fs::read(golden.join("config.json")).unwrap();
    let files = [files.clone(), vec![("config.json".to_owned(), config)]].concat();
    let (keys, _, _) = read_gguf(gguf(&parse(&golden.join("golden.json")), &of_folder(&files), None));
    keys.into_iter()
        .filter(|(key, _)| key.starts_with("tokenizer.") && key != "tokenizer.ggml.token_type_count")
        .collect()
}

#[test]
fn every_form_of_a_folder_gives_the_keys_of_llama_cpps_converter() {
    let mut wrong = Vec::new();
    for saved in saved() {
        for (form, files) in forms(&saved) {
            let keys = keys(&saved, &files);
            let expected = saved.golden["kvs"].as_array().unwrap();
            let name = format!("{}, {form}", saved.name);
            for kv in expected {
                let key = kv["key"].as_str().unwrap();
                match keys.iter().find(|(name, _)| name == key) {
                    None => wrong.push(format!("{name}: no {key}")),
                    Some(_) if key == "tokenizer.ggml.pre" => {}
                    Some(_) if OF_RELEASED.contains(&(saved.name.as_str(), key)) => {}
                    Some((_, value)) if !same(kv, value) => wrong.push(format!("{name}: {key} is not {kv}")),
                    Some(_) => {}
                }
            }
            // What llama.cpp does not do to a text is carried besides.
            let ours = |key: &str| key.starts_with("tokenizer.apr.");
            let more = keys.iter().filter(|(key, _)| !ours(key));
            for (key, _) in more.filter(|(key, _)| expected.iter().all(|kv| kv["key"] != **key)) {
                wrong.push(format!("{name}: {key} too much"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_template_without_a_token_says_that_none_is_added() {
    // As transformers 5 writes a configuration in which `add_bos_token` or `add_eos_token` was false.
    for (name, key) in [("llama", "tokenizer.ggml.add_bos_token"), ("t5", "tokenizer.ggml.add_eos_token")] {
        let saved = saved().into_iter().find(|saved| saved.name == name).unwrap();
        let mut files = saved.files.clone();
        let fast = files.iter_mut().find(|(name, _)| name == "tokenizer.json").unwrap();
        let mut json: Json = serde_json::from_slice(&fast.1).unwrap();
        json["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {},
        });
        fast.1 = json.to_string().into_bytes();
        let said = |files: &Files| {
            let keys = keys(&saved, files);
            keys.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.as_bool())
        };
        assert_eq!((said(&saved.files), said(&files)), (Some(true), Some(false)), "{name}");
        // As in the library, no flag of the configuration changes that.
        let stated = configured(&files, |config| {
            config.insert(key.replace("tokenizer.ggml.", ""), true.into());
        });
        assert_eq!(said(&stated), Some(false), "{name}");
    }
}

/// The model's folder with the tokenizer's files replaced by `files`.
fn folder(saved: &Saved, files: &Files, scratch: &Scratch) -> PathBuf {
    let model = Checkpoint::golden(&golden_of(saved)).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json", "tokenizer.model", "spiece.model"] {
        drop(fs::remove_file(folder.join(name)));
    }
    files.iter().for_each(|(name, bytes)| fs::write(folder.join(name), bytes).unwrap());
    folder
}

pub fn tokenizer(host: &Host, path: &Path) -> Tokenizer {
    let model = open(host, path, &OpenOptions::default()).unwrap();
    let json = model.tokenizer(host).unwrap().unwrap();
    Tokenizer::from_json(model.fetch(&json).unwrap().inline().unwrap()).unwrap()
}

#[test]
fn folders_become_gguf_files_and_folders_again() {
    let host = host();
    let (mut failed, mut digests) = (Vec::new(), serde_json::Map::new());
    for saved in saved() {
        // With the model alone beside it: the other forms give the same keys.
        let with = saved.model.iter().map(|model| [saved.files.clone(), vec![model.clone()]].concat());
        for files in std::iter::once(saved.files.clone()).chain(with) {
            let scratch = Scratch::new();
            let input = folder(&saved, &files, &scratch);
            let (file, back, again) = (scratch.at("m.gguf"), scratch.at("back"), scratch.at("again.gguf"));
            let steps = [(&input, &file, "gguf"), (&file, &back, "huggingface"), (&back, &again, "gguf")];
            let done = steps.into_iter().try_for_each(|(input, output, format)| {
                let options = ConvertOptions {
                    input: input.clone(),
                    output: Some(output.clone()),
                    to: Some(format.to_owned()),
                    ..ConvertOptions::default()
                };
                convert(&host, &options).map(drop).map_err(|e| format!("{} to {format}: {e:#?}", saved.name))
            });
            match done {
                Err(error) => failed.push(error),
                Ok(()) => {
                    digests.insert(
                        saved.name.clone(),
                        json!(sha256(&fs::read(back.join("tokenizer.json")).unwrap())),
                    );
                    let (first, last) = (tokenizer(&host, &file), tokenizer(&host, &again));
                    failed.extend(first.difference(&last).map(|d| format!("{} and back: {d}", saved.name)));
                }
            }
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
    // What judge.py found to give the token ids of the folder. After BLESS=1 it is to be asked again.
    let (at, listed) =
        (root().join("tests/tokenizers/back.json"), serde_json::to_string_pretty(&digests).unwrap() + "\n");
    if std::env::var_os("BLESS").is_some() {
        fs::write(at, listed).unwrap();
    } else {
        assert_eq!(
            fs::read_to_string(at).unwrap(),
            listed,
            "another tokenizer.json comes back: tests/tokenizers/README.md"
        );
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
