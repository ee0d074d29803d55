"""Models whose layers are, or are among others, convolutions, state spaces and linear attention."""

MAMBA = {"bos_token_id": 0, "conv_kernel": 4, "expand": 2, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.1,
         "layer_norm_epsilon": 1e-05, "num_hidden_layers": 2, "rescale_prenorm_residual": False, "residual_in_fp32": True,
         "time_step_floor": 0.0001, "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001, "torch_dtype": "float32",
         "use_bias": False, "use_cache": True, "use_conv_bias": True}

LINEAR = {"attention_bias": False, "attention_dropout": 0.0, "full_attention_interval": 2, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
          "initializer_range": 0.02, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
          "linear_value_head_dim": 16, "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
          "rms_norm_eps": 1e-06, "use_cache": True}
EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001,
           "shared_expert_intermediate_size": 48}


def mixture(at, config, fused):
    """A mixture of experts and one that is shared."""
    width, inner, shared = config["hidden_size"], config["moe_intermediate_size"], config["shared_expert_intermediate_size"]
    count = config["num_experts"]
    yield f"{at}.gate.weight", [count, width], 0
    if fused:
        yield f"{at}.experts.gate_up_proj", [count, 2 * inner, width], 0
        yield f"{at}.experts.down_proj", [count, width, inner], 0
    for expert in [] if fused else range(count):
        yield from feed_forward(f"{at}.experts.{expert}", width, inner)
    yield from feed_forward(f"{at}.shared_expert", width, shared)
    yield f"{at}.shared_expert_gate.weight", [1, width], 0


def feed_forward(at, width, inner):
    yield f"{at}.gate_proj.weight", [inner, width], 0
    yield f"{at}.up_proj.weight", [inner, width], 0
    yield f"{at}.down_proj.weight", [width, inner], 0


def full_attention(at, config):
    """Attention with a gate, and the norms around it."""
    width, head = config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    for name, shape in (("q", [2 * queries, width]), ("k", [keys, width]), ("v", [keys, width]), ("o", [width, queries])):
        yield f"{at}.self_attn.{name}_proj.weight", shape, 0
    yield f"{at}.self_attn.q_norm.weight", [head], 0
    yield f"{at}.self_attn.k_norm.weight", [head], 0


def next_token(config, inside):
    """What predicts further tokens; `inside` gives a layer's feed-forward network."""
    width = config["hidden_size"]
    yield "mtp.fc.weight", [width, 2 * width], 0
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "layers.0.input_layernorm", "layers.0.post_attention_layernorm"):
        yield f"mtp.{name}.weight", [width], 0
    yield from full_attention("mtp.layers.0", config)
    yield from inside("mtp.layers.0.mlp")


def qwen35_tensors(whole):
    """Names and shapes of Qwen 3.5, whose code is not in this version of transformers."""
    config, start = whole.get("text_config", whole), "model.language_model" if "text_config" in whole else "model"
    width = config["hidden_size"]
    inside = lambda at: mixture(at, config, True) if "num_experts" in config else feed_forward(at, width, config["intermediate_size"])
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    heads = config["linear_num_value_heads"]
    values = heads * config["linear_value_head_dim"]
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer, kind in enumerate(config["layer_types"]):
        at = f"{start}.layers.{layer}"
        yield f"{at}.input_layernorm.weight", [width], 0
        yield f"{at}.post_attention_layernorm.weight", [width], 0
        yield from inside(f"{at}.mlp")
        if kind == "full_attention":
            yield from full_attention(at, config)
            continue
        for name, shape in (("in_proj_qkv.weight", [2 * keys + values, width]), ("in_proj_z.weight", [values, width]), ("in_proj_a.weight", [heads, width]),
                            ("in_proj_b.weight", [heads, width]), ("conv1d.weight", [2 * keys + values, 1, config["linear_conv_kernel_dim"]]),
                            ("A_log", [heads]), ("dt_bias", [heads]), ("norm.weight", [config["linear_value_head_dim"]]),
                            ("out_proj.weight", [width, values])):
            yield f"{at}.linear_attn.{name}", shape, 1 if name == "norm.weight" else 0
    yield f"{start}.norm.weight", [width], 0
    if "text_config" in whole:
        yield "model.visual.pos_embed.weight", [16, 32], 0
    yield "lm_head.weight", [config["vocab_size"], width], 0
    yield from next_token(config, inside)


