//! What decides how a text is cut and is neither a token nor a merge, through a GGUF file and back: how added tokens are found, what
//! the class of a tokenizer does of its own accord, and the space before a text.

use crate::pieces::{through, tried};
use crate::saved::tokenizer;
use crate::unsaid::{assert_warned, changed, edit, of_no_class, there_and_back};
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::{Tokenizer, steps};
use apr_tests::{Scratch, host};
use serde_json::{Value as Json, json};
use std::fs;

/// Makes the last token that nothing is merged of an added one.
fn add(json: &mut Json, content: &str, flags: &Json) {
    let merges = json["model"]["merges"].as_array().unwrap().clone();
    let text = |merge: &Json, n: usize| match merge {
        Json::Array(pair) => pair[n].as_str().unwrap().to_owned(),
        merge => merge.as_str().unwrap().split(' ').nth(n).unwrap().to_owned(),
    };
    let whole = |merge: &Json| text(merge, 0) + &text(merge, 1);
    let is_used = |made: &str| merges.iter().any(|merge| text(merge, 0) == made || text(merge, 1) == made);
    let taken =
        |made: &str| json["added_tokens"].as_array().unwrap().iter().any(|token| token["content"] == made);
    let made = merges.iter().rev().map(whole).find(|made| !is_used(made) && !taken(made)).unwrap();
    let left: Vec<Json> = merges.into_iter().filter(|merge| whole(merge) != made).collect();
    json["model"]["merges"] = left.into();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    let id = vocabulary.remove(&made).unwrap();
    vocabulary.insert(content.to_owned(), id.clone());
    let mut token = json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": false,
    });
    token.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
    json["added_tokens"].as_array_mut().unwrap().push(token);
}

/// The text of the added token and its flags.
fn told(tokenizer: &Tokenizer, content: &str) -> Option<(bool, bool)> {
    let id = tokenizer.each().find(|(_, text)| *text == content)?.0;
    let added = tokenizer.added.iter().find(|added| added.id == id)?;
    Some((added.normalized, added.special))
}

type Case<'a> = (&'a str, &'a str, Json, &'a [&'a str]);

#[test]
fn added_tokens_come_back_as_they_are_found() {
    let normalized = || json!({"normalized": true});
    let cases: [Case<'_>; 11] = [
        ("gpt2", "<x1>", json!({}), &[]),
        ("gpt2", "<x1>", normalized(), &[]),
        // Each of its characters stands for a byte, and together they are no text.
        ("gpt2", "café", json!({}), &[]),
        ("gpt2", "café", normalized(), &[]),
        ("gpt2", "Ġa", json!({}), &["finds the added token `Ġa` in the text ` a`"]),
        // llama.cpp's converter takes the mark for a space in every tokenizer.
        ("gpt2", "\u{2581}foo", json!({}), &["in the text ` foo`"]),
        ("llama", "\u{2581}foo", normalized(), &["matches normalized text"]),
        ("llama", "<x1>", normalized(), &["matches normalized text (`normalized`)"]),
        ("llama", "<x1>", json!({}), &[]),
        // It looks special, and is not.
        ("gpt2", "<|x1|>", json!({}), &[]),
        ("llama", "<|x1|>", json!({}), &[]),
    ];
    for (golden, content, flags, of) in cases {
        let (host, scratch) = (host(), Scratch::new());
        let folder = changed(&scratch, golden, "tokenizer.json", |json| add(json, content, &flags));
        drop(fs::remove_file(folder.join("tokenizer.model")));
        edit(&folder.join("tokenizer_config.json"), |json| {
            json.as_object_mut().unwrap().remove("added_tokens_decoder");
        });
        let ([before, file, back], warnings) = through(&host, &scratch, &folder);
        assert_warned(&warnings, of);
        let expected = told(&before, content);
        assert!(expected.is_some(), "{golden}, {content}");
        let counts = |found: Option<(bool, bool)>| {
            found.map(|(normalized, special)| {
                // Where nothing is normalized, both say the same.
                (normalized && before.normalizer.is_some(), special)
            })
        };
        for tokenizer in [&file, &back] {
            assert_eq!(counts(told(tokenizer, content)), counts(expected), "{golden}, {content}, {flags}");
        }
    }
}

#[test]
fn an_added_word_is_not_found_in_text_that_was_lower_cased() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "bert", "tokenizer.json", |json| {
        let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
        let last = vocabulary.len() - 1;
        vocabulary.retain(|_, id| *id != last);
        json["added_tokens"].as_array_mut().unwrap().push(json!({"id": last, "content": "hello"}));
    });
    edit(&folder.join("tokenizer_config.json"), |json| {
        json.as_object_mut().unwrap().remove("added_tokens_decoder");
    });
    let (all, warnings) = through(&host, &scratch, &folder);
    assert_warned(&warnings, &["finds the added token `hello` in normalized text"]);
    for tokenizer in &all {
        let outside: Vec<_> = tokenizer.added.iter().filter(|added| added.outside_model).collect();
        assert!(matches!(outside[..], [added] if tokenizer.token(added.id) == Some("hello")), "{outside:?}");
    }
}

