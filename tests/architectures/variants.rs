//! Checkpoints as people have them: other names, fewer or more tensors, configurations that leave things to the library.
//! Each leads to GGUF and back, and through APR and back, with every key of its configuration accounted for.

use crate::back::{config, difference, tensors, to};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};

/// What is changed of a golden model.
#[derive(Default)]
pub struct Variant {
    pub what: &'static str,
    pub golden: &'static str,
    /// Keys of the configuration; null takes one out.
    pub config: Json,
    /// Tensors whose names hold this are left out.
    pub without: &'static [&'static str],
    /// Name, with `{n}` for each number below the first, and shape.
    pub with: &'static [(u64, &'static str, &'static [u64])],
    /// What begins names in the folder that comes back, and not in this one.
    pub prefix: &'static str,
    /// What begins names in this folder, and not in the one that comes back.
    pub begin: &'static str,
    /// Parts of names: in the folder that comes back, and in this one.
    pub named: &'static [(&'static str, &'static str)],
    /// Tensors that GGUF does not hold.
    pub dropped: &'static [&'static str],
    /// Values of the configuration that GGUF does not state.
    pub lost: &'static [&'static str],
    /// What the configuration that comes back says besides.
    pub says: Json,
}

impl Variant {
    fn checkpoint(&self) -> Checkpoint {
        let mut model = Checkpoint::golden(&root().join("tests/golden").join(self.golden)).unwrap();
        let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
        let mut config: Json = serde_json::from_slice(bytes).unwrap();
        for (key, value) in self.config.as_object().into_iter().flatten() {
            config.as_object_mut().unwrap().remove(key);
            if !value.is_null() {
                config[key] = value.clone();
            }
        }
        *bytes = config.to_string().into_bytes();
        let (_, first) = &mut model.shards[0];
        first.retain(|tensor| self.without.iter().all(|part| !tensor.name.contains(part)));
        let dtype = first[0].dtype;
        for (count, name, shape) in self.with {
            for n in 0..*count {
                for layer in 0..2 {
                    let name = name.replace("{n}", &n.to_string()).replace("{layer}", &layer.to_string());
                    if first.iter().all(|tensor| tensor.name != name) {
                        first.push(SeededTensor { name, dtype, shape: shape.to_vec(), center: 0.0 });
                    }
                }
            }
        }
        for tensor in first {
            if let Some(name) = tensor.name.strip_prefix(self.prefix) {
                tensor.name = name.to_owned();
            }
            for (own, found) in self.named {
                tensor.name = tensor.name.replace(own, found);
            }
            tensor.name.insert_str(0, self.begin);
        }
        model
    }

    /// What a tensor of the folder is called in the one that comes back.
    fn own_name(&self, name: &str) -> String {
        let name = name.strip_prefix(self.begin).unwrap_or(name);
        let own = |name: String, (own, found): &(&str, &str)| name.replace(found, own);
        // A head is not of the model that it sits on.
        let prefix = if name.starts_with("classifier.") { "" } else { self.prefix };
        format!("{prefix}{}", self.named.iter().fold(name.to_owned(), own))
    }
}