MODELS = {
    "mamba": dict(tokenizer="gptneox", dtype="F32", pad=8, config=MAMBA | {
        "architectures": ["MambaForCausalLM"], "d_inner": 128, "d_model": 64, "fused_add_norm": True, "intermediate_size": 128,
        "model_type": "mamba", "n_layer": 2, "rms_norm": True, "ssm_cfg": {}, "state_size": 4, "time_step_rank": 4,
        "time_step_scale": 1.0}),
    "falcon-mamba": dict(tokenizer="gptneox", dtype="BF16", pad=8, config=MAMBA | {
        "architectures": ["FalconMambaForCausalLM"], "intermediate_size": 128, "mixer_rms_eps": 1e-06, "model_type": "falcon_mamba",
        "layer_norm_epsilon": 1e-06, "state_size": 16, "tie_word_embeddings": False, "time_step_rank": 4, "time_step_scale": 1.0,
        "torch_dtype": "bfloat16", "use_mambapy": False}),
    # Two groups, whose norms lie apart.
    "mamba2": dict(tokenizer="gptneox", dtype="BF16", pad=16, config=MAMBA | {
        "architectures": ["Mamba2ForCausalLM"], "chunk_size": 256, "head_dim": 16, "model_type": "mamba2", "n_groups": 2, "norm_before_gate": True,
        "num_heads": 8, "rms_norm": True, "state_size": 32, "tie_word_embeddings": False, "time_step_limit": [0.0, 1e30],
        "time_step_rank": 4, "torch_dtype": "bfloat16"}),
    "lfm2": dict(tokenizer="llama3", dtype="BF16", pad=8, config={
        "architectures": ["Lfm2ForCausalLM"], "block_auto_adjust_ff_dim": True, "block_dim": 64, "block_ff_dim": 120, "block_ffn_dim_multiplier": 1.0,
        "block_mlp_init_scale": 1.0, "block_multiple_of": 32, "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": True,
        "block_use_xavier_init": True, "conv_L_cache": 3, "conv_bias": False, "conv_dim": 64, "conv_dim_out": 64, "conv_use_xavier_init": True,
        "eos_token_id": 7, "full_attn_idxs": [1], "hidden_size": 64, "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "lfm2",
        "norm_eps": 1e-05, "num_attention_heads": 4, "num_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rope_theta": 1000000.0,
        "torch_dtype": "bfloat16", "use_cache": True, "use_pos_enc": True}),
    "qwen3-next": dict(tokenizer="qwen2", dtype="BF16", pad=64, add=[(name, "BF16", shape, center) for name, shape, center in next_token(
        LINEAR | EXPERTS, lambda at: mixture(at, LINEAR | EXPERTS, False))], config=LINEAR | EXPERTS | {
        "architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1, "intermediate_size": 128, "mlp_only_layers": [], "model_type": "qwen3_next",
        "norm_topk_prob": True, "partial_rotary_factor": 0.25, "rope_scaling": None, "rope_theta": 10000000, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_sliding_window": False}),
    "qwen3-5": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=qwen35_tensors, config={
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 3, "model_type": "qwen3_5", "tie_word_embeddings": False,
        "text_config": LINEAR | {"attn_output_gate": True, "dtype": "bfloat16", "intermediate_size": 96, "layer_types": ["linear_attention", "full_attention"],
                                 "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
                                 "mtp_use_dedicated_embeddings": False, "rope_parameters": {
                                     "mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 10000000,
                                     "rope_type": "default"}},
        "transformers_version": "4.57.0.dev0", "video_token_id": 4, "vision_config": {"depth": 1, "hidden_size": 32, "model_type": "qwen3_5"},
        "vision_end_token_id": 5, "vision_start_token_id": 6}),
    "qwen3-5-moe": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=qwen35_tensors, config=LINEAR | EXPERTS | {
        "architectures": ["Qwen3_5MoeForCausalLM"], "attn_output_gate": True, "dtype": "bfloat16", "layer_types": ["linear_attention", "full_attention"],
        "mamba_ssm_dtype": "float32", "model_type": "qwen3_5_moe_text", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 10000000,
                            "rope_type": "default"}, "tie_word_embeddings": False, "transformers_version": "5.2.0"}),
}
