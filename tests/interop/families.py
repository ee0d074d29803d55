"""Families by transformers' `model_type`, with what is said behind a hyphen: the arguments of the library's class, away from its defaults, so
that a value which does not come back shows in the logits. `_untied` gives the output a matrix of its own, `_bare`
makes a model without a head; OUT takes an argument out."""

OUT = object()
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 256, "vocab_size": 544}
GPT = {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128, "n_inner": 256, "vocab_size": 544, "layer_norm_epsilon": 3e-5}
T5 = {"d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 3, "vocab_size": 544, "layer_norm_epsilon": 3e-5}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
QWEN = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
DEEPSEEK = {"kv_lora_rank": 32, "moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "q_lora_rank": 48,
            "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 24, "first_k_dense_replace": 1, "num_key_value_heads": 4}
ENCODER = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3, "max_position_embeddings": 256, "vocab_size": 544,
           "layer_norm_eps": 3e-5}
MAMBA = {"mamba_n_heads": 6, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 2, "mamba_d_ssm": 96, "mamba_expand": 2, "mamba_d_conv": 4}
HYBRID = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 2, "mamba_expand": 2, "mamba_d_conv": 4}
GRANITE = {"embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
LINEAR_ATTENTION = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                    "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
QWEN_SIGHT = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64, "num_position_embeddings": 16, "patch_size": 4,
              "deepstack_visual_indexes": [0]}
SPARSE_ATTENTION = {"index_n_heads": 2, "index_head_dim": 32, "index_topk": 16}
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4}
LAYER_NORMS = {"layer_norm_eps": 3e-5, "rms_norm_eps": OUT}
WINDOWS = ["sliding_attention"] * 3 + ["full_attention"]
PIXTRAL = {"model_type": "pixtral", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16,
           "image_size": 16, "patch_size": 4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 24.0, "beta_slow": 2.0}
SHORT_YARN = YARN | {"factor": 16.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
STRETCHED = {"rope_type": "linear", "factor": 3.0}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 32, "long_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0],
            "short_factor": [1.0, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4]}
ALPHA = {"rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}


def turned(theta=30000.0, **scaling):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta} | scaling}


def layers_turned(full, sliding):
    """A rotation for each kind of layer."""
    default = {"rope_type": "default"}
    return {"rope_parameters": {"full_attention": default | full, "sliding_attention": default | sliding}}


def decoder(*more, **arguments):
    said = SIZES | {"rms_norm_eps": 3e-5}
    for one in more:
        said = said | one
    return {key: value for key, value in (said | arguments).items() if value is not OUT}


def ministral(yarn, **more):
    return decoder(turned(**yarn, mscale=1.0, llama_4_scaling_beta=0.3, **more), head_dim=32)


def mistral3(text):
    return {"text_config": text, "vision_config": PIXTRAL}


def phimoe(**more):
    return decoder(turned(**LONGROPE | more), EXPERTS, attention_bias=True, lm_head_bias=True, sliding_window=256)


def olmo3(full, sliding, **more):
    return decoder(layers_turned(full, sliding), {"layer_types": WINDOWS, "sliding_window": 16} | more)


def laguna(full=None, **more):
    said = {"layer_types": ["full_attention"] + ["sliding_attention"] * 3, "mlp_layer_types": ["dense"] + ["sparse"] * 3, "sliding_window": 16,
            "head_dim": 32, "shared_expert_intermediate_size": 48, "moe_routed_scaling_factor": 2.5}
    half = {"rope_theta": 30000.0, "partial_rotary_factor": 0.5} | (full or {})
    return decoder(layers_turned(half, {"rope_theta": 20000.0, "partial_rotary_factor": 1.0}), QWEN, said | more)


