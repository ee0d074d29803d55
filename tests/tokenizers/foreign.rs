//! Tokenizers of folders through GGUF files, whatever is done with what only a folder can say.

use crate::saved::tokenizer;
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::ForeignPolicy;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use std::fs;

#[test]
fn a_chat_template_of_its_own_file_comes_back_under_every_policy() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = scratch.at("folder");
    Checkpoint::golden(&root().join("tests/golden/qwen2")).unwrap().write_to(&folder).unwrap();
    crate::unsaid::edit(&folder.join("tokenizer_config.json"), |json| {
        json.as_object_mut().unwrap().remove("chat_template");
    });
    fs::write(folder.join("chat_template.jinja"), "{{ messages }}").unwrap();
    let expected = tokenizer(&host, &folder);
    for policy in [ForeignPolicy::Default, ForeignPolicy::Typed, ForeignPolicy::Keep, ForeignPolicy::Drop] {
        let (file, back) = (scratch.at("model.gguf"), scratch.at("back"));
        let one = |input: &std::path::Path, output: &std::path::Path, to: &str, foreign: ForeignPolicy| {
            let options = ConvertOptions {
                input: input.to_owned(),
                output: Some(output.to_owned()),
                to: Some(to.to_owned()),
                foreign,
                ..ConvertOptions::default()
            };
            convert(&host, &options).unwrap_or_else(|error| panic!("{policy:?}, {to}: {error:#?}"))
        };
        one(&folder, &file, "gguf", policy);
        one(&file, &back, "huggingface", ForeignPolicy::Default);
        for read in [tokenizer(&host, &file), tokenizer(&host, &back)] {
            assert_eq!(read.chat_templates, expected.chat_templates, "{policy:?}");
            assert_eq!(read.tokens, expected.tokens, "{policy:?}");
        }
        fs::remove_file(file).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}