fn variants() -> Vec<Variant> {
    vec![
        Variant {
            what: "Bamba of a state space alone",
            golden: "bamba",
            without: &["layers.1.", "layers.2.", "layers.3."],
            config: json!({"num_hidden_layers": 1, "attn_layer_indices": []}),
            lost: &["num_key_value_heads"],
            ..Variant::default()
        },
        Variant {
            what: "Jamba of state spaces alone",
            golden: "jamba",
            without: &["layers.0.self_attn", "layers.2."],
            with: &[
                (1, "model.layers.{layer}.mamba.A_log", &[128, 2]),
                (1, "model.layers.{layer}.mamba.D", &[128]),
                (1, "model.layers.{layer}.mamba.b_layernorm.weight", &[2]),
                (1, "model.layers.{layer}.mamba.c_layernorm.weight", &[2]),
                (1, "model.layers.{layer}.mamba.conv1d.bias", &[128]),
                (1, "model.layers.{layer}.mamba.conv1d.weight", &[128, 1, 4]),
                (1, "model.layers.{layer}.mamba.dt_layernorm.weight", &[8]),
                (1, "model.layers.{layer}.mamba.dt_proj.bias", &[128]),
                (1, "model.layers.{layer}.mamba.dt_proj.weight", &[128, 8]),
                (1, "model.layers.{layer}.mamba.in_proj.weight", &[256, 64]),
                (1, "model.layers.{layer}.mamba.out_proj.weight", &[64, 128]),
                (1, "model.layers.{layer}.mamba.x_proj.weight", &[12, 128]),
            ],
            config: json!({"num_hidden_layers": 2, "attn_layer_offset": 4, "attn_layer_period": 8}),
            lost: &["attn_layer_offset, attn_layer_period, num_key_value_heads"],
            says: json!({"attn_layer_offset": 2, "attn_layer_period": 3}),
            ..Variant::default()
        },
        Variant {
            what: "GPT-2 as it was first published: no `transformer.`, and masks",
            golden: "gpt2",
            with: &[(1, "transformer.h.{layer}.attn.bias", &[1, 1, 128, 128])],
            prefix: "transformer.",
            dropped: &["attn.bias"],
            config: json!({"task_specific_params": {"text-generation": {"do_sample": true}}}),
            ..Variant::default()
        },
        Variant {
            what: "GPT-2 with an output of its own and a narrow feed forward",
            golden: "gpt2",
            with: &[
                (1, "lm_head.weight", &[421, 64]),
                (1, "transformer.h.{layer}.mlp.c_fc.weight", &[64, 128]),
                (1, "transformer.h.{layer}.mlp.c_fc.bias", &[128]),
                (1, "transformer.h.{layer}.mlp.c_proj.weight", &[128, 64]),
            ],
            without: &["mlp.c_fc", "mlp.c_proj.weight"],
            config: json!({"n_inner": 128, "tie_word_embeddings": false}),
            says: json!({"tie_word_embeddings": false, "n_inner": 128}),
            ..Variant::default()
        },
        Variant {
            what: "BLOOM as it was first published",
            golden: "bloom",
            prefix: "transformer.",
            config: json!({"hidden_size": null, "n_embed": 64, "seq_length": null, "num_attention_heads": 4, "n_head": null}),
            ..Variant::default()
        },
        Variant {
            what: "Falcon 7B, which states as many key heads as it has heads",
            golden: "falcon",
            config: json!({"num_kv_heads": 4}),
            lost: &["num_key_value_heads"],
            ..Variant::default()
        },
        Variant {
            what: "Falcon 7B as it was first published",
            golden: "falcon",
            config: json!({
                "model_type": "RefinedWebModel", "architectures": ["RWForCausalLM"], "num_kv_heads": null,
                "new_decoder_architecture": null, "num_attention_heads": null, "n_head": 4, "num_hidden_layers": null,
                "n_layer": 2, "auto_map": {"AutoModel": "modelling_RW.RWModel"},
            }),
            says: json!({"new_decoder_architecture": false, "num_kv_heads": 1, "multi_query": true}),
            ..Variant::default()
        },
        Variant {
            what: "Falcon 40B as it was first published",
            golden: "falcon-40b",
            config: json!({
                "model_type": "RefinedWeb", "architectures": ["RWForCausalLM"], "num_kv_heads": null, "n_head_kv": 2,
                "multi_query": null, "new_decoder_architecture": null, "num_attention_heads": null, "n_head": 8,
                "num_hidden_layers": null, "n_layer": 2,
            }),
            says: json!({"new_decoder_architecture": true, "num_kv_heads": 2}),
            ..Variant::default()
        },
        Variant {
            what: "Falcon 2 11B: groups of keys, one norm, an output of its own, another rotation",
            golden: "falcon-40b",
            config: json!({"num_ln_in_parallel_attn": 1, "ff_factor": 4, "rope_theta": 500042.0, "tie_word_embeddings": false}),
            without: &["ln_attn", "ln_mlp"],
            with: &[
                (1, "transformer.h.{layer}.input_layernorm.weight", &[128]),
                (1, "transformer.h.{layer}.input_layernorm.bias", &[128]),
                (1, "lm_head.weight", &[430, 128]),
            ],
            says: json!({"new_decoder_architecture": true, "num_ln_in_parallel_attn": 1, "rope_theta": 500042.0, "tie_word_embeddings": false}),
            ..Variant::default()
        },
        Variant {
            what: "StableLM 2 12B: norms of heads, one norm a layer",
            golden: "stablelm",
            config: json!({"qk_layernorm": true, "use_parallel_residual": true, "use_qkv_bias": false, "num_key_value_heads": 2}),
            without: &["post_attention_layernorm", "proj.bias", "k_proj", "v_proj"],
            with: &[
                (4, "model.layers.{layer}.self_attn.q_layernorm.norms.{n}.weight", &[32]),
                (2, "model.layers.{layer}.self_attn.k_layernorm.norms.{n}.weight", &[32]),
                (1, "model.layers.{layer}.self_attn.k_proj.weight", &[64, 128]),
                (1, "model.layers.{layer}.self_attn.v_proj.weight", &[64, 128]),
            ],
            says: json!({"qk_layernorm": true, "use_parallel_residual": true, "use_qkv_bias": false}),
            ..Variant::default()
        },
        Variant {
            what: "StarCoder 2 without biases in its matrices",
            golden: "starcoder2",
            config: json!({"use_bias": false}),
            without: &["proj.bias", "c_fc.bias"],
            says: json!({"use_bias": false, "sliding_window": 64}),
            ..Variant::default()
        },
        Variant {
            what: "MPT with biases, learned positions, norms of Q and K, groups of keys",
            golden: "mpt",
            config: json!({
                "no_bias": false,
                "attn_config": {"alibi": false, "attn_type": "grouped_query_attention", "kv_n_heads": 2, "qk_ln": true, "clip_qkv": null},
                "expansion_ratio": 2,
            }),
            without: &["Wqkv", "ffn"],
            with: &[
                (1, "transformer.wpe.weight", &[128, 64]),
                (1, "transformer.blocks.{layer}.attn.Wqkv.weight", &[128, 64]),
                (1, "transformer.blocks.{layer}.attn.Wqkv.bias", &[128]),
                (1, "transformer.blocks.{layer}.attn.q_ln.weight", &[64]),
                (1, "transformer.blocks.{layer}.attn.k_ln.weight", &[32]),
                (1, "transformer.blocks.{layer}.attn.out_proj.bias", &[64]),
                (1, "transformer.blocks.{layer}.ffn.up_proj.weight", &[128, 64]),
                (1, "transformer.blocks.{layer}.ffn.up_proj.bias", &[128]),
                (1, "transformer.blocks.{layer}.ffn.down_proj.weight", &[64, 128]),
                (1, "transformer.blocks.{layer}.norm_1.bias", &[64]),
                (1, "transformer.norm_f.bias", &[64]),
            ],
            says: json!({"no_bias": false, "attn_config.alibi": false, "attn_config.kv_n_heads": 2, "expansion_ratio": 2,
                "attn_config.qk_ln": true}),
            ..Variant::default()
        },
        Variant {
            what: "Gemma with the output that some tools write beside the embedding",
            golden: "gemma",
            with: &[(1, "lm_head.weight", &[720, 64])],
            dropped: &["lm_head.weight"],
            config: json!({"rope_theta": 20000.0}),
            says: json!({"rope_theta": 20000.0}),
            ..Variant::default()
        },
        Variant {
            what: "Gemma 3 as transformers 5 writes it, with linear scaling and no pattern",
            golden: "gemma3",
            config: json!({
                "rope_theta": null, "rope_local_base_freq": null, "sliding_window_pattern": null, "head_dim": null,
                "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2_000_000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 20_000.0}},
                "query_pre_attn_scalar": 256, "num_attention_heads": 4, "hidden_size": 64,
            }),
            without: &["self_attn"],
            with: &[
                (7, "model.layers.{n}.self_attn.q_proj.weight", &[1024, 64]),
                (7, "model.layers.{n}.self_attn.k_proj.weight", &[256, 64]),
                (7, "model.layers.{n}.self_attn.v_proj.weight", &[256, 64]),
                (7, "model.layers.{n}.self_attn.o_proj.weight", &[64, 1024]),
                (7, "model.layers.{n}.self_attn.q_norm.weight", &[256]),
                (7, "model.layers.{n}.self_attn.k_norm.weight", &[256]),
            ],
            says: json!({"rope_theta": 2_000_000.0, "rope_local_base_freq": 20_000.0, "head_dim": 256,
                "rope_scaling.rope_type": "linear", "rope_scaling.factor": 8.0, "sliding_window_pattern": 6}),
            ..Variant::default()
        },
        Variant {
            what: "Gemma 2 that leaves its activation to the library",
            golden: "gemma2",
            config: json!({"query_pre_attn_scalar": 32, "hidden_activation": null, "hidden_act": null}),
            ..Variant::default()
        },
        Variant {
            what: "Gemma 3 without a window",
            golden: "gemma3",
            config: json!({"sliding_window": null, "sliding_window_pattern": 1}),
            says: json!({"sliding_window_pattern": 1}),
            ..Variant::default()
        },
        Variant {
            what: "Phi-3 with the older word for its scaling",
            golden: "phi3",
            config: json!({"rope_scaling": {"type": "su", "long_factor": [1.0, 1.1, 1.25, 1.5, 2, 3, 5, 8],
                "short_factor": [1.0, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4]}, "tie_word_embeddings": null}),
            says: json!({"rope_scaling.type": "longrope", "rope_scaling.long_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0]}),
            ..Variant::default()
        },
        Variant {
            what: "Phi-4 mini: tied, three quarters rotated, no window",
            golden: "phi3",
            config: json!({"rope_scaling": null, "partial_rotary_factor": 0.75, "sliding_window": null, "tie_word_embeddings": true,
                "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}),
            without: &["lm_head"],
            says: json!({"partial_rotary_factor": 0.75, "tie_word_embeddings": true}),
            ..Variant::default()
        },
        Variant {
            what: "GPT-NeoX of another rotation, in sequence, without biases in attention",
            golden: "gpt-neox",
            config: json!({"rotary_emb_base": 20000, "use_parallel_residual": false, "attention_bias": false, "rotary_pct": 0.5}),
            without: &["query_key_value.bias", "attention.dense.bias"],
            dropped: &["masked_bias", "inv_freq"],
            says: json!({"rotary_emb_base": 20000.0, "use_parallel_residual": false, "attention_bias": false, "rotary_pct": 0.5}),
            ..Variant::default()
        },
        Variant {
            what: "Llama 3 whose long context scales by 32",
            golden: "llama3",
            config: json!({"rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}}),
            says: json!({"rope_scaling.rope_type": "llama3", "rope_scaling.factor": 32.0, "rope_scaling.low_freq_factor": 1.0,
                "rope_scaling.high_freq_factor": 4.0}),
            ..Variant::default()
        },
    ]
}

#[test]
fn checkpoints_as_people_have_them_lead_there_and_back() {
    let host = host();
    let mut failed = Vec::new();
    for variant in variants().into_iter().chain(crate::older::variants()) {
        let mut wrong = |what: String| failed.push(format!("{}: {what}", variant.what));
        let (model, scratch) = (variant.checkpoint(), Scratch::new());
        let (folder, file, held) = (scratch.at("folder"), scratch.at("m.gguf"), scratch.at("m.apr"));
        model.write_to(&folder).unwrap();
        let done = to(&host, "gguf", &folder, &file);
        done.notes
            .iter()
            .filter(|note| note.contains("unknown to the table"))
            .for_each(|note| wrong(note.clone()));
        let noted = done.notes.iter().filter_map(|n| Some(n.split_once("does not store: ")?.1));
        let warned =
            done.warnings.iter().filter_map(|w| w.strip_prefix("not carried over: `")?.split('`').next());
        let lost: Vec<&str> = noted.chain(warned).collect();
        if lost.join(", ") != variant.lost.join(", ") {
            wrong(format!("GGUF does not state {lost:?}"));
        }
        to(&host, "apr", &folder, &held);
        let before = tensors(&host, &folder);
        for (input, dropped) in [(&file, variant.dropped), (&held, &[][..])] {
            let back = scratch.at(if dropped.is_empty() { "unpacked" } else { "back" });
            let back = back.with_extension(input.extension().unwrap());
            to(&host, "huggingface", input, &back);
            let mut after = tensors(&host, &back);
            for (name, told) in &before {
                // APR keeps the names that the folder has.
                let own = if input == &file { variant.own_name(name) } else { name.clone() };
                let plus_one = variant.golden.starts_with("gemma") && name.ends_with("norm.weight");
                match after.remove(&own).map(|back| difference(&own, plus_one && input == &file, told, &back))
                {
                    Some(None) => {}
                    Some(Some(what)) => wrong(format!("{}: {name}: {what}", input.display())),
                    None if dropped.iter().any(|part| name.contains(part)) => {}
                    None => wrong(format!("{}: {name} does not come back", input.display())),
                }
            }
            after.keys().for_each(|name| wrong(format!("{name} was not there before")));
            if input == &file {
                let is = config(&back);
                for (key, value) in variant.says.as_object().into_iter().flatten() {
                    if is.get(key) != Some(value) {
                        wrong(format!("config.json's {key} is {:?}, not {value}", is.get(key)));
                    }
                }
            } else if std::fs::read(folder.join("config.json")).unwrap()
                != std::fs::read(back.join("config.json")).unwrap()
            {
                wrong("config.json is another behind APR".to_owned());
            }
        }
        if let Some(keep) = std::env::var_os("KEEP_VARIANTS") {
            let name = variant.what.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            let at = std::path::Path::new(&keep).join(name);
            model.write_to(&at.join(&model.name)).unwrap();
            std::fs::copy(&file, at.join("ours.gguf")).unwrap();
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
