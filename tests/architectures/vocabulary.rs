//! Tokenizers with more tokens than the model has rows for: carried where files may hold both, refused where llama.cpp would
//! load no such file.

use crate::back::to;
use crate::refused::tried;
use apr_sdk::ErrorKind;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use serde_json::Value as Json;

/// Goldens whose tokenizer has no room to spare, and the tensors with a row for each token.
const FULL: &[(&str, &[&str])] = &[
    ("llama", &["model.embed_tokens.weight", "lm_head.weight"]),
    ("gemma", &["model.embed_tokens.weight"]),
    ("gpt2", &["transformer.wte.weight"]),
    ("bert", &["embeddings.word_embeddings.weight"]),
];

#[test]
fn a_tokenizer_with_more_tokens_than_rows_makes_no_gguf_file() {
    let host = host();
    for (golden, tensors) in FULL {
        let mut model = Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap();
        let scratch = Scratch::new();
        let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        let mut config: Json = serde_json::from_slice(bytes).unwrap();
        let mut rows = 0;
        for tensor in model.shards.iter_mut().flat_map(|(_, shard)| shard) {
            if tensors.contains(&tensor.name.as_str()) {
                tensor.shape[0] -= 10;
                rows = tensor.shape[0];
            }
        }
        config["vocab_size"] = rows.into();
        *bytes = config.to_string().into_bytes();
        let (folder, carried) = (scratch.at(golden), scratch.at("m.apr"));
        model.write_to(&folder).unwrap();
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
