//! Tokenizers between formats: the keys that llama.cpp's converter wrote (the golden manifests), and what
//! comes back.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod around;
mod chat;
mod configured;
mod flags;
mod foreign;
mod generation;
mod ids;
mod patterns;
mod pieces;
mod saved;
mod slow;
mod trained;
mod unsaid;

use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{
    Architecture, Bytes, DType, LayoutRequest, Limits, MemorySource, Options, Value, ValueType,
    json::value_to_json,
};
use apr_testkit::{Checkpoint, ModelFixture};
use apr_tests::root;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

fn parse(path: &std::path::Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Names and contents of files.
type Files = Vec<(String, Vec<u8>)>;

/// The folders with a golden manifest: the folder's name, its manifest, the model's files.
fn goldens() -> Vec<(String, Json, Files)> {
    let folders = fs::read_dir(root().join("tests/golden")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = folders.filter(|path| path.join("golden.json").is_file()).collect();
    // The others have tokenizers of the same kinds, and what llama.cpp's converter makes of them is compared with theirs.
    found.retain(|path| !apr_tests::is_of_families(path.file_name().unwrap().to_str().unwrap()));
    found.sort();
    assert!(found.len() > 4);
    let open = |path: PathBuf| {
        let golden = parse(&path.join("golden.json"));
        let files = Checkpoint::golden(&path).unwrap().files().unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), golden, files)
    };
    found.into_iter().map(open).collect()
}

fn folder(files: &[(String, Vec<u8>)]) -> MemorySource {
    files.iter().fold(MemorySource::folder("model"), |source, (name, bytes)| {
        source.with(name.as_str(), bytes.clone())
    })
}

/// The tokenizer of a Hugging Face folder.
fn of_folder(files: &[(String, Vec<u8>)]) -> Tokenizer {
    let mut fetch = |name: &str| Ok(files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.clone()));
    apr_plugin_huggingface::tokenizer::read(&mut fetch).unwrap().unwrap()
}

/// A GGUF file of the golden's architecture keys and tensors, with this tokenizer and card.
fn gguf(golden: &Json, tokenizer: &Tokenizer, card: Option<&Json>) -> Vec<u8> {
    tried_gguf(golden, tokenizer, card).unwrap()
}

/// As [`gguf`], if the format can say it.
fn tried_gguf(golden: &Json, tokenizer: &Tokenizer, card: Option<&Json>) -> apr_sdk::Result<Vec<u8>> {
    let mut fixture = ModelFixture::new();
    for tensor in golden["tensors"].as_array().unwrap() {
        let dtype = DType::from_name(tensor["type"].as_str().unwrap()).unwrap();
        let dims = tensor["dims"].as_array().unwrap().iter().rev();
        let shape: Vec<u64> = dims.map(|dim| dim.as_u64().unwrap()).collect();
        let size = apr_sdk::checked_payload_len(dtype, &shape).unwrap();
        let payload = vec![0; usize::try_from(size).unwrap()];
        fixture = fixture.tensor_with(tensor["name"].as_str().unwrap(), dtype, &shape, payload);
    }
    for kv in golden["kvs"].as_array().unwrap() {
        let key = kv["key"].as_str().unwrap();
        let ours =
            (key.starts_with("general.") && key != "general.architecture" && key != "general.file_type")
                || (key.starts_with("tokenizer.") && key != "tokenizer.ggml.token_type_count");
        if !ours {
            fixture = fixture.foreign("gguf", key, value(kv));
        }
    }
    let (mut model, source) = fixture.build().unwrap();
    let id = golden["architecture"].as_str().unwrap().to_owned();
    model.architecture = Some(Architecture { id, config: Bytes::from("{}") });
    model.tokenizer = Some(Bytes::from(tokenizer.to_json()));
    model.model_card = card.map(|card| Bytes::from(card.to_string().as_str()));
    let writer = (apr_plugin_gguf::PLUGIN.writer)("gguf").unwrap();
    let request = LayoutRequest::file("model.gguf");
    let payload = |n: usize| fixture.payload(n);
    let carries = apr_testkit::carries(&apr_plugin_gguf::PLUGIN, "gguf").unwrap();
    let files = apr_testkit::write(&*writer, &carries, &model, &source, &payload, &request);
    files.map(|mut files| files.remove(0).1)
}

/// A golden's key as a value.
fn value(kv: &Json) -> Value {
    let number = || kv["value"].as_u64().unwrap();
    match kv["type"].as_str().unwrap() {
        "str" => Value::from_string(kv["value"].as_str().unwrap()),
        "bool" => Value::from_bool(kv["value"].as_bool().unwrap()),
        "u32" => Value::from_u32(u32::try_from(number()).unwrap()),
        "i32" => Value::from_i32(i32::try_from(kv["value"].as_i64().unwrap()).unwrap()),
        "f32" => {
            Value::from_f32(f32::from_bits(u32::from_str_radix(kv["bits"].as_str().unwrap(), 16).unwrap()))
        }
        "arr" => {
            let items = kv["value"].as_array().unwrap();
            match kv["of"].as_str().unwrap() {
                "str" => Value::from_strings(&items.iter().map(|i| i.as_str().unwrap()).collect::<Vec<_>>()),
                of => {
                    let kind = ValueType::from_name(of).unwrap();
                    let bytes: Vec<u8> = items
                        .iter()
                        .flat_map(|i| i32::try_from(i.as_i64().unwrap()).unwrap().to_le_bytes())
                        .collect();
                    Value::from_items(kind, items.len() as u64, &bytes)
                }
            }
        }
        other => panic!("{other}"),
    }
}

