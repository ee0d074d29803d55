//! Folders in which `tokenizer_config.json` says something else than `tokenizer.json`, or leaves it to the class of the tokenizer,
//! against what transformers makes of them (configured.json, by configured.py): the ids of the folder, of the GGUF file that it
//! becomes and of the folder that comes back, the texts that they give, and the special tokens.

use crate::pieces::{through, tried};
use crate::unsaid::{assert_warned, changed};
use crate::{goldens, parse, read_gguf, slow, tried_gguf};
use apr_inference::template::{Conversation, render};
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::tokenizer::Tokenizer;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;

const WITH: Encoding = Encoding { add_special: true, plain: false };
const BARE: Encoding = Encoding { add_special: false, plain: false };

/// The versions of the library, the one that counts first.
const VERSIONS: [&str; 2] = ["5.23.0", "4.57.6"];

type Files = Vec<(String, Vec<u8>)>;

/// The files of a case, as configured.py puts them together.
fn files(case: &Json) -> Files {
    let folder = root().join("tests/golden/tokenizers").join(case["of"].as_str().unwrap());
    let mut files = Files::new();
    for name in apr_tests::names_in(&folder) {
        let mut bytes = fs::read(folder.join(&name)).unwrap();
        if let (Some(changes), "tokenizer.json") = (case["fast"].as_object(), name.as_str()) {
            let mut json: Json = serde_json::from_slice(&bytes).unwrap();
            for (pointer, value) in changes {
                put(&mut json, pointer, value);
            }
            bytes = json.to_string().into_bytes();
        }
        files.push((name, bytes));
    }
    if case["merged"] == true {
        let json = parse(&folder.join("tokenizer.json"));
        let pairs = json["model"]["merges"].as_array().unwrap().iter();
        let pairs = pairs.map(|pair| match pair {
            Json::Array(pair) => format!("{} {}\n", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
            pair => format!("{}\n", pair.as_str().unwrap()),
        });
        let merges = format!("#version: 0.2\n{}", pairs.collect::<String>());
        let mut vocabulary = json["model"]["vocab"].clone();
        for token in json["added_tokens"].as_array().unwrap() {
            vocabulary[token["content"].as_str().unwrap()] = token["id"].clone();
        }
        files.push(("vocab.json".to_owned(), vocabulary.to_string().into_bytes()));
        files.push(("merges.txt".to_owned(), merges.into_bytes()));
    }
    if let Some(name) = case["vocabulary"].as_str() {
        let json = parse(&folder.join("tokenizer.json"));
        let mut words: Vec<(&String, u64)> = json["model"]["vocab"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(text, id)| (text, id.as_u64().unwrap()))
            .collect();
        words.sort_by_key(|(_, id)| *id);
        let text: String = words.iter().map(|(text, _)| format!("{text}\n")).collect();
        files.push((name.to_owned(), text.into_bytes()));
    }
    let without = |name: &str| {
        let listed = case["without"].as_array().into_iter().flatten().any(|left_out| left_out == name);
        listed || name == "tokenizer_config.json"
    };
    files.retain(|(name, _)| !without(name));
    if !case["config"].is_null() {
        files.push(("tokenizer_config.json".to_owned(), case["config"].to_string().into_bytes()));
    }
    for (name, content) in case["files"].as_object().into_iter().flatten() {
        files.push((name.clone(), content.to_string().into_bytes()));
    }
    let model = case.get("model").cloned().unwrap_or_else(|| json!({}));
    files.push(("config.json".to_owned(), model.to_string().into_bytes()));
    files
}

fn put(json: &mut Json, pointer: &str, value: &Json) {
    let (path, last) = pointer.rsplit_once('/').unwrap();
    match json.pointer_mut(path).unwrap() {
        Json::Array(items) if last == "-" => items.push(value.clone()),
        place => match last.parse::<usize>() {
            Ok(n) if place.is_array() => place[n] = value.clone(),
            _ => place[last] = value.clone(),
        },
    }
}

/// What differs from what the library found.
fn differences(tokenizer: Tokenizer, found: &Json, texts: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, id) in found["special"].as_object().unwrap() {
        let own = tokenizer.special_id(name);
        // A class may have a token that the vocabulary lacks; and what begins a text has several names.
        let lacks = id.as_u64().is_none_or(|id| id >= u64::from(tokenizer.vocab_size));
        if !lacks && own.map(u64::from) != id.as_u64() {
            wrong.push(format!("{name} is {own:?}, not {id}"));
        }
    }
    let mut tokens = Tokens::new(tokenizer).unwrap();
    for (n, text) in texts.iter().enumerate() {
        for (key, how) in [("ids", WITH), ("bare", BARE)] {
            let ids = tokens.encode(text, how).unwrap();
            if json!(ids) != found[key][n] {
                wrong.push(format!("{key} of {text:?}: {ids:?}, not {}", found[key][n]));
            }
        }
        if let Ok(ids) = serde_json::from_value::<Vec<u32>>(found["ids"][n].clone()) {
            let back = tokens.decode(&ids, false).unwrap_or_else(|error| format!("{error:?}"));
            if found["back"][n] != back.as_str() {
                wrong.push(format!("{ids:?} give {back:?}, not {}", found["back"][n]));
            }
        }
    }
    wrong
}

