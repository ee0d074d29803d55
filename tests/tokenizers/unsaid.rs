//! What a folder says of its tokenizer and GGUF has no word for: carried in a key of its own, or refused. What llama.cpp does
//! otherwise is a warning.

use crate::pieces::{Trained, USUAL, of_files, piece, plain, through, tried};
use crate::saved::tokenizer;
use apr_inference::tokens::{Encoding, Tokens};
use apr_sdk::ErrorKind;
use apr_sdk::tokenizer::Tokenizer;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The golden's folder with a change to one of its JSON files.
pub fn changed(scratch: &Scratch, golden: &str, name: &str, change: impl FnOnce(&mut Json)) -> PathBuf {
    let model = Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    edit(&folder.join(name), change);
    folder
}

pub fn edit(path: &Path, change: impl FnOnce(&mut Json)) {
    let mut json: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// The tokenizers of the folder, of the file and of the folder that comes back, and what was warned of.
pub fn there_and_back(golden: &str, change: impl FnOnce(&mut Json)) -> ([Tokenizer; 3], Vec<String>) {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, golden, "tokenizer.json", change);
    through(&host, &scratch, &folder)
}

/// As [`there_and_back`], of a tokenizer of no class that does anything of its own accord, and whose configuration lists no added
/// tokens.
pub fn of_no_class(golden: &str, change: impl FnOnce(&mut Json)) -> ([Tokenizer; 3], Vec<String>) {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, golden, "tokenizer.json", change);
    edit(&folder.join("tokenizer_config.json"), |json| {
        json["tokenizer_class"] = json!("PreTrainedTokenizerFast");
        json.as_object_mut().unwrap().remove("added_tokens_decoder");
    });
    through(&host, &scratch, &folder)
}

/// That there is one warning for each of these, which has it.
pub fn assert_warned(warnings: &[String], of: &[&str]) {
    assert_eq!(warnings.len(), of.len(), "{warnings:?}");
    for (warning, of) in warnings.iter().zip(of) {
        assert!(warning.contains(of), "{warning} lacks {of}");
    }
}

#[test]
fn normalizers_of_bytes_come_back_and_are_warned_of() {
    let replace = json!({"type": "Replace", "pattern": {"String": "``"}, "content": "\""});
    let both = json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, replace]});
    for (golden, normalizer, of) in [
        ("gpt2", json!({"type": "Lowercase"}), &["does not lowercase text"][..]),
        ("gpt2", both, &["normalize text to `NFKC`", "does not replace ```` with `\"`"]),
        ("qwen2", json!({"type": "StripAccents"}), &["does not strip accents"]),
        // llama.cpp's converter takes these for the same.
        ("gpt2", json!({"type": "NFC"}), &[]),
        ("gpt-neox", json!({"type": "NFC"}), &[]),
        ("command-r", json!({"type": "NFC"}), &[]),
        ("qwen2", json!({"type": "NFC"}), &[]),
        // Of what the name means, this does less.
        ("qwen2", Json::Null, &[]),
        ("command-r", Json::Null, &[]),
    ] {
        let ([_, file, back], warnings) =
            there_and_back(golden, |json| json["normalizer"] = normalizer.clone());
        assert_warned(&warnings, of);
        let expected = Some(&normalizer).filter(|normalizer| !normalizer.is_null());
        assert_eq!((file.normalizer.as_ref(), back.normalizer.as_ref()), (expected, expected), "{golden}");
    }
}

/// Texts that each tokenizer makes of the ids that the first gives of a text.
fn made_of(all: [Tokenizer; 3], text: &str) -> ([Vec<u32>; 3], [String; 3]) {
    let mut all = all.map(|tokenizer| Tokens::new(tokenizer).unwrap());
    let bare = Encoding { add_special: false, plain: false };
    let ids: Vec<Vec<u32>> = all.iter_mut().map(|tokens| tokens.encode(text, bare).unwrap()).collect();
    let texts: Vec<String> = all.iter_mut().map(|tokens| tokens.decode(&ids[0], false).unwrap()).collect();
    (ids.try_into().unwrap(), texts.try_into().unwrap())
}