/// The keys of a GGUF file, in order, and the tokenizer and the card it says.
fn read_gguf(bytes: Vec<u8>) -> (Vec<(String, Value)>, Tokenizer, Option<Json>) {
    let source = MemorySource::new("model.gguf", bytes);
    let reader = (apr_plugin_gguf::PLUGIN.reader)("gguf").unwrap();
    let open = reader.open(&source, &Limits::default(), &Options::new()).unwrap();
    let model = apr_testkit::read(&*reader, "gguf", &source, &Options::new()).unwrap();
    let held = |value: &Value| match &value.bytes {
        Bytes::Inline(_) => value.clone(),
        Bytes::Extent(extent) => {
            let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
            apr_sdk::Source::read_at(&source, extent.file, extent.offset, &mut bytes).unwrap();
            Value { kind: value.kind, bytes: bytes.into() }
        }
    };
    let keys = model.foreign_of("gguf").unwrap().files[0].typed.iter();
    let keys = keys.map(|(key, value)| (key.clone(), held(value))).collect();
    let tokenizer = Tokenizer::from_json(&open.tokenizer(&source).unwrap().unwrap()).unwrap();
    let card = model.model_card.map(|card| serde_json::from_slice(card.inline().unwrap()).unwrap());
    (keys, tokenizer, card)
}

/// Whether a key has the value that the golden says.
fn same(kv: &Json, value: &Value) -> bool {
    if value.kind.name() != kv["type"].as_str() {
        return false;
    }
    let bytes = value.bytes.inline().unwrap();
    if kv["type"] != "arr" {
        return self::value(kv) == *value;
    }
    let (kind, count) = value.array_head().unwrap();
    let head = kind.name() == kv["of"].as_str() && Some(count) == kv["count"].as_u64();
    match kv["sha256"].as_str() {
        Some(hash) => {
            head && Sha256::digest(&bytes[12..]).iter().map(|b| format!("{b:02x}")).collect::<String>()
                == hash
        }
        None => head && self::value(kv) == *value,
    }
}

/// What llama.cpp's converter calls the pre-tokenizer of the real models of an architecture.
const REAL_NAMES: [(&str, &str); 6] = [
    ("gpt-neox", "mpt"),
    ("jina-bert-v2", "jina-v2-en"),
    ("mpt", "mpt"),
    ("phi2", "phi-2"),
    ("roberta", "roberta-bpe"),
    ("stablelm", "mpt"),
];

/// Models, and keys for which the converter writes the numbers of released ones, whatever the vocabulary says.
const OF_RELEASED: [(&str, &str); 1] = [("gemma", "tokenizer.ggml.eot_token_id")];

