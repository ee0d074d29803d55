"""Models of convolutions or state spaces beside attention: LFM2 with experts, Falcon-H1, Granite 4, Nemotron-H, Jamba, ..."""


def lfm2_moe_tensors(config):
    """Names and shapes of LFM2 with experts, whose code is not in this version of transformers."""
    width, head = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    keys = config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", [config["vocab_size"], width], 0
    yield "model.embedding_norm.weight", [width], 1
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}"
        yield f"{at}.operator_norm.weight", [width], 1
        yield f"{at}.ffn_norm.weight", [width], 1
        if kind == "conv":
            yield f"{at}.conv.in_proj.weight", [3 * width, width], 0
            yield f"{at}.conv.conv.weight", [width, 1, config["conv_L_cache"]], 0
            yield f"{at}.conv.out_proj.weight", [width, width], 0
        else:
            for name, shape in (("q", [width, width]), ("k", [keys, width]), ("v", [keys, width])):
                yield f"{at}.self_attn.{name}_proj.weight", shape, 0
            yield f"{at}.self_attn.out_proj.weight", [width, width], 0
            yield f"{at}.self_attn.q_layernorm.weight", [head], 1
            yield f"{at}.self_attn.k_layernorm.weight", [head], 1
        dense = layer < config["num_dense_layers"]
        inner = config["intermediate_size" if dense else "moe_intermediate_size"]
        for place in [""] if dense else [f"experts.{expert}." for expert in range(config["num_experts"])]:
            for name, shape in (("w1", [inner, width]), ("w2", [width, inner]), ("w3", [inner, width])):
                yield f"{at}.feed_forward.{place}{name}.weight", shape, 0
        if not dense:
            yield f"{at}.feed_forward.gate.weight", [config["num_experts"], width], 0
            yield f"{at}.feed_forward.expert_bias", [config["num_experts"]], 0


def nemotron_h_tensors(config):
    """Names and shapes of Nemotron-H, whose code is not in transformers."""
    width, heads = config["hidden_size"], config["mamba_num_heads"]
    inner, states = heads * config["mamba_head_dim"], config["n_groups"] * config["ssm_state_size"]
    queries, keys = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    yield "backbone.embeddings.weight", [config["vocab_size"], width], 0
    for layer, kind in enumerate(config["hybrid_override_pattern"]):
        at = f"backbone.layers.{layer}"
        yield f"{at}.norm.weight", [width], 1
        if kind == "M":
            for name, shape in (("A_log", [heads]), ("D", [heads]), ("dt_bias", [heads]), ("conv1d.bias", [inner + 2 * states]),
                                ("conv1d.weight", [inner + 2 * states, 1, config["conv_kernel"]]), ("in_proj.weight", [2 * inner + 2 * states + heads, width]),
                                ("out_proj.weight", [width, inner])):
                yield f"{at}.mixer.{name}", shape, 0
            yield f"{at}.mixer.norm.weight", [inner], 1
        elif kind == "*":
            for name, shape in (("q", [queries, width]), ("k", [keys, width]), ("v", [keys, width]), ("o", [width, queries])):
                yield f"{at}.mixer.{name}_proj.weight", shape, 0
        else:
            parts = [("", config["intermediate_size"])]
            if kind == "E":
                yield f"{at}.mixer.gate.weight", [config["n_routed_experts"], width], 0
                yield f"{at}.mixer.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
                parts = [(f"experts.{expert}.", config["moe_intermediate_size"]) for expert in range(config["n_routed_experts"])]
                parts.append(("shared_experts.", config["moe_shared_expert_intermediate_size"]))
            for place, size in parts:
                yield f"{at}.mixer.{place}up_proj.weight", [size, width], 0
                yield f"{at}.mixer.{place}down_proj.weight", [width, size], 0
    yield "backbone.norm_f.weight", [width], 1
    yield "lm_head.weight", [config["vocab_size"], width], 0


