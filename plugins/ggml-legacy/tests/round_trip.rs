//! The format is read only, so nothing can go round. What stands in its place: reading depends on the bytes alone, and
//! every byte of a file is in the model.

use crate::fixture;
use apr_plugin_ggml_legacy::PLUGIN;
use apr_sdk::{Manifest, Options};

#[test]
fn the_plugin_writes_nothing() {
    let manifest = Manifest::parse(PLUGIN.manifest).unwrap();
    assert!(manifest.formats[0].reads && !manifest.formats[0].writes);
    assert!((PLUGIN.writer)("ggml_legacy").is_none());
}

/// Reading depends on nothing but the bytes and the options.
#[test]
fn a_second_reading_is_the_same_to_the_byte() {
    for name in fixture::names() {
        for options in [Options::new(), fixture::decoding()] {
            let (first, second) = (fixture::source(&name), fixture::source(&name));
            let one = fixture::described(&fixture::open(&first, &options).unwrap(), &first);
            let two = fixture::described(&fixture::open(&second, &options).unwrap(), &second);
            assert_eq!(one, two, "{name}");
        }
    }
}

/// Every byte of the file is accounted for: keys, records, padding and payloads make up the whole.
#[test]
fn no_byte_of_a_file_is_left_out() {
    for name in fixture::names() {
        let source = fixture::source(&name);
        let opened = fixture::open(&source, &Options::new()).unwrap();
        let payload: u64 = opened.stored(&source).unwrap().iter().map(|(_, start, end)| end - start).sum();
        let records: u64 =
            opened.model.tensors.iter().map(|t| 12 + 4 * t.shape.len() as u64 + t.name.len() as u64).sum();
        let aligned = name.starts_with("ggjt") || name.starts_with("ggla");
        let header = header_len(&opened.model.foreign[0].files[0].typed);
        let len = fixture::bytes(&name).len() as u64;
        let rest = len - payload - records - header;
        let most = if aligned { 31 * opened.model.tensors.len() as u64 } else { 0 };
        assert!(rest <= most, "{name}: {rest} bytes of {len} are nowhere");
    }
}

/// Bytes of the header that these keys stand for.
fn header_len(typed: &[(String, apr_sdk::Value)]) -> u64 {
    let has = |key: &str| typed.iter().any(|(k, _)| k == key);
    let word = |key: &str| typed.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.as_str()).unwrap_or("");
    let lens = typed.iter().map(|(key, value)| match key.as_str() {
        "model" => 0,
        // Each token has a length of 4 bytes in the file, of 8 as a value.
        "tokens" => value.items().iter().map(|item| item.bytes.len() - 4).sum(),
        "mel.filters" | "scores" => value.bytes.len() - 12,
        _ => 4,
    });
    let counted = ["whisper", "gpt2", "gptj"].contains(&word("model"));
    assert!(has("magic"));
    lens.sum::<u64>() + if counted { 4 } else { 0 }
}