/// Whether a text has other ids by one version of the library than by the other.
fn is_disputed(case: &Json) -> bool {
    let [five, four] = VERSIONS.map(|version| &case["found"][version]);
    let read = |found: &Json| found.get("error").is_none();
    read(five) && read(four) && (five["ids"] != four["ids"] || five["bare"] != four["bare"])
}

#[test]
fn a_folder_does_what_transformers_do_with_it() {
    let listed = parse(&root().join("tests/tokenizers/configured.json"));
    let texts: Vec<String> = serde_json::from_value(listed["texts"].clone()).unwrap();
    let mut complaints = Vec::new();
    for case in listed["cases"].as_array().unwrap() {
        let shown = shown(case);
        let files = files(case);
        let tokenizer = match (read(&files), case["refused"].as_str()) {
            (Err(error), Some(word)) if error.message().contains(word) => continue,
            (Err(error), _) => {
                complaints.push(format!("{shown}\n    {error:?}"));
                continue;
            }
            (Ok(_), Some(_)) => {
                complaints.push(format!("{shown}\n    is not refused"));
                continue;
            }
            (Ok(tokenizer), None) => tokenizer,
        };
        let of_versions = VERSIONS.map(|version| match case["found"][version].get("error") {
            Some(_) => vec!["fails".to_owned()],
            None => differences(tokenizer.clone(), &case["found"][version], &texts),
        });
        // Where versions differ, one of them is followed or tokenizer.json itself, and that is said.
        if of_versions.iter().all(|wrong| !wrong.is_empty()) && tokenizer.notes.is_empty() {
            let of_versions = of_versions
                .map(|wrong| format!("{}: {}", wrong.len(), wrong[..wrong.len().min(3)].join("; ")));
            complaints.push(format!("{shown}\n    {}", of_versions.join("\n    ")));
        } else if is_disputed(case) && tokenizer.notes.is_empty() {
            complaints.push(format!(
                "{shown}\n    disputed {}, notes {:?}",
                is_disputed(case),
                tokenizer.notes
            ));
        }
    }
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}

/// A case without what the library found.
fn shown(case: &Json) -> Json {
    case.as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| *key != "found")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn read(files: &Files) -> Result<Tokenizer, apr_sdk::Error> {
    let mut fetch = |name: &str| Ok(files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.clone()));
    apr_plugin_huggingface::tokenizer::read(&mut fetch).map(Option::unwrap)
}

/// A text that a file of GGUF cannot have read as its folder does: it keeps no token beyond SentencePiece's model of a T5.
const UNSAID: &str = "t5-sp";

#[test]
fn what_a_folder_does_comes_back_through_gguf() {
    let listed = parse(&root().join("tests/tokenizers/configured.json"));
    let texts: Vec<String> = serde_json::from_value(listed["texts"].clone()).unwrap();
    let mut of_kinds = std::collections::HashMap::new();
    for (model, golden, _) in goldens() {
        let described = parse(&root().join("tests/golden").join(&model).join("tensors.json"));
        let file = described["companions"]["tokenizer.json"].as_str().unwrap().to_owned();
        of_kinds.insert(file.split('/').nth(1).unwrap().to_owned(), golden);
    }
    let (mut complaints, mut n) = (Vec::new(), 0);
    for case in listed["cases"].as_array().unwrap().iter().filter(|case| case["of"] != UNSAID) {
        let Ok(tokenizer) = read(&files(case)) else { continue };
        let Some(golden) = of_kinds.get(case["of"].as_str().unwrap()) else { continue };
        // A splitter without a name in the format is refused.
        let Ok(bytes) = tried_gguf(golden, &tokenizer, None) else { continue };
        n += 1;
        let (_, file, _) = read_gguf(bytes);
        let mut files: Files = apr_plugin_huggingface::tokenizer::files(&file)
            .into_iter()
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .collect();
        files.push(("config.json".to_owned(), format!("{{\"vocab_size\":{}}}", file.vocab_size).into()));
        let back = read(&files).unwrap();
        let cuts = tokenizer.cut_differences(&file);
        if let Some(first) = cuts.listed().first() {
            complaints.push(format!("{}\n    {first}", shown(case)));
        }
        let expected = made(tokenizer, &texts);
        for (of, found) in
            [("the file", made(file, &texts)), ("the folder that comes back", made(back, &texts))]
        {
            if let Some(at) = (0..expected.len()).find(|at| expected[*at] != found[*at]) {
                complaints.push(format!("{}\n    {of}: {}, not {}", shown(case), found[at], expected[at]));
            }
        }
    }
    assert!(n > 200, "{n}");
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}