/// Whether the step over bytes puts a space before a text.
fn puts_space(tokenizer: &Tokenizer) -> bool {
    let all = steps(tokenizer.pre_tokenizer.as_ref());
    let bytes: Vec<_> = all.iter().filter(|step| step["type"] == "ByteLevel").collect();
    bytes.iter().any(|step| step["add_prefix_space"].as_bool().unwrap_or(true))
}

/// As transformers 5.23 has it: classes that make the step themselves go by the configuration alone, the others by the step alone.
#[test]
fn the_class_decides_which_word_counts_on_the_space_before_bytes() {
    let own = ["GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer", "GPTNeoXTokenizerFast"];
    for class in own.into_iter().chain(["PreTrainedTokenizerFast", "TokenizersBackend", "BloomTokenizerFast"])
    {
        for (step, said) in
            [(true, None), (true, Some(false)), (false, Some(true)), (true, Some(true)), (false, None)]
        {
            let (host, scratch) = (host(), Scratch::new());
            let folder = changed(&scratch, "gpt2", "tokenizer.json", |json| {
                json["pre_tokenizer"]["add_prefix_space"] = json!(step)
            });
            edit(&folder.join("tokenizer_config.json"), |json| {
                json["tokenizer_class"] = json!(class);
                json.as_object_mut().unwrap().remove("add_prefix_space");
                said.iter().for_each(|said| json["add_prefix_space"] = json!(said));
            });
            let ([before, file, back], _) = through(&host, &scratch, &folder);
            let expected = if own.contains(&class) { said.unwrap_or(false) } else { step };
            assert_eq!([&before, &file, &back].map(puts_space), [expected; 3], "{class}, {step}, {said:?}");
            // Both words of the folder that comes back are one, for every version of the library.
            let config: Json =
                serde_json::from_slice(&fs::read(scratch.at("back/tokenizer_config.json")).unwrap()).unwrap();
            assert!(
                config["add_prefix_space"].as_bool().unwrap_or(false) == expected,
                "{class}, {step}, {said:?}"
            );
        }
    }
}

#[test]
fn no_flag_of_a_configuration_moves_the_space_before_pieces_but_that_of_their_class() {
    for (class, expected) in
        [("PreTrainedTokenizerFast", true), ("LlamaTokenizer", false), ("LlamaTokenizerFast", false)]
    {
        let (host, scratch) = (host(), Scratch::new());
        let folder = changed(&scratch, "llama", "tokenizer_config.json", |json| {
            (json["add_prefix_space"], json["tokenizer_class"]) = (json!(false), json!(class));
        });
        let ([before, file, back], _) = through(&host, &scratch, &folder);
        let puts = |tokenizer: &Tokenizer| {
            let all = steps(tokenizer.normalizer.as_ref());
            all.iter().any(|step| step["type"] == "Prepend")
        };
        assert_eq!([&before, &file, &back].map(puts), [expected; 3], "{class}");
    }
}

/// llama.cpp reads this key for bytes too, and puts no space before a text all the same: it takes one off what it decodes.
#[test]
fn a_file_of_bytes_whose_key_says_a_space_has_none() {
    let (host, scratch) = (host(), Scratch::new());
    let folder =
        changed(&scratch, "llama3", "tokenizer_config.json", |json| json["add_prefix_space"] = json!(true));
    let file = scratch.at("m.gguf");
    tried(&host, "gguf", &folder, &file).unwrap();
    let bytes = fs::read(&file).unwrap();
    let key = b"tokenizer.ggml.add_space_prefix";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    assert_eq!(bytes[at], 1);
    let back = scratch.at("back");
    tried(&host, "huggingface", &file, &back).unwrap();
    assert!(!puts_space(&tokenizer(&host, &file)) && !puts_space(&tokenizer(&host, &back)));
    let config: Json =
        serde_json::from_slice(&fs::read(back.join("tokenizer_config.json")).unwrap()).unwrap();
    assert_eq!(config["add_prefix_space"], json!(false));
}

