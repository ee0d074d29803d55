//! SentencePiece models as training leaves them, alone in a folder: what they do to a text, and which pieces they have, through
//! a GGUF file and back. What llama.cpp does otherwise is a warning.

use crate::saved::tokenizer;
use crate::{gguf, goldens, of_folder};
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::tokenizer::{SpaceFirst, TokenType, Tokenizer, Treatment};
use apr_sdk::{Error, ErrorKind};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Changes a member of the configuration or of a file, or takes it out.
pub type Change<'a> = (&'a str, &'a str, Json);

/// The golden's folder without `tokenizer.json`, with `more` behind its SentencePiece model, which `edit` may change piece by
/// piece, and with members of its JSON files changed.
pub struct Trained<'a> {
    pub golden: &'a str,
    /// Fields of `ModelProto`, which override those before.
    pub more: &'a [u8],
    pub edit: &'a dyn Fn(usize, &mut Vec<u8>),
    pub changes: &'a [Change<'a>],
}

impl Trained<'_> {
    pub fn write(&self, scratch: &Scratch) -> PathBuf {
        let model = Checkpoint::golden(&root().join("tests/golden").join(self.golden)).unwrap();
        let folder = scratch.at(&model.name);
        model.write_to(&folder).unwrap();
        fs::remove_file(folder.join("tokenizer.json")).unwrap();
        for name in ["tokenizer.model", "spiece.model"].map(|name| folder.join(name)) {
            if let Ok(bytes) = fs::read(&name) {
                fs::write(&name, [edited(&bytes, self.edit), self.more.to_vec()].concat()).unwrap();
            }
        }
        for (name, key, value) in self.changes {
            let path = folder.join(name);
            let mut json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            match value {
                Json::Null => drop(json.as_object_mut().unwrap().remove(*key)),
                value => json[key] = value.clone(),
            }
            fs::write(path, json.to_string()).unwrap();
        }
        folder
    }
}

pub fn plain(_: usize, _: &mut Vec<u8>) {}

/// Those members of the model that say how it was trained; every piece goes through `edit`, as it is encoded.
fn edited(mut model: &[u8], edit: &dyn Fn(usize, &mut Vec<u8>)) -> Vec<u8> {
    let (mut out, mut number) = (Vec::new(), 0);
    while let Some((&tag, mut rest)) = model.split_first() {
        // All fields of the model are messages.
        assert_eq!(tag & 7, 2);
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = rest[0];
            rest = &rest[1..];
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let mut body = rest[..len].to_vec();
        model = &rest[len..];
        if tag >> 3 == 1 {
            edit(number, &mut body);
            number += 1;
        }
        out.push(tag);
        out.extend(varint(body.len()));
        out.extend(body);
    }
    out
}

fn varint(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
        n >>= 7;
    }
    bytes.push(u8::try_from(n).unwrap());
    bytes
}

/// A piece, encoded: its text, its score, its type.
pub fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0x0a, u8::try_from(text.len()).unwrap()];
    bytes.extend(text.as_bytes());
    bytes.push(0x15);
    bytes.extend(score.to_le_bytes());
    bytes.extend([0x18, kind]);
    bytes
}

/// `NormalizerSpec.remove_extra_whitespaces`, which is true where training was told nothing else.
const SQUEEZES: &[u8] = &[0x1a, 2, 0x20, 1];

/// As configurations are that do not say `"legacy": false`, which the golden Llama does.
pub const USUAL: Change<'static> = ("tokenizer_config.json", "legacy", Json::Null);

pub fn tried(host: &Host, format: &str, input: &Path, output: &Path) -> Result<Converted, Error> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    convert(host, &options)
}

/// Through a GGUF file: the tokenizers of the folder, of the file and of the folder that comes back, and what was warned of.
pub fn through(host: &Host, scratch: &Scratch, input: &Path) -> ([Tokenizer; 3], Vec<String>) {
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    let done = tried(host, "gguf", input, &file).unwrap();
    tried(host, "huggingface", &file, &back).unwrap();
    ([input, &file, &back].map(|path| tokenizer(host, path)), done.warnings)
}

/// Warnings without the one that a lone model of SentencePiece is followed, whatever the class.
pub fn of_files(mut warnings: Vec<String>) -> Vec<String> {
    warnings.retain(|warning| !warning.starts_with("SentencePiece's model is followed"));
    warnings
}

/// What is warned of when the folder becomes a GGUF file, and what is done to a text, there and back.
fn treated(trained: &Trained<'_>) -> (Treatment, Vec<String>) {
    let (host, scratch) = (host(), Scratch::new());
    let (all, warnings) = through(&host, &scratch, &trained.write(&scratch));
    let warnings = of_files(warnings);
    let [folder, file, back] = all.map(|tokenizer| Treatment::of(&tokenizer).unwrap());
    assert_eq!((&file, &back), (&folder, &folder), "{}", trained.golden);
    (folder, warnings)
}

