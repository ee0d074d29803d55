//! Models that state what their table does not cover: refused by name where they would have to be translated, and carried as
//! they are where that will do.

use crate::altered::configure;
use crate::back::to;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind, Result};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

pub fn tried(host: &Host, format: &str, input: &Path, output: &Path) -> Result<Converted> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    convert(host, &options)
}

/// The folder of a golden, with these keys in its configuration.
pub fn folder(scratch: &Scratch, golden: &str, keys: &Json) -> PathBuf {
    let folder = scratch.at(golden);
    Checkpoint::golden(&root().join("tests/golden").join(golden)).unwrap().write_to(&folder).unwrap();
    let keys = keys.as_object().unwrap();
    // A folder has one of both.
    if keys.get("rope_scaling").is_some_and(Json::is_object) && !keys.contains_key("rope_parameters") {
        configure(&folder, "rope_parameters", Json::Null);
    }
    for (key, value) in keys {
        configure(&folder, key, value.clone());
    }
    folder
}

/// A GGUF file of a golden that has one more key: its type's number and its bytes.
fn file(host: &Host, scratch: &Scratch, golden: &str, key: &str, (kind, value): (u32, &[u8])) -> PathBuf {
    let (plain, path) = (scratch.at("plain.gguf"), scratch.at("in.gguf"));
    to(host, "gguf", &folder(scratch, golden, &json!({})), &plain);
    let mut bytes = fs::read(plain).unwrap();
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut more = [&string(key)[..], &kind.to_le_bytes(), value].concat();
    // Payload stays where the alignment wants it.
    let pad = 32 - (more.len() + string("a.pad").len() + 12) % 32;
    more.extend([&string("a.pad")[..], &8u32.to_le_bytes(), &string(&"x".repeat(pad))].concat());
    let count = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) + 2;
    bytes[16..24].copy_from_slice(&count.to_le_bytes());
    bytes.splice(24..24, more);
    fs::write(&path, bytes).unwrap();
    path
}

/// A GGUF file of a golden whose bytes are changed, from the first place on where it has a text.
pub fn changed(
    host: &Host,
    scratch: &Scratch,
    golden: &str,
    text: &str,
    change: impl FnOnce(&mut [u8]),
) -> PathBuf {
    let (plain, path) = (scratch.at("plain.gguf"), scratch.at("in.gguf"));
    to(host, "gguf", &folder(scratch, golden, &json!({})), &plain);
    let mut bytes = fs::read(plain).unwrap();
    let at = bytes.windows(text.len()).position(|piece| piece == text.as_bytes()).unwrap();
    change(&mut bytes[at..]);
    fs::write(&path, bytes).unwrap();
    path
}

fn refused(done: Result<Converted>, words: &[&str], what: &str) -> Option<String> {
    let error: Error = match done {
        Ok(_) => return Some(format!("{what}: was converted")),
        Err(error) => error,
    };
    let right =
        error.kind() == ErrorKind::Unsupported && words.iter().all(|word| error.message().contains(word));
    (!right).then(|| format!("{what}: {error:?}"))
}

