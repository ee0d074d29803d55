//! More checkpoints as people have them: of encoders, and of decoders with experts or norms of heads.

use crate::variants::Variant;
use serde_json::json;

pub fn variants() -> Vec<Variant> {
    let mut all = encoders();
    all.extend(decoders());
    all
}

fn encoders() -> Vec<Variant> {
    vec![
        Variant {
            what: "BERT as it was first published: a prefix, TensorFlow's names of norms, and what it was trained with",
            golden: "bert",
            begin: "bert.",
            named: &[("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")],
            config: json!({"architectures": ["BertForMaskedLM"]}),
            dropped: &["pooler", "position_ids"],
            ..Variant::default()
        },
        Variant {
            what: "BERT with the head of its training",
            golden: "bert",
            with: &[
                (1, "cls.predictions.bias", &[900]),
                (1, "cls.predictions.transform.dense.weight", &[64, 64]),
                (1, "cls.seq_relationship.weight", &[2, 64]),
            ],
            dropped: &["pooler", "position_ids", "cls."],
            ..Variant::default()
        },
        Variant {
            what: "BERT that judges pairs",
            golden: "bert",
            prefix: "bert.",
            with: &[(1, "classifier.weight", &[1, 64]), (1, "classifier.bias", &[1])],
            config: json!({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}),
            // The pooler is what the classifier judges.
            dropped: &["position_ids"],
            says: json!({"architectures": ["BertForSequenceClassification"], "id2label.0": "LABEL_0"}),
            ..Variant::default()
        },
        Variant {
            what: "T5 1.0: no gates, tied, the embedding under each of its names",
            golden: "t5",
            without: &["wi_0", "wi_1", "lm_head"],
            with: &[
                (3, "encoder.block.{n}.layer.1.DenseReluDense.wi.weight", &[128, 64]),
                (2, "decoder.block.{n}.layer.2.DenseReluDense.wi.weight", &[128, 64]),
                (1, "encoder.embed_tokens.weight", &[544, 64]),
                (1, "decoder.embed_tokens.weight", &[544, 64]),
                (1, "decoder.block.{n}.layer.1.EncDecAttention.relative_attention_bias.weight", &[32, 4]),
            ],
            config: json!({"feed_forward_proj": "relu", "is_gated_act": null, "dense_act_fn": null,
                "tie_word_embeddings": null, "task_specific_params": {"summarization": {"num_beams": 4}}}),
            dropped: &["embed_tokens"],
            says: json!({"feed_forward_proj": "relu", "tie_word_embeddings": true}),
            ..Variant::default()
        },
        Variant {
            what: "T5 whose embedding is the encoder's",
            golden: "t5",
            named: &[("shared.weight", "encoder.embed_tokens.weight")],
            says: json!({"tie_word_embeddings": false, "feed_forward_proj": "gated-gelu", "d_kv": 32, "num_layers": 3}),
            ..Variant::default()
        },
    ]
}

fn decoders() -> Vec<Variant> {
    vec![
        Variant {
            what: "Qwen 3 for embeddings: without its head, and so without the prefix",
            golden: "qwen3",
            prefix: "model.",
            config: json!({"architectures": ["Qwen3Model"], "attention_bias": true}),
            with: &[
                (1, "model.layers.{layer}.self_attn.q_proj.bias", &[128]),
                (1, "model.layers.{layer}.self_attn.k_proj.bias", &[64]),
                (1, "model.layers.{layer}.self_attn.v_proj.bias", &[64]),
            ],
            lost: &["layer_types"],
            ..Variant::default()
        },
        Variant {
            what: "Qwen 3 with experts and a longer context by YaRN",
            golden: "qwen3-moe",
            config: json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}),
            says: json!({"rope_scaling.rope_type": "yarn", "rope_scaling.factor": 4.0,
                "rope_scaling.original_max_position_embeddings": 128, "norm_topk_prob": true}),
            lost: &["max_window_layers"],
            ..Variant::default()
        },
        Variant {
            what: "DeepSeek V2: a rank for queries, groups of experts, no bias of the router",
            golden: "deepseek2",
            without: &["e_score_correction_bias"],
            config: json!({"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "scoring_func": "softmax",
                "topk_method": "group_limited_greedy", "norm_topk_prob": false, "num_nextn_predict_layers": null,
                "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"}}),
            dropped: &["model.layers.3."],
            says: json!({"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "norm_topk_prob": false,
                "topk_method": "group_limited_greedy", "rope_scaling.mscale": 1.0, "num_key_value_heads": 4}),
            ..Variant::default()
        },
        Variant {
            what: "Command R+: norms of heads, and the output that some tools write beside the embedding",
            golden: "command-r",
            with: &[
                (1, "model.layers.{layer}.self_attn.q_norm.weight", &[4, 16]),
                (1, "model.layers.{layer}.self_attn.k_norm.weight", &[2, 16]),
                (1, "lm_head.weight", &[443, 64]),
            ],
            config: json!({"use_qk_norm": true, "model_max_length": null}),
            dropped: &["lm_head.weight"],
            says: json!({"use_qk_norm": true, "max_position_embeddings": 256, "tie_word_embeddings": true}),
            ..Variant::default()
        },
    ]
}
