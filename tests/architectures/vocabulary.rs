//! Tokenizers with more tokens than the model has rows for: carried where files may hold both. A GGUF file holds one token for
//! each row: SentencePiece's tokens beyond are left out, as llama.cpp's converter does, and other tokenizers are refused.

use crate::altered::configure;
use crate::back::to;
use crate::models::opened;
use crate::refused::tried;
use apr_host::host::Host;
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::Tokenizer;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Goldens whose tokenizer has no room to spare and is no SentencePiece, and the tensors with a row for each token.
const REFUSED: &[(&str, &[&str])] =
    &[("gpt2", &["transformer.wte.weight"]), ("bert", &["embeddings.word_embeddings.weight"])];

/// Those of SentencePiece.
const LEFT_OUT: &[(&str, &[&str])] =
    &[("llama", &["model.embed_tokens.weight", "lm_head.weight"]), ("gemma", &["model.embed_tokens.weight"])];

/// The golden's folder with ten rows less, and how many are left.
fn cut(scratch: &Scratch, golden: &str, tensors: &[&str]) -> (PathBuf, u64) {
    let mut model = Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap();
    let mut rows = 0;
    for tensor in model.shards.iter_mut().flat_map(|(_, shard)| shard) {
        if tensors.contains(&tensor.name.as_str()) {
            tensor.shape[0] -= 10;
            rows = tensor.shape[0];
        }
    }
    let folder = scratch.at(golden);
    model.write_to(&folder).unwrap();
    configure(&folder, "vocab_size", rows.into());
    (folder, rows)
}

fn tokenizer(host: &Host, path: &Path) -> Tokenizer {
    let model = opened(host, path);
    let json = model.fetch(&model.tokenizer(host).unwrap().unwrap()).unwrap();
    Tokenizer::from_json(json.inline().unwrap()).unwrap()
}

#[test]
fn a_tokenizer_of_bytes_or_words_with_more_tokens_than_rows_makes_no_gguf_file() {
    let host = host();
    for (golden, tensors) in REFUSED {
        let scratch = Scratch::new();
        let (folder, rows) = cut(&scratch, golden, tensors);
        let carried = scratch.at("m.apr");
        to(&host, "apr", &folder, &carried);
        to(&host, "huggingface", &carried, &scratch.at("back"));
        for input in [&folder, &carried] {
            let output = scratch.at("out.gguf");
            let done = tried(&host, "gguf", input, &output);
            let error = done.err().unwrap_or_else(|| panic!("{golden}: {} was converted", input.display()));
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{golden}: {error:?}");
            for word in [format!("{} tokens", rows + 10), format!("{rows} rows")] {
                assert!(error.message().contains(&word), "{golden}, {word}: {error:?}");
            }
            assert!(!output.exists(), "{golden}");
        }
    }
}

#[test]
fn pieces_without_rows_are_left_out_of_a_gguf_file_and_named() {
    let host = host();
    for (golden, tensors) in LEFT_OUT {
        let scratch = Scratch::new();
        let (folder, rows) = cut(&scratch, golden, tensors);
        let carried = scratch.at("m.apr");
        to(&host, "apr", &folder, &carried);
        let whole = tokenizer(&host, &folder);
        let first = u32::try_from(rows).unwrap();
        let named = format!("{rows} `{}`", whole.token(first).unwrap());
        for (input, output) in [(&folder, "a.gguf"), (&carried, "b.gguf")] {
            let output = scratch.at(output);
            let done = to(&host, "gguf", input, &output);
            let words = [
                format!("{} tokens", rows + 10),
                format!("{rows} rows: 10 tokens are left out, starting with {named}"),
            ];
            let says = |warning: &String| words.iter().all(|word| warning.contains(word));
            assert!(done.warnings.iter().any(says), "{golden}: {:?}", done.warnings);
            let dropped = &done.coverage.dropped_tokens;
            assert_eq!((dropped.len(), &dropped[0].name), (10, &named), "{golden}: {dropped:?}");
            let written = tokenizer(&host, &output);
            assert_eq!((written.vocab_size, written.tokens.len()), (first, first as usize), "{golden}");
            assert_eq!(written.tokens[..], whole.tokens[..first as usize], "{golden}");
        }
    }
}