#[test]
fn a_decoder_that_takes_off_a_space_which_none_put_there_comes_back() {
    let never = |json: &mut Json| {
        let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "never"});
        json["pre_tokenizer"] = metaspace;
        json["decoder"] = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always"});
    };
    let keeps = |json: &mut Json| drop(json["decoder"]["decoders"].as_array_mut().unwrap().pop());
    type Change<'a> = &'a dyn Fn(&mut Json);
    let cases: [(&str, Change<'_>); 3] = [("t5", &never), ("xlm-roberta", &never), ("llama", &keeps)];
    for (golden, change) in cases {
        let (all, _) = of_no_class(golden, change);
        let (ids, texts) = made_of(all, " of the");
        assert_eq!((&ids[1], &ids[2]), (&ids[0], &ids[0]), "{golden}");
        assert_eq!((&texts[1], &texts[2]), (&texts[0], &texts[0]), "{golden}");
    }
}

#[test]
fn an_unknown_token_that_is_another_than_the_stated_one_stays_that_of_the_model() {
    let by_number = |json: &mut Json| json["model"]["unk_id"] = json!(5);
    type Change<'a> = &'a dyn Fn(&mut Json);
    let cases: [(&str, Change<'_>, &str); 2] =
        [("t5", &by_number, "\u{4e00}\u{4e01}"), ("xlm-roberta", &by_number, "\u{4e00}")];
    for (golden, change, text) in cases {
        let (all, _) = there_and_back(golden, change);
        let stated = all[0].special_id("unk");
        let own = all[0].unk;
        assert!(stated.is_some() && own.is_some() && stated != own, "{golden}: {stated:?} {own:?}");
        assert!(all.iter().all(|read| read.unk == own && read.special_id("unk") == stated), "{golden}");
        let (ids, _) = made_of(all, text);
        assert!(ids[0].contains(&own.unwrap()), "{golden}: {ids:?}");
        assert_eq!((&ids[1], &ids[2]), (&ids[0], &ids[0]), "{golden}");
    }
}

#[test]
fn whether_whole_words_are_taken_comes_back_and_is_warned_of() {
    for (golden, whole, of) in
        [("gpt2", true, "merges words that are tokens"), ("gemma", true, "merges words that are tokens")]
    {
        let ([folder, file, back], mut warnings) =
            there_and_back(golden, |json| json["model"]["ignore_merges"] = json!(whole));
        // Of Gemma's activation.
        warnings.retain(|warning| !warning.contains("GELU"));
        assert_warned(&warnings, &[of]);
        assert_eq!([&folder, &file, &back].map(|read| read.ignore_merges), [whole; 3], "{golden}");
    }
    let (all, warnings) = there_and_back("llama3", |json| json["model"]["ignore_merges"] = json!(true));
    assert_warned(&warnings, &[]);
    assert!(all.iter().all(|read| read.ignore_merges));
}

#[test]
fn a_composed_form_is_a_note_where_the_name_does_not_mean_it() {
    let (host, scratch) = (host(), Scratch::new());
    for (golden, noted) in [("gpt2", true), ("qwen2", false)] {
        let folder =
            changed(&scratch, golden, "tokenizer.json", |json| json["normalizer"] = json!({"type": "NFC"}));
        let done = tried(&host, "gguf", &folder, &scratch.at(&format!("{golden}.gguf"))).unwrap();
        assert_eq!(done.notes.iter().any(|note| note.contains("`NFC`")), noted, "{:?}", done.notes);
    }
}

#[test]
fn tokens_that_no_reader_of_gguf_makes_are_refused_by_name() {
    let lacks = |json: &mut Json| {
        let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
        // One of GPT-2's characters, which nothing is merged of.
        let id = vocabulary.remove("\u{143}").unwrap();
        vocabulary.insert("<0xAD>".to_owned(), id);
    };
    type Change<'a> = &'a dyn Fn(&mut Json);
    let cases: [(&str, Change<'_>); 4] = [
        ("`end_of_word_suffix`", &|json| json["model"]["end_of_word_suffix"] = json!("</w>")),
        ("`continuing_subword_prefix`", &|json| json["model"]["continuing_subword_prefix"] = json!("##")),
        ("`byte_fallback`", &|json| {
            lacks(json);
            json["model"]["byte_fallback"] = json!(true);
        }),
        ("`fuse_unk`", &|json| {
            lacks(json);
            json["model"]["fuse_unk"] = json!(true);
            json["model"]["unk_token"] = json!("!");
        }),
    ];
    let host = host();
    for (word, change) in cases {
        let scratch = Scratch::new();
        let folder = changed(&scratch, "gpt2", "tokenizer.json", change);
        let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains(word), "{error:?}");
        assert!(!scratch.at("m.gguf").exists());
    }
    // Where all bytes are tokens, these say nothing.
    let whole = |json: &mut Json| {
        json["model"]["byte_fallback"] = json!(true);
        json["model"]["fuse_unk"] = json!(true);
    };
    there_and_back("gpt2", whole);
}

/// The first token that is put before a text.
fn first(tokenizer: &Tokenizer) -> Option<String> {
    let step = tokenizer.post_processor.as_ref()?;
    let template = step.pointer("/processors/1").unwrap_or(step);
    Some(template.pointer("/single/0/SpecialToken/id")?.as_str()?.to_owned())
}

#[test]
fn a_beginning_that_only_the_name_of_a_splitter_would_add_is_forbidden() {
    let (all, warnings) = there_and_back("llama3", |json| json["post_processor"] = Json::Null);
    assert_warned(&warnings, &[]);
    assert_eq!(all.each_ref().map(first), [None, None, None]);
    let (all, _) = there_and_back("llama3", |_| {});
    assert!(all.iter().all(|tokenizer| first(tokenizer).is_some()));
}

#[test]
fn a_second_token_before_or_behind_a_text_is_warned_of() {
    let last = &["after a text", "as the end of an answer"][..];
    for (at, of) in [(0, &["before a text"][..]), (1, last)] {
        let (_, warnings) = there_and_back("llama3", |json| {
            let single = json.pointer_mut("/post_processor/processors/1/single");
            let single = single.unwrap().as_array_mut().unwrap();
            let twice = single[0].clone();
            (0..1 + at).for_each(|_| single.insert(2 * at, twice.clone()));
        });
        assert_warned(&warnings, of);
    }
}

#[test]
fn a_space_that_bytes_put_before_a_text_comes_back_and_is_warned_of() {
    let put = |tokenizer: &Tokenizer| tokenizer.pre_tokenizer.as_ref().unwrap()["add_prefix_space"].clone();
    let ([before, file, back], warnings) =
        there_and_back("gpt2", |json| json["pre_tokenizer"]["add_prefix_space"] = json!(true));
    // What the configuration says otherwise counts for one version of the library alone.
    assert_warned(&warnings, &["transformers 4 uses the flag", "does not add a space before a text"]);
    assert_eq!([&before, &file, &back].map(put), [json!(true), json!(true), json!(true)]);
    assert_eq!(back.add_space_prefix, Some(true));
}

#[test]
fn a_role_of_a_token_that_is_not_an_added_one_comes_back() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "gpt2", "tokenizer_config.json", |json| json["sep_token"] = json!("a"));
    let (all, _) = through(&host, &scratch, &folder);
    let [before, file, back] = all.map(|tokenizer| tokenizer.special_id("sep"));
    assert!(before.is_some());
    assert_eq!((file, back), (before, before));
}

/// What SentencePiece's model says of bytes: the flag, and how many of its pieces are such. It loads no model in which these differ.
fn bytes_of(path: &Path) -> (bool, usize) {
    let (model, mut types) = (fs::read(path).unwrap(), 0);
    let mut rest = &model[..];
    let mut flag = None;
    while let Some((&tag, body)) = rest.split_first() {
        let (len, size) = match body[0] {
            short @ 0..0x80 => (usize::from(short), 1),
            low => {
                let next = usize::from(body[1]);
                let more = if next < 0x80 { (0, 2) } else { (usize::from(body[2]) << 14, 3) };
                (usize::from(low & 0x7f) | (next & 0x7f) << 7 | more.0, more.1)
            }
        };
        let body = &body[size..];
        let (message, behind) = body.split_at(len);
        rest = behind;
        match tag {
            0x0a => types += usize::from(message.ends_with(&[0x18, 6])),
            // Field 35 of the trainer's.
            0x12 => {
                let at = message.windows(2).position(|pair| pair == [0x98, 2]).unwrap();
                flag = Some(message[at + 2] == 1);
            }
            _ => {}
        }
    }
    (flag.unwrap(), types)
}

#[test]
fn a_model_of_pieces_says_that_it_has_bytes_where_it_has_them_all() {
    let host = host();
    let is_byte = |body: &[u8]| body.ends_with(&[0x18, 6]);
    let none = |number: usize, body: &mut Vec<u8>| {
        if is_byte(body) {
            *body = piece(&format!("q{number}"), -500.0, 1);
        }
    };
    let some = |number: usize, body: &mut Vec<u8>| {
        if number < 100 {
            none(number, body);
        }
    };
    // Pieces that are chosen by their cost.
    let all = |number: usize, body: &mut Vec<u8>| {
        if (20..276).contains(&number) {
            *body = piece(&format!("<0x{:02X}>", number - 20), 0.0, 6);
        }
    };
    type Edit<'a> = &'a dyn Fn(usize, &mut Vec<u8>);
    let cases: [(&str, Edit<'_>, _, usize); 4] = [
        ("llama", &plain, (true, 256), 256),
        ("llama", &none, (false, 0), 0),
        ("llama", &some, (false, 0), 159),
        ("t5", &all, (true, 256), 256),
    ];
    for (golden, edit, expected, there) in cases {
        let scratch = Scratch::new();
        let changes = [USUAL];
        let folder = Trained { golden, more: &[], edit, changes: &changes }.write(&scratch);
        let ([before, _, back], warnings) = through(&host, &scratch, &folder);
        let warnings = of_files(warnings);
        assert_eq!(bytes_of(&scratch.at("back/tokenizer.model")), expected, "{golden}");
        let count = |tokenizer: &Tokenizer| {
            let bytes = tokenizer.types.iter().filter(|kind| kind.number() == 6).count();
            (bytes, tokenizer.byte_fallback)
        };
        assert_eq!((count(&before), count(&back)), ((there, there > 0), (there, there > 0)), "{golden}");
        let of = match (golden, there) {
            ("t5", _) => &["does not fall back to bytes for characters"][..],
            (_, 256) => &[],
            _ => &["fails on characters without a token"],
        };
        assert_warned(&warnings, of);
    }
}

#[test]
fn pieces_that_only_look_like_bytes_come_back() {
    let (host, scratch) = (host(), Scratch::new());
    let change = |json: &mut Json| json["model"]["byte_fallback"] = json!(false);
    let folder = changed(&scratch, "llama", "tokenizer.json", change);
    fs::remove_file(folder.join("tokenizer.model")).unwrap();
    let ([before, _, back], warnings) = through(&host, &scratch, &folder);
    assert!(!before.byte_fallback && !back.byte_fallback);
    assert_eq!(before.types, back.types);
    assert_eq!(bytes_of(&scratch.at("back/tokenizer.model")), (false, 0));
    assert_warned(&warnings, &["uses `<0x00>` and the like as byte tokens"]);
}

#[test]
fn spaces_that_added_tokens_take_come_back_and_are_warned_of() {
    for (golden, of) in
        [("gpt2", "`lstrip`, `rstrip`"), ("llama", "and 1 other token"), ("t5", "and 1 other token")]
    {
        let change = |json: &mut Json| {
            let added = json["added_tokens"].as_array_mut().unwrap();
            (added[0]["lstrip"], added[0]["rstrip"]) = (json!(true), json!(true));
            if golden != "gpt2" {
                (added[1]["single_word"], added[1]["normalized"]) = (json!(true), json!(true));
            }
        };
        let ([before, file, back], warnings) = of_no_class(golden, change);
        assert_warned(&warnings, &[of]);
        let flags = |tokenizer: &Tokenizer| {
            let mut flags: Vec<_> = tokenizer
                .added
                .iter()
                .filter(|added| tokenizer.written(added.id))
                .map(|added| (added.id, added.lstrip, added.rstrip, added.single_word))
                .collect();
            flags.sort_unstable();
            flags.retain(|(_, left, right, alone)| *left || *right || *alone);
            flags
        };
        assert_eq!((flags(&file), flags(&back)), (flags(&before), flags(&before)), "{golden}");
    }
    // What a name means needs no key: every model of it has it.
    for golden in ["roberta", "phi3"] {
        let ([before, _, back], warnings) = there_and_back(golden, |_| {});
        assert_warned(&warnings, &[]);
        let strips = |tokenizer: &Tokenizer| {
            tokenizer
                .added
                .iter()
                .filter(|added| added.lstrip || added.rstrip)
                .map(|a| a.id)
                .collect::<Vec<_>>()
        };
        let back = strips(&back);
        assert!(strips(&before).iter().all(|id| back.contains(id)), "{golden}");
    }
}

#[test]
fn what_is_done_to_words_comes_back_and_is_warned_of() {
    let bert = |chinese: bool, clean: bool| json!({"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": null, "lowercase": true});
    let composed = json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, bert(true, true)]});
    for (normalizer, of) in [
        (bert(false, true), &["splits Chinese characters"][..]),
        (bert(true, false), &["removes control characters"]),
        (composed, &["normalize text to `NFKC`"]),
        (Json::Null, &["splits Chinese", "removes control", "lowercases text", "strips accents"]),
        // Which keys tell llama.cpp.
        (
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": true, "lowercase": false}),
            &[],
        ),
    ] {
        let ([_, file, back], warnings) = of_no_class("bert", |json| json["normalizer"] = normalizer.clone());
        assert_warned(&warnings, of);
        let expected = Some(&normalizer).filter(|normalizer| !normalizer.is_null());
        assert_eq!((file.normalizer.as_ref(), back.normalizer.as_ref()), (expected, expected));
    }
    let cut = json!({"type": "WhitespaceSplit"});
    let ([_, _, back], warnings) = of_no_class("bert", |json| json["pre_tokenizer"] = cut.clone());
    assert_warned(&warnings, &["with `WhitespaceSplit`"]);
    assert_eq!(back.pre_tokenizer, Some(cut));
}