#[test]
fn keys_are_those_of_llama_cpps_converter() {
    let mut wrong = Vec::new();
    for (arch, golden, files) in goldens() {
        let card = card_of(&arch, &golden);
        let (keys, _, _) = read_gguf(gguf(&golden, &of_folder(&files), Some(&card)));
        let expected = golden["kvs"].as_array().unwrap();
        for kv in expected {
            let key = kv["key"].as_str().unwrap();
            match keys.iter().find(|(name, _)| name == key) {
                None => wrong.push(format!("{arch}: no {key}")),
                // The manifests' converter was told one name for each splitter.
                Some((_, value)) if REAL_NAMES.contains(&(&arch, value.as_str().unwrap_or_default())) => {}
                Some(_) if OF_RELEASED.contains(&(&arch, key)) => {}
                Some((_, value)) if !same(kv, value) => {
                    let found = value_to_json(value.kind, value.bytes.inline().unwrap()).unwrap().to_string();
                    let found: String = found.chars().take(120).collect();
                    wrong.push(format!("{arch}: {key} is {found}, not {kv}"));
                }
                _ => {}
            }
        }
        // What llama.cpp does not do to a text is carried besides.
        let names: Vec<_> = keys
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| !key.starts_with("tokenizer.apr."))
            .collect();
        let wanted: Vec<_> = expected.iter().map(|kv| kv["key"].as_str().unwrap()).collect();
        for name in names.iter().filter(|name| !wanted.contains(name)) {
            wrong.push(format!("{arch}: {name} too much"));
        }
        if names != wanted {
            let first = names.iter().zip(&wanted).find(|(a, b)| a != b);
            wrong.push(format!("{arch}: the order is another: {first:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The card that the golden's files state: what its own generator put there, apart from what is derived.
fn card_of(name: &str, golden: &Json) -> Json {
    let get = |key: &str| {
        let kvs = golden["kvs"].as_array().unwrap();
        kvs.iter().find(|kv| kv["key"] == key).map(|kv| kv["value"].clone())
    };
    let mut card = serde_json::json!({ "ids": [name] });
    for (name, key) in [
        ("license", "general.license"),
        ("license_link", "general.license.link"),
        ("tags", "general.tags"),
        ("languages", "general.languages"),
    ] {
        if let Some(value) = get(key) {
            card[name] = value;
        }
    }
    if get("general.base_model.count").is_some() {
        card["base_models"] = serde_json::json!([{"id": "example-org/Base-Model-7B"}]);
        card["datasets"] = serde_json::json!([{"id": "example-org/some-text"}]);
    }
    for kv in golden["kvs"].as_array().unwrap() {
        if let Some(name) = kv["key"].as_str().unwrap().strip_prefix("general.sampling.") {
            // As generation_config.json has them, not as 32 bits have them.
            let value = self::value(kv).as_f32().map(|x| x.to_string().parse::<f64>().unwrap());
            card["sampling"][name] = value.map_or_else(|| kv["value"].clone(), Json::from);
        }
    }
    card
}

#[test]
fn the_core_survives_keys() {
    for (arch, golden, files) in goldens() {
        let before = of_folder(&files);
        let (_, after, _) = read_gguf(gguf(&golden, &before, None));
        let (a, b) = (before.core(), after.core());
        for (id, (a, b)) in a.tokens.iter().zip(&b.tokens).enumerate() {
            assert_eq!(a, b, "{arch}: token {id}");
        }
        assert_eq!((&a.special, &a.add), (&b.special, &b.add), "{arch}");
        assert!(a == b, "{arch}");
        let (_, again, _) = read_gguf(gguf(&golden, &after, None));
        assert!(again.core() == b, "{arch}");
    }
}

#[test]
fn a_card_survives_keys() {
    let (_, golden, files) = goldens().remove(0);
    let origin = serde_json::json!({"name": "A", "author": "b", "version": "1", "organization": "C", "description": "d", "url": "u", "doi": "o", "uuid": "i", "repo_url": "r"});
    let card = serde_json::json!({
        "name": "N", "author": "A", "version": "V", "organization": "O", "finetune": "F", "basename": "B", "description": "D",
        "quantized_by": "Q", "size_label": "7B", "license": "mit", "license_name": "n", "license_link": "l", "url": "u",
        "doi": "d", "uuid": "i", "repo_url": "r", "source": {"url": "u", "doi": "d", "uuid": "i", "repo_url": "r"},
        "base_models": [origin, {"name": "Z"}], "datasets": [origin], "tags": ["a", "b"], "languages": ["en"],
        "sampling": {"sequence": "s", "top_k": 40, "top_p": 0.9, "min_p": 0.05, "xtc_probability": 0.5, "xtc_threshold": 0.1,
            "temp": 0.7, "penalty_last_n": -1, "penalty_repeat": 1.1, "mirostat": 2, "mirostat_tau": 5.0, "mirostat_eta": 0.1},
    });
    let (_, _, after) = read_gguf(gguf(&golden, &of_folder(&files), Some(&card)));
    assert_eq!(after.unwrap(), card);
}

#[test]
fn files_of_a_tokenizer_give_it_back() {
    for (arch, golden, files) in goldens() {
        let (_, from_keys, _) = read_gguf(gguf(&golden, &of_folder(&files), None));
        for before in [of_folder(&files), from_keys] {
            let mut written: Vec<(String, Vec<u8>)> = apr_plugin_huggingface::tokenizer::files(&before)
                .into_iter()
                .map(|(name, bytes)| (name.to_owned(), bytes))
                .collect();
            written
                .push(("config.json".to_owned(), format!("{{\"vocab_size\":{}}}", before.vocab_size).into()));
            let after = of_folder(&written);
            let (a, b) = (before.core(), after.core());
            for (id, (a, b)) in a.tokens.iter().zip(&b.tokens).enumerate() {
                assert_eq!(a, b, "{arch}: token {id}");
            }
            assert_eq!((&a.special, &a.add), (&b.special, &b.add), "{arch}");
            assert!(a == b, "{arch}");
            assert_eq!(before.added, after.added, "{arch}");
            let definitions = |t: &Tokenizer| {
                [t.normalizer.clone(), t.pre_tokenizer.clone(), t.decoder.clone(), t.post_processor.clone()]
            };
            assert_eq!(definitions(&before), definitions(&after), "{arch}");
        }
    }
}

#[test]
fn a_folder_gives_its_tokenizer_through_the_reader() {
    let (_, _, files) = goldens().remove(0);
    let source = folder(&files);
    let reader = (apr_plugin_huggingface::PLUGIN.reader)("huggingface").unwrap();
    let open = reader.open(&source, &Limits::default(), &Options::new()).unwrap();
    let json = open.tokenizer(&source).unwrap().unwrap();
    assert_eq!(Tokenizer::from_json(&json).unwrap(), of_folder(&files));
}