/// The golden Gemma 3 with a token more than its embedding has rows, as Gemma 3 1B has one, and which the
/// configuration names for `purpose`.
fn one_more(scratch: &Scratch, purpose: Option<&str>) -> PathBuf {
    let mut model = Checkpoint::golden(&root().join("tests/golden/gemma3")).unwrap();
    let text = "<image_soft_token>";
    let flags = json!({"content": text, "special": true, "lstrip": false, "rstrip": false, "normalized": false, "single_word": false});
    for (name, bytes) in &mut model.companions {
        let mut json: Json = match name.as_str() {
            "tokenizer.json" | "tokenizer_config.json" => serde_json::from_slice(bytes).unwrap(),
            _ => continue,
        };
        if name == "tokenizer.json" {
            let mut added = flags.clone();
            added["id"] = 768.into();
            json["added_tokens"].as_array_mut().unwrap().push(added);
        } else {
            json["added_tokens_decoder"]["768"] = flags.clone();
            if let Some(purpose) = purpose {
                json[purpose] = text.into();
            }
        }
        *bytes = json.to_string().into_bytes();
    }
    model.name = "gemma3".to_owned();
    let folder = scratch.at(if purpose.is_some() { "named/gemma3" } else { "gemma3" });
    model.write_to(&folder).unwrap();
    folder
}

/// llama.cpp's converter leaves such a token out too (`_create_vocab_sentencepiece`: "ignore token").
#[test]
fn a_gemma_3_with_one_token_more_than_rows_gives_the_file_of_one_without() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = one_more(&scratch, None);
    assert_eq!(tokenizer(&host, &folder).token(768), Some("<image_soft_token>"));
    let output = scratch.at("out.gguf");
    let done = to(&host, "gguf", &folder, &output);
    let says =
        |warning: &String| warning.contains("1 token is left out, starting with 768 `<image_soft_token>`");
    assert!(done.warnings.iter().any(says), "{:?}", done.warnings);
    let (plain, without) = (scratch.at("plain/gemma3"), scratch.at("without.gguf"));
    Checkpoint::golden(&root().join("tests/golden/gemma3")).unwrap().write_to(&plain).unwrap();
    to(&host, "gguf", &plain, &without);
    assert_eq!(fs::read(&output).unwrap(), fs::read(&without).unwrap());
}

#[test]
fn a_token_without_a_row_that_the_configuration_names_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let output = scratch.at("out.gguf");
    let folder = one_more(&scratch, Some("eos_token"));
    let error = tried(&host, "gguf", &folder, &output).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.message().contains("`eos` is token 768 `<image_soft_token>`"), "{error:?}");
    assert!(!output.exists());
}

#[test]
fn a_token_without_a_row_that_is_listed_as_an_end_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let output = scratch.at("out.gguf");
    for (name, ids, refused) in [
        ("config.json", json!([1, 768]), true),
        ("generation_config.json", json!([1, 768]), true),
        ("generation_config.json", json!(768), true),
        ("config.json", json!([1, 106]), false),
    ] {
        let folder = one_more(&scratch, None);
        let path = folder.join(name);
        let mut said: Json = fs::read(&path).map_or(json!({}), |text| serde_json::from_slice(&text).unwrap());
        said["eos_token_id"] = ids.clone();
        fs::write(&path, said.to_string()).unwrap();
        let done = tried(&host, "gguf", &folder, &output);
        match done {
            Ok(_) => assert!(!refused, "{name}: {ids}"),
            Err(error) => {
                assert_eq!(
                    (error.kind(), refused),
                    (ErrorKind::Unsupported, true),
                    "{name}: {ids}: {error:?}"
                );
                assert!(error.message().contains("`eos` is token 768 `<image_soft_token>`"), "{error:?}");
                assert!(!output.exists());
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
