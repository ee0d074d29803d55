//! A small seeded Whisper model, which has no golden manifest.

use apr_sdk::DType;
use apr_testkit::{Checkpoint, SeededTensor};
use serde_json::json;

const WIDTH: u64 = 64;
const INNER: u64 = 128;
const MELS: u64 = 16;

/// A model of transformers' WhisperForConditionalGeneration: names begin with `prefix`.
pub fn checkpoint(prefix: &str) -> Checkpoint {
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