#[test]
fn words_are_normalized_as_their_class_says() {
    for (class, flags, expected) in [
        ("BertTokenizer", json!({"do_lower_case": false}), (false, true)),
        ("BertTokenizerFast", json!({}), (true, true)),
        ("DistilBertTokenizer", json!({"tokenize_chinese_chars": false}), (true, false)),
        ("PreTrainedTokenizerFast", json!({"do_lower_case": false}), (true, true)),
    ] {
        let (host, scratch) = (host(), Scratch::new());
        let folder = changed(&scratch, "bert", "tokenizer_config.json", |json| {
            json["tokenizer_class"] = json!(class);
            json.as_object_mut()
                .unwrap()
                .retain(|key, _| !["do_lower_case", "tokenize_chinese_chars"].contains(&key.as_str()));
            json.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        });
        let ([before, file, back], _) = through(&host, &scratch, &folder);
        for tokenizer in [&before, &file, &back] {
            let step = tokenizer.normalizer.clone().unwrap();
            let found =
                (step["lowercase"].as_bool().unwrap(), step["handle_chinese_chars"].as_bool().unwrap());
            assert_eq!(found, expected, "{class}, {flags}");
        }
    }
}

#[test]
fn a_limit_on_words_comes_back_and_another_mark_inside_them_is_refused() {
    let ([before, file, back], warnings) =
        of_no_class("bert", |json| json["model"]["max_input_chars_per_word"] = json!(5));
    assert_warned(&warnings, &["words of more than 5 characters"]);
    assert_eq!([&before, &file, &back].map(|tokenizer| tokenizer.max_word_chars), [Some(5); 3]);
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "bert", "tokenizer.json", |json| {
        json["model"]["continuing_subword_prefix"] = json!("@@");
    });
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.message().contains("`@@`"), "{error:?}");
}

#[test]
fn another_decoder_comes_back() {
    for golden in ["gpt2", "llama", "t5", "bert"] {
        for decoder in [json!({"type": "Fuse"}), Json::Null] {
            let ([_, file, back], _) = of_no_class(golden, |json| json["decoder"] = decoder.clone());
            let expected = Some(&decoder).filter(|decoder| !decoder.is_null());
            assert_eq!((file.decoder.as_ref(), back.decoder.as_ref()), (expected, expected), "{golden}");
        }
    }
}

#[test]
fn a_usual_decoder_that_does_otherwise_comes_back() {
    let steps = |strip: Json, content: &str, has_bytes: bool| {
        let replace = json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": content});
        let mut steps = vec![replace, json!({"type": "ByteFallback"}), json!({"type": "Fuse"}), strip];
        if !has_bytes {
            steps.remove(1);
        }
        json!({"type": "Sequence", "decoders": steps})
    };
    let strip =
        |start: u32, stop: u32| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    for (golden, decoder) in [
        ("bert", json!({"type": "WordPiece", "prefix": "##", "cleanup": false})),
        ("bert", json!({"type": "WordPiece", "prefix": "@@", "cleanup": true})),
        ("llama", steps(strip(1, 1), " ", true)),
        ("llama", steps(strip(2, 0), " ", true)),
        ("llama", steps(strip(1, 0), "_", true)),
        ("llama", steps(strip(1, 0), " ", false)),
        (
            "t5",
            json!({"type": "Sequence", "decoders": [{"type": "BPEDecoder", "suffix": "</w>"},
            {"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true}]}),
        ),
    ] {
        let ([_, file, back], _) = of_no_class(golden, |json| json["decoder"] = decoder.clone());
        assert_eq!(
            (file.decoder.as_ref(), back.decoder.as_ref()),
            (Some(&decoder), Some(&decoder)),
            "{golden}"
        );
    }
}

#[test]
fn what_is_said_of_batches_comes_back() {
    let truncation =
        json!({"direction": "Right", "max_length": 128, "strategy": "LongestFirst", "stride": 0});
    let padding = json!({"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"});
    for golden in ["bert", "gpt2", "llama"] {
        let ([_, file, back], warnings) = of_no_class(golden, |json| {
            json["truncation"] = truncation.clone();
            json["padding"] = padding.clone();
        });
        for tokenizer in [&file, &back] {
            assert_eq!(
                (&tokenizer.truncation, &tokenizer.padding),
                (&Some(truncation.clone()), &Some(padding.clone()))
            );
        }
        assert!(warnings.iter().all(|warning| !warning.contains("truncation")), "{warnings:?}");
    }
}

#[test]
fn pieces_that_tokenizer_json_takes_for_no_bytes_are_none() {
    let ([before, file, back], warnings) =
        there_and_back("llama", |json| json["model"]["byte_fallback"] = json!(false));
    assert_warned(&warnings, &["uses `<0x00>` and the like as byte tokens"]);
    assert_eq!([&before, &file, &back].map(|tokenizer| tokenizer.byte_fallback), [false; 3]);
}

#[test]
fn two_steps_that_put_a_space_put_two() {
    let ([before, file, back], warnings) = there_and_back("llama", |json| {
        let steps = json["normalizer"]["normalizers"].as_array_mut().unwrap();
        steps.insert(0, json!({"type": "Prepend", "prepend": "\u{2581}"}));
    });
    assert_warned(&warnings, &["`Prepend`"]);
    assert_eq!((&file.normalizer, &back.normalizer), (&before.normalizer, &before.normalizer));
}
