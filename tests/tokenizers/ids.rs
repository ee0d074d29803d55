//! Token ids by `apr-inference`, against those of the `tokenizers` library in another language (ids.json): of each golden
//! model's folder, and of the GGUF file made of it.

use super::{Files, gguf, goldens, of_folder, parse, read_gguf};
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::tokenizer::Tokenizer;
use apr_tests::root;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

const WITH: Encoding = Encoding { add_special: true, plain: false };
const BARE: Encoding = Encoding { add_special: false, plain: false };

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(2).map(|byte| format!("{byte:02x}")).collect()
}

fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn counted(ids: &[u32]) -> String {
    format!("{}:{}", ids.len(), digest(&joined(ids)))
}

fn texts() -> Vec<String> {
    serde_json::from_value(parse(&root().join("tests/tokenizers/corpus.json"))).unwrap()
}

/// Texts that a GGUF file cannot have read as its folder does: it keeps no token beyond SentencePiece's model of a T5.
const UNSAID: [(&str, &str); 1] = [("t5", "<extra_id_0>")];

/// The kind of tokenizer of a golden model.
fn kind_of(model: &str) -> String {
    let described = parse(&root().join("tests/golden").join(model).join("tensors.json"));
    let file = described["companions"]["tokenizer.json"].as_str().unwrap().to_owned();
    file.split('/').nth(1).unwrap().to_owned()
}

/// The kinds of which `ids.json` has the library's ids.
fn listed_kinds() -> Vec<String> {
    let all = parse(&root().join("tests/tokenizers/ids.json"));
    let mut kinds = apr_tests::names_in(&root().join("tests/golden/tokenizers"));
    kinds.retain(|kind| all.get(kind).is_some());
    assert!(kinds.len() > 15, "{kinds:?}");
    kinds
}

/// The files of a kind of tokenizer.
fn files_of(kind: &str) -> Files {
    let folder = root().join("tests/golden/tokenizers").join(kind);
    let names = apr_tests::names_in(&folder).into_iter();
    names.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

/// The texts that a tokenizer reads otherwise than expected, or makes otherwise of the ids, with what was found.
fn wrong(tokenizer: Tokenizer, expected: &Json) -> Vec<(String, String)> {
    let mut tokens = Tokens::new(tokenizer).unwrap();
    let list = |key: &str| expected[key].as_str().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (digests, decoded, stripped) = (list("digests"), list("decoded"), list("stripped"));
    let texts = texts();
    assert_eq!((texts.len(), texts.len()), (digests.len(), decoded.len()));
    let (mut wrong, mut bare) = (Vec::new(), Vec::new());
    for (n, text) in texts.iter().enumerate() {
        let ids = tokens.encode(text, WITH).unwrap();
        assert_eq!(tokens.count(text, WITH).unwrap(), ids.len() as u64);
        bare.push(joined(&tokens.encode(text, BARE).unwrap()));
        if counted(&ids) != digests[n] {
            wrong.push((text.clone(), format!("ids {ids:?}, not {} {}", digests[n], expected["ids"][n])));
            continue;
        }
        if let Some(whole) = expected["ids"].get(n) {
            assert_eq!(&Json::from(ids.clone()), whole);
        }
        for (skip, wanted) in [(false, &decoded[n]), (true, &stripped[n])] {
            let back = tokens.decode(&ids, skip).unwrap();
            if digest(&back) != *wanted {
                wrong.push((text.clone(), format!("decoded to {back:?} (skip {skip})")));
            }
        }
    }
    if wrong.is_empty() && digest(&bare.join("\n")) != expected["plain"] {
        wrong.push((String::new(), "ids with nothing put around".to_owned()));
    }
    wrong
}

#[test]
fn ids_of_a_folder_are_those_of_the_library() {
    let all = parse(&root().join("tests/tokenizers/ids.json"));
    let mut complaints = Vec::new();
    for kind in listed_kinds() {
        for (text, found) in wrong(of_folder(&files_of(&kind)), &all[&kind]) {
            complaints.push(format!("{kind}: {text:?}: {found}"));
        }
    }
    assert!(
        complaints.is_empty(),
        "{} differ:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(20)].join("\n")
    );
}

/// A text that is read in windows is read as the whole is.
#[test]
fn ids_of_a_long_text_are_those_of_the_library() {
    let all = parse(&root().join("tests/tokenizers/ids.json"));
    let long = vec![texts().join("\n"); 60].join("\n");
    assert!(long.len() > 600 << 10, "{} bytes are one window or two", long.len());
    let mut complaints = Vec::new();
    for kind in listed_kinds() {
        let mut tokens = Tokens::new(of_folder(&files_of(&kind))).unwrap();
        let found = tokens.encode(&long, WITH).map(|ids| counted(&ids));
        if found.as_ref().ok().map(String::as_str) != all[&kind]["long"].as_str() {
            complaints.push(format!("{kind}: {found:?}, not {}", all[&kind]["long"]));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn ids_of_a_gguf_file_are_those_of_its_folder() {
    let all = parse(&root().join("tests/tokenizers/ids.json"));
    let mut complaints = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    for (model, golden, files) in goldens() {
        let kind = kind_of(&model);
        let (_, tokenizer, _) = read_gguf(gguf(&golden, &of_folder(&files), None));
        let found = wrong(tokenizer, &all[&kind]);
        let known = |text: &str| UNSAID.contains(&(model.as_str(), text));
        for (_, text) in UNSAID.iter().filter(|(of, _)| *of == model) {
            assert!(
                found.iter().any(|(other, _)| other == text),
                "{model}: {text:?} is said now: delete its line"
            );
        }
        for (text, found) in found.into_iter().filter(|(text, _)| !known(text)) {
            complaints.push(format!("{model} ({kind}): {text:?}: {found}"));
        }
        kinds.insert(kind);
    }
    assert!(kinds.len() > 15);
    assert!(
        complaints.is_empty(),
        "{} differ:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(60)].join("\n")
    );
}