/// As BERT's folders were before `tokenizer.json`.
#[test]
fn what_a_list_of_words_is_configured_to_do_is_done() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = changed(&scratch, "bert", "tokenizer_config.json", |json| {
        (json["do_lower_case"], json["tokenize_chinese_chars"]) = (json!(false), json!(false));
    });
    let json: Json = serde_json::from_slice(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
    let mut words: Vec<_> = json["model"]["vocab"].as_object().unwrap().iter().collect();
    words.sort_by_key(|(_, id)| id.as_u64());
    let lines: Vec<&str> = words.iter().map(|(text, _)| text.as_str()).collect();
    fs::write(folder.join("vocab.txt"), lines.join("\n")).unwrap();
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    let ([_, file, back], warnings) = through(&host, &scratch, &folder);
    assert_warned(&warnings, &["splits Chinese characters"]);
    for tokenizer in [&file, &back] {
        let normalizer = tokenizer.normalizer.as_ref().unwrap();
        assert_eq!(
            (&normalizer["handle_chinese_chars"], &normalizer["lowercase"]),
            (&json!(false), &json!(false))
        );
    }
}

/// One token begins and ends texts.
#[test]
fn a_beginning_that_is_the_end_too_comes_back() {
    let (host, text) = (host(), "<|endoftext|>");
    let special = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let once = json!([special, sequence("A"), sequence("B")]);
    let anew = json!([special, sequence("A"), special, sequence("B")]);
    for pair in [once, anew] {
        let scratch = Scratch::new();
        let folder = changed(&scratch, "gpt2", "tokenizer.json", |json| {
            json["post_processor"] = json!({
                "type": "TemplateProcessing", "single": [special, sequence("A")], "pair": pair,
                "special_tokens": {text: {"id": text, "ids": [0], "tokens": [text]}},
            });
            let id = json["added_tokens"][0]["id"].clone();
            json["post_processor"]["special_tokens"][text]["ids"][0] = id;
        });
        let ([_, file, back], _) = through(&host, &scratch, &folder);
        assert_eq!((file.adds("bos"), back.adds("bos")), (Some(true), Some(true)));
        let again = scratch.at("again.gguf");
        tried(&host, "gguf", &scratch.at("back"), &again).unwrap();
        let again = tokenizer(&host, &again);
        assert_eq!((again.adds("bos"), again.core().special), (Some(true), file.core().special));
    }
    let scratch = Scratch::new();
    let folder =
        changed(&scratch, "gpt2", "tokenizer_config.json", |json| json["add_bos_token"] = json!(true));
    // The library goes by the post-processor alone.
    edit(&folder.join("tokenizer.json"), |json| json["post_processor"] = Json::Null);
    let ([_, file, back], _) = through(&host, &scratch, &folder);
    assert_eq!((file.adds("bos"), back.adds("bos")), (Some(false), Some(false)));
}

#[test]
fn the_end_of_a_turn_is_the_piece_that_the_vocabulary_has() {
    let eot = |path: &Path| tokenizer(&host(), path).special_id("eot");
    let (host, scratch) = (host(), Scratch::new());
    let model = Checkpoint::golden(&root().join("tests/golden/gemma")).unwrap();
    let (folder, file) = (scratch.at("gemma"), scratch.at("m.gguf"));
    model.write_to(&folder).unwrap();
    let own = tokenizer(&host, &folder);
    let id = own.each().find(|(_, text)| *text == "<end_of_turn>").map(|(id, _)| id);
    assert!(id.is_some_and(|id| id != 107), "{id:?}");
    tried(&host, "gguf", &folder, &file).unwrap();
    assert_eq!(eot(&file), id);
}
