//! Whisper, which llama.cpp's converter does not know: through APR and back, under the canonical names of its own.

use crate::back::{tensors, to};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{DType, ErrorKind};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host};
use serde_json::json;
use std::fs;

const WIDTH: u64 = 64;
const INNER: u64 = 128;
const MELS: u64 = 16;

/// A model of transformers' WhisperForConditionalGeneration: names begin with `prefix`.
fn checkpoint(prefix: &str) -> Checkpoint {
    let config = json!({
        "_name_or_path": "openai/whisper-tiny", "activation_function": "gelu", "activation_dropout": 0.0,
        "apply_spec_augment": false, "architectures": ["WhisperForConditionalGeneration"], "attention_dropout": 0.0,
        "begin_suppress_tokens": [220, 50257], "bos_token_id": 50257, "d_model": WIDTH, "decoder_attention_heads": 4,
        "decoder_ffn_dim": INNER, "decoder_layerdrop": 0.0, "decoder_layers": 1, "decoder_start_token_id": 50258,
        "dropout": 0.0, "encoder_attention_heads": 4, "encoder_ffn_dim": INNER, "encoder_layerdrop": 0.0,
        "encoder_layers": 2, "eos_token_id": 50257, "forced_decoder_ids": [[1, 50259], [2, 50359]], "init_std": 0.02,
        "is_encoder_decoder": true, "mask_time_prob": 0.05, "max_length": 448, "max_source_positions": 40,
        "max_target_positions": 24, "model_type": "whisper", "num_hidden_layers": 2, "num_mel_bins": MELS,
        "pad_token_id": 50257, "scale_embedding": false, "suppress_tokens": [], "torch_dtype": "float32",
        "transformers_version": "4.57.6", "use_cache": true, "vocab_size": 96,
    });
    let mut found: Vec<(String, Vec<u64>)> = vec![
        ("encoder.conv1.weight".into(), vec![WIDTH, MELS, 3]),
        ("encoder.conv1.bias".into(), vec![WIDTH]),
        ("encoder.conv2.weight".into(), vec![WIDTH, WIDTH, 3]),
        ("encoder.conv2.bias".into(), vec![WIDTH]),
        ("encoder.embed_positions.weight".into(), vec![40, WIDTH]),
        ("decoder.embed_tokens.weight".into(), vec![96, WIDTH]),
        ("decoder.embed_positions.weight".into(), vec![24, WIDTH]),
    ];
    let norm = |name: String, into: &mut Vec<_>| {
        into.extend(["weight", "bias"].map(|end| (format!("{name}.{end}"), vec![WIDTH])));
    };
    for (side, layers) in [("encoder", 2), ("decoder", 1)] {
        for layer in 0..layers {
            let at = format!("{side}.layers.{layer}");
            for attention in
                ["self_attn", "encoder_attn"].iter().filter(|a| side == "decoder" || **a == "self_attn")
            {
                for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    found.push((format!("{at}.{attention}.{part}.weight"), vec![WIDTH, WIDTH]));
                    if part != "k_proj" {
                        found.push((format!("{at}.{attention}.{part}.bias"), vec![WIDTH]));
                    }
                }
                norm(format!("{at}.{attention}_layer_norm"), &mut found);
            }
            for (part, shape) in [("fc1", [INNER, WIDTH]), ("fc2", [WIDTH, INNER])] {
                found.push((format!("{at}.{part}.weight"), shape.to_vec()));
                found.push((format!("{at}.{part}.bias"), shape[..1].to_vec()));
            }
            norm(format!("{at}.final_layer_norm"), &mut found);
        }
        norm(format!("{side}.layer_norm"), &mut found);
    }
    let tensor = |(name, shape): (String, Vec<u64>)| {
        let center = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        SeededTensor { name: format!("{prefix}{name}"), dtype: DType::F32, shape, center }
    };
    Checkpoint {
        name: "whisper".to_owned(),
        seed: 1,
        companions: vec![("config.json".to_owned(), config.to_string().into_bytes())],
        shards: vec![("model.safetensors".to_owned(), found.into_iter().map(tensor).collect())],
    }
}

#[test]
fn whisper_comes_back_through_apr_to_the_bit() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file, back) = (scratch.at("whisper"), scratch.at("m.apr"), scratch.at("back"));
    checkpoint("model.").write_to(&folder).unwrap();
    let done = to(&host, "apr", &folder, &file);
    assert!(!done.notes.iter().any(|note| note.contains("does not know")), "{:?}", done.notes);
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