#[test]
fn spaces_that_a_model_removes_are_removed_in_the_folder_that_comes_back() {
    let trained = Trained { golden: "llama", more: SQUEEZES, edit: &plain, changes: &[USUAL] };
    let (treatment, warnings) = treated(&trained);
    assert!(treatment.squeezes);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("keeps runs of spaces"), "{warnings:?}");
    // And none is removed by a model that says so.
    let (treatment, warnings) = treated(&Trained { more: &[], ..trained });
    assert_eq!((treatment.squeezes, warnings), (false, Vec::new()));
    let (scratch, host) = (Scratch::new(), host());
    let folder = trained.write(&scratch);
    through(&host, &scratch, &folder);
    let json: Json = serde_json::from_slice(&fs::read(scratch.at("back/tokenizer.json")).unwrap()).unwrap();
    let steps = json["normalizer"]["normalizers"].as_array().unwrap();
    // With these, `tokenizers` cuts corpus.json as SentencePiece does.
    let replace =
        |pattern: &str, by: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": by});
    let expected = [replace("\\A +|[ \u{2581}]+\\z", ""), replace(" {2,}", " ")];
    assert_eq!(steps[..2], expected);
}

#[test]
fn what_else_llama_cpp_does_otherwise_is_warned_of_and_carried() {
    let anew = ("tokenizer_config.json", "legacy", json!(false));
    let trained = Trained { golden: "llama", more: &[], edit: &plain, changes: &[anew] };
    let (treatment, warnings) = treated(&trained);
    assert_eq!(treatment.space_first, SpaceFirst::Start);
    assert!(warnings.len() == 1 && warnings[0].contains("after a special token"), "{warnings:?}");
    // Rules for characters: no bytes that SentencePiece would load, but what is done with them is the same.
    let rules = Trained { more: &[0x1a, 5, 0x12, 3, 7, 8, 9], changes: &[USUAL], ..trained };
    let (treatment, warnings) = treated(&rules);
    assert_eq!(treatment.charsmap, Some(vec![7, 8, 9]));
    assert!(warnings.len() == 1 && warnings[0].contains("normalization rules"), "{warnings:?}");
    // What llama.cpp is told by a key needs no warning.
    let none = Trained { more: &[0x1a, 2, 0x18, 0], changes: &[USUAL], ..trained };
    let (treatment, warnings) = treated(&none);
    assert_eq!((treatment.space_first, warnings), (SpaceFirst::Never, Vec::new()));
    // Of pieces that are chosen by their cost, llama.cpp does all but this.
    let anew = ("tokenizer_config.json", "legacy", json!(false));
    let by_cost = Trained { golden: "t5", more: &[], edit: &plain, changes: &[anew] };
    let (treatment, warnings) = treated(&by_cost);
    assert!(treatment.squeezes && treatment.charsmap.is_some());
    assert_eq!(treatment.space_first, SpaceFirst::Start);
    assert!(warnings.len() == 1 && warnings[0].contains("after a special token"), "{warnings:?}");
    assert_eq!(treated(&Trained { changes: &[], ..by_cost }).1, Vec::<String>::new());
}

#[test]
fn steps_of_tokenizer_json_that_llama_cpp_has_no_key_for_are_named_and_carried() {
    let (host, scratch) = (host(), Scratch::new());
    let model = Checkpoint::golden(&root().join("tests/golden/llama")).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    let path = folder.join("tokenizer.json");
    let mut json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["normalizer"]["normalizers"].as_array_mut().unwrap().insert(0, json!({"type": "NFKC"}));
    fs::write(&path, json.to_string()).unwrap();
    let ([_, _, back], warnings) = through(&host, &scratch, &folder);
    assert!(warnings.len() == 1 && warnings[0].contains("this tokenizer's `NFKC`"), "{warnings:?}");
    assert_eq!(back.normalizer.as_ref(), Some(&json["normalizer"]));
    // The plan says so before anything is written.
    let options = ConvertOptions {
        input: folder,
        output: Some(scratch.at("planned.gguf")),
        to: Some("gguf".to_owned()),
        ..ConvertOptions::default()
    };
    assert_eq!(apr_host::convert::plan(&host, &options).unwrap().warnings, warnings);
}

#[test]
fn spaces_that_lie_elsewhere_are_refused_by_name() {
    let (host, words) = (host(), ["treat_whitespace_as_suffix", "escape_whitespaces"]);
    // Field 24 of the trainer's, field 5 of the normalizer's.
    for (word, more) in words.into_iter().zip([&[0x12, 3, 0xc0, 1, 1][..], &[0x1a, 2, 0x28, 0]]) {
        let scratch = Scratch::new();
        let folder = Trained { golden: "llama", more, edit: &plain, changes: &[] }.write(&scratch);
        let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains(word), "{error:?}");
    }
}