/// What a tokenizer makes of each text.
fn made(tokenizer: Tokenizer, texts: &[String]) -> Vec<String> {
    let mut tokens = Tokens::new(tokenizer).unwrap();
    let mut all = Vec::new();
    for text in texts {
        let ids = tokens.encode(text, WITH).unwrap();
        let bare = tokens.encode(text, BARE).unwrap();
        let back = tokens.decode(&ids, false).unwrap();
        all.push(format!("{text:?} {ids:?} {bare:?} {back:?}"));
    }
    all
}

#[test]
fn chat_templates_have_the_variables_that_transformers_hand_to_them() {
    let mut complaints = Vec::new();
    let mut n = 0;
    for (listed, of_case) in [("configured.json", files as fn(&Json) -> Files), ("slow.json", slow::files_of)]
    {
        let listed = parse(&root().join("tests/tokenizers").join(listed));
        for case in listed["cases"].as_array().unwrap() {
            let Some(expected) = case["found"][VERSIONS[0]]["variables"].as_object() else { continue };
            let Ok(tokenizer) = read(&of_case(case)) else { continue };
            n += 1;
            let own: Vec<(String, Json)> =
                tokenizer.variables().into_iter().map(|(name, text)| (name, text.into())).collect();
            let expected: Vec<(String, Json)> = expected.clone().into_iter().collect();
            if own.len() != expected.len() || own.iter().any(|variable| !expected.contains(variable)) {
                complaints.push(format!("{}\n    {own:?}, not {expected:?}", shown(case)));
            }
        }
    }
    assert!(n > 500, "{n}");
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn a_template_has_named_tokens_in_a_file_as_in_its_folder() {
    let template =
        "{{ bos_token }}|{{ image_token }}|{{ eos_token }}|{{ pad_token }}|{{ messages[0].content }}";
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "qwen2", "tokenizer_config.json", |json| {
        json["extra_special_tokens"] = json!({"image_token": "<tool_call>"});
        json["chat_template"] = template.into();
        json.as_object_mut().unwrap().remove("additional_special_tokens");
    });
    let _ = fs::remove_file(folder.join("chat_template.jinja"));
    let (all, warnings) = through(&host, &scratch, &folder);
    assert_warned(&warnings, &["`image_token`", "`pad_token`"]);
    let conversation =
        Conversation { messages: vec![json!({"role": "user", "content": "a"})], ..Conversation::default() };
    for tokenizer in &all {
        let text = render(template, tokenizer, &conversation).unwrap();
        assert_eq!(text, "|<tool_call>|<|im_end|>|<|endoftext|>|a", "{:?}", tokenizer.chat_variables);
    }
}

#[test]
fn a_class_gives_a_file_the_tokens_that_its_folder_does_not_state() {
    for said in [json!({"tokenizer_class": "BertTokenizer"}), json!({"do_lower_case": true}), json!({})] {
        let (host, scratch) = (host(), Scratch::new());
        let folder = changed(&scratch, "bert", "tokenizer_config.json", |json| *json = said.clone());
        let ([_, file, back], warnings) = through(&host, &scratch, &folder);
        assert_warned(&warnings, &[]);
        for tokenizer in [&file, &back] {
            let text = |name: &str| tokenizer.special_id(name).and_then(|id| tokenizer.token(id));
            let texts =
                ["bos", "eos", "unk", "sep", "pad", "mask"].map(|name| text(name).unwrap_or_default());
            assert_eq!(texts, ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[MASK]"], "{said}");
        }
    }
}

#[test]
fn a_conversion_says_where_versions_of_the_library_read_a_folder_otherwise() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "llama", "tokenizer_config.json", |json| {
        (json["tokenizer_class"], json["add_bos_token"]) = (json!("LlamaTokenizer"), json!(false));
    });
    let (_, warnings) = through(&host, &scratch, &folder);
    assert_warned(&warnings, &["transformers 4 uses the flags", "transformers 5 uses the class"]);
}

#[test]
fn two_texts_for_one_id_are_refused_by_name() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "gpt2", "tokenizer_config.json", |json| {
        json["added_tokens_decoder"]["420"]["content"] = json!("<other>");
    });
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).err().unwrap();
    assert!(error.message().contains("token 420 is `<other>` in `added_tokens_decoder`"), "{error:?}");
}