NEMOTRON_H = {"architectures": ["NemotronHForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
              "chunk_size": 128, "conv_kernel": 4, "expand": 2, "head_dim": 32, "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02,
    "intermediate_size": 128, "layer_norm_epsilon": 1e-05, "mamba_head_dim": 16, "mamba_hidden_act": "silu", "mamba_num_heads": 8,
    "mamba_proj_bias": False, "max_position_embeddings": 512, "mlp_bias": False, "mlp_hidden_act": "relu2", "model_type": "nemotron_h",
    "n_groups": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_logits_to_keep": 1, "rescale_prenorm_residual": True,
    "residual_in_fp32": False, "rms_norm_eps": 1e-05, "sliding_window": None, "ssm_state_size": 16, "tie_word_embeddings": False,
    "time_step_floor": 0.0001, "time_step_max": 0.1, "time_step_min": 0.001, "torch_dtype": "bfloat16", "use_bias": False, "use_cache": True,
    "use_conv_bias": True, "use_mamba_kernels": True}

GRANITE = {"architectures": ["GraniteMoeHybridForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.0078125,
           "embedding_multiplier": 12, "hidden_act": "silu", "hidden_size": 64, "init_method": "mup", "initializer_range": 0.1,
           "intermediate_size": 32, "logits_scaling": 6, "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16,
           "mamba_d_state": 16, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_proj_bias": False,
           "max_position_embeddings": 512, "model_type": "granitemoehybrid", "normalization_function": "rmsnorm", "num_attention_heads": 4,
           "num_key_value_heads": 2, "output_router_logits": False, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None,
           "rope_theta": 10000, "router_aux_loss_coef": 0.01, "shared_intermediate_size": 48, "tie_word_embeddings": True,
           "torch_dtype": "bfloat16", "use_cache": True}

MODELS = {
    "lfm2-moe": dict(tokenizer="llama3", dtype="BF16", pad=8, library=False, tensors=lfm2_moe_tensors, f32=".expert_bias", config={
        "architectures": ["Lfm2MoeForCausalLM"], "conv_L_cache": 3, "conv_bias": False, "dtype": "bfloat16", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 128, "layer_types": ["conv", "full_attention", "conv"], "max_position_embeddings": 512,
        "model_type": "lfm2_moe", "moe_intermediate_size": 32, "norm_eps": 1e-05, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_dense_layers": 1, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "rope_theta": 1000000.0, "routed_scaling_factor": 1.0, "transformers_version": "4.57.0.dev0", "use_cache": True, "use_expert_bias": True}),
    # Every factor of its own, and the norm of larger models.
    "falcon-h1": dict(tokenizer="falcon", dtype="BF16", pad=16, config={
        "architectures": ["FalconH1ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_in_multiplier": 0.8,
        "attention_out_multiplier": 0.9375, "embedding_multiplier": 5.656854249492381, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 128, "key_multiplier": 0.390625, "lm_head_multiplier": 0.0390625, "mamba_chunk_size": 128,
        "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16, "mamba_d_ssm": 96, "mamba_d_state": 16, "mamba_expand": 2,
        "mamba_n_groups": 2, "mamba_n_heads": 6, "mamba_norm_before_gate": False, "mamba_proj_bias": False, "mamba_rms_norm": True,
        "mamba_use_mlp": True, "max_position_embeddings": 512, "mlp_bias": False, "mlp_expansion_factor": 8,
        "mlp_multipliers": [0.8838834764831844, 0.5859375], "model_type": "falcon_h1", "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_logits_to_keep": 1, "projectors_bias": False, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 100000000000.0, "ssm_in_multiplier": 1.25, "ssm_multipliers": [0.3535533905932738, 0.25, 0.7071067811865476, 0.5, 0.125],
        "ssm_out_multiplier": 0.23570226039551587, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    "granite-hybrid": dict(tokenizer="starcoder", dtype="BF16", pad=8, config=GRANITE | {
        "layer_types": ["mamba", "attention", "mamba"], "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_local_experts": 4,
        "position_embedding_type": "nope"}),
    # Without experts, as its 1B: the shared one is the feed-forward network.
    "granite-hybrid-small": dict(tokenizer="starcoder", dtype="BF16", pad=8, config=GRANITE | {
        "intermediate_size": 48, "layer_types": ["mamba", "attention"], "num_experts_per_tok": 0, "num_hidden_layers": 2, "num_local_experts": 0,
        "position_embedding_type": "nope"}),
    # Granite 4 without state spaces and experts, as its Micro: the GGUF is that of Granite 3.
    "granite-hybrid-dense": dict(tokenizer="starcoder", dtype="BF16", pad=8, config=GRANITE | {
        "intermediate_size": 128, "layer_types": ["attention", "attention"], "num_experts_per_tok": 0, "num_hidden_layers": 2, "num_local_experts": 0,
        "position_embedding_type": "rope", "rope_theta": 10000000, "shared_intermediate_size": 128}),
    "nemotron-h": dict(tokenizer="llama3", dtype="BF16", pad=8, library=False, tensors=nemotron_h_tensors, config=NEMOTRON_H | {
        "hybrid_override_pattern": "M*-M", "num_hidden_layers": 4}),
    "nemotron-h-moe": dict(tokenizer="llama3", dtype="BF16", pad=8, library=False, tensors=nemotron_h_tensors, f32="e_score_correction_bias", config=NEMOTRON_H | {
        "hybrid_override_pattern": "ME*", "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48, "n_group": 1, "n_routed_experts": 4,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 2, "num_hidden_layers": 3, "routed_scaling_factor": 2.5, "topk_group": 1}),
    # With and without experts, both kinds of layers.
    "jamba": dict(tokenizer="llama-sp", dtype="BF16", config={
        "architectures": ["JambaForCausalLM"], "attention_dropout": 0.0, "attn_layer_offset": 0, "attn_layer_period": 3, "expert_layer_offset": 1,
        "expert_layer_period": 2, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96,
        "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_state": 2, "mamba_dt_rank": 8, "mamba_expand": 2, "mamba_proj_bias": False,
        "max_position_embeddings": 512, "model_type": "jamba", "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "num_logits_to_keep": 1, "output_router_logits": False, "rms_norm_eps": 1e-06,
        "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "use_mamba_kernels": True}),
}