#[test]
fn padding_that_training_was_given_as_a_word_comes_back() {
    let flags = json!({"content": "<pad>", "special": true, "lstrip": false, "rstrip": false, "normalized": false, "single_word": false});
    let decoder = ("tokenizer_config.json", "added_tokens_decoder", json!({"3": flags}));
    let other = ("tokenizer_config.json", "pad_token", json!("\u{2581}"));
    // A word, or one that is never found in a text; the padding, or said to be nothing.
    for (kind, pad) in [(4, Some(3)), (4, None), (3, Some(3)), (3, None)] {
        let edit = |number: usize, body: &mut Vec<u8>| match number {
            0 => *body = piece("\u{2581}", -2.0, 1),
            3 => *body = piece("<pad>", 0.0, kind),
            _ => {}
        };
        let stated = ("config.json", "pad_token_id", pad.map_or(Json::Null, Json::from));
        let mut changes = vec![decoder.clone(), stated];
        changes.extend(pad.is_none().then(|| other.clone()));
        let trained = Trained { golden: "t5", more: &[], edit: &edit, changes: &changes };
        let (host, scratch) = (host(), Scratch::new());
        let ([folder, file, back], _) = through(&host, &scratch, &trained.write(&scratch));
        for tokenizer in [&folder, &file, &back] {
            let expected = if kind == 3 { TokenType::Control } else { TokenType::UserDefined };
            assert_eq!((tokenizer.token(3), tokenizer.type_of(3)), (Some("<pad>"), expected), "{pad:?}");
            assert_eq!(tokenizer.special_id("pad"), Some(pad.unwrap_or(0)));
        }
    }
}

#[test]
fn an_empty_piece_is_named() {
    let (host, scratch) = (host(), Scratch::new());
    let edit = |number: usize, body: &mut Vec<u8>| {
        if number == 300 {
            *body = piece("", -1.0, 1);
        }
    };
    let trained = Trained { golden: "llama", more: &[], edit: &edit, changes: &[] };
    let folder = trained.write(&scratch);
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error:?}");
    assert!(error.message().contains("piece 300"), "{error:?}");
}

/// As older converters of llama.cpp wrote tokens that look special.
#[test]
fn words_that_look_special_come_back_from_a_file_that_does_not_call_them_so() {
    let (host, scratch) = (host(), Scratch::new());
    for (name, text) in [("phi3", "<|user|>"), ("qwen2", "<|im_start|>")] {
        let (_, golden, files) = goldens().into_iter().find(|(golden, ..)| golden == name).unwrap();
        let mut parts = of_folder(&files).into_parts();
        let id = parts.each().find(|(_, token)| *token == text).unwrap().0;
        parts.types[id as usize] = TokenType::UserDefined;
        parts.added.iter_mut().filter(|added| added.id == id).for_each(|added| added.special = false);
        let (file, back) = (scratch.at("m.gguf"), scratch.at(name));
        fs::write(&file, gguf(&golden, &Tokenizer::new(parts).unwrap(), None)).unwrap();
        assert_eq!(tokenizer(&host, &file).type_of(id), TokenType::UserDefined, "{name}");
        tried(&host, "huggingface", &file, &back).unwrap();
        assert_eq!(tokenizer(&host, &back).token(id), Some(text), "{name}");
    }
}

#[test]
fn all_ends_of_a_text_come_back() {
    let (host, scratch) = (host(), Scratch::new());
    let changes: [Change<'_>; 2] = [
        ("config.json", "eos_token_id", json!([2, 7])),
        ("generation_config.json", "eos_token_id", json!([2, 9, 7])),
    ];
    let trained = Trained { golden: "llama", more: &[], edit: &plain, changes: &changes };
    let ([folder, file, back], _) = through(&host, &scratch, &trained.write(&scratch));
    for tokenizer in [&folder, &file, &back] {
        assert_eq!((tokenizer.special_id("eos"), &tokenizer.ends[..]), (Some(2), &[7, 9][..]));
    }
    for name in ["config.json", "generation_config.json"] {
        let text = fs::read(scratch.at("back").join(name)).unwrap();
        let json: Json = serde_json::from_slice(&text).unwrap();
        assert_eq!(json["eos_token_id"], json!([2, 7, 9]), "{name}");
    }
}

/// llama.cpp calls an empty token so.
#[test]
fn an_empty_text_of_tokenizer_json_is_called_by_its_number() {
    let (host, scratch) = (host(), Scratch::new());
    let model = Checkpoint::golden(&root().join("tests/golden/gpt2")).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    let path = folder.join("tokenizer.json");
    let mut json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let last = json["model"]["merges"].as_array_mut().unwrap().pop().unwrap();
    let text = match &last {
        Json::String(pair) => pair.replace(' ', ""),
        pair => pair.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect(),
    };
    let id = json["model"]["vocab"].as_object_mut().unwrap().remove(&text).unwrap();
    json["model"]["vocab"][""] = id.clone();
    fs::write(&path, json.to_string()).unwrap();
    let id = u32::try_from(id.as_u64().unwrap()).unwrap();
    let ([whole, file, back], _) = through(&host, &scratch, &folder);
    let named = format!("[EMPTY_{id}]");
    assert_eq!([whole.token(id), file.token(id), back.token(id)], [Some(""), Some(&*named), Some(&*named)]);
}