FAMILIES = {
    "ministral3": ministral(YARN, mscale_all_dim=1.0),
    "ministral3-late": ministral(SHORT_YARN, mscale_all_dim=1.0),
    "ministral3-two-factors": ministral(YARN, mscale_all_dim=0.5),
    "ministral3-no-factor": decoder(turned(**YARN, llama_4_scaling_beta=0.3), head_dim=32),
    "ministral3-class": SIZES | {"head_dim": 16},
    "ministral3-window": ministral(YARN, mscale_all_dim=1.0) | {"sliding_window": 16},
    "mistral3": mistral3(decoder(turned(), model_type="mistral", head_dim=32, sliding_window=None)),
    "mistral3-yarn": mistral3(decoder(turned(**YARN), model_type="mistral", head_dim=32, sliding_window=None)),
    "mistral3-ministral3": mistral3(ministral(SHORT_YARN, mscale_all_dim=1.0) | {"model_type": "ministral3"}),
    "phimoe": phimoe(long_mscale=1.243163121016122, short_mscale=1.243163121016122),
    "phimoe-two-scales": phimoe(long_mscale=1.1, short_mscale=1.3),
    "phimoe-short": phimoe(long_mscale=1.0692, short_mscale=1.0692, original_max_position_embeddings=128),
    "phimoe-jitter": phimoe(long_mscale=1.1, short_mscale=1.3) | {"router_jitter_noise": 0.02},
    "phimoe-no-biases": decoder(turned(), EXPERTS),
    "phimoe-plain": decoder(turned(), EXPERTS, attention_bias=True, lm_head_bias=True, sliding_window=256),
    "olmo3": olmo3(YARN | {"rope_theta": 30000.0, "attention_factor": 1.2}, {"rope_theta": 30000.0}),
    "olmo3-two-bases": olmo3({"rope_theta": 50000.0}, {"rope_theta": 10000.0}),
    "olmo3-other-layers": olmo3({"rope_theta": 30000.0}, {"rope_theta": 30000.0}, layer_types=WINDOWS[::-1]),
    "olmo3-class": SIZES,
    # Weights as they are: only where the configuration says so are they made three values of.
    "bitnet": decoder(turned(), tie_word_embeddings=True),
    "bitnet-silu": decoder(turned(), tie_word_embeddings=True, hidden_act="silu"),
    "hunyuan_v1_dense": decoder(turned(), head_dim=32, tie_word_embeddings=True),
    "hunyuan_v1_dense-untied": decoder(turned(), head_dim=32, tie_word_embeddings=False),
    "hunyuan_v1_dense-alpha": decoder(turned(10000.0, **ALPHA), head_dim=32, max_position_embeddings=262144),
    "hunyuan_v1_dense-linear": decoder(turned(**STRETCHED), head_dim=32),
    "hunyuan_v1_dense-yarn": decoder(turned(**YARN), head_dim=32),
    "hunyuan_v1_dense-class": SIZES | {"head_dim": 16},
    "laguna": laguna(YARN | {"attention_factor": 1.1}, num_attention_heads_per_layer=[2, 4, 4, 4], gating="per-head"),
    "laguna-true": laguna(),
    "laguna-no-windows": laguna(layer_types=OUT, gating="per-element"),
    "laguna-element": laguna(mlp_layer_types=["dense"] * 2 + ["sparse"] * 2, gating="per-element"),
    "laguna-softcap": laguna(moe_router_logit_softcapping=3.0),
    "laguna-class": SIZES | QWEN | {"head_dim": 16, "shared_expert_intermediate_size": 48},
    "t5": T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_num_buckets": 16},
    "t5-untied": T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "_untied": True},
    "t5-tied": T5 | {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "t5-class": {key: value for key, value in T5.items() if key != "layer_norm_epsilon"},
    "t5-far": T5 | {"relative_attention_max_distance": 40},
    "t5-silu": T5 | {"feed_forward_proj": "gated-silu"},
    "mt5": T5 | {"feed_forward_proj": "gated-gelu"},
    "mt5-untied": T5 | {"feed_forward_proj": "gated-gelu", "_untied": True},
    "umt5-far": T5 | {"feed_forward_proj": "gated-gelu", "relative_attention_max_distance": 40},
    "umt5": T5 | {"feed_forward_proj": "gated-gelu"},
    "umt5-untied": T5 | {"feed_forward_proj": "gated-gelu", "_untied": True},
    "glm": decoder(turned(partial_rotary_factor=0.5), head_dim=16, attention_bias=True, pad_token_id=0),
    "glm-wide": decoder(turned(partial_rotary_factor=0.25), head_dim=32, attention_bias=True, rms_norm_eps=1.5625e-07, pad_token_id=0),
    "glm-class": SIZES | {"head_dim": 16, "pad_token_id": 0},
    "glm4": decoder(turned(partial_rotary_factor=0.5), head_dim=32, attention_bias=True, pad_token_id=0),
    "gpt_bigcode": GPT | {"multi_query": True, "activation_function": "gelu_pytorch_tanh"},
    "gpt_bigcode-gelu": GPT | {"multi_query": True, "activation_function": "gelu"},
    "starcoder2": decoder(turned(), norm_epsilon=3e-5, sliding_window=16, use_bias=True, rms_norm_eps=OUT),
    "starcoder2-gelu": decoder(turned(), norm_epsilon=3e-5, sliding_window=None, hidden_act="gelu", rms_norm_eps=OUT, tie_word_embeddings=False),
    "falcon_h1": decoder(turned(), MAMBA, head_dim=32, attention_in_multiplier=0.8, attention_out_multiplier=0.9375, lm_head_multiplier=0.0390625,
                         embedding_multiplier=5.656854249492381, key_multiplier=0.390625, mlp_multipliers=[0.8838834764831844, 0.5859375],
                         ssm_in_multiplier=1.25, ssm_out_multiplier=0.23570226039551587, mamba_rms_norm=True, mamba_norm_before_gate=False,
                         ssm_multipliers=[0.3535533905932738, 0.25, 0.7071067811865476, 0.5, 0.125]),
    "falcon_h1-bounded": decoder(turned(), MAMBA, head_dim=32, time_step_limit=[0.1, 0.7]),
    "falcon_h1-class": SIZES | MAMBA | {"head_dim": 16},
    "granitemoehybrid": decoder(HYBRID, EXPERTS, GRANITE, layer_types=["mamba", "mamba", "attention", "mamba"], shared_intermediate_size=48),
    "bamba": decoder(HYBRID, attn_layer_indices=[2], pad_token_id=0),
    "nemotron_h": {"hidden_size": 64, "head_dim": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 544, "mamba_num_heads": 8,
                   "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2, "expand": 2, "n_routed_experts": 4, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
                   "layers_block_type": ["linear_attention", "full_attention", "moe", "linear_attention"], "max_position_embeddings": 256},
    "jamba": decoder(attn_layer_offset=1, attn_layer_period=2, num_experts=4, num_experts_per_tok=2, mamba_d_state=16, mamba_dt_rank=8,
                     use_mamba_kernels=False, pad_token_id=0),
    "granitemoehybrid-no-attention": decoder(HYBRID, EXPERTS, GRANITE, layer_types=["mamba"] * 4, shared_intermediate_size=48),
    "bamba-no-attention": decoder(HYBRID, attn_layer_indices=[], pad_token_id=0),
    "jamba-no-attention": decoder(attn_layer_offset=7, attn_layer_period=8, num_experts=4, num_experts_per_tok=2, mamba_d_state=16, mamba_dt_rank=8,
                                  use_mamba_kernels=False, pad_token_id=0),
    "granitemoe": decoder(turned(), EXPERTS, GRANITE),
    "granitemoe-class": SIZES | EXPERTS,
    "granitemoeshared": decoder(turned(), EXPERTS, GRANITE, shared_intermediate_size=48),
    "granite": decoder(turned(), GRANITE),
    "granite_swa-bases": decoder(turned(), GRANITE, sliding_window=16, layer_rope_theta=[0.0, 30000.0, 10000.0, 30000.0]),
    # Others that the tables know.
    "llama": decoder(turned(**LLAMA3), head_dim=32, tie_word_embeddings=True),
    "llama-other-bounds": decoder(turned(**LLAMA3 | {"low_freq_factor": 2.0, "high_freq_factor": 8.0, "original_max_position_embeddings": 100}), head_dim=32),
    "llama-linear": decoder(turned(**STRETCHED), attention_bias=True, mlp_bias=True),
    "llama-yarn": decoder(turned(**YARN, attention_factor=1.3)),
    "mistral": decoder(turned(), head_dim=32, sliding_window=None),
    "mistral-window": decoder(turned(), head_dim=32, sliding_window=16),
    "mixtral": decoder(turned(), EXPERTS, sliding_window=None),
    "mixtral-window": decoder(turned(), EXPERTS, sliding_window=16),
    "qwen2": decoder(turned(), tie_word_embeddings=True),
    "qwen2-yarn": decoder(turned(**YARN)),
    "qwen2_moe": decoder(turned(), QWEN, shared_expert_intermediate_size=48, norm_topk_prob=False),
    "qwen3": decoder(turned(**YARN), head_dim=32),
    "qwen3_moe": decoder(turned(), QWEN, head_dim=32, norm_topk_prob=True),
    "qwen3_next": decoder(turned(partial_rotary_factor=0.25), QWEN, LINEAR_ATTENTION, head_dim=32, shared_expert_intermediate_size=48),
    "qwen3_5_moe_text": decoder(turned(partial_rotary_factor=0.5, mrope_section=[3, 3, 2], mrope_interleaved=True), QWEN, LINEAR_ATTENTION, head_dim=32,
                                shared_expert_intermediate_size=48, intermediate_size=OUT),
    "qwen3_vl_moe": {"text_config": decoder(turned(mrope_section=[6, 6, 4], mrope_interleaved=True), QWEN, head_dim=32), "vision_config": QWEN_SIGHT},
    "qwen3_vl_moe-square": {"text_config": decoder(turned(mrope_section=[6, 6, 4], mrope_interleaved=True), QWEN | {"moe_intermediate_size": 48}, head_dim=32),
                            "vision_config": QWEN_SIGHT},
    "qwen3_5_text": decoder(turned(partial_rotary_factor=0.5, mrope_section=[3, 3, 2], mrope_interleaved=True), LINEAR_ATTENTION, head_dim=32),
    "gemma": decoder(turned(), head_dim=32),
    "gemma2-gelu": decoder(turned(), head_dim=32, sliding_window=16, query_pre_attn_scalar=32, hidden_activation="gelu"),
    "gemma3_text-gelu": decoder(head_dim=32, sliding_window=16, query_pre_attn_scalar=32, hidden_activation="gelu"),
    "phi": decoder(turned(partial_rotary_factor=0.5), LAYER_NORMS, num_key_value_heads=4),
    "phi-gelu": decoder(turned(partial_rotary_factor=0.5), LAYER_NORMS, num_key_value_heads=4, hidden_act="gelu"),
    "phi3": decoder(turned(**LONGROPE), sliding_window=16, original_max_position_embeddings=32, pad_token_id=0),
    "gpt2": GPT | {"activation_function": "gelu_new"},
    "gpt2-gelu": GPT | {"activation_function": "gelu"},
    "gpt_neox": decoder(turned(partial_rotary_factor=0.25), LAYER_NORMS, num_key_value_heads=OUT, use_parallel_residual=True),
    "gpt_neox-tanh": decoder(turned(partial_rotary_factor=0.5), LAYER_NORMS, num_key_value_heads=OUT, use_parallel_residual=False, hidden_act="gelu_new"),
    "bloom": {"hidden_size": 64, "n_head": 4, "n_layer": 3, "vocab_size": 544, "layer_norm_epsilon": 3e-5},
    "mpt": {"d_model": 64, "n_heads": 4, "n_layers": 3, "vocab_size": 544, "max_seq_len": 128},
    "stablelm": decoder(turned(partial_rotary_factor=0.25), LAYER_NORMS, use_qkv_bias=True),
    "cohere": decoder(turned(), LAYER_NORMS, logit_scale=0.25),
    "cohere2": decoder(turned(), LAYER_NORMS, logit_scale=0.25, sliding_window=16, head_dim=16),
    "cohere2_moe": decoder(turned(), LAYER_NORMS, QWEN, sliding_window=16, head_dim=16),
    "dbrx": {"d_model": 64, "n_heads": 4, "n_layers": 3, "max_seq_len": 256, "vocab_size": 544, "attn_config": {"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 10000.0},
             "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2}} | turned(),
    "deepseek_v2": decoder(turned(), DEEPSEEK, routed_scaling_factor=1.5, topk_method="greedy"),
    "deepseek_v3": decoder(turned(**YARN, mscale=1.0, mscale_all_dim=1.0), DEEPSEEK, routed_scaling_factor=2.5, n_group=2, topk_group=1),
    "nemotron": decoder(turned(partial_rotary_factor=0.5), norm_eps=3e-5, rms_norm_eps=OUT, head_dim=16, hidden_act="relu2"),
    "olmo": decoder(turned(), rms_norm_eps=OUT, clip_qkv=2.0, pad_token_id=0),
    "olmo2": decoder(turned(), pad_token_id=0),
    "smollm3": decoder(turned(), no_rope_layers=[1, 1, 1, 0], use_sliding_window=False, pad_token_id=0),
    "exaone4": decoder(turned(**LLAMA3), head_dim=16, sliding_window=16, layer_types=WINDOWS),
    "arcee": decoder(turned(**YARN), head_dim=16),
    "apertus": decoder(turned(**LLAMA3), head_dim=16),
    "seed_oss": decoder(turned(), head_dim=32, attention_bias=True),
    "ernie4_5": decoder(turned(), head_dim=32),
    "ernie4_5_moe": decoder(turned(), moe_num_experts=4, moe_k=2, moe_intermediate_size=32, moe_num_shared_experts=1, moe_layer_start_index=1),
    "dots1": decoder(turned(), DEEPSEEK | {"num_key_value_heads": 2}, head_dim=32, routed_scaling_factor=2.5, layer_types=["full_attention"] * 4),
    "glm4_moe_lite": decoder(turned(), DEEPSEEK, routed_scaling_factor=2.5, norm_topk_prob=False),
    "youtu": decoder(turned(), DEEPSEEK),
    "glm4_moe": decoder(turned(partial_rotary_factor=0.5), DEEPSEEK | {"num_key_value_heads": 2}, head_dim=32, routed_scaling_factor=2.5, use_qk_norm=True),
    "gpt_oss": decoder(turned(**YARN | {"truncate": False}), EXPERTS, head_dim=32, sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2),
    "gpt_oss-truncated": decoder(turned(**YARN | {"truncate": True}), EXPERTS, head_dim=32, sliding_window=16,
                                 layer_types=["sliding_attention", "full_attention"] * 2),
    "lfm2": decoder(turned(), norm_eps=3e-5, rms_norm_eps=OUT, layer_types=["conv", "conv", "full_attention", "conv"], block_auto_adjust_ff_dim=False),
    "mamba": {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 544, "state_size": 16, "layer_norm_epsilon": 3e-5},
    "mamba2": {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 544, "state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 1,
               "layer_norm_epsilon": 3e-5},
    "mamba2-bounded": {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 544, "state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 1,
                       "time_step_limit": [0.1, 0.7]},
    "falcon_mamba": {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 544, "state_size": 16, "mixer_rms_eps": 1e-5, "layer_norm_epsilon": 1e-5},
    "lfm2_moe-no-bias": decoder(turned(), QWEN, norm_eps=3e-5, rms_norm_eps=OUT, layer_types=["conv", "conv", "full_attention", "conv"], num_dense_layers=1,
                                use_expert_bias=False),
    "bert": ENCODER | {"_bare": True},
    "roberta": ENCODER | {"_bare": True, "pad_token_id": 1},
    "xlm-roberta": ENCODER | {"_bare": True, "pad_token_id": 1},
    "distilbert": {"dim": 64, "hidden_dim": 96, "n_heads": 4, "n_layers": 3, "max_position_embeddings": 256, "vocab_size": 544, "_bare": True},
    "jais2": decoder(turned(), LAYER_NORMS),
    "hunyuan_v1_moe": decoder(turned(), head_dim=32, num_experts=4, moe_topk=2, tie_word_embeddings=True),
    "hunyuan_v1_moe-alpha": decoder(turned(10000.0, **ALPHA), head_dim=32, num_experts=4, moe_topk=2, max_position_embeddings=262144),
    "minimax_m2": decoder(turned(partial_rotary_factor=0.5), EXPERTS, head_dim=32),
    "deepseek_v32": decoder(turned(**YARN, mscale=1.0, mscale_all_dim=1.0), DEEPSEEK, SPARSE_ATTENTION, routed_scaling_factor=2.5, n_group=2, topk_group=1),
    "glm_moe_dsa": decoder(turned(), DEEPSEEK, SPARSE_ATTENTION, routed_scaling_factor=2.5, head_dim=32),
    "gemma4_text": decoder(head_dim=32, global_head_dim=64, sliding_window=16, vocab_size_per_layer_input=544, hidden_size_per_layer_input=16,
                           num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 2),
    "afmoe": decoder(turned(), QWEN, head_dim=32, num_dense_layers=1, num_shared_experts=1, sliding_window=16, layer_types=WINDOWS, route_scale=2.5,
                     mup_enabled=True),
    "exaone_moe": decoder(turned(), DEEPSEEK | {"num_key_value_heads": 2}, head_dim=32, num_experts=4, num_shared_experts=1, sliding_window=16,
                          layer_types=WINDOWS),
    "hy_v3": decoder(turned(), QWEN, head_dim=32),
    "lfm2_moe": decoder(turned(), QWEN, norm_eps=3e-5, rms_norm_eps=OUT, layer_types=["conv", "conv", "full_attention", "conv"], num_dense_layers=1),
    "minicpm3": decoder(turned(10000.0), LATENT),
    "modernbert": {**{key: ENCODER[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "max_position_embeddings", "vocab_size")},
                   "num_hidden_layers": 4, "local_attention": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
                   "sep_token_id": 2, "_bare": True},
    "eurobert": decoder(turned(), pad_token_id=0, bos_token_id=1, eos_token_id=2, mask_token_id=3, _bare=True),
}

# What makes a model small. Whatever else its class says counts in a family of its own, which states nothing else.
COUNTED = set(SIZES) | set(GPT) | set(T5) | {"d_model", "dim", "hidden_dim", "n_heads", "n_layers", "max_seq_len", "n_routed_experts", "num_local_experts", "num_experts",
                                             "moe_num_experts", "moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size", "head_dim",
                                             "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "state_size", "num_heads", "mamba_dt_rank",
                                             "mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_d_ssm", "linear_key_head_dim", "linear_value_head_dim",
                                             "linear_num_key_heads", "linear_num_value_heads", "pad_token_id", "use_mamba_kernels", "_bare"}
# Whose class says what does not fit so few layers, experts or heads, or fits no model of the library's.
UNFIT = {"afmoe", "bamba", "bitnet", "dbrx", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5_moe", "exaone_moe", "gemma4_text",
         "glm4_moe", "glm_moe_dsa", "granitemoehybrid", "hy_v3", "jamba", "lfm2_moe", "minimax_m2", "mistral3", "nemotron_h", "qwen3_5_moe_text", "qwen3_next", "qwen3_vl_moe"}
SMALLEST = {f"{name}-class": {key: value for key, value in said.items() if key in COUNTED - {"layer_norm_epsilon"}}
            for name, said in FAMILIES.items() if "-" not in name and name not in UNFIT and f"{name}-class" not in FAMILIES}
FAMILIES |= SMALLEST

# Whose products with the configuration's factors are rounded to BF16 in the file, which a note says.
ROUNDED = {"falcon_h1"}
# Why apr refuses what GGUF cannot say, by words of the message.
REFUSED = {
    "qwen3_moe-class": (FAMILIES.pop("qwen3_moe-class"), "`norm_topk_prob` false"),
    "bitnet-untied": (decoder(turned(), tie_word_embeddings=False), "the embedding for the head"),
    "gemma3n_text-shared": (SIZES | {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 22, "num_attention_heads": 2, "num_key_value_heads": 1,
                                     "head_dim": 16, "vocab_size_per_layer_input": 300, "hidden_size_per_layer_input": 16, "laurel_rank": 8,
                                     "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 12, "sliding_window": 64},
                            "does not load a file without it"),
    "hunyuan_v1_dense-dynamic": (decoder(turned(10000.0, rope_type="dynamic", factor=2.0), head_dim=32, max_position_embeddings=32768), "as a text grows"),
}