/// What a configuration may state, of which golden, and the words of the refusal.
fn configurations() -> Vec<(&'static str, Json, &'static [&'static str])> {
    vec![
        // EmbeddingGemma.
        ("gemma3", json!({"sliding_window_pattern": 4}), &["`sliding_window_pattern` 4"]),
        ("gemma3", json!({"query_pre_attn_scalar": 48}), &["`query_pre_attn_scalar` 48"]),
        ("gemma2", json!({"query_pre_attn_scalar": 48}), &["`query_pre_attn_scalar` 48"]),
        // Null is not the same as missing.
        (
            "dbrx",
            json!({"ffn_config": {"ffn_hidden_size": 32, "model_type": "", "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": 4, "moe_top_k": 2, "moe_normalize_expert_weights": null}}),
            &["moe_normalize", "weights experts"],
        ),
        ("gemma2", json!({"attn_logit_softcapping": null}), &["`attn_logit_softcapping`", "disables"]),
        ("gemma2", json!({"final_logit_softcapping": null}), &["`final_logit_softcapping`", "disables"]),
        ("gemma2", json!({"sliding_window": null}), &["`sliding_window`", "disables"]),
        // An output that llama.cpp would take for the embedding.
        ("gemma", json!({"tie_word_embeddings": false}), &["`tie_word_embeddings` false"]),
        ("gemma2", json!({"tie_word_embeddings": false}), &["`tie_word_embeddings` false"]),
        ("command-r", json!({"tie_word_embeddings": false}), &["`tie_word_embeddings` false"]),
        (
            "gemma2",
            json!({"layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
            &["`layer_types`", "every second"],
        ),
        ("qwen3", json!({"architectures": ["Qwen3ForSequenceClassification"]}), &["reranker"]),
        ("qwen3", json!({"_name_or_path": "Qwen/Qwen3-Reranker-0.6B"}), &["no `yes`"]),
        (
            "qwen3",
            json!({"quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}}),
            &["`quantization_config.quantization_mode` \"online\"", "three values"],
        ),
        ("qwen3", json!({"use_sliding_window": true, "max_window_layers": 1}), &["`use_sliding_window`"]),
        ("qwen3", json!({"layer_types": ["full_attention", "sliding_attention"]}), &["`layer_types`"]),
        ("qwen2", json!({"use_sliding_window": true, "max_window_layers": 1}), &["`use_sliding_window`"]),
        ("qwen2", json!({"is_causal": false}), &["`is_causal` false"]),
        ("qwen2-moe", json!({"norm_topk_prob": true}), &["`norm_topk_prob` true"]),
        ("qwen3-moe", json!({"norm_topk_prob": false}), &["`norm_topk_prob` false"]),
        // Whatever it says of layers.
        (
            "qwen3-moe",
            json!({"use_sliding_window": true, "max_window_layers": 48}),
            &["window in every layer"],
        ),
        (
            "qwen3-moe",
            json!({"use_sliding_window": true, "max_window_layers": null}),
            &["window in every layer"],
        ),
        ("olmo2", json!({"sliding_window": 4096}), &["`sliding_window` 4096", "OLMo 3"]),
        ("t5", json!({"dense_act_fn": "relu"}), &["`dense_act_fn` \"relu\""]),
        ("umt5", json!({"dense_act_fn": "silu"}), &["`dense_act_fn` \"silu\""]),
        ("gpt-oss", json!({"swiglu_alpha": 2.5}), &["`swiglu_alpha` 2.5"]),
        (
            "hunyuan-dense",
            json!({"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
            &["changes as a text grows"],
        ),
        ("mpt", json!({"logit_scale": 0.5}), &["`logit_scale` 0.5"]),
        ("mpt", json!({"norm_type": "rmsnorm"}), &["`norm_type`"]),
        // What the library's classes pass over.
        (
            "mpt",
            json!({"attn_config": {"alibi": true, "alibi_bias_max": 6}}),
            &["`attn_config.alibi_bias_max`"],
        ),
        ("afmoe", json!({"score_func": "softmax"}), &["`score_func`"]),
        ("afmoe", json!({"route_norm": false}), &["`route_norm`"]),
        ("hy-v3", json!({"route_norm": false}), &["`route_norm`"]),
        ("exaone-moe", json!({"scoring_func": "softmax"}), &["`scoring_func`"]),
        ("cohere2", json!({"rotary_pct": 0.5}), &["`rotary_pct`"]),
        ("gpt2", json!({"scale_attn_by_inverse_layer_idx": true}), &["`scale_attn_by_inverse_layer_idx`"]),
        ("gpt2", json!({"activation_function": "relu"}), &["`hidden_act` \"relu\""]),
        ("bloom", json!({"apply_residual_connection_post_layernorm": true}), &["`apply_residual"]),
        ("falcon", json!({"alibi": true}), &["`alibi` true"]),
        ("falcon", json!({"parallel_attn": false}), &["`parallel_attn` false"]),
        ("bert", json!({"position_embedding_type": "relative_key"}), &["`position_embedding_type`"]),
        ("bert", json!({"is_decoder": true}), &["`is_decoder` true"]),
        ("nomic-bert", json!({"prenorm": true}), &["`prenorm` true"]),
        ("bert", json!({"architectures": ["BertForTokenClassification"]}), &["`architectures`", "a head"]),
        ("roberta", json!({"architectures": ["RobertaForMultipleChoice"]}), &["`architectures`", "a head"]),
        ("nomic-bert", json!({"architectures": ["NomicBertForTokenClassification"]}), &["a head"]),
        // What other models of Llama's shape state.
        ("llama", json!({"hidden_act": "gelu"}), &["`llama`", "`hidden_act` \"gelu\""]),
        (
            "llama",
            json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
            &["`rope_scaling_type` \"dynamic\""],
        ),
        (
            "llama",
            json!({"rope_scaling": {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 32,
                "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]}}),
            &["`rope_scaling.long_factor`", "its own factors"],
        ),
        (
            "llama",
            json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.4}}),
            &["`rope_scaling.mscale_all_dim` 0.4"],
        ),
        (
            "qwen3",
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": false}}),
            &["`rope_parameters.truncate` false"],
        ),
        // To the library, null is false here.
        (
            "qwen3",
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": null}}),
            &["`rope_parameters.truncate` false"],
        ),
        (
            "hunyuan-dense",
            json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.4}}),
            &["`rope_scaling.mscale_all_dim` 0.4"],
        ),
        (
            "hunyuan-dense",
            json!({"rope_scaling": null, "rope_parameters": {
                "rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.4}}),
            &["`rope_parameters.mscale_all_dim` 0.4"],
        ),
        ("llama", json!({"layer_types": ["sliding_attention", "full_attention"]}), &["`layer_types`"]),
        (
            "llama",
            json!({"embedding_multiplier": 12.0, "logits_scaling": 8.0, "attention_multiplier": 0.015625}),
            &["`embedding_multiplier` 12", "`attention_multiplier` 0.015625", "`logits_scaling` 8"],
        ),
        ("llama", json!({"scale_depth": 1.4}), &["`scale_depth` 1.4"]),
        ("llama", json!({"partial_rotary_factor": 0.5}), &["`partial_rotary_factor` 0.5"]),
        ("llama", json!({"use_bidirectional_attention": true}), &["`use_bidirectional_attention` true"]),
        ("llama", json!({"final_logit_softcapping": 30.0}), &["`final_logit_softcapping` 30"]),
        ("llama", json!({"no_rope_layers": [1, 0]}), &["`no_rope_layers`"]),
    ]
}

#[test]
fn what_a_configuration_states_beyond_its_table_is_refused_by_name() {
    let host = host();
    let mut wrong = Vec::new();
    for (golden, keys, words) in configurations() {
        let (scratch, what) = (Scratch::new(), format!("{golden} {keys}"));
        let folder = folder(&scratch, golden, &keys);
        let output = scratch.at("out.gguf");
        wrong.extend(refused(tried(&host, "gguf", &folder, &output), words, &what));
        if output.exists() {
            wrong.push(format!("{what}: something was written"));
        }
        // Where names may stay as they are the model comes back as it was.
        let (held, back) = (scratch.at("m.apr"), scratch.at("back"));
        to(&host, "apr", &folder, &held);
        to(&host, "huggingface", &held, &back);
        let text = |folder: &Path| fs::read_to_string(folder.join("config.json")).unwrap();
        if text(&folder) != text(&back) {
            wrong.push(format!("{what}: config.json is another behind APR"));
        }
        wrong.extend(
            tried(&host, "gguf", &held, &scratch.at("late.gguf"))
                .is_ok()
                .then(|| format!("{what}: by way of APR")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_that_change_nothing_are_not_refused() {
    let host = host();
    for (golden, keys) in [
        (
            "llama",
            json!({"embedding_multiplier": 1.0, "logit_scale": 1, "partial_rotary_factor": 1.0, "alibi": false}),
        ),
        ("llama", json!({"layer_types": ["full_attention", "full_attention"], "hidden_act": "swish"})),
        ("gemma2", json!({"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})),
        ("gemma2", json!({"use_bidirectional_attention": null, "hidden_activation": "gelu"})),
        ("qwen2", json!({"use_sliding_window": true, "max_window_layers": 28})),
        ("qwen2", json!({"is_causal": true})),
        ("qwen3-moe", json!({"mlp_only_layers": []})),
        ("mpt", json!({"logit_scale": null})),
        ("gpt2", json!({"scale_attn_weights": true, "activation_function": "gelu"})),
        ("t5", json!({"relative_attention_max_distance": 128})),
        (
            "hunyuan-dense",
            json!({"rope_theta": 10000.0, "max_position_embeddings": 262144, "rope_scaling": null, "rope_parameters": {
                "rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1,
                "mscale": 1.0, "mscale_all_dim": 1.0}}),
        ),
    ] {
        let scratch = Scratch::new();
        to(&host, "gguf", &folder(&scratch, golden, &keys), &scratch.at("out.gguf"));
    }
}

#[test]
fn what_the_keys_of_a_gguf_file_state_beyond_the_table_is_refused_by_name() {
    const U32: u32 = 4;
    const F32: u32 = 6;
    const BOOL: u32 = 7;
    let host = host();
    let mut wrong = Vec::new();
    let one = |x: f32| x.to_le_bytes().to_vec();
    let whole = |n: u32| n.to_le_bytes().to_vec();
    for (golden, key, kind, value) in [
        // OLMo 3.
        ("qwen3", "qwen3.pooling_type", U32, whole(5)),
        ("qwen2", "qwen2.attention.causal", BOOL, vec![0]),
        ("llama", "llama.logit_scale", F32, one(0.25)),
        ("llama", "llama.attention.scale", F32, one(0.0078)),
        ("llama", "llama.residual_scale", F32, one(0.22)),
        ("llama", "llama.pooling_type", U32, whole(1)),
        ("llama", "llama.rope.scaling.attn_factor", F32, one(1.5)),
        ("gemma3", "gemma3.attention.sliding_window_pattern", U32, whole(4)),
    ] {
        let scratch = Scratch::new();
        let input = file(&host, &scratch, golden, key, (kind, &value));
        let done = tried(&host, "huggingface", &input, &scratch.at("back"));
        wrong.extend(refused(done, &[&format!("`{key}`")], key));
        to(&host, "apr", &input, &scratch.at("m.apr"));
    }
    for (golden, key, kind, value) in
        [("llama", "llama.logit_scale", F32, one(1.0)), ("qwen2", "qwen2.attention.causal", BOOL, vec![1])]
    {
        let scratch = Scratch::new();
        let input = file(&host, &scratch, golden, key, (kind, &value));
        to(&host, "huggingface", &input, &scratch.at("back"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn positions_of_every_layer_are_umt5_s() {
    let (host, scratch) = (host(), Scratch::new());
    let input = changed(&host, &scratch, "t5", "enc.blk.0.attn_rel_b", |bytes| bytes[8] = b'1');
    let error = tried(&host, "huggingface", &input, &scratch.at("back")).unwrap_err();
    assert_eq!(error.tensor_name(), Some("enc.blk.0.attn_rel_b.weight"), "{error:?}");
    assert!(error.message().contains("`umt5`"), "{error:?}");
}

#[test]
fn an_id_that_the_configuration_states_otherwise_than_the_tokenizer_is_named() {
    let (host, scratch) = (host(), Scratch::new());
    let model = folder(&scratch, "roberta", &json!({"pad_token_id": 13}));
    let done = tried(&host, "gguf", &model, &scratch.at("out.gguf"));
    let words = ["`pad` is 1 in the tokenizer's files but 13 in the model's configuration"];
    assert_eq!(refused(done, &words, "roberta"), None);
}

#[test]
fn modules_beside_a_model_are_carried_or_refused() {
    let host = host();
    let modules = |kinds: &[&str]| {
        let one = |(n, kind): (usize, &&str)| {
            let path = if n == 0 { String::new() } else { format!("{n}_{kind}") };
            json!({"idx": n, "name": n.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")})
        };
        Json::Array(kinds.iter().enumerate().map(one).collect()).to_string()
    };
    let with = |scratch: &Scratch, golden: &str, kinds: &[&str], pooling: Json| {
        let folder = folder(scratch, golden, &json!({}));
        fs::write(folder.join("modules.json"), modules(kinds)).unwrap();
        fs::create_dir_all(folder.join("1_Pooling")).unwrap();
        fs::write(folder.join("1_Pooling/config.json"), pooling.to_string()).unwrap();
        folder
    };
    let last = json!({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false});
    for (golden, kinds, pooling, words) in [
        ("qwen3", &["Transformer", "Pooling", "Dense"][..], &last, "`modules`"),
        (
            "bert",
            &["Transformer", "Pooling", "Dense"][..],
            &json!({"pooling_mode_cls_token": true}),
            "`modules`",
        ),
        (
            "bert",
            &["Transformer", "Pooling"][..],
            &json!({"pooling_mode_max_tokens": true}),
            "`pooling_mode` \"max\"",
        ),
        ("llama", &["Transformer", "Pooling"][..], &last, "`pooling_mode` \"lasttoken\""),
    ] {
        let scratch = Scratch::new();
        let folder = with(&scratch, golden, kinds, pooling.clone());
        let done = tried(&host, "gguf", &folder, &scratch.at("out.gguf"));
        assert_eq!(refused(done, &[words], golden), None);
    }
    // Qwen3-Embedding.
    let scratch = Scratch::new();
    let folder = with(&scratch, "qwen3", &["Transformer", "Pooling", "Normalize"], last);
    let (file, back) = (scratch.at("out.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder, &file);
    let held = crate::models::opened(&host, &file).model;
    let said = held.foreign_of("gguf").unwrap().get("qwen3.pooling_type").unwrap().as_u32();
    assert_eq!(said, Some(3));
    to(&host, "huggingface", &file, &back);
    let pooling: Json =
        serde_json::from_slice(&fs::read(back.join("1_Pooling/config.json")).unwrap()).unwrap();
    assert_eq!(pooling["pooling_mode_lasttoken"], true);
}

#[test]
fn a_list_with_fewer_entries_than_layers_is_refused_by_name() {
    let (host, scratch) = (host(), Scratch::new());
    let model = folder(&scratch, "lfm2", &json!({"layer_types": ["conv", "full_attention"]}));
    let error = tried(&host, "gguf", &model, &scratch.at("out.gguf")).err().unwrap();
    assert!(
        error.message().contains("`layer_types` has 2 entries, but `num_hidden_layers` is 3"),
        "{error:?}"
    );
    assert!(!scratch.at("out.gguf").exists());
}

#[test]
fn layers_that_share_keys_are_refused_where_llama_cpp_would_not_load_them() {
    const LAYERS: usize = 22;
    const LACKED: [&str; 3] = ["k_proj", "v_proj", "k_norm"];
    let host = host();
    let whole = |lacks: bool| {
        let mut model = Checkpoint::golden(&root().join("tests/golden/gemma3n")).unwrap();
        let layer_of = |name: &str| name.contains(".layers.1.");
        let tensors = &mut model.shards[0].1;
        let mut last: Vec<_> = tensors.iter().filter(|tensor| layer_of(&tensor.name)).cloned().collect();
        tensors.retain(|tensor| !layer_of(&tensor.name));
        for layer in 1..LAYERS {
            if lacks && layer >= 20 {
                last.retain(|tensor| LACKED.iter().all(|part| !tensor.name.contains(part)));
            }
            let name = |name: &str| name.replace(".layers.1.", &format!(".layers.{layer}."));
            tensors.extend(last.iter().map(|one| SeededTensor { name: name(&one.name), ..one.clone() }));
        }
        let wide: [(&str, u64); 2] = [("embed_tokens_per_layer", 1), ("per_layer_model_projection", 0)];
        for tensor in tensors.iter_mut() {
            if let Some((_, axis)) = wide.iter().find(|(part, _)| tensor.name.contains(part)) {
                tensor.shape[usize::try_from(*axis).unwrap()] *= LAYERS as u64 / 2;
            }
        }
        tensors.sort_by(|one, other| one.name.cmp(&other.name));
        let config = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        let mut json: Json = serde_json::from_slice(&config.1).unwrap();
        let text = &mut json["text_config"];
        let kinds =
            (0..LAYERS).map(|n| if (n + 1) % 5 == 0 { "full_attention" } else { "sliding_attention" });
        text["layer_types"] = kinds.collect::<Vec<_>>().into();
        text["activation_sparsity_pattern"] =
            (0..LAYERS).map(|n| if n < 10 { 0.95 } else { 0.0 }).collect::<Vec<_>>().into();
        text["intermediate_size"] = vec![128; LAYERS].into();
        text["num_hidden_layers"] = LAYERS.into();
        text["num_kv_shared_layers"] = 2.into();
        config.1 = json.to_string().into_bytes();
        model
    };
    let scratch = Scratch::new();
    let (published, saved) = (scratch.at("published"), scratch.at("saved"));
    whole(false).write_to(&published).unwrap();
    whole(true).write_to(&saved).unwrap();
    to(&host, "gguf", &published, &scratch.at("whole.gguf"));
    let error = tried(&host, "gguf", &saved, &scratch.at("out.gguf")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert_eq!(error.tensor_name(), Some("model.layers.20.self_attn.k_proj.weight"), "{error:?}");
    let words = format!("{} {}", error.message(), error.hint_text().unwrap_or_default());
    for word in ["cannot do without it, and 5 more", "transformers since version 5", "published files"] {
        assert!(words.contains(word), "{words}");
    }
    // Nothing else wants them.
    to(&host, "apr", &saved, &scratch.at("held.apr"));
    assert_eq!(crate::models::opened(&host, &scratch.at("held.apr")).model.dialect, "canonical");
}
