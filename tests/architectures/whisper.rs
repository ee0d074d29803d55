//! Whisper, which llama.cpp's converter does not know: through APR and back, under the canonical names of its own.

use crate::back::{tensors, to};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::ErrorKind;
use apr_tests::whisper::checkpoint;
use apr_tests::{Scratch, host};
use std::fs;

#[test]
fn whisper_comes_back_through_apr_to_the_bit() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file, back) = (scratch.at("whisper"), scratch.at("m.apr"), scratch.at("back"));
    checkpoint("model.").write_to(&folder).unwrap();
    let done = to(&host, "apr", &folder, &file);
    assert!(!done.notes.iter().any(|note| note.contains("unknown to the table")), "{:?}", done.notes);
    let held = tensors(&host, &file);
    for name in [
        "encoder.conv1.weight",
        "encoder.positional_embedding",
        "encoder.layers.1.self_attn.q_proj.weight",
        "encoder.layers.0.self_attn_layer_norm.weight",
        "decoder.token_embedding",
        "decoder.positional_embedding",
        "decoder.layers.0.encoder_attn_layer_norm.weight",
        "decoder.layers.0.final_layer_norm.weight",
        "decoder.layer_norm.bias",
    ] {
        assert!(held.contains_key(name), "{name}");
    }
    assert!(held.keys().all(|name| !name.starts_with("model.")));
    to(&host, "huggingface", &file, &back);
    assert!(tensors(&host, &folder) == tensors(&host, &back));
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), fs::read(back.join("config.json")).unwrap());
}

#[test]
fn a_whisper_without_its_head_is_the_same_model() {
    let (host, scratch) = (host(), Scratch::new());
    let (whole, bare) = (scratch.at("whole"), scratch.at("bare"));
    checkpoint("model.").write_to(&whole).unwrap();
    checkpoint("").write_to(&bare).unwrap();
    to(&host, "apr", &whole, &scratch.at("whole.apr"));
    to(&host, "apr", &bare, &scratch.at("bare.apr"));
    let (whole, bare) = (tensors(&host, &scratch.at("whole.apr")), tensors(&host, &scratch.at("bare.apr")));
    assert_eq!(whole.keys().collect::<Vec<_>>(), bare.keys().collect::<Vec<_>>());
}

#[test]
fn whisper_to_gguf_is_refused_by_name() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, output) = (scratch.at("whisper"), scratch.at("out.gguf"));
    checkpoint("model.").write_to(&folder).unwrap();
    let options = ConvertOptions { input: folder, output: Some(output.clone()), ..ConvertOptions::default() };
    let error = convert(&host, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`whisper`") && error.message().contains("`gguf`"), "{error:#?}");
    assert!(!output.exists());
}
